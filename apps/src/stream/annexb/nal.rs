//! What NAL units say about pictures and how to decode them.

/// A coding with a byte stream format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stream) enum Codec {
    /// ITU-T H.264.
    H264,
    /// ITU-T H.265.
    Hevc,
}

/// What a NAL unit is to a viewer who wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A parameter set; one with the same name replaces it.
    ParameterSet(Name),
    /// Decoding can begin here, and pictures are right after this many more.
    RecoveryPoint(u32),
    /// A slice of a picture; `key` if decoding can begin with it.
    Slice { key: bool },
    /// Anything else.
    Other,
}

/// The type and the identifier of a parameter set. Sets of a lower type come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    kind: u8,
    id: u32,
}

/// The payload type of a recovery point in supplemental enhancement information (ITU-T H.264, D.1.8;
/// H.265, D.2.8).
const RECOVERY_POINT: u32 = 6;

impl Codec {
    /// Tells the codec of a stream by the first two bytes of its first NAL unit; `Err` names what
    /// is neither.
    ///
    /// An HEVC stream begins with a delimiter, a parameter set or an SEI message, of layer 0 and
    /// temporal layer 0. H.264 has no NAL units that begin so: they would be partitions without
    /// their slice, or reference pictures that are none.
    pub(super) fn of(head: [u8; 2]) -> Result<Self, &'static str> {
        match head {
            [0x40 | 0x42 | 0x44 | 0x46 | 0x4e, 0x01] => Ok(Self::Hevc),
            [0x00, 0x71 | 0x79 | 0xa1] => Err("H.266 (VVC)"),
            [0x80..=0xff, _] => Err("MPEG-1, MPEG-2 or MPEG-4 Visual"),
            _ => Ok(Self::H264),
        }
    }

    /// Returns how many bytes of a NAL unit [`Self::slice`] and [`Self::opens`] need: its header
    /// and the first byte of a slice header.
    pub(super) fn look_ahead(self) -> usize {
        self.header_len() + 1
    }

    /// Returns true if the NAL unit is part of a picture.
    pub(super) fn slice(self, nal: &[u8]) -> bool {
        match (self, self.kind(nal)) {
            (Self::H264, kind) => matches!(kind, 1..=5),
            (Self::Hevc, kind) => kind < 32,
        }
    }

    /// Returns true if the NAL unit begins an access unit when it follows a slice (H.264,
    /// 7.4.1.2.3; H.265, 7.4.2.4.4).
    pub(super) fn opens(self, nal: &[u8]) -> bool {
        match (self, self.kind(nal)) {
            // A first bit of 1 means that first_mb_in_slice is 0; partitions B and C of a slice
            // begin no picture.
            (Self::H264, 1 | 2 | 5) => nal[1] & 0x80 != 0,
            (Self::H264, kind) => matches!(kind, 6..=9 | 14..=18),
            (Self::Hevc, 0..=31) => nal[2] & 0x80 != 0,
            (Self::Hevc, kind) => matches!(kind, 32..=35 | 39 | 41..=44 | 48..=55),
        }
    }

    /// Returns what a whole NAL unit means.
    pub(super) fn meaning(self, nal: &[u8]) -> Meaning {
        let kind = self.kind(nal);
        let set = |id: Option<u32>| {
            Meaning::ParameterSet(Name {
                kind,
                id: id.unwrap_or(0),
            })
        };
        let mut bits = Bits::of(nal.get(self.header_len()..).unwrap_or_default());
        match (self, kind) {
            (Self::H264, 1..=5) => Meaning::Slice { key: kind == 5 },
            (Self::H264, 6) | (Self::Hevc, 39) => self.recovery_point(bits),
            // Profile, constraints and level come before the identifier.
            (Self::H264, 7 | 15) => set(bits.take(24).and_then(|_| bits.unsigned())),
            (Self::H264, 8 | 13) | (Self::Hevc, 34) => set(bits.unsigned()),
            // IRAP pictures.
            (Self::Hevc, 0..=31) => Meaning::Slice {
                key: matches!(kind, 16..=23),
            },
            (Self::Hevc, 32) => set(bits.take(4)),
            (Self::Hevc, 33) => set(hevc_sequence_id(bits)),
            _ => Meaning::Other,
        }
    }

    fn kind(self, nal: &[u8]) -> u8 {
        match self {
            Self::H264 => nal[0] & 0x1f,
            Self::Hevc => nal[0] >> 1 & 0x3f,
        }
    }

    fn header_len(self) -> usize {
        match self {
            Self::H264 => 1,
            Self::Hevc => 2,
        }
    }

    /// Looks for a recovery point among SEI messages.
    fn recovery_point(self, mut bits: Bits<'_>) -> Meaning {
        let mut messages = || {
            loop {
                let (kind, bytes) = (bits.sum()?, bits.sum()?);
                if kind == RECOVERY_POINT {
                    return bits.unsigned();
                }
                for _ in 0..bytes {
                    bits.take(8)?;
                }
            }
        };
        messages().map_or(Meaning::Other, |count| {
            // Of HEVC it is signed: 1 stands for 1, 2 for -1, 3 for 2.
            Meaning::RecoveryPoint(match self {
                Self::H264 => count,
                Self::Hevc if count % 2 == 0 => 0,
                Self::Hevc => count.div_ceil(2),
            })
        })
    }
}

/// Returns the identifier of an HEVC sequence parameter set (H.265, 7.3.2.2.1 and 7.3.3).
fn hevc_sequence_id(mut bits: Bits<'_>) -> Option<u32> {
    bits.take(4)?;
    let sub_layers = bits.take(3)?;
    bits.take(1)?;
    // The general profile, and level.
    bits.skip(88 + 8)?;
    let mut present = 0;
    for _ in 0..sub_layers {
        present += 88 * bits.take(1)? + 8 * bits.take(1)?;
    }
    if sub_layers > 0 {
        bits.skip(2 * (8 - sub_layers))?;
    }
    bits.skip(present)?;
    bits.unsigned()
}

/// Reads a NAL unit bit by bit, without its emulation prevention bytes (H.264, 7.3.1).
struct Bits<'a> {
    bytes: &'a [u8],
    /// Zero bytes right before the present one.
    zeros: usize,
    /// Bits of the first byte that were read.
    read: u8,
}

impl<'a> Bits<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let (zeros, read) = (0, 0);
        Self { bytes, zeros, read }
    }

    fn bit(&mut self) -> Option<u32> {
        if self.read == 0 && self.zeros >= 2 && self.bytes.first() == Some(&3) {
            (self.bytes, self.zeros) = (&self.bytes[1..], 0);
        }
        let byte = *self.bytes.first()?;
        let bit = byte >> (7 - self.read) & 1;
        self.read = (self.read + 1) % 8;
        if self.read == 0 {
            self.bytes = &self.bytes[1..];
            self.zeros = if byte == 0 { self.zeros + 1 } else { 0 };
        }
        Some(bit.into())
    }

    /// Reads up to 32 bits.
    fn take(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |value, _| Some(value << 1 | self.bit()?))
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        (0..count).try_for_each(|_| self.bit().map(|_| ()))
    }

    /// Reads an unsigned Exp-Golomb code (H.264, 9.1).
    fn unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
        }
        (zeros < 32).then_some(())?;
        Some((1_u32 << zeros) - 1 + self.take(zeros)?)
    }

    /// Reads the type or length of an SEI message: bytes of 255 and a last one, added (H.264,
    /// 7.3.2.3.1).
    fn sum(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        loop {
            let byte = self.take(8)?;
            sum = sum.saturating_add(byte);
            if byte < 255 {
                return Some(sum);
            }
        }
    }
}
