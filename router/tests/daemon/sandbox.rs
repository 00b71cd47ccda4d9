//! What a running router may do, and what not.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::raw::forwards;
use crate::support::{Lab, Router, Versions, link};

/// CAP_NET_ADMIN, linux/capability.h.
const NET_ADMIN: u64 = 1 << 12;

/// A field of the kernel's /proc/PID/status, in hexadecimal digits.
fn field(router: &Router, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", router.pid())).unwrap();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    u64::from_str_radix(value.unwrap_or_default().trim(), 16).unwrap()
}

fn sandbox(router: &Router) -> Value {
    router.ask(r#"{"request":"status"}"#)["sandbox"].clone()
}

#[test]
fn a_router_that_runs_has_cap_net_admin_alone_and_says_what_it_gave_up() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    forwards(&lab);
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert_eq!(field(&router, set), NET_ADMIN, "{set}");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(field(&router, set), 0, "{set}");
    }
    let told = sandbox(&router);
    assert_eq!(told["capabilities"], json!(["CAP_NET_ADMIN"]));
    assert_eq!(told["no_new_privs"], json!(true));
    assert_eq!(field(&router, "NoNewPrivs"), 1);
    let lacks = told["lacks"].to_string();
    let has_seccomp = fs::exists("/proc/sys/kernel/seccomp").unwrap();
    assert_eq!(told["seccomp"], json!(has_seccomp), "{lacks}");
    // Filters (linux/seccomp.h).
    assert_eq!(field(&router, "Seccomp") == 2, has_seccomp);
    assert_eq!(
        told["landlock"].is_null(),
        lacks.contains("Landlock"),
        "{lacks}"
    );

    let mut table = lab.evenkeel_router(&["status", "--socket"]);
    let table = table.arg(lab.socket()).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("\nsandbox: CAP_NET_ADMIN, no_new_privs"),
        "{table}"
    );
}

#[test]
fn a_router_without_sandbox_keeps_its_rights_and_says_so() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start_with(&["--no-sandbox"], &link("rate_bps = 10e6"));
    assert_eq!(sandbox(&router), Value::Null);
    assert_ne!(field(&router, "CapEff"), NET_ADMIN);
    assert_eq!(field(&router, "NoNewPrivs"), 0);
}

#[test]
fn a_confined_router_reads_no_file_elsewhere() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let traces = [elsewhere.path(), lab.directory()].map(|directory| {
        let trace = directory.join("trace");
        fs::write(&trace, "1\n2\n").unwrap();
        link(&format!("trace = {trace:?}"))
    });
    let [elsewhere, beside] = &traces;
    let reload = |links: &str| -> Output {
        lab.write_config(links);
        let mut command = lab.evenkeel_router(&["reload", "--socket"]);
        command.arg(lab.socket()).output().unwrap()
    };
    let start = link("rate_bps = 10e6");
    let router = lab.start_with(&["--no-sandbox"], &start);
    assert!(reload(elsewhere).status.success());
    router.stop(rustix::process::Signal::TERM);

    let router = lab.start(&start);
    if sandbox(&router)["landlock"].is_null() {
        return;
    }
    let refused = reload(elsewhere);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("Permission denied"), "{error}");
    forwards(&lab);
    assert!(reload(beside).status.success());
    router.stop(rustix::process::Signal::TERM);

    // What it reads when it starts it may read again.
    let router = lab.start(elsewhere);
    assert!(reload(elsewhere).status.success());
    router.stop(rustix::process::Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}
