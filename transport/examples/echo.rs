//! A server that sends back what it gets, and a client: `cargo run -p evenkeel --example echo`

use quinn::rustls::{ClientConfig, RootCertStore, ServerConfig, pki_types::PrivatePkcs8KeyDer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A certificate for this run. A real server loads its own; a real client trusts authorities.
    let own = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.clone())?;
    let tls = ServerConfig::builder().with_no_client_auth();
    let tls = tls.with_single_cert(vec![certificate], key.into())?;
    let server = evenkeel::server("127.0.0.1:0".parse()?, tls, "keel")?;
    let tls = ClientConfig::builder().with_root_certificates(trusted);
    let client = evenkeel::client("127.0.0.1:0".parse()?, tls.with_no_client_auth(), "keel")?;

    let connecting = client.connect(server.local_addr()?, "localhost")?;
    let accepting = async { server.accept().await.expect("it is open").await };
    let (near, far) = tokio::try_join!(connecting, accepting)?;
    let (mut question, mut answer) = near.open_bi().await?;
    question.write_all(b"hello").await?;
    question.finish()?;
    let (mut back, mut there) = far.accept_bi().await?;
    tokio::io::copy(&mut there, &mut back).await?;
    back.finish()?;
    println!("{}", String::from_utf8(answer.read_to_end(1000).await?)?);
    Ok(())
}
