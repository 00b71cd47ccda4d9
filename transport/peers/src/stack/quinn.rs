//! Stock quinn, and evenkeel's endpoint on it.

use std::sync::OnceLock;

use bytes::Bytes;
use evenkeel::{Context, EcnUse};

use super::streams::streams;

streams!(quinn, Quinn, "quinn 0.11");

/// evenkeel's endpoint on quinn.
pub(crate) struct Evenkeel {
    /// The controller's name.
    pub(crate) controller: &'static str,
    /// Whether it offers path headers, one on every datagram unless the controller asks for fewer.
    pub(crate) headers: bool,
    /// If it sends as ECT(1): where it puts the context of its connection.
    pub(crate) l4s: Option<&'static OnceLock<Context>>,
}

impl Stack for Evenkeel {
    fn name(&self) -> String {
        let headers = match self.headers {
            true => ", with path headers",
            false => "",
        };
        format!("evenkeel, `{}`{headers}", self.controller)
    }

    fn serve(&self, identity: &Identity, serving: Serving) -> Result<SocketAddr, Failure> {
        let evenkeel = self.endpoint();
        let transport = evenkeel.transport(transport(), evenkeel::controller(self.controller)?);
        let config = evenkeel.server_config(identity.server()?, transport)?;
        let bind = move || Ok(evenkeel.bind(LOOPBACK, Some(config))?);
        spawn_server(serving, bind, self.watch())
    }

    fn exchange(
        &self,
        server: SocketAddr,
        identity: &Identity,
        order: Order,
    ) -> Result<(), Failure> {
        let evenkeel = self.endpoint();
        let transport = evenkeel.transport(transport(), evenkeel::controller(self.controller)?);
        let config = evenkeel.client_config(identity.client()?, transport)?;
        runtime()?.block_on(async {
            let endpoint = evenkeel.bind(LOOPBACK, None)?;
            exchange(&endpoint, config, server, order, self.watch()).await
        })
    }
}

impl Evenkeel {
    fn endpoint(&self) -> evenkeel::EndpointBuilder {
        let mut evenkeel = evenkeel::EndpointBuilder::new();
        if self.headers {
            evenkeel = evenkeel.path_headers(1);
        }
        if self.l4s.is_some() {
            evenkeel = evenkeel.ecn(EcnUse::L4s);
        }
        evenkeel
    }

    /// Returns what a connection is shown to when it begins.
    fn watch(&self) -> impl Fn(&Connection) + Copy + Send + 'static {
        let place = self.l4s;
        move |connection| {
            if let (Some(place), Some(context)) = (place, Context::of(connection)) {
                let _ = place.set(context);
            }
        }
    }
}

async fn next(receive: &mut RecvStream) -> Result<Option<Bytes>, Failure> {
    let chunk = receive.read_chunk(Pattern::PIECE, true).await?;
    Ok(chunk.map(|chunk| chunk.bytes))
}
