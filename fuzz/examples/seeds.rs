//! Writes first inputs for the fuzz targets, made from the vectors of `docs/path-header.md`, to
//! `corpus/TARGET/`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_fuzz::Operation;
use evenkeel_fuzz::conversation::{self, Piece, Step};
use evenkeel_fuzz::datagram::{Packet, Payload, Shape};
use serde_json::Value;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let vectors = fuzz.join("../transport/base/wire/vectors/path-header.json");
    let text = fs::read_to_string(&vectors).map_err(|e| format!("{}: {e}", vectors.display()))?;
    let vectors: Value = serde_json::from_str(&text)?;
    let mut payloads = all(&vectors, "headers", "header")?;
    payloads.extend(all(&vectors, "payloads", "payload")?);
    payloads.extend(all(&vectors, "tags", "header")?);
    let packets = all(&vectors, "packets", "packet")?;
    let corpus = |target| Corpus::new(fuzz, target);

    let mut path_header = corpus("path_header")?;
    let mut packet = corpus("packet")?;
    let mut endpoint = corpus("endpoint")?;
    for bytes in payloads {
        let input = Payload {
            operations: Vec::new(),
            bytes: bytes.clone(),
        };
        assert_eq!(Payload::read(&input.write())?, input);
        path_header.add(&input.write())?;
        for shape in [Shape::OverIpv4, Shape::OverIpv6] {
            let bytes = bytes.clone();
            packet.add_packet(Vec::new(), shape, bytes)?;
        }
        endpoint.add_conversation(&[invented(bytes)])?;
    }
    for bytes in packets {
        packet.add_packet(Vec::new(), Shape::Whole, bytes)?;
    }
    for stamp in array(&vectors, "stamps")? {
        let operations = array(stamp, "operations")?.iter().map(operation);
        let operations = operations.collect::<Result<Vec<_>, Failure>>()?;
        let bytes = hexadecimal(&stamp["before"])?;
        packet.add_packet(operations.clone(), Shape::Whole, bytes)?;
        endpoint.add_conversation(&conversation(&operations))?;
    }
    let mut document = corpus("document")?;
    document.add(LINK.as_bytes())?;
    document.add(CELLULAR.as_bytes())?;
    for corpus in [path_header, packet, endpoint, document] {
        println!("{} seeds in {}", corpus.count, corpus.directory.display());
    }
    Ok(())
}

/// Most keys of a link.
const LINK: &str = "rate_bps = \"2 Mb/s\"
delay_ms = 18.5
queue_packets = 50
discipline = \"red:min=5,max=15\"
stamps = [\"aqt\"]
loss = 0.01
mtu = 1400
ecn = \"keep\"
mark = 0.01
corrupt = 0.001
police_bps = \"1M\"
police_burst_bytes = \"64kB\"
duplicate = 0.001
wifi_jitter_ms = 7
aggregate_ms = 5
aggregate_packets = 64
changes_period_s = 30
blackouts = [{ start_s = 1, length_s = 0.5 }]
[[changes]]
at_s = 3
delay_ms = 20
mtu = 1300
[[changes]]
at_s = 4
rate_bps = 0
wifi_jitter_ms = 12
";

/// A link without a rate of its own.
const CELLULAR: &str = "cellular = { min_bps = 1e6, max_bps = \"30M\", volatility = 0.2, outage_every_s = 20, outage_s = 1 }
gilbert_elliott = { p = 0.01, r = 0.25, bad = 0.9, good = 0.001 }
delay_ms = 30
";

/// Where the inputs of one target are.
struct Corpus {
    directory: PathBuf,
    count: usize,
}

impl Corpus {
    fn new(fuzz: &Path, target: &str) -> Result<Self, Failure> {
        let directory = fuzz.join("corpus").join(target);
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        Ok(Self {
            directory,
            count: 0,
        })
    }

    fn add(&mut self, input: &[u8]) -> Result<(), Failure> {
        let file = self.directory.join(format!("seed-{:03}", self.count));
        fs::write(&file, input).map_err(|e| format!("{}: {e}", file.display()))?;
        self.count += 1;
        Ok(())
    }

    fn add_packet(
        &mut self,
        operations: Vec<Operation>,
        shape: Shape,
        bytes: Vec<u8>,
    ) -> Result<(), Failure> {
        let input = Packet {
            operations,
            shape,
            damage: Vec::new(),
            bytes,
        };
        assert_eq!(Packet::read(&input.write())?, input);
        self.add(&input.write())
    }

    fn add_conversation(&mut self, steps: &[Step]) -> Result<(), Failure> {
        let input = conversation::write(steps);
        assert_eq!(conversation::read(&input)?, steps);
        self.add(&input)
    }
}

/// Nobody has sent this.
fn invented(bytes: Vec<u8>) -> Step {
    Step::Arrive {
        end: 0,
        from: 0,
        stride: 0,
        pieces: vec![Piece::Invented(bytes)],
    }
}

/// Packets there and back, stamped by routers on both ways.
fn conversation(operations: &[Operation]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (round, end) in [0, 1, 0, 1, 0, 1].into_iter().enumerate() {
        let connection = u8::from(round > 3);
        let packets = 1 + round as u8;
        let sent = |before| Piece::Sent {
            connection,
            before,
            operations: operations.to_vec(),
            damage: (before == 7).then_some((30, 1)),
        };
        steps.extend([
            Step::Follow {
                end,
                connection,
                feedback: round as u8,
            },
            Step::Send {
                end,
                connection,
                packets,
                size: 12,
                first: 0x40,
            },
            Step::Wait(20_000),
            Step::Arrive {
                end: 1 - end,
                from: 0,
                stride: 0,
                pieces: (0..packets).rev().map(sent).collect(),
            },
        ]);
    }
    steps
}

fn operation(vector: &Value) -> Result<Operation, Failure> {
    let (name, value) = vector
        .as_object()
        .and_then(|operation| operation.iter().next())
        .ok_or("an operation is an object with one member")?;
    let number = || value.as_u64().ok_or(format!("{name} has a number"));
    Ok(match name.as_str() {
        "add_queueing_time_us" => Operation::AddQueueingTime(number()? * 1000),
        "record_ttl" => Operation::RecordTtl(u8::try_from(number()?)?),
        "limit_rate" => Operation::LimitRate(value.as_u64()),
        "limit_window_change_256ths" => {
            Operation::LimitWindowChange(value.as_i64().ok_or("a window change is a number")?)
        }
        "mark_congested" => Operation::MarkCongested,
        "raise_contention" => Operation::RaiseContention(u32::try_from(number()?)?),
        _ => return Err(format!("{name} is no operation that seeds know: add it here").into()),
    })
}

/// The member `key` of all vectors of a kind.
fn all(vectors: &Value, kind: &str, key: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let vectors = array(vectors, kind)?.iter();
    vectors.map(|vector| hexadecimal(&vector[key])).collect()
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, Failure> {
    Ok(value[key]
        .as_array()
        .ok_or(format!("the vectors have an array {key}"))?)
}

fn hexadecimal(value: &Value) -> Result<Vec<u8>, Failure> {
    let text = value.as_str().ok_or("bytes are a text")?;
    (0..text.len())
        .step_by(2)
        .map(|at| {
            let digits = text.get(at..at + 2).ok_or("bytes have two digits each")?;
            Ok(u8::from_str_radix(digits, 16)?)
        })
        .collect()
}
