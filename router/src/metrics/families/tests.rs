use evenkeel_queue::Amount;

use super::*;
use crate::status::Degraded;
use crate::status::testing::status;
use crate::status::{ClassStatus, FlowStatus};

fn text_of(status: Status) -> String {
    let sojourns = status.links.iter().map(|_| DurationHistogram::default());
    let sojourns = sojourns.collect();
    text(Figures { status, sojourns })
}

#[test]
fn each_link_has_its_figures_under_the_documented_names() {
    let mut figures = status(&["up", "down"]);
    let link = &mut figures.links[0];
    link.total.forwarded = Amount {
        packets: 3,
        bytes: 4500,
    };
    link.total.dropped_full = Amount::one(1500);
    link.total.ring_dropped = 7;
    link.total.headers.stamped = 2;
    link.total.headers.kind = 1;
    let stamp = |figure: &str, value| [(figure.to_owned(), value)].into();
    link.stamps.insert("flows".to_owned(), stamp("flows", 30.5));
    link.stamps
        .insert("rcp".to_owned(), stamp("offered_bps", 1e6));
    let text = text_of(figures);
    for line in [
        r#"evenkeel_router_uptime_seconds{router="r1"} 10.0"#,
        r#"evenkeel_router_link_rate_bps{router="r1",link="up"} 8000000.0"#,
        r#"evenkeel_router_link_forwarded_packets_total{router="r1",link="up"} 3"#,
        r#"evenkeel_router_link_forwarded_bytes_total{router="r1",link="up"} 4500"#,
        r#"evenkeel_router_link_forwarded_bytes_total{router="r1",link="down"} 0"#,
        r#"evenkeel_router_link_dropped_packets_total{router="r1",link="up",reason="full"} 1"#,
        r#"evenkeel_router_link_dropped_packets_total{router="r1",link="up",reason="ring"} 7"#,
        r#"evenkeel_router_link_stamped_headers_total{router="r1",link="up"} 2"#,
        r#"evenkeel_router_link_refused_headers_total{router="r1",link="up",reason="kind"} 1"#,
        r#"evenkeel_router_link_flows{router="r1",link="up",stamp="flows"} 30.5"#,
        r#"evenkeel_router_link_grant_bps{router="r1",link="up",stamp="rcp"} 1000000.0"#,
        r#"evenkeel_router_link_degraded{router="r1",link="up"} 0.0"#,
        r#"evenkeel_router_link_sojourn_seconds_bucket{router="r1",le="0.0001",link="up"} 0"#,
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(!text.contains("degraded_reason"), "nothing is degraded");
    assert!(!text.contains(r#"stamped_headers_total{router="r1",link="down""#));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn classes_and_the_heaviest_flows_have_figures() {
    let mut figures = status(&["up"]);
    figures.links[0].classes = vec![ClassStatus {
        class: "bulk".to_owned(),
        flows: 2,
        queued: Amount::one(1500),
        forwarded: Amount {
            packets: 3,
            bytes: 4500,
        },
        dropped: Amount::one(1500),
        marked: Amount::ZERO,
    }];
    figures.links[0].flows = vec![FlowStatus {
        flow: "udp 10.0.1.1:5 > 10.0.2.1:6".to_owned(),
        class: Some("bulk".to_owned()),
        rate_bps: 36_000,
        forwarded: Amount::one(1500),
        queued: Amount::one(1500),
        dropped: 1,
        marked: 4,
        grant_bps: None,
    }];
    let text = text_of(figures);
    let flow = r#"link="up",flow="udp 10.0.1.1:5 > 10.0.2.1:6",class="bulk"}"#;
    for line in [
        r#"evenkeel_router_link_class_forwarded_bytes_total{router="r1",link="up",class="bulk"} 4500"#,
        r#"evenkeel_router_link_class_dropped_packets_total{router="r1",link="up",class="bulk"} 1"#,
        r#"evenkeel_router_link_class_flows{router="r1",link="up",class="bulk"} 2.0"#,
        &format!(r#"evenkeel_router_link_flow_rate_bps{{router="r1",{flow} 36000.0"#),
        &format!(r#"evenkeel_router_link_flow_marked_packets{{router="r1",{flow} 4.0"#),
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(!text.contains("flow_grant_bps{"), "it has none");
}

#[test]
fn a_reason_cannot_end_its_label() {
    let mut figures = status(&["up"]);
    figures.links[0].degraded = Some(Degraded {
        reason: "device \"vb\" is down\n\\".to_owned(),
        since_s: 2.5,
    });
    let text = text_of(figures);
    let line = r#"evenkeel_router_link_degraded_reason_info{router="r1",link="up",reason="device \"vb\" is down\n\\"} 1"#;
    assert!(text.lines().any(|other| other == line), "{text}");
    assert!(text.contains("link_degraded_seconds{router=\"r1\",link=\"up\"} 2.5\n"));
}
