//! What a refusal says to do is what helps.

use std::fs;
use std::process::Command;

use std::net::TcpListener;

use evenkeel_tests::skip::{Need, can_run};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Host, Lab, Versions, link, run};

/// What a command says on standard error.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_file_that_is_no_text_or_too_long_is_told_to_be_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.toml");
    for (bytes, cause) in [
        (
            &b"name = \"r\"\n# caf\xe9\n"[..],
            "line 2 is not UTF-8; write it in UTF-8",
        ),
        (
            &vec![b'#'; 2_000_000],
            "it is longer than 1048576 bytes; is it the right file?",
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_evenkeel-router"));
        let line = said(check.args(["check", "--config"]).arg(&path));
        assert!(line.ends_with(&format!("{cause}\n")), "{line}");
    }
}

#[test]
fn a_client_of_a_stopped_router_is_told_how_it_goes_on() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link(""));
    let pid = Pid::from_raw(router.pid() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut status = lab.evenkeel_router(&["status", "--socket"]);
    let line = said(status.arg(lab.socket()));
    kill_process(pid, Signal::CONT).unwrap();
    let remedy = format!("let it go on (kill -CONT {pid}), or restart it");
    assert!(line.contains(&remedy), "{line}");
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
    assert!(!lab.ip(Host::R, "rule").contains("ek-bn"));
}

/// What `check` says of a configuration with these links that it refuses.
fn check(lab: &Lab, links: &str) -> String {
    let config = lab.write_config(links);
    said(lab.evenkeel_router(&["check", "--config"]).arg(config))
}

#[test]
fn an_address_for_metrics_that_cannot_be_had_is_found_before_the_start() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let file = lab.directory().join("figures");
    fs::write(&file, "").unwrap();
    let taken = lab.within(Host::R, || TcpListener::bind("127.0.0.1:9310").unwrap());
    let with = |metrics: &str| format!("metrics = {metrics:?}\n{}", link(""));
    for (metrics, cause) in [
        (
            "127.0.0.1:9310",
            "cannot make the socket 127.0.0.1:9310: Address already in use",
        ),
        (file.to_str().unwrap(), "exists and is no socket"),
    ] {
        let line = check(&lab, &with(metrics));
        assert!(
            line.contains(cause) && line.contains("choose another"),
            "{line}"
        );
    }
    assert!(file.exists());
    drop(taken);
    let config = lab.write_config(&with("127.0.0.1:9310"));
    let mut check = lab.evenkeel_router(&["check", "--config"]);
    assert!(check.arg(config).status().unwrap().success());
}

#[test]
fn a_tun_device_that_this_user_may_not_open_is_told_with_what_opens_it() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let config = lab.write_config(&link(""));
    let program = env!("CARGO_BIN_EXE_evenkeel-router");
    for (make, cause) in [
        (
            "mknod -m 600 /dev/net/tun c 10 200 && chown 65534 /dev/net/tun",
            "this user may not open /dev/net/tun; allow it: chmod 666 /dev/net/tun",
        ),
        ("touch /dev/net/tun", "/dev/net/tun is no device"),
    ] {
        for command in ["check", "run"] {
            let script = format!(
                "mount -t tmpfs none /dev/net && {make} && \
                 exec setpriv --bounding-set=-dac_override,-dac_read_search {program} {command} --config {}",
                config.display()
            );
            let mut shell = lab.command(Host::R, "unshare");
            let line = said(shell.args(["-m", "sh", "-c", &script]));
            assert!(
                line.contains(cause) && line.lines().count() == 1,
                "{command}: {line}"
            );
        }
    }
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn routes_that_no_packet_can_take_are_refused() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    for (route, cause) in [
        (
            r#"to = "10.0.1.254/32", dev = "vb""#,
            "10.0.1.254/32 is this host's own",
        ),
        (
            r#"to = "10.0.9.255/32", dev = "vb""#,
            "10.0.9.255/32 is this host's own",
        ),
        (
            r#"to = "fd00:9::1/128", dev = "vb""#,
            "fd00:9::1/128 is this host's own",
        ),
        (
            r#"to = "10.0.2.1/32", via = "10.0.9.1", dev = "vb""#,
            "via = 10.0.9.1 is this host's own",
        ),
        (
            r#"to = "10.0.2.1/32", via = "10.0.9.255", dev = "vb""#,
            "via = 10.0.9.255 is this host's own, or for all",
        ),
        (
            r#"to = "10.0.2.1/32", dev = "vb", table = 255"#,
            "255 is the kernel's table",
        ),
        (
            r#"to = "127.1.0.0/16", dev = "vb""#,
            "no host forwards packets to 127.1.0.0/16",
        ),
        (
            r#"to = "::/128", dev = "vb""#,
            "no host forwards packets to ::/128",
        ),
        (
            r#"to = "239.0.0.0/8", dev = "vb""#,
            "no host forwards packets to 239.0.0.0/8",
        ),
        (
            r#"to = "10.0.2.1/32", dev = "lo""#,
            "dev = \"lo\" leads back to this host",
        ),
        (
            r#"to = "10.0.2.1/32", dev = "vb", iif = "vx""#,
            "iif = \"vx\": there is no such device",
        ),
    ] {
        let links = format!("[[links]]\nname = \"l\"\ntun = \"ek-l\"\nroutes = [{{ {route} }}]\n");
        let line = check(&lab, &links);
        assert!(line.contains(cause) && line.contains(":6: "), "{line}");
    }
    // B's address in a network of R's.
    let near = "[[links]]\nname = \"l\"\ntun = \"ek-l\"\n\
                routes = [{ to = \"10.0.9.2/32\", dev = \"vb\" }]\n";
    lab.start(near).stop(Signal::TERM);
}

#[test]
fn a_firewall_that_may_drop_what_is_forwarded_is_a_warning() {
    if !can_run(&[Need::program("nft", "nftables")]) {
        return;
    }
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let nft = |line: &str| {
        run(
            "ip",
            &["netns", "exec", &lab.namespace(Host::R), "nft", line],
        )
    };
    let check = || {
        let config = lab.write_config(&link(""));
        let mut check = lab.evenkeel_router(&["check", "--config"]);
        let output = check.arg(config).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    nft("add table ip filter");
    nft("add chain ip filter input { type filter hook input priority 0; policy drop; }");
    nft("add chain ip filter on { type filter hook forward priority 0; policy accept; }");
    assert_eq!(check(), "");
    nft("add chain ip filter forward { type filter hook forward priority 0; policy drop; }");
    let warning = "warning: chain ip filter forward of nftables drops what no rule of it accepts";
    assert!(check().contains(warning), "{}", check());
    // What it says to do is enough.
    nft("insert rule ip filter forward oifname ek-bn accept");
    nft("insert rule ip filter forward iifname ek-bn accept");
    let router = lab.start(&link(""));
    crate::raw::forwards(&lab);
    let (_, log) = router.stop(Signal::TERM);
    assert!(log.contains("WARN") && log.contains(&warning[9..]), "{log}");
}
