//! TLS for two endpoints of one run.

use std::error::Error;

use quinn::rustls::{ClientConfig, RootCertStore, ServerConfig, pki_types::PrivatePkcs8KeyDer};

/// Returns a server's configuration with a new certificate for `localhost`, and that of a client
/// which trusts it. A real server loads its own; a real client trusts authorities.
pub(crate) fn configs() -> Result<(ServerConfig, ClientConfig), Box<dyn Error + Send + Sync>> {
    let own = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.clone())?;
    let server = ServerConfig::builder().with_no_client_auth();
    let client = ClientConfig::builder().with_root_certificates(trusted);
    Ok((
        server.with_single_cert(vec![certificate], key.into())?,
        client.with_no_client_auth(),
    ))
}
