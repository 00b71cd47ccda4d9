//! Protection of QUIC packets in virtual time: a checksum in place of encryption.
//!
//! Nobody listens on the virtual network, and to encrypt and decrypt takes a fifth of a run's time. The
//! handshake is TLS's own. Packets have the sizes that they have on a wire, and one that is changed
//! on its way or belongs to another connection is refused as on a wire.

use std::sync::{Arc, LazyLock};

use quinn::rustls;
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{Error, SupportedCipherSuite, Tls13CipherSuite};

/// ring's TLS 1.3 with packets that have a checksum in place of encryption. Both ends must use it.
pub fn unencrypted() -> Arc<CryptoProvider> {
    /// rustls wants cipher suites that live as long as the program.
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::ring::default_provider();
        for suite in &mut provider.cipher_suites {
            if let SupportedCipherSuite::Tls13(encrypted) = suite
                && let Some(algorithm) = encrypted.quic
            {
                *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(with(
                    encrypted,
                    Box::leak(Box::new(Checksummed(algorithm))),
                ))));
            }
        }
        Arc::new(provider)
    });
    PROVIDER.clone()
}

fn with(suite: &Tls13CipherSuite, algorithm: &'static dyn Algorithm) -> Tls13CipherSuite {
    let common = &suite.common;
    Tls13CipherSuite {
        common: rustls::crypto::CipherSuiteCommon {
            suite: common.suite,
            hash_provider: common.hash_provider,
            confidentiality_limit: common.confidentiality_limit,
        },
        quic: Some(algorithm),
        ..*suite
    }
}

/// Protects packets by a checksum; lengths and limits are those of the algorithm that it replaces.
struct Checksummed(&'static dyn Algorithm);

impl Algorithm for Checksummed {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let mut secret = [0; 8];
        secret.copy_from_slice(&key.as_ref()[..8]);
        let replaced = self.0.packet_key(key, iv);
        Box::new(ChecksumKey {
            secret: u64::from_le_bytes(secret),
            confidentiality_limit: replaced.confidentiality_limit(),
            integrity_limit: replaced.integrity_limit(),
        })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        let replaced = self.0.header_protection_key(key);
        Box::new(NoMask {
            sample_len: replaced.sample_len(),
        })
    }

    fn aead_key_len(&self) -> usize {
        self.0.aead_key_len()
    }
}

/// Bytes of a tag: RFC 9001, section 5.3.
const TAG_LEN: usize = 16;

struct ChecksumKey {
    /// Differs for each direction of a connection, and with each update of its keys.
    secret: u64,
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl ChecksumKey {
    fn tag(&self, packet_number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        let sum = sum(header).rotate_left(1).wrapping_add(sum(payload));
        tag[..8].copy_from_slice(&sum.to_le_bytes());
        tag[8..].copy_from_slice(&(self.secret ^ packet_number).to_le_bytes());
        tag
    }
}

/// The sum of all words of eight bytes, modulo 2^64: any change of one bit shows.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(u64::from_le_bytes(last), u64::wrapping_add)
}

impl PacketKey for ChecksumKey {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        Ok(Tag::from(&self.tag(packet_number, header, payload)[..]))
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let (payload, tag) = payload
            .split_last_chunk::<TAG_LEN>()
            .ok_or(Error::DecryptError)?;
        if *tag != self.tag(packet_number, header, payload) {
            return Err(Error::DecryptError);
        }
        Ok(payload)
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit
    }
}

/// Headers as they are.
struct NoMask {
    sample_len: usize,
}

impl HeaderProtectionKey for NoMask {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        self.sample_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(provider: &CryptoProvider) -> Vec<&'static Tls13CipherSuite> {
        let suites = provider.cipher_suites.iter();
        suites.filter_map(SupportedCipherSuite::tls13).collect()
    }

    fn key(suite: &Tls13CipherSuite, secret: u8) -> Box<dyn PacketKey> {
        let algorithm = suite.quic.expect("a suite for QUIC");
        algorithm.packet_key(AeadKey::from([secret; 32]), Iv::from([0; 12]))
    }

    /// Packet 7 with its tag.
    fn protected(key: &dyn PacketKey, header: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = payload.to_vec();
        let tag = key.encrypt_in_place(7, header, &mut packet);
        packet.extend_from_slice(tag.expect("short enough").as_ref());
        packet
    }

    #[test]
    fn suites_lengths_and_limits_are_those_of_encryption() {
        let (ours, ring) = (unencrypted(), rustls::crypto::ring::default_provider());
        let (ours, ring) = (suites(&ours), suites(&ring));
        assert_eq!(ours.len(), 3);
        for (ours, ring) in ours.into_iter().zip(ring) {
            assert_eq!(ours.common.suite, ring.common.suite);
            // ring makes keys of either length of AES only.
            let algorithms = (ours.quic.expect("QUIC"), ring.quic.expect("QUIC"));
            assert_eq!(algorithms.0.aead_key_len(), algorithms.1.aead_key_len());
            if ring.common.suite == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 {
                continue;
            }
            let (ours, ring) = (key(ours, 1), key(ring, 1));
            assert_eq!(ours.tag_len(), ring.tag_len());
            assert_eq!(ours.confidentiality_limit(), ring.confidentiality_limit());
            assert_eq!(ours.integrity_limit(), ring.integrity_limit());
        }
    }

    #[test]
    fn a_packet_passes_that_nobody_has_changed() {
        let suite = suites(&unencrypted())[0];
        let (right, wrong) = (key(suite, 1), key(suite, 2));
        for length in [0, 1, 7, 8, 9, 1200] {
            let (header, payload) = (vec![0x40; 11], vec![0x5a; length]);
            let packet = protected(&*right, &header, &payload);
            assert_eq!(packet.len(), length + 16);
            let opened = |key: &dyn PacketKey, number, header: &[u8], packet: &[u8]| {
                let mut packet = packet.to_vec();
                let opened = key.decrypt_in_place(number, header, &mut packet);
                opened.ok().map(<[u8]>::to_vec)
            };
            assert_eq!(opened(&*right, 7, &header, &packet), Some(payload));
            assert_eq!(opened(&*right, 8, &header, &packet), None);
            assert_eq!(opened(&*wrong, 7, &header, &packet), None);
            assert_eq!(opened(&*right, 7, &header, &packet[1..]), None);
            for bit in 0..8 * packet.len() {
                let mut changed = packet.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opened(&*right, 7, &header, &changed), None, "bit {bit}");
            }
            let mut changed = header.clone();
            changed[10] ^= 1;
            assert_eq!(opened(&*right, 7, &changed, &packet), None);
        }
    }
}
