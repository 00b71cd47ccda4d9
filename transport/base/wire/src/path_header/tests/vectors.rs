//! The vectors in `vectors/path-header.json`, which a second implementation has written.

use serde_json::Value;

use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../vectors/path-header.json")).unwrap()
}

fn list(value: &Value) -> &[Value] {
    let list = value.as_array().unwrap();
    assert!(!list.is_empty());
    list
}

fn bytes(value: &Value) -> Vec<u8> {
    let hex = value.as_str().unwrap();
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn octet(value: &Value) -> u8 {
    u8::try_from(number(value)).unwrap()
}

fn micros(value: &Value) -> Duration {
    Duration::from_micros(number(value))
}

fn rate(value: &Value) -> CompactRate {
    value
        .as_u64()
        .map_or(CompactRate::NO_LIMIT, CompactRate::from_bytes_per_second)
}

fn flows(value: &Value) -> CompactCount {
    CompactCount::from_flows(u32::try_from(number(value)).unwrap())
}

fn change(value: &Value) -> WindowChange {
    WindowChange::from_256ths(value.as_i64().unwrap())
}

fn flags(value: &Value) -> SignalFlags {
    let has = |name: &str| value.as_array().unwrap().iter().any(|flag| flag == name);
    SignalFlags {
        stamped: has("stamped"),
        gap: has("gap"),
        congested: has("congested"),
        offered: has("offered"),
    }
}

fn feedback(kind: &Value, value: &Value) -> Feedback {
    if kind == "xcp" {
        change(value).into()
    } else {
        rate(value).into()
    }
}

fn repr(fields: &Value) -> PathHeaderRepr {
    let kind = match fields["kind"].as_str().unwrap() {
        "acp" => PathHeaderKind::Acp,
        "rcp" => PathHeaderKind::Rcp,
        "xcp" => PathHeaderKind::Xcp {
            window: CompactBytes::from_bytes(number(&fields["window_bytes"])),
        },
        other => panic!("no such kind: {other}"),
    };
    let count = |value: &Value| match value {
        Value::Null => CompactCount::NONE,
        value => flows(value),
    };
    PathHeaderRepr {
        kind,
        rtt: CompactTime::from_duration(micros(&fields["rtt_us"])),
        signals: Signals {
            queueing_time: QueueingTime::from_duration(micros(&fields["queueing_us"])),
            feedback: feedback(&fields["kind"], &fields["feedback"]),
            contention: count(&fields["flows"]),
            flags: flags(&fields["flags"]),
            hop_limit: octet(&fields["hop_limit"]),
        },
        phase: octet(&fields["phase"]) == 1,
        timestamp: HeaderTimestamp::from_micros(number(&fields["timestamp"])),
        echo: fields.get("echo").map(|echo| Echo {
            timestamp: HeaderTimestamp::from_micros(number(&echo["timestamp"])),
            phase: octet(&echo["phase"]) == 1,
            held: CompactTime::from_duration(micros(&echo["held_us"])),
            queueing_time: CompactTime::from_duration(micros(&echo["queueing_us"])),
            feedback: feedback(&echo["kind"], &echo["feedback"]),
            contention: count(&echo["flows"]),
            flags: flags(&echo["flags"]),
        }),
        tag: bytes(&fields["tag"]).try_into().unwrap(),
    }
}

fn operation(value: &Value) -> Operation {
    let (name, value) = value.as_object().unwrap().iter().next().unwrap();
    match name.as_str() {
        "add_queueing_time_us" => Operation::AddQueueingTime(micros(value)),
        "record_ttl" => Operation::RecordTtl(octet(value)),
        "limit_rate" => Operation::LimitRate(rate(value)),
        "limit_window_change_256ths" => Operation::LimitWindowChange(change(value)),
        "mark_congested" => Operation::MarkCongested,
        "raise_contention" => Operation::RaiseContention(flows(value)),
        other => panic!("no such operation: {other}"),
    }
}

fn outcome(result: Result<PathHeaderView<'_>, Skipped>) -> &'static str {
    match result {
        Ok(_) => "known",
        Err(Skipped::Foreign) => "foreign",
        Err(Skipped::Truncated) => "truncated",
        Err(Skipped::Version) => "version",
        Err(Skipped::Kind) => "kind",
        Err(Skipped::Untouchable) => "untouchable",
    }
}

#[test]
fn numbers_have_the_codes_of_the_vectors() {
    let vectors = vectors();
    let check = |name: &str, code: &dyn Fn(&Value) -> Vec<u8>| {
        for pair in list(&vectors["numbers"][name]) {
            assert_eq!(code(&pair[0]), bytes(&pair[1]), "{name}: {pair}");
        }
    };
    check("rate_bytes_per_second", &|value| {
        Feedback::from(rate(value)).0.to_vec()
    });
    check("time_us", &|value| {
        CompactTime::from_duration(micros(value))
            .to_bytes()
            .to_vec()
    });
    check("flows", &|value| vec![flows(value).0]);
    check("bytes", &|value| {
        CompactBytes::from_bytes(number(value))
            .0
            .to_be_bytes()
            .to_vec()
    });
    check("window_change_256ths", &|value| {
        Feedback::from(change(value)).0.to_vec()
    });
}

#[test]
fn headers_have_the_bytes_of_the_vectors() {
    let vectors = vectors();
    assert_eq!(bytes(&vectors["magic"]), PATH_HEADER_MAGIC);
    for vector in list(&vectors["headers"]) {
        let header = bytes(&vector["header"]);
        let repr = repr(&vector["fields"]);
        assert_eq!(repr.emit()[..], header, "{}", vector["name"]);
        let view = PathHeaderView::parse(&header).unwrap();
        assert_eq!(PathHeaderRepr::parse(&view), repr, "{}", vector["name"]);
        assert_eq!(view.covered_by_tag()[..], bytes(&vector["covered"]));
    }
}

#[test]
fn payloads_are_split_as_the_vectors_say() {
    for vector in list(&vectors()["payloads"]) {
        let payload = bytes(&vector["payload"]);
        assert_eq!(
            outcome(PathHeaderView::parse(&payload)),
            vector["result"],
            "{}",
            vector["name"]
        );
        let rest = split_path_header(&payload).map_or(&payload[..], |(_, rest)| rest);
        let taken_off = payload.len() - rest.len();
        assert_eq!(
            taken_off as u64,
            number(&vector["taken_off"]),
            "{}",
            vector["name"]
        );
    }
}

#[test]
fn packets_are_skipped_as_the_vectors_say() {
    for vector in list(&vectors()["packets"]) {
        let mut packet = bytes(&vector["packet"]);
        let result = PathHeaderView::find(&packet);
        assert_eq!(outcome(result), vector["result"], "{}", vector["name"]);
        assert!(PathHeaderMut::find(&mut packet).is_err());
    }
}

#[test]
fn routers_make_of_packets_what_the_vectors_say() {
    for vector in list(&vectors()["stamps"]) {
        let mut packet = bytes(&vector["before"]);
        let mut header = PathHeaderMut::find(&mut packet).unwrap();
        for step in list(&vector["operations"]) {
            operation(step).apply(&mut header);
        }
        assert_eq!(packet, bytes(&vector["after"]), "{}", vector["name"]);
        assert!(udp_checksum(&packet).1);
    }
}

#[test]
fn tags_are_those_of_the_vectors() {
    for vector in list(&vectors()["tags"]) {
        let master: [u8; 16] = bytes(&vector["master"]).try_into().unwrap();
        let block = |number: u8| {
            let mut input = number_bytes(&vector["generation"]).to_vec();
            input.push(number);
            sip_hash(&master, &input).to_le_bytes()
        };
        let key: [u8; 16] = [block(0), block(1)].concat().try_into().unwrap();
        assert_eq!(key[..], bytes(&vector["key"]));
        let [a, b, c, ..] = block(2);
        let offset = u64::from(u32::from_be_bytes([0, a, b, c]));
        assert_eq!(offset, number(&vector["offset"]));

        let header = bytes(&vector["header"]);
        let view = PathHeaderView::parse(&header).unwrap();
        let sent = number(&vector["sent_us"]);
        assert_eq!(
            view.timestamp(),
            HeaderTimestamp::from_micros(sent + offset)
        );
        assert_eq!(view.phase(), number(&vector["generation"]) % 2 == 1);
        assert_eq!(view.covered_by_tag()[..], bytes(&vector["covered"]));
        let input = [
            &number_bytes(&vector["sent_us"])[..],
            &view.covered_by_tag(),
        ]
        .concat();
        assert_eq!(view.tag(), sip_hash(&key, &input).to_le_bytes()[..4]);
        assert_eq!(view.tag()[..], bytes(&vector["tag"]));
    }
}

fn number_bytes(value: &Value) -> [u8; 8] {
    number(value).to_be_bytes()
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
fn sip_hash(key: &[u8; 16], message: &[u8]) -> u64 {
    let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().unwrap());
    let mut state = [
        half(0) ^ 0x736f_6d65_7073_6575,
        half(8) ^ 0x646f_7261_6e64_6f6d,
        half(0) ^ 0x6c79_6765_6e65_7261,
        half(8) ^ 0x7465_6462_7974_6573,
    ];
    let mut padded = message.to_vec();
    padded.resize(message.len() / 8 * 8 + 7, 0);
    padded.push(u8::try_from(message.len() % 256).unwrap());
    for word in padded.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        state[3] ^= word;
        sip_rounds(&mut state, 2);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    sip_rounds(&mut state, 4);
    state.into_iter().fold(0, |hash, word| hash ^ word)
}

fn sip_rounds([a, b, c, d]: &mut [u64; 4], rounds: u32) {
    for _ in 0..rounds {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}
