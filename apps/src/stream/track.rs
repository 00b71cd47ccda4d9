//! Tracks: what a stream carries side by side, each at its own pace.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A sequence of frames that are decoded one after the other, whatever becomes of other tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Track {
    /// What it carries.
    pub kind: Kind,
    /// Its number among the tracks of that kind, 0 to [`MAX_INDEX`](Self::MAX_INDEX). The first
    /// pictures are to be seen whatever happens, others where there is room.
    pub index: u8,
}

/// What a track carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What explains the other tracks: tables of an MPEG transport stream.
    Tables,
    /// Sound: each frame is decoded alone.
    Sound,
    /// Pictures: most refer to earlier ones.
    Video,
    /// Anything else, such as subtitles: each frame is decoded alone.
    Data,
}

impl Track {
    /// The pictures that viewers see before all others.
    pub const VIDEO: Self = Self::new(Kind::Video, 0);

    /// The tables of a transport stream.
    pub const TABLES: Self = Self::new(Kind::Tables, 0);

    /// The highest index.
    pub const MAX_INDEX: u8 = 63;

    /// How many ranks there are.
    pub(super) const RANKS: usize = 6;

    /// Number `index` of the tracks of a kind; those beyond the highest share that.
    pub const fn new(kind: Kind, index: u8) -> Self {
        let index = match index > Self::MAX_INDEX {
            true => Self::MAX_INDEX,
            false => index,
        };
        Self { kind, index }
    }

    /// Returns whether frames may need earlier ones.
    pub fn has_groups(self) -> bool {
        self.kind == Kind::Video
    }

    /// Returns where the track stands, 0 to 5: what stands lower is sent first, and never waits for
    /// what stands higher. Sound and tables come first, then the first pictures, data, and further
    /// pictures, which are given up first.
    pub fn rank(self) -> u8 {
        match (self.kind, self.index) {
            (Kind::Tables | Kind::Sound, _) => 0,
            (Kind::Video, 0) => 1,
            (Kind::Data, _) => 2,
            (Kind::Video, index) => index.min(3) + 2,
        }
    }

    /// Returns it as it goes on the wire: the kind in two bits, and the index.
    pub(super) fn byte(self) -> u8 {
        let kind = match self.kind {
            Kind::Video => 0,
            Kind::Sound => 1,
            Kind::Data => 2,
            Kind::Tables => 3,
        };
        kind << 6 | self.index
    }

    /// Returns the track of such a byte.
    pub(super) fn of_byte(byte: u8) -> Self {
        let kind = match byte >> 6 {
            0 => Kind::Video,
            1 => Kind::Sound,
            2 => Kind::Data,
            _ => Kind::Tables,
        };
        Self::new(kind, byte & Self::MAX_INDEX)
    }
}

impl fmt::Display for Track {
    /// The kind, and from the second of a kind on its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Tables => "tables",
            Kind::Sound => "sound",
            Kind::Video => "video",
            Kind::Data => "data",
        };
        match self.index {
            0 => f.write_str(kind),
            index => write!(f, "{kind} {}", index + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_track_and_every_track_a_byte() {
        for byte in 0..=u8::MAX {
            let track = Track::of_byte(byte);
            assert_eq!(track.byte(), byte);
            assert!(usize::from(track.rank()) < Track::RANKS);
        }
        assert_eq!(Track::VIDEO.byte(), 0);
        assert_eq!(Track::new(Kind::Sound, 200).index, Track::MAX_INDEX);
    }

    #[test]
    fn sound_goes_first_and_further_pictures_last() {
        let tracks = [
            Track::new(Kind::Sound, 9),
            Track::VIDEO,
            Track::new(Kind::Data, 0),
            Track::new(Kind::Video, 1),
            Track::new(Kind::Video, 2),
        ];
        assert!(tracks.map(Track::rank).is_sorted_by(|a, b| a < b));
        assert_eq!(tracks.map(|track| track.to_string())[3], "video 2");
    }
}
