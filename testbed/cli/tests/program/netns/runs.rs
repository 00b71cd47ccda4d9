//! What runs come to, beside virtual time.

use std::fs;
use std::io::Read;

use evenkeel_tests::one_of_three_tries;

use super::{ROUTERS, assert_nothing_left, start};
use crate::support::{alone, has_namespaces, number, on_sim, result_of, scenario, text};

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn the_kernel_and_virtual_time_agree_and_two_runs_at_once_do_not_meet() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let name = scenario("dumbbell.toml");
        let controllers = ["vegas", "reno"];
        // A whole number of Reno's saws (7.4 s each) after the warm-up.
        let settings = |controller: &str| {
            let controller = format!("flows.0.controller={controller}");
            let [bottleneck, access] = ROUTERS.map(Into::into);
            [
                controller,
                "duration_s=32.2".into(),
                "warmup_s=10".into(),
                bottleneck,
                access,
            ]
        };
        let runs = controllers.map(|controller| {
            let settings = settings(controller);
            start(&name, &settings.each_ref().map(String::as_str))
        });
        for ((child, _directory), controller) in runs.into_iter().zip(controllers) {
            let pid = child.id();
            let kernel = result_of(child);
            let virtual_time = on_sim(&name, &settings(controller).each_ref().map(String::as_str));
            assert_eq!(kernel["backend"], "netns");
            let throughput =
                |result: &serde_json::Value| number(&result["flows"][0]["throughput_bps"]);
            let ratio = throughput(&kernel) / throughput(&virtual_time);
            assert!(
                (0.95..=1.05).contains(&ratio),
                "{controller}: throughput ratio {ratio}"
            );
            let queue =
                |result: &serde_json::Value| number(&result["links"][0]["queue_packets"]["mean"]);
            let (here, there) = (queue(&kernel), queue(&virtual_time));
            assert!(
                (here - there).abs() <= 2.0,
                "{controller}: queue {here} and {there}"
            );
            assert_eq!(kernel["flows"][0]["error"], serde_json::Value::Null);
            assert_nothing_left(pid);
        }
    });
}

#[test]
fn both_versions_of_ip_pass_a_router_that_stamps_them() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("both.toml");
    fs::write(&path, crate::support::BOTH_VERSIONS).expect("it can be written");
    let (child, _out) = start(path.to_str().expect("a path in UTF-8"), &[]);
    crate::support::assert_both_versions(&result_of(child));
}

#[test]
fn controllers_of_the_testbed_alone_run_on_the_kernel_beside_those_that_ship() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let name = scenario("dumbbell.toml");
    let settings = [
        "duration_s=3",
        "warmup_s=1",
        "flows.0.count=1",
        "flows.0.controller=noq-bbr3",
    ];
    let (child, _out) = start(&name, &settings);
    let flow = &result_of(child)["flows"][0];
    assert_eq!(flow["controller"], "noq-bbr3");
    assert_eq!(flow["error"], serde_json::Value::Null);
    assert!(number(&flow["transfers"]["bytes"]) > 10_000.0, "{flow}");
}

#[test]
fn the_kernels_own_tcp_runs_beside_quic_and_leaves_the_same_records() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let settings = [
        "duration_s=4",
        "warmup_s=1",
        "flows.1.controller=reno",
        "flows.1.count=2",
        "mtu=1280",
        "flows.1.ip_version=6",
    ];
    let (child, directory) = start(&scenario("linux-tcp.toml"), &settings);
    let result = result_of(child);
    let series = fs::read(directory.path().join("series.json")).expect("it is there");
    let series: serde_json::Value = serde_json::from_slice(&series).expect("JSON");
    for number_of in 1..=2 {
        let flow = &result["flows"][number_of];
        assert_eq!(flow["error"], serde_json::Value::Null);
        assert_eq!(flow["controller"], "reno");
        assert!(number(&flow["transfers"]["bytes"]) > 10_000.0, "{flow:#}");
        assert!(number(&flow["sent_packets"]) > 10.0, "{flow:#}");
        let (ip, app) = (&flow["throughput_bps"], &flow["goodput_bps"]);
        assert!(number(ip) > number(app), "headers count: {flow:#}");
        // There and back.
        assert!(number(&flow["rtt_ms"]["min"]) > 39.0, "{flow:#}");
        let windows = series["flows"][number_of]["window_bytes"].as_array();
        let mut windows = windows.expect("a series").iter();
        assert!(windows.any(|window| window.as_u64() > Some(2000)));
    }
    assert_eq!(result["unseeded"], serde_json::Value::Null);

    let sized = [
        "duration_s=4",
        "warmup_s=0",
        "flows.0.stop_s=0.1",
        "flows.1.bytes=123456",
    ];
    let (child, _directory) = start(&scenario("linux-tcp.toml"), &sized);
    let transfers = &result_of(child)["flows"][1]["transfers"];
    assert_eq!(
        (&transfers["started"], &transfers["completed"]),
        (&1.into(), &1.into())
    );
    assert_eq!(transfers["bytes"], 123_456);
}

#[test]
#[ignore = "takes 40 s of real time; .ci/full runs it"]
fn the_league_plays_on_the_kernel_and_says_so() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let one = ["--controllers", "noq-bbr3", "--cases", "start/100-kB"];
    let output = crate::support::testbed(&["league", "--quick", "--on", "netns", "--out", out])
        .args(one)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = fs::read_to_string(directory.path().join("league.json")).expect("it is there");
    let document: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(document["backend"], "netns");
    let command = document["cases"][0]["command"].as_str();
    assert!(command.is_some_and(|line| line.contains(" --on netns ")));
    let completion = &document["results"][0]["figures"]["completion_s"][0];
    assert!(number(completion) > 0.08, "two round trips: {completion}");
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn path_headers_report_on_the_kernel_as_they_do_in_virtual_time() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let name = scenario("dumbbell.toml");
        let settings = [
            "duration_s=16",
            "warmup_s=6",
            "flows.0.count=2",
            "flows.0.pacing=controller",
            "flows.0.path_headers=1",
            "links.0.stamps=[\"aqt\", \"flows\"]",
        ];
        let (child, directory) = start(&name, &settings);
        let kernel = result_of(child);
        let virtual_time = on_sim(&name, &settings);
        for result in [&kernel, &virtual_time] {
            let link = &result["links"][0];
            // Little's law: mean queue over packets per second, of 10 s.
            let forwarded = number(&link["forwarded"]);
            let wait = number(&link["queue_packets"]["mean"]) * 10_000.0 / forwarded;
            for flow in result["flows"].as_array().expect("flows") {
                assert_eq!(flow["pacing"], "controller");
                let path = &flow["path"];
                // A machine that is busy otherwise keeps an answer for longer than a probe timeout.
                assert_ne!(path["state"], "plain", "{path:#}");
                assert!(number(&path["echoes"]) > 100.0, "{path:#}");
                assert_eq!(path["unusable_echoes"], 0, "{path:#}");
                assert_eq!(path["forged"], 0, "{path:#}");
                let told = number(&path["forward_queueing_ms"]["mean"]);
                // Each flow's own packets: the mean of all within a packet's time, 5 ms.
                assert!((told - wait).abs() < 5.0, "{told} ms told of {wait}");
                assert_eq!(path["flows"], 2, "{path:#}");
            }
            let headers = &link["headers"];
            assert!(
                number(&headers["stamped"]) > 0.9 * forwarded,
                "{headers:#} of {forwarded}"
            );
            let counted = number(&link["stamps"]["flows"]["flows"]);
            assert!((1.9..=2.1).contains(&counted), "{counted} flows");
        }
        let told = |result: &serde_json::Value| {
            number(&result["flows"][0]["path"]["forward_queueing_ms"]["mean"])
        };
        let (here, there) = (told(&kernel), told(&virtual_time));
        assert!((here - there).abs() <= 10.0, "{here} ms and {there} ms");
        for file in ["queueing.svg", "series.json"] {
            assert!(directory.path().join(file).is_file(), "{file}");
        }
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn ro_vegas_fills_the_link_on_the_kernel_where_half_of_the_acks_fit_and_vegas_gets_half_of_it() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        // RoVegas, Fig. 7: 200 packets a second there, 100 ACKs of 64 bytes a second back.
        let used = |settings: &[&str]| {
            let network = [
                "duration_s=30",
                "warmup_s=12",
                "flows.0.pacing=controller",
                "links.0.reverse.rate_bps=51200",
                "links.0.reverse.queue_packets=10",
            ];
            let (child, _directory) = start(
                &scenario("asymmetric.toml"),
                &[&network[..], settings].concat(),
            );
            number(&result_of(child)["links"][0]["utilization"])
        };
        let vegas = used(&[]);
        assert!((0.45..=0.55).contains(&vegas), "Vegas: {vegas}");
        let ro_vegas = used(&[
            "flows.0.controller=ro-vegas",
            "links.0.stamps=['aqt']",
            "access.stamps=['aqt']",
        ]);
        assert!(ro_vegas >= 0.97, "RoVegas: {ro_vegas}");
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn acp_users_have_their_max_min_shares_of_two_routers_on_the_kernel() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let link = |name| {
            format!(
                "[[links]]\nname = '{name}'\nrate_bps = 20000000\ndelay_ms = 10\nqueue_packets = 200\n\
                 stamps = ['aqt', 'acp']\n"
            )
        };
        let flow = |name, ends, count| {
            format!(
                "[[flows]]\nname = '{name}'\napp = 'bulk'\ncontroller = 'acp'\ncount = {count}\n\
                 stagger_s = 0.3\n{ends}\n"
            )
        };
        let text = [
            "name = 'two-routers'\nduration_s = 30\nwarmup_s = 20\ntopology = 'chain'\n".into(),
            link("one"),
            link("two"),
            flow("both", "", 1),
            flow("first", "from = 'r0'\nto = 'r1'", 1),
            flow("second", "from = 'r1'\nto = 'r2'", 2),
        ];
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("two-routers.toml");
        fs::write(&path, text.concat()).expect("it can be written");
        let (child, _results) = start(path.to_str().expect("a path in UTF-8"), &[]);
        let result = result_of(child);
        // Three share the second link; the other user of the first takes what they leave there.
        let third = 0.99 * 20e6 / 3.0;
        let shares = [
            ("both", third),
            ("first", 2.0 * third),
            ("second-0", third),
            ("second-1", third),
        ];
        for (flow, (name, share)) in result["flows"]
            .as_array()
            .expect("flows")
            .iter()
            .zip(shares)
        {
            assert_eq!(flow["name"], name);
            let got = number(&flow["throughput_bps"]) / share;
            // On a busy machine who passes two daemons has up to 6 % less; with cubic, which knows
            // nothing of shares, it has 21 % less, with vegas 36 % (in virtual time).
            assert!((0.92..=1.06).contains(&got), "{name}: {got} of its share");
        }
        for link in result["links"].as_array().expect("links") {
            assert_eq!(number(&link["dropped"]), 0.0, "{}", link["name"]);
        }
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_file_of_twenty_megabytes_arrives_identical_over_a_lossy_link() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("data.bin");
    let mut bytes = Vec::new();
    let mut random = fs::File::open("/dev/urandom")
        .expect("a kernel")
        .take(20_000_000);
    random.read_to_end(&mut bytes).expect("random bytes");
    fs::write(&file, bytes).expect("a writable directory");
    // The scenario's transfer has a length; this one has a file instead.
    let text = fs::read_to_string(scenario("lossy.toml")).expect("it is there");
    let with_file = text.replace(
        "bytes = 20_000_000",
        &format!("file = {:?}", file.display().to_string()),
    );
    assert_ne!(text, with_file);
    let path = directory.path().join("file.toml");
    fs::write(&path, with_file).expect("a writable directory");
    let controller = "flows.0.controller=cubic";
    let (child, _out) = start(
        path.to_str().expect("UTF-8"),
        &["duration_s=45", controller],
    );
    let result = result_of(child);
    let transfers = &result["flows"][0]["transfers"];
    assert_eq!(transfers["completed"], 1, "{result:#}");
    assert_eq!(transfers["bytes"], 20_000_000);
    assert_eq!(transfers["sha256_verified"], true);
    assert!(
        number(&result["links"][0]["lost"]) > 50.0,
        "the link lost packets"
    );
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn cross_traffic_and_short_flows_run_on_the_kernel_too() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let (cross, _first) = start(
        &scenario("vbr.toml"),
        &["duration_s=12", "warmup_s=2", "cross.0.start_s=1"],
    );
    let (short, _second) = start(
        &scenario("short-flows.toml"),
        &["duration_s=10", "warmup_s=1"],
    );
    let cross = result_of(cross);
    let load = number(&cross["links"][1]["arrived"]) * 1228.0 * 8.0 / 10.0 / 1_964_800.0;
    // 80 ON/OFF periods: a wide band around 0.9, ACKs on top.
    assert!((0.4..=1.5).contains(&load), "load {load}");
    let short = result_of(short);
    let web = &short["flows"][1];
    assert_eq!(web["error"], serde_json::Value::Null);
    assert!(number(&web["transfers"]["completed"]) >= 40.0, "{web:#}");
}
