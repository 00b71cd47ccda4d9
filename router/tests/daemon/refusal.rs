use std::process::{Command, Output};

use evenkeel_tests::skip::{Need, can_run};
use rustix::process::Signal;

use crate::raw::forwards;
use crate::support::{Host, Lab, Versions, link};

/// The lines on standard error, without the program's name, and the exit status.
fn refusals(output: &Output) -> (i32, Vec<String>) {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.stdout.is_empty());
    let without_name = |line: &str| {
        let line = line.strip_prefix("evenkeel-router: ");
        line.expect("the program's name comes first").to_owned()
    };
    let lines = stderr.lines().map(without_name).collect();
    (output.status.code().unwrap(), lines)
}

/// The one line on standard error, after checking that it is one, and the exit status.
fn refusal(output: &Output) -> (i32, String) {
    let (code, mut lines) = refusals(output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    (code, lines.remove(0))
}

impl Lab {
    /// What `check` and `run` say to a configuration that both refuse.
    pub(super) fn refused(&self, links: &str) -> (i32, String) {
        let config = self.write_config(links);
        let say = |command: &str| {
            let mut command = self.evenkeel_router(&[command, "--config"]);
            refusal(&command.arg(&config).output().unwrap())
        };
        let said = say("run");
        assert_eq!(say("check"), said);
        assert_eq!(self.leftovers(), "");
        said
    }
}

#[test]
fn a_good_configuration_is_explained_and_nothing_touched() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let config = lab.write_config(&link("rate_bps = 1e6"));
    let output = lab
        .evenkeel_router(&["check", "--config"])
        .arg(config)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("10.0.2.0/24 -> ek-bn (MTU 1500) -> table 1001 via 10.0.9.2 dev vb"),
        "{text}"
    );
    assert_eq!(lab.leftovers(), "");
    assert!(!lab.socket().exists());
}

#[test]
fn what_does_not_fit_the_host_is_refused_with_its_line() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let with_route = |route: &str| {
        format!("[[links]]\nname = \"l\"\ntun = \"ek-l\"\nroutes = [\n  {route}\n]\n")
    };
    let refused = |links: &str, said: &str| {
        let (code, line) = lab.refused(links);
        assert_eq!(code, 2, "{line}");
        assert!(line.contains("r1.toml:") && line.contains(said), "{line}");
        line
    };
    let line = refused(
        &with_route(r#"{ to = "10.0.2.0/24", via = "10.0.9.2", dev = "eth7" }"#),
        "no device \"eth7\"",
    );
    assert!(line.contains("r1.toml:7:"), "{line}");
    refused(
        &with_route(r#"{ to = "10.0.2.0/24", via = "10.7.7.7", dev = "vb" }"#),
        "no route to 10.7.7.7 by device \"vb\"",
    );
    refused(
        &with_route(r#"{ to = "10.0.9.0/24", dev = "vb" }"#),
        "10.0.9.0/24 is routed already",
    );
    lab.ip(Host::R, "link add ek-bn type veth peer name ek-other");
    let (code, line) = {
        let config = lab.write_config(&link(""));
        refusal(
            &lab.evenkeel_router(&["check", "--config"])
                .arg(config)
                .output()
                .unwrap(),
        )
    };
    assert!(
        code == 2 && line.contains("there is an interface of this name"),
        "{line}"
    );
    lab.ip(Host::R, "link del ek-bn");
    lab.ip(Host::R, "route add 10.99.0.0/24 via 10.0.9.2 table 1001");
    refused(
        &link(""),
        "table 1001 of link \"bottleneck\" is in use by a route to 10.99.0.0/24",
    );
    lab.ip(Host::R, "route del 10.99.0.0/24 table 1001");
    lab.ip(Host::R, "rule add iif va table 1001 priority 77");
    refused(&link(""), "in use by a rule (priority 77)");
    lab.ip(Host::R, "rule del iif va table 1001 priority 77");
    lab.ip(Host::R, "link set vb down");
    refused(&link(""), "device \"vb\" is down");
}

#[test]
fn what_is_explained_is_what_the_router_installs() {
    if !can_run(&[Need::program("nft", "nftables")]) {
        return;
    }
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    // A device that nobody has opened has no carrier.
    let installed = || {
        let text = lab.leftovers().replace("linkdown ", "");
        let lines = text.lines().filter(|line| line.contains("proto 107"));
        let mut lines: Vec<_> = lines.map(|line| line.trim().to_owned()).collect();
        lines.sort();
        let mut nft = lab.command(Host::R, "nft");
        let table = nft.args(["list", "table", "inet", "evenkeel-r1"]).output();
        let table = String::from_utf8(table.unwrap().stdout).unwrap();
        // Without that it is the router's own, and what was counted.
        let but = ["table inet", "flags owner", " packets "];
        let rules = table.lines().map(str::trim).filter(|line| {
            let mut but = but.iter();
            !line.is_empty() && !but.any(|words| line.contains(words))
        });
        lines.extend(rules.map(str::to_owned));
        lines
    };
    let config = lab.write_config(&link("rate_bps = 1e6"));
    let mut check = lab.evenkeel_router(&["check", "--explain", "--config"]);
    let output = check.arg(&config).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let script = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lab.leftovers(), "");
    let router = lab.start(&link("rate_bps = 1e6"));
    let by_router = installed();
    router.stop(Signal::TERM);
    let mut shell = lab.command(Host::R, "sh");
    let output = shell.args(["-ec", &script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{output:?}");
    assert_eq!(installed(), by_router, "{script}");
    for setting in [
        "ipv4/conf/ek-bn/accept_local",
        "ipv6/conf/ek-bn/addr_gen_mode",
    ] {
        assert!(
            script.contains(&format!("sysctl -w net/{setting}=1")),
            "{script}"
        );
    }
}

#[test]
fn all_that_does_not_fit_the_host_is_told_at_once() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.set(Host::R, "ipv4/ip_forward", "0");
    lab.ip(Host::R, "link add ek-bn type veth peer name ek-other");
    let config = lab.write_config(&link("").replace("\"vb\"", "\"eth7\""));
    let mut check = lab.evenkeel_router(&["check", "--config"]);
    let (code, lines) = refusals(&check.arg(config).output().unwrap());
    assert_eq!(code, 2);
    for said in [
        "net/ipv4/ip_forward is 0",
        "there is an interface of this name",
        "no device \"eth7\"",
    ] {
        let are_so = lines.iter().filter(|line| line.contains(said));
        assert_eq!(are_so.count(), 1, "{lines:?}");
    }
}

#[test]
fn six_mistakes_of_a_file_are_six_lines_of_check_and_run() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("r.toml");
    let text = "name = \"r\"\n\
        [[links]]\nname = \"one\"\ntun = \"ek-one\"\nspeed = 3\nrate_bps = true\n\
        routes = [{ to = \"10.0.2.0/24\", dev = \"v\" }]\n\
        [[links]]\nname = \"two\"\ntun = \"ek-two\"\nloss = 2\ndiscipline = \"rde\"\n\
        stamps = [\"acp:gama=1\"]\nroutes = [{ to = \"10.0.3.0/24\" }]\n";
    std::fs::write(&config, text).unwrap();
    let expected = [
        "5: links.0.speed: unknown key \"speed\" in [[links]]; use one of name, tun,",
        "6: links.0.rate_bps is true or false; it must be",
        "11: links.1.loss = 2 is out of range; use 0 to 1",
        "12: links.1.discipline: unknown discipline \"rde\": did you mean red? use one of",
        "13: links.1.stamps.0: acp has no parameter \"gama\": did you mean gamma? use one of",
        "14: links.1.routes.0: routes has no dev; add one",
    ];
    for command in ["check", "run"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel-router"));
        program.args([command, "--config"]).arg(&config);
        let (code, lines) = refusals(&program.output().unwrap());
        assert_eq!((code, lines.len()), (2, 6), "{lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            let expected = format!("{}:{expected}", config.display());
            assert!(line.starts_with(&expected), "{line:?} for {expected:?}");
        }
    }
}

#[test]
fn settings_that_would_swallow_packets_are_refused_with_the_remedy() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let cases = [
        ("ipv4/ip_forward", "0", "1"),
        ("ipv4/conf/all/rp_filter", "1", "0"),
        ("ipv4/conf/all/rp_filter", "2", "0"),
        ("ipv4/conf/vb/rp_filter", "1", "0"),
        ("ipv6/conf/all/forwarding", "0", "1"),
    ];
    for (setting, value, remedy) in cases {
        lab.set(Host::R, setting, value);
        let (code, line) = lab.refused(&link(""));
        assert_eq!(code, 1, "{line}");
        assert!(
            line.starts_with(&format!("net/{setting} is {value}: ")),
            "{line}"
        );
        assert!(
            line.ends_with(&format!("sysctl -w net/{setting}={remedy}")),
            "{line}"
        );
        lab.set(Host::R, setting, remedy);
        // Switching IPv6 forwarding off has removed what routers may not have.
    }
    lab.start(&link("")).stop(Signal::TERM);
}

#[test]
fn a_name_or_a_table_that_is_taken_is_refused() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let _router = lab.start(&link(""));
    let config = lab.directory().join("r1.toml");
    let say = |command: &str| {
        let mut command = lab.evenkeel_router(&[command, "--config"]);
        command.arg(&config).output().unwrap()
    };
    let (code, line) = refusal(&say("run"));
    assert!(
        code == 1 && line.starts_with("a router is running on "),
        "{line}"
    );
    // A check beside the router that runs the file says what a reload would do.
    let checked = say("check");
    assert!(checked.status.success(), "{checked:?}");
    let other = lab.directory().join("other.toml");
    let refused = |text: &str, said: &str| {
        let socket = lab.directory().join("other.sock");
        std::fs::write(&other, format!("name = \"o\"\nsocket = {socket:?}\n{text}")).unwrap();
        let output = lab
            .evenkeel_router(&["run", "--config"])
            .arg(&other)
            .output()
            .unwrap();
        let (code, line) = refusal(&output);
        assert!(code == 2 && line.contains(said), "{line}");
        assert!(!socket.exists());
    };
    let route = "routes = [{ to = \"10.0.1.1/32\", dev = \"va\" }]";
    refused(
        &format!("[[links]]\nname = \"l\"\ntun = \"ek-bn\"\n{route}"),
        "there is an interface of this name",
    );
    refused(
        &format!("[[links]]\nname = \"l\"\ntun = \"ek-l\"\n{route}"),
        "in use by another router's device \"ek-bn\"",
    );
    let files = lab.directory().join("r1.sock.file");
    std::fs::write(&files, "").unwrap();
    std::fs::write(
        &other,
        format!(
            "name = \"o\"\nsocket = {files:?}\n[[links]]\nname = \"l\"\ntun = \"ek-l\"\n{route}"
        ),
    )
    .unwrap();
    let (code, line) = refusal(
        &lab.evenkeel_router(&["run", "--config"])
            .arg(&other)
            .output()
            .unwrap(),
    );
    assert!(
        code == 1 && line.contains("exists and is no socket"),
        "{line}"
    );
}

#[test]
fn without_the_privilege_or_the_device_the_line_says_what_to_do() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let config = lab.write_config(&link(""));
    let program = env!("CARGO_BIN_EXE_evenkeel-router");
    for command in ["run", "check"] {
        let mut unprivileged = lab.command(Host::R, "setpriv");
        unprivileged.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
        unprivileged.args([program, command, "--config"]);
        let (code, line) = refusal(&unprivileged.arg(&config).output().unwrap());
        assert_eq!(code, 1);
        assert!(
            line.contains(
                "may not change the host's network; run as root, or give the program CAP_NET_ADMIN"
            ),
            "{line}"
        );
    }
    let mut without_tun = lab.command(Host::R, "unshare");
    let script = format!(
        "mount -t tmpfs none /dev/net && exec {program} run --config {}",
        config.display()
    );
    let (code, line) = refusal(
        &without_tun
            .args(["-m", "sh", "-c", &script])
            .output()
            .unwrap(),
    );
    assert_eq!(code, 1);
    assert!(
        line.starts_with("there is no /dev/net/tun; load it with `modprobe tun`"),
        "{line}"
    );
    assert_eq!(lab.leftovers(), "");
}

const ROUTES: &str = r#"routes = [{ to = "10.0.2.0/24", dev = "v" }]"#;

#[test]
fn mistakes_on_the_command_line_are_told_without_root() {
    let say = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_evenkeel-router"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let (code, line) = refusal(&say(&["check", "--config", "/nonexistent.toml"]));
    assert_eq!(code, 2);
    assert!(
        line.starts_with("cannot read the configuration /nonexistent.toml"),
        "{line}"
    );
    let (code, line) = refusal(&say(&["status", "--socket", "/nonexistent.sock"]));
    assert_eq!(code, 1);
    assert!(
        line.starts_with("no answer from /nonexistent.sock"),
        "{line}"
    );
    for wrong in [
        &[][..],
        &["walk"],
        &["run"],
        &["status", "--name", "a", "--socket", "b"],
    ] {
        assert_eq!(say(wrong).status.code(), Some(2));
    }
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("r.toml");
    std::fs::write(
        &config,
        format!("name = \"r\"\n[[links]]\nname = \"l\"\nspeed = 3\ntun = \"ek-l\"\n{ROUTES}\n"),
    )
    .unwrap();
    let (code, line) = refusal(&say(&["check", "--config", config.to_str().unwrap()]));
    assert_eq!(code, 2);
    assert!(
        line.contains("r.toml:4: links.0.speed: unknown key \"speed\" in [[links]]; use one of"),
        "{line}"
    );
}

#[test]
fn diagnostics_are_printed_if_asked_for_and_not_else() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("r1.toml");
    std::fs::write(
        &config,
        format!("name = \"r1\"\n{}", link("rate_bps = 10e6")),
    )
    .unwrap();
    let said = |options: &[&str], variable: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel-router"))
            .args(options)
            .args(["check", "--config"])
            .arg(&config)
            .env("RUST_LOG", variable)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (
            text.contains("DEBUG evenkeel_router"),
            text,
            output.status.code(),
        )
    };
    assert!(!said(&[], "").0);
    assert!(!said(&[], "quinn=trace").0);
    assert!(!said(&["-q"], "debug").0);
    for (options, variable) in [
        (&["-v"][..], ""),
        (&["-vv"], "info"),
        (&[], "evenkeel_router=debug"),
    ] {
        let (printed, text, _) = said(options, variable);
        assert!(printed && text.contains("configured"), "{text}");
    }
    let (_, text, status) = said(&[], "a=b=c");
    assert_eq!(status, Some(2), "{text}");
    assert!(
        text.starts_with("evenkeel-router: RUST_LOG cannot be read: "),
        "{text}"
    );
}

#[test]
fn all_settings_that_are_wrong_are_named_at_once() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.set(Host::R, "ipv4/ip_forward", "0");
    lab.set(Host::R, "ipv4/conf/all/rp_filter", "1");
    let config = lab.write_config(&link("rate_bps = 1e6"));
    let mut check = lab.evenkeel_router(&["check", "--config"]);
    let (code, lines) = refusals(&check.arg(config).output().unwrap());
    assert_eq!(code, 1);
    for setting in ["net/ipv4/ip_forward=1", "net/ipv4/conf/all/rp_filter=0"] {
        let named = |line: &&String| line.contains(setting);
        assert_eq!(lines.iter().filter(named).count(), 1, "{lines:?}");
    }
}

#[test]
fn a_rule_that_leads_packets_past_a_link_is_refused() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.ip(
        Host::R,
        "route add 10.0.0.0/16 via 10.0.9.2 dev vb table 100",
    );
    // These lead nothing past the link: one is for other destinations, one finds nothing in its
    // table, one comes after the main table.
    lab.ip(Host::R, "rule add to 10.7.0.0/16 lookup 100 priority 501");
    lab.ip(Host::R, "rule add from 10.0.1.0/24 lookup 101 priority 502");
    lab.ip(Host::R, "rule add from all lookup 100 priority 32766");
    let router = lab.start(&link("rate_bps = 1e6"));
    assert_eq!(router.link()["degraded"], serde_json::Value::Null);
    router.stop(Signal::TERM);
    lab.ip(Host::R, "rule add from 10.0.1.0/24 lookup 100 priority 500");
    let (code, line) = lab.refused(&link("rate_bps = 1e6"));
    assert_eq!(code, 2);
    let cause = "a rule (priority 500) leads packets to 10.0.2.0/24 past the link, by table 100";
    assert!(line.contains(cause), "{line}");
    lab.ip(Host::R, "rule del priority 500");
    // Nor is nowhere on the way.
    for nowhere in ["unreachable", "blackhole", "prohibit"] {
        lab.ip(
            Host::R,
            &format!("route replace {nowhere} default table 103"),
        );
        for (rule, does) in [
            ("lookup 103", "leads packets to 10.0.2.0/24 past the link"),
            ("to 10.0.2.9 type blackhole", "drops packets to 10.0.2.0/24"),
            ("iif ek-bn lookup 103", "keeps packets to 10.0.2.0/24"),
        ] {
            lab.ip(Host::R, &format!("rule add {rule} priority 500"));
            let (code, line) = lab.refused(&link("rate_bps = 1e6"));
            assert!(
                code == 2 && line.contains(does),
                "{nowhere}, {rule}: {line}"
            );
            lab.ip(Host::R, "rule del priority 500");
        }
        lab.ip(Host::R, &format!("route del {nowhere} default table 103"));
    }
}

/// A link with an IPv4 route alone.
const BY_FOUR: &str = "[[links]]\nname = \"l\"\ntun = \"ek-bn\"\n\
                       routes = [{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\" }]\n";

#[test]
fn a_rule_that_keeps_packets_from_going_on_behind_a_link_is_refused() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.ip(Host::R, "route add default via 10.0.1.1 dev va table 100");
    for (priority, rule, does) in [
        (
            998,
            "lookup main suppress_prefixlength 0",
            "looks in table 254",
        ),
        (500, "lookup main", "looks in table 254"),
        (5, "iif ek-bn lookup main", "looks in table 254"),
        (1000, "iif ek-bn lookup 100", "looks in table 100"),
        (500, "not iif va lookup main", "looks in table 254"),
        (500, "iif ek-bn type unreachable", "drops them"),
        (500, "iif ek-bn to 10.0.0.0/16 type blackhole", "drops them"),
        (
            500,
            "iif ek-bn goto 32766",
            "goes on with the rule of priority 32766",
        ),
    ] {
        lab.ip(Host::R, &format!("rule add {rule} priority {priority}"));
        let (code, line) = lab.refused(BY_FOUR);
        let said = format!(
            "a rule (priority {priority}) keeps packets to 10.0.2.0/24 that come out of the link from \
             leaving by vb: it {does}; remove it, or give it a priority above 1000, that of the link's \
             own rule (see `ip rule`)"
        );
        assert!(code == 2 && line.ends_with(&said), "{rule}: {line}");
        lab.ip(Host::R, &format!("rule del {rule} priority {priority}"));
    }
    lab.ip(Host::R, "-6 rule add lookup main priority 500");
    let (code, line) = lab.refused(&link("rate_bps = 1e6"));
    let said = "a rule (priority 500) keeps packets to fd00:2::/64 that come out of the link";
    assert!(code == 2 && line.contains(said), "{line}");
}

#[test]
fn rules_that_leave_the_way_on_behind_a_link_alone_are_allowed() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.ip(Host::R, "route add default via 10.0.9.2 dev vb table 100");
    lab.ip(
        Host::R,
        "route add 10.7.0.0/16 via 10.0.1.1 dev va table 102",
    );
    for rule in [
        "iif va lookup main priority 500",
        "fwmark 1 lookup main priority 501",
        "oif vb lookup main priority 502",
        "uidrange 1000-2000 lookup main priority 503",
        "not from all lookup main priority 504",
        "not to 10.0.0.0/16 lookup main priority 505",
        "iif ek-bn lookup 100 priority 506",
        "iif ek-bn lookup 102 priority 507",
        "iif ek-bn goto 1000 priority 508",
        "iif ek-bn lookup main priority 1001",
        // As wg-quick adds them, with other priorities.
        "lookup main suppress_prefixlength 0 priority 1100",
        "not fwmark 51820 lookup 100 priority 1101",
    ] {
        lab.ip(Host::R, &format!("rule add {rule}"));
    }
    let router = lab.start(BY_FOUR);
    assert_eq!(router.link()["degraded"], serde_json::Value::Null);
    forwards(&lab);
}
