//! Wireshark's dissector of the path header reads what the codec reads, in the published vectors and
//! in a run of every kind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::scenario::Scenario;
use evenkeel_tests::capture;
use evenkeel_tests::skip::{Need, can_run};
use evenkeel_wire::{
    Ecn, Feedback, Ipv4Repr, PROTOCOL_UDP, PathHeaderKind, PathHeaderView, PseudoHeader,
    SignalFlags, UdpRepr,
};
use serde_json::Value;

/// What is compared, in the dissector's words.
const FIELDS: [&str; 26] = [
    "kind",
    "stamped",
    "gap",
    "congested",
    "offered",
    "aqt",
    "phase",
    "hop_limit",
    "feedback",
    "feedback_window",
    "contention",
    "window",
    "rtt",
    "timestamp",
    "echo.stamped",
    "echo.gap",
    "echo.congested",
    "echo.offered",
    "echo.phase",
    "echo.contention",
    "echo.timestamp",
    "echo.held",
    "echo.aqt",
    "echo.feedback",
    "echo.feedback_window",
    "tag",
];

/// The fields of a packet; those that it does not have are empty.
type Row = Vec<String>;

#[test]
fn wireshark_reads_the_published_vectors_as_the_codec_does() {
    if !can_run(&[tshark()]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let vectors = include_str!("../transport/base/wire/vectors/path-header.json");
    let vectors: Value = serde_json::from_str(vectors).expect("JSON");
    let of = |list: &str, key: &str| -> Vec<Vec<u8>> {
        let rows = vectors[list].as_array().expect("a list");
        rows.iter().map(|row| bytes(&row[key])).collect()
    };
    let quic = [0x43; 31];
    let headers = of("headers", "header").into_iter();
    let datagrams = headers.map(|header| [&header[..], &quic].concat());
    let packets = datagrams.chain(of("payloads", "payload")).map(in_udp);
    let stamped = of("stamps", "before")
        .into_iter()
        .chain(of("stamps", "after"));
    let packets: Vec<_> = packets.chain(stamped).collect();

    let capture = directory.path().join("vectors.pcap");
    fs::write(&capture, capture::of(&packets)).expect("it is writable");
    compare(&capture, &packets);

    // What is taken off unread is shown with its length.
    let lengths = dissect(&capture, &["length"]);
    let payloads = vectors["payloads"].as_array().expect("a list");
    let first = vectors["headers"].as_array().expect("a list").len();
    for (payload, length) in payloads.iter().zip(&lengths[first..]) {
        let taken_off = payload["taken_off"].as_u64().expect("a number");
        let shown = length[0].parse().unwrap_or(0);
        assert_eq!(taken_off, shown, "{payload}");
    }
}

#[test]
fn wireshark_reads_a_capture_of_a_run_as_the_codec_does() {
    if !can_run(&[tshark()]) {
        return;
    }
    for (controller, stamp) in [("acp", "acp"), ("rcp", "rcp"), ("xcp", "xcp")] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = "../testbed/scenarios/mixed.toml";
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        let overrides = [
            "duration_s=2".to_owned(),
            "flows.1.start_s=0".to_owned(),
            "flows.1.stop_s=2".to_owned(),
            format!("flows.0.controller={controller}"),
            format!("links.0.stamps=['aqt', '{stamp}', 'flows']"),
        ];
        let scenario = Scenario::load(&file, &overrides).unwrap_or_else(|error| panic!("{error}"));
        let capture = directory.path().join("bottleneck.pcap");
        let options = sim::Options {
            captures: vec![("bottleneck".to_owned(), capture.clone())],
            ..sim::Options::default()
        };
        sim::run(&scenario, &options, |_| ()).unwrap_or_else(|error| panic!("{error}"));

        let bytes = fs::read(&capture).expect("written");
        let packets = capture::packets(&bytes).into_iter();
        let packets: Vec<_> = packets.map(|(_, packet)| packet.to_vec()).collect();
        let headers = packets.iter().filter(|it| PathHeaderView::find(it).is_ok());
        assert!(headers.count() > 500, "{controller}");
        compare(&capture, &packets);
    }
}

fn tshark() -> Need {
    Need::program("tshark", "tshark")
}

fn compare(capture: &Path, packets: &[Vec<u8>]) {
    let shown = dissect(capture, &FIELDS);
    assert_eq!(shown.len(), packets.len());
    for (packet, shown) in packets.iter().zip(shown) {
        assert_eq!(read(packet), shown, "{packet:02x?}");
    }
}

/// What the codec says.
fn read(packet: &[u8]) -> Row {
    let Ok(header) = PathHeaderView::find(packet) else {
        // An unknown kind has its number alone.
        let payload = packet.get(28..).unwrap_or_default();
        let kind = match evenkeel_wire::split_path_header(payload) {
            Some(_) => (payload[4] >> 3 & 7).to_string(),
            None => String::new(),
        };
        let mut row = vec![String::new(); FIELDS.len()];
        row[0] = kind;
        return row;
    };
    let none = String::new;
    let flags = |flags: SignalFlags| {
        let set = [flags.stamped, flags.gap, flags.congested, flags.offered];
        set.map(|flag| u8::from(flag).to_string())
    };
    let (number, window) = match header.kind() {
        PathHeaderKind::Acp => (1, None),
        PathHeaderKind::Rcp => (2, None),
        PathHeaderKind::Xcp { window } => (3, Some(window.bytes())),
    };
    let feedback = |feedback: Feedback| match window {
        // Without a limit: the greatest rate that a code can have.
        None => {
            let rate = feedback.rate().bytes_per_second();
            [rate.unwrap_or(4_396_972_769_280).to_string(), none()]
        }
        Some(_) => {
            let bytes = feedback.window_change().in_256ths() as f64 / 256.0;
            [none(), bytes.to_string()]
        }
    };
    let flows = |flows: u32| window.map_or(flows.to_string(), |_| none());
    let micros = |time: Duration| time.as_micros().to_string();
    let signals = header.signals();
    let mut row = vec![number.to_string()];
    row.extend(flags(signals.flags));
    row.push(micros(signals.queueing_time.duration()));
    row.push(u8::from(header.phase()).to_string());
    row.push(signals.hop_limit.to_string());
    row.extend(feedback(signals.feedback));
    row.push(flows(signals.contention.flows()));
    row.push(window.map_or_else(none, |window| window.to_string()));
    row.push(micros(header.rtt().duration()));
    row.push(header.timestamp().micros().to_string());
    match header.echo() {
        None => row.resize(FIELDS.len() - 1, none()),
        Some(echo) => {
            row.extend(flags(echo.flags));
            row.push(u8::from(echo.phase).to_string());
            row.push(flows(echo.contention.flows()));
            row.push(echo.timestamp.micros().to_string());
            row.push(micros(echo.held.duration()));
            row.push(micros(echo.queueing_time.duration()));
            row.extend(feedback(echo.feedback));
        }
    }
    row.push(
        header
            .tag()
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect(),
    );
    row
}

/// What Wireshark says.
fn dissect(capture: &Path, fields: &[&str]) -> Vec<Row> {
    let script = "../transport/base/wire/wireshark/path-header.lua";
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script);
    let fields = fields
        .iter()
        .flat_map(|name| ["-e".to_owned(), format!("evenkeel.{name}")]);
    let output = Command::new("tshark")
        .args(["-n", "-X", &format!("lua_script:{}", script.display())])
        .args(["-T", "fields", "-E", "separator=;"])
        .args(fields)
        .arg("-r")
        .arg(capture)
        .output()
        .expect("it was found");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("Lua"), "{errors}");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let plain = |field: &str| match field {
        // As versions from 4.2 on show flags.
        "True" => "1".to_owned(),
        "False" => "0".to_owned(),
        field => field.to_owned(),
    };
    let rows = text
        .lines()
        .map(|line| line.split(';').map(plain).collect());
    rows.collect()
}

fn in_udp(payload: Vec<u8>) -> Vec<u8> {
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 2, 1].into());
    let pseudo = PseudoHeader::V4 {
        source,
        destination,
    };
    let udp = UdpRepr {
        source_port: 50_000,
        destination_port: 443,
    };
    let ip = Ipv4Repr {
        source,
        destination,
        protocol: PROTOCOL_UDP,
        ecn: Ecn::Ect0,
        dscp: 0,
        ttl: 64,
        identification: 0,
        dont_fragment: true,
        payload_len: 8 + payload.len() as u16,
    };
    [&ip.emit()[..], &udp.emit(&pseudo, &payload), &payload].concat()
}

fn bytes(hexadecimal: &Value) -> Vec<u8> {
    let digits = hexadecimal.as_str().expect("hexadecimal digits");
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(octet).collect()
}
