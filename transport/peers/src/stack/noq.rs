//! noq, the stack of iroh and MoQ.

use bytes::Bytes;

use super::streams::streams;
use super::{Side, Stack};

streams!(noq);

/// noq as crates.io has it.
pub(crate) struct Noq;

impl Stack for Noq {
    fn name(&self) -> String {
        "noq 1.4".into()
    }

    fn serve(&self, identity: &Identity, serving: Serving) -> Result<SocketAddr, Failure> {
        serve_stock(identity, serving)
    }

    fn exchange(
        &self,
        server: SocketAddr,
        identity: &Identity,
        order: Order,
    ) -> Result<(), Failure> {
        exchange_stock(server, identity, order)
    }

    fn can(&self, _: Feature, _: Side) -> bool {
        true
    }
}

async fn next(receive: &mut RecvStream) -> Result<Option<Bytes>, Failure> {
    Ok(receive.read_chunk(Pattern::PIECE).await?)
}
