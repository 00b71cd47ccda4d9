//! noq, the stack of iroh and MoQ.

use bytes::Bytes;

use super::streams::streams;

streams!(noq, Noq, "noq 1.4");

async fn next(receive: &mut RecvStream) -> Result<Option<Bytes>, Failure> {
    Ok(receive.read_chunk(Pattern::PIECE).await?)
}
