//! A server's beginning: certificate, socket, signals.

use std::net::SocketAddr;

use quinn::{Endpoint, ServerConfig};

use super::{
    Failure,
    args::ListenArgs,
    net::{Transport, plain, read_file},
    output::{Form, Listening, Record, print},
    say,
    signals::Signals,
};
use crate::tls::{Fingerprint, Identity};

/// A server's endpoint, where it listens, the settings of its connections, and what ends it.
pub(super) struct Listener {
    pub(super) endpoint: Endpoint,
    pub(super) address: SocketAddr,
    pub(super) config: ServerConfig,
    pub(super) signals: Signals,
}

/// Begins to listen, and says so.
///
/// # Errors
/// If the certificate or the address cannot be had, or signals cannot be waited for.
pub(super) async fn listen(
    args: &ListenArgs,
    transport: &Transport,
    controller: &str,
    form: Form,
) -> Result<Listener, Failure> {
    let identity = identity(args).await?;
    let pin = identity.fingerprint();
    let tls = identity
        .server(transport.application.alpn)
        .map_err(|error| Failure::failed(error, "give --cert and --key that belong together"))?;
    let config = transport.server(tls)?;
    let remedy = "stop the other program or choose another --listen";
    let endpoint = transport.bind(
        args.listen,
        Some(config.clone()),
        "cannot listen on",
        remedy,
    )?;
    let address = endpoint.local_addr().map_err(|error| {
        Failure::failed(
            format!("cannot tell the address it listens on: {}", plain(&error)),
            "choose another --listen",
        )
    })?;
    // Who reads where it listens may end it.
    let signals = Signals::listen()?;
    announce(form, controller, transport, address, pin)?;
    Ok(Listener {
        endpoint,
        address,
        config,
        signals,
    })
}

async fn identity(args: &ListenArgs) -> Result<Identity, Failure> {
    let (Some(cert), Some(key)) = (&args.cert, &args.key) else {
        return Identity::self_signed()
            .map_err(|error| Failure::failed(error, "give --cert and --key"));
    };
    let (chain, key_pem) = (
        read_file(cert, "--cert").await?,
        read_file(key, "--key").await?,
    );
    Identity::from_pem(&chain, &key_pem).map_err(|error| {
        Failure::failed(
            format!(
                "cannot use {} and {}: {error}",
                cert.display(),
                key.display()
            ),
            "give --cert and --key PEM files that belong together",
        )
    })
}

/// Says where the server is and how to reach it.
fn announce(
    form: Form,
    controller: &str,
    transport: &Transport,
    address: SocketAddr,
    pin: Fingerprint,
) -> Result<(), Failure> {
    let target = if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    };
    let command = format!(
        "evenkeel {} client {target} --pin {pin}",
        transport.application.name
    );
    match form {
        Form::JsonLines => Form::print(&Record::Listening(Listening {
            version: env!("CARGO_PKG_VERSION"),
            address: address.to_string(),
            controller: controller.to_owned(),
            pacing: transport.pacing().name(),
            path_headers: transport.headers().to_string(),
            pin: pin.to_string(),
            client_command: command,
        })),
        form => {
            let mut text = format!(
                "listening on {address}, controller {controller}\ncertificate pin {pin}\nconnect with: {command}"
            );
            if address.ip().is_unspecified() {
                text += "\n(from elsewhere, with this machine's address instead of localhost)";
            }
            if form == Form::Json {
                say(&text);
                Ok(())
            } else {
                print(&text)
            }
        }
    }
}

/// An IPv4 client of a socket for both families, as an IPv4 address.
pub(super) fn unmapped(client: SocketAddr) -> SocketAddr {
    match client {
        SocketAddr::V6(v6) => v6
            .ip()
            .to_ipv4_mapped()
            .map_or(client, |ip| (ip, v6.port()).into()),
        SocketAddr::V4(_) => client,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_mapped_client_is_shown_as_ipv4() {
        let mapped = (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 5).into();
        assert_eq!(unmapped(mapped).to_string(), "127.0.0.1:5");
        let v6: SocketAddr = (Ipv6Addr::LOCALHOST, 5).into();
        assert_eq!(unmapped(v6), v6);
    }
}
