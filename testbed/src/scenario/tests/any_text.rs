//! No text, however odd, makes the reader panic.

use proptest::prelude::*;

use super::*;

fn is_one_line(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_control())
}

/// Words and numbers of scenario files, so that random documents come near to real ones.
fn token() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "name",
        "duration_s",
        "warmup_s",
        "seed",
        "topology",
        "links",
        "flows",
        "cross",
        "access",
        "rate_bps",
        "delay_ms",
        "queue_packets",
        "loss",
        "reverse",
        "app",
        "controller",
        "count",
        "start_s",
        "stop_s",
        "load",
        "on_s",
        "off_s",
        "begins",
        "kind",
        "from",
        "to",
        "onoff",
        "short",
        "blackouts",
        "changes",
        "changes_period_s",
        "cellular",
        "min_bps",
        "max_bps",
        "police_bps",
        "police_burst_bytes",
        "gilbert_elliott",
        "ecn",
        "mark",
        "corrupt",
        "\"bleach\"",
        "\"remark\"",
        "aggregate_ms",
        "aggregate_packets",
        "duplicate",
        "ip_version",
        "sampling.interval_ms",
        "pacing",
        "path_headers",
        "idle_timeout_s",
        "probe_interval_s",
        "pauses",
        "rebinds_s",
        "packet_threshold",
        "time_threshold",
        "\"dumbbell\"",
        "\"chain\"",
        "\"bulk\"",
        "\"cbr\"",
        "\"exponential\"",
        "\"left\"",
        "[[",
        "]]",
        "[",
        "]",
        "{",
        "}",
        "=",
        ".",
        ",",
        "\n",
        "0",
        "1",
        "100",
        "-1",
        "1e300",
        "nan",
        "inf",
        "0.5",
        "9223372036854775807",
        "\"",
        "#",
        "true",
        "\u{7f}",
        "\0",
        "é",
    ])
    .prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "duration_s",
        "warmup_s",
        "seed",
        "mtu",
        "topology",
        "sampling",
        "interval_ms",
        "path_samples",
        "access",
        "links",
        "flows",
        "cross",
        "hosts",
        "0",
        "1",
        "name",
        "rate_bps",
        "trace",
        "delay_ms",
        "queue_packets",
        "queue_bytes",
        "discipline",
        "stamps",
        "loss",
        "jitter_ms",
        "reorder",
        "blackouts",
        "changes",
        "changes_period_s",
        "cellular",
        "outage_every_s",
        "police_bps",
        "police_burst_bytes",
        "gilbert_elliott",
        "ecn",
        "mark",
        "corrupt",
        "duplicate",
        "wifi_jitter_ms",
        "aggregate_ms",
        "aggregate_packets",
        "ip_version",
        "reverse",
        "app",
        "controller",
        "count",
        "start_s",
        "stagger_s",
        "start_spread_s",
        "stop_s",
        "from",
        "to",
        "bytes",
        "streams",
        "verify",
        "ack_every",
        "pacing",
        "path_headers",
        "ecn",
        "pauses",
        "rebinds_s",
        "packet_threshold",
        "time_threshold",
        "onoff",
        "on_s",
        "off_s",
        "begins",
        "shape",
        "short",
        "kind",
        "load",
        "packet_bytes",
        "access_delay_ms",
        "",
        "\n",
    ]);
    prop::collection::vec(key, 1..4).prop_map(|keys| keys.join("."))
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "3",
            "0.5",
            "1e9",
            "1e-300",
            "1e300",
            "nan",
            "inf",
            "true",
            "reno",
            "bulk",
            "onoff",
            "short",
            "cbr",
            "pareto",
            "left",
            "right",
            "dumbbell",
            "chain",
            "[]",
            "{}",
            "[{}]",
            "9223372036854775807",
            "18446744073709551616",
            "{on_s=1, off_s=2}",
            "[{start_s=1, length_s=1}]",
            "[{at_s=1, rate_bps=0}]",
            "[{at_s=1, mtu=1300}]",
            "bleach",
            "{p=0.1, r=0.5}",
            "{p=0.1, r=0.5, bad=2}",
            "{min_bps=1, max_bps=2}",
            "{min_bps=1, max_bps=2, outage_every_s=1e-3}",
            "1979-05-27",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        any::<f64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
    ]
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_one_line_of_complaint(text in any::<String>(), set in any::<String>()) {
        for overrides in [&[][..], &[set.as_str()]] {
            if let Err(message) = parse(&text, overrides) {
                prop_assert!(is_one_line(&message), "{message:?}");
            }
        }
    }

    #[test]
    fn any_tokens_are_a_scenario_or_one_line_of_complaint(tokens in prop::collection::vec(token(), 0..60)) {
        for text in [tokens.join(" "), format!("{DUMBBELL}{}", tokens.join(" "))] {
            if let Err(message) = parse(&text, &[]) {
                prop_assert!(is_one_line(&message), "{message:?}");
            }
        }
    }

    #[test]
    fn any_override_gives_a_scenario_or_one_line_that_names_its_place(path in path(), value in value()) {
        let text = format!("{DUMBBELL}[[cross]]\nname = \"u\"\nkind = \"exponential\"\nrate_bps = 3_000_000\nload = 0.5\non_s = 1\n");
        match parse(&text, &[&format!("{path}={value}")]) {
            Ok(scenario) => {
                prop_assert_eq!(&expanded(&scenario.to_toml(), &[]), &scenario);
                prop_assert!(scenario.flows.iter().all(|flow| flow.start < flow.stop && flow.stop <= scenario.duration));
                prop_assert!(scenario.warmup < scenario.duration);
            }
            Err(message) => {
                prop_assert!(is_one_line(&message), "{message:?}");
                let named = message.starts_with("--set ") || message.starts_with("d.toml:");
                prop_assert!(named, "{message}");
            }
        }
    }
}
