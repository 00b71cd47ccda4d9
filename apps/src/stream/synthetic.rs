//! Synthetic tracks: sound, pictures and data of fixed sizes, side by side.

use evenkeel_spec::{Row, SpecError, SpecParameter, find};

use super::encoder::EncoderConfig;
use super::frame::MAX_FRAME;
use super::track::{Kind, Track};

/// A track of frames of fixed sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticTrack {
    /// Which track it is.
    pub track: Track,
    /// The text of which it was made.
    pub spec: String,
    /// How its frames come, without noise.
    pub encoder: EncoderConfig,
    /// Bits per second that make frames of the wanted size.
    pub bitrate_bps: u64,
}

const BYTES: SpecParameter = SpecParameter::number(
    "bytes",
    "bytes of a frame, of pictures of one that is no key frame",
    1.0,
    MAX_FRAME as f64 / 100.0,
    Some(1000.0),
);

const RATE: SpecParameter =
    SpecParameter::number("rate", "frames a second", 1.0, 240.0, Some(50.0));

const GROUP: SpecParameter = SpecParameter::count(
    "group",
    "frames in a group, the key frame included",
    1,
    10_000,
    Some(60),
);

const KEY_RATIO: SpecParameter = SpecParameter::number(
    "key_ratio",
    "size of a key frame over that of another",
    1.0,
    100.0,
    Some(5.0),
);

const ROWS: &[Row<Kind>] = &[
    Row {
        name: "sound",
        summary: "sound",
        parameters: &[BYTES, RATE],
        build: Kind::Sound,
    },
    Row {
        name: "video",
        summary: "pictures",
        parameters: &[BYTES, RATE, GROUP, KEY_RATIO],
        build: Kind::Video,
    },
    Row {
        name: "data",
        summary: "data",
        parameters: &[BYTES, RATE],
        build: Kind::Data,
    },
];

impl SyntheticTrack {
    /// Makes tracks of specs such as `sound:bytes=80,rate=50`, numbered within their kind.
    ///
    /// # Errors
    /// Says which is wrong, and what to write instead.
    pub fn all<'a>(specs: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>, SpecError> {
        let mut tracks: Vec<Self> = Vec::new();
        for spec in specs {
            let (row, values) = find("track", ROWS, spec)?;
            let kind = row.build;
            let index = tracks.iter().filter(|other| other.track.kind == kind);
            let index = index.count();
            if index > usize::from(Track::MAX_INDEX) {
                return Err(SpecError::new("at most 64 tracks of a kind; give fewer"));
            }
            let (group, key_ratio) = match kind {
                Kind::Video => (values.count("group"), values.number("key_ratio")),
                _ => (1, 1.0),
            };
            let encoder = EncoderConfig {
                frame_rate: values.number("rate"),
                group,
                key_ratio,
                noise: 0.0,
                seed: 1,
            };
            // The bitrate that holds for a whole group (`Encoder::next`).
            let mean = (f64::from(group - 1) + key_ratio) / f64::from(group);
            let bitrate = values.number("bytes") * 8.0 * encoder.frame_rate * mean;
            tracks.push(Self {
                track: Track::new(kind, index as u8),
                spec: spec.to_owned(),
                encoder,
                bitrate_bps: bitrate.round() as u64,
            });
        }
        Ok(tracks)
    }

    /// Bits per second of all.
    pub fn total_bps(tracks: &[Self]) -> u64 {
        tracks.iter().map(|track| track.bitrate_bps).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoder::Encoder;
    use super::*;

    #[test]
    fn frames_have_the_sizes_that_the_spec_gives() {
        let specs = [
            "sound:bytes=80,rate=50",
            "video:bytes=3750,rate=30,group=30,key_ratio=10",
        ];
        let tracks = SyntheticTrack::all(specs.into_iter().chain([specs[1]])).unwrap();
        let names: Vec<_> = tracks.iter().map(|t| t.track.to_string()).collect();
        assert_eq!(names, ["sound", "video", "video 2"]);
        let sizes = |track: &SyntheticTrack| {
            let mut encoder = Encoder::new(track.encoder, 0);
            let mut sizes = (0..31).map(|_| encoder.next(track.bitrate_bps, false));
            (
                sizes.next().unwrap(),
                sizes.next().unwrap(),
                sizes.last().unwrap(),
            )
        };
        let (key, other, next) = sizes(&tracks[1]);
        assert_eq!(
            (key.length, other.length, next.length),
            (37_500, 3750, 37_500)
        );
        assert!(key.key && !other.key && next.key);
        let (first, second, _) = sizes(&tracks[0]);
        assert_eq!((first.length, second.length), (80, 80));
        assert!(first.key && second.key);
    }

    #[test]
    fn what_is_no_track_is_refused_with_what_to_write() {
        let refusal = |spec| SyntheticTrack::all([spec]).unwrap_err().to_string();
        assert!(refusal("picture").contains("unknown track"));
        assert!(refusal("sound:group=3").contains("group"));
    }
}
