//! Makes a server's certificate, and decides whether a client trusts one.
//!
//! Two machines in a measurement have no browser and rarely share an authority, so a client usually
//! has a pin: the SHA-256 of the one certificate that it accepts. It always checks the signature of
//! the handshake.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::bulk::{Checksum, Hashing};
use crate::lock::lock;

/// A server's certificates and key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

/// SHA-256 over a certificate's DER encoding, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(Checksum);

/// Which certificates a client accepts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// None, but remember the server's certificate.
    Nobody,
    /// The one with this fingerprint.
    Pin(Fingerprint),
    /// Those that these authorities vouch for, by name and date (RFC 5280).
    Authorities(Arc<RootCertStore>),
    /// Any.
    Anybody,
}

/// Why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The server's certificate, once a client's handshake got that far.
pub type Sight = Arc<Mutex<Option<Seen>>>;

/// A certificate that a server presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Why the client refused it, if it did.
    pub refusal: Option<String>,
}

impl Identity {
    /// Makes a fresh Ed25519 key and a certificate for `localhost` signed with it.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn self_signed() -> Result<Self, TlsError> {
        let certificate = || {
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
            let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
            let mut params = rcgen::CertificateParams::new(names)?;
            let name = rcgen::DnType::CommonName;
            params
                .distinguished_name
                .push(name, "evenkeel, self-signed");
            Ok::<_, rcgen::Error>((params.self_signed(&key)?, key))
        };
        let (certificate, key) =
            certificate().map_err(|e| TlsError(format!("cannot make a certificate: {e}")))?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|e| TlsError(e.into()))?;
        Ok(Self {
            chain: vec![certificate.der().clone()],
            key,
        })
    }

    /// Reads a certificate chain, the server's own first, and its key, both in PEM.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Ok(Self {
            chain: certificates(chain)?,
            key: PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| TlsError(format!("the key file holds no PEM key ({error})")))?,
        })
    }

    /// Returns the fingerprint that a client pins.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Makes the TLS configuration of a server with this identity, for one application protocol.
    ///
    /// # Errors
    /// If the key does not fit the certificate or its kind is unknown.
    pub fn server(self, alpn: &[u8]) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        self.server_by(provider(), alpn)
    }

    /// As [`Identity::server`], with another provider of TLS 1.3 than ring.
    ///
    /// # Errors
    /// If the key does not fit the certificate or its kind is unknown.
    pub fn server_by(
        self,
        provider: Arc<CryptoProvider>,
        alpn: &[u8],
    ) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider implements TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(self.chain, self.key)
            .map_err(|error| TlsError(format!("certificate and key cannot be used: {error}")))?;
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls.key_log = Arc::new(rustls::KeyLogFile::new());
        Ok(Arc::new(tls))
    }
}

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Hashing::Sha256.of(certificate))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fingerprint {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let digest = text.parse::<Checksum>().ok();
        digest
            .filter(|digest| digest.hashing() == Hashing::Sha256)
            .map(Self)
            .ok_or_else(|| TlsError("a pin is `sha256:` and 64 hexadecimal digits".into()))
    }
}

impl Trust {
    /// Trusts the authorities of a PEM file.
    ///
    /// # Errors
    /// If it holds no certificate, or one that cannot be an authority.
    pub fn authorities(pem: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots
                .add(certificate)
                .map_err(|error| TlsError(format!("a certificate cannot be read: {error}")))?;
        }
        Ok(Self::Authorities(Arc::new(roots)))
    }

    /// Makes a client's TLS configuration with this trust, for one application protocol.
    ///
    /// # Errors
    /// If the authorities cannot be used.
    pub fn client(self, alpn: &[u8]) -> Result<(Arc<rustls::ClientConfig>, Sight), TlsError> {
        self.client_by(provider(), alpn)
    }

    /// As [`Trust::client`], with another provider of TLS 1.3 than ring.
    ///
    /// # Errors
    /// If the authorities cannot be used.
    pub fn client_by(
        self,
        tls_provider: Arc<CryptoProvider>,
        alpn: &[u8],
    ) -> Result<(Arc<rustls::ClientConfig>, Sight), TlsError> {
        let sight = Sight::default();
        let webpki = match &self {
            Self::Authorities(roots) => Some(
                WebPkiServerVerifier::builder_with_provider(roots.clone(), provider())
                    .build()
                    .map_err(|error| TlsError(format!("the authorities are unusable: {error}")))?,
            ),
            Self::Nobody | Self::Pin(_) | Self::Anybody => None,
        };
        let verifier = Verifier {
            trust: self,
            webpki,
            provider: provider(),
            sight: sight.clone(),
        };
        let mut tls = rustls::ClientConfig::builder_with_provider(tls_provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider implements TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls.key_log = Arc::new(rustls::KeyLogFile::new());
        Ok((Arc::new(tls), sight))
    }
}

/// Decides according to [`Trust`], and remembers the certificate.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    /// Only for [`Trust::Authorities`].
    webpki: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    sight: Sight,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let fingerprint = Fingerprint::of(end_entity);
        let verdict = match (&self.trust, &self.webpki) {
            (Trust::Anybody, _) => Ok(ServerCertVerified::assertion()),
            (Trust::Pin(pin), _) if *pin == fingerprint => Ok(ServerCertVerified::assertion()),
            (Trust::Authorities(_), Some(webpki)) => webpki.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        };
        *lock(&self.sight) = Some(Seen {
            fingerprint,
            refusal: verdict
                .as_ref()
                .err()
                .map(|error| explain(error, server_name)),
        });
        verdict
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Explains a refusal in plain words, to follow "the server's certificate".
fn explain(error: &rustls::Error, name: &ServerName<'_>) -> String {
    use CertificateError as E;
    let rustls::Error::InvalidCertificate(error) = error else {
        return format!("cannot be checked ({error})");
    };
    match error {
        E::Expired | E::ExpiredContext { .. } => "has expired".into(),
        E::NotValidYet | E::NotValidYetContext { .. } => "is not valid yet".into(),
        // The last three mean: signed by another authority of the same name.
        E::UnknownIssuer
        | E::BadSignature
        | E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is not from one of the trusted authorities".into()
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            format!("is not for the name {}", name.to_str())
        }
        E::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "is an authority's own, which must not stand for a server: use --pin, or make it anew \
             with `-addext basicConstraints=critical,CA:FALSE`"
                .into()
        }
        E::ApplicationVerificationFailure => "is not trusted".into(),
        other => format!("is not acceptable ({other})"),
    }
}

/// Reads certificates, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError(format!("the certificate file is not PEM ({error})")))?;
    if chain.is_empty() {
        return Err(TlsError(
            "the certificate file holds no PEM certificate".into(),
        ));
    }
    Ok(chain)
}

/// Chooses one cryptography provider for everything, here and not by features.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_pin_or_an_error(text in "((sha256|blake3):)?[0-9a-fA-F ]{0,70}") {
            if let Ok(pin) = text.parse::<Fingerprint>() {
                prop_assert_eq!(pin.to_string(), text.to_lowercase());
            }
        }
    }

    #[test]
    fn the_pin_of_a_fresh_identity_reads_back() {
        let pin = Identity::self_signed().unwrap().fingerprint();
        assert_eq!(pin.to_string().parse::<Fingerprint>().unwrap(), pin);
        assert_ne!(Identity::self_signed().unwrap().fingerprint(), pin);
    }

    #[test]
    fn a_file_without_certificates_is_an_error() {
        assert!(Identity::from_pem(b"", b"").is_err());
        assert!(Trust::authorities(b"-----BEGIN CERTIFICATE-----\n!\n").is_err());
    }
}
