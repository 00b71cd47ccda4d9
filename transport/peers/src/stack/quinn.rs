//! Stock quinn, and evenkeel's endpoint on it.

use bytes::Bytes;

use super::streams::streams;

streams!(quinn, Quinn, "quinn 0.11");

/// evenkeel's endpoint on quinn.
pub(crate) struct Evenkeel {
    /// The controller's name.
    pub(crate) controller: &'static str,
    /// Whether it offers path headers, one on every datagram unless the controller asks for fewer.
    pub(crate) headers: bool,
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
        spawn_server(serving, move || Ok(evenkeel.bind(LOOPBACK, Some(config))?))
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
            exchange(&evenkeel.bind(LOOPBACK, None)?, config, server, order).await
        })
    }
}

impl Evenkeel {
    fn endpoint(&self) -> evenkeel::EndpointBuilder {
        match self.headers {
            true => evenkeel::EndpointBuilder::new().path_headers(1),
            false => evenkeel::EndpointBuilder::new(),
        }
    }
}

async fn next(receive: &mut RecvStream) -> Result<Option<Bytes>, Failure> {
    let chunk = receive.read_chunk(Pattern::PIECE, true).await?;
    Ok(chunk.map(|chunk| chunk.bytes))
}
