use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::raw::forwards;
use crate::support::{Host, Lab, Versions, link, number};

#[test]
fn a_router_that_is_told_to_stop_leaves_nothing_behind() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let before =
        lab.leftovers() + &lab.ip(Host::R, "rule") + &lab.ip(Host::R, "route show table all");
    for signal in [Signal::TERM, Signal::INT] {
        let router = lab.start(&link("rate_bps = 10e6"));
        assert!(router.ready.starts_with(&format!(
            "ready name=r1 pid={} links=bottleneck",
            router.pid()
        )));
        assert!(lab.leftovers().contains("ek-bn"));
        forwards(&lab);
        let (status, stderr) = router.stop(signal);
        assert_eq!((status.code(), &stderr[..]), (Some(0), ""));
        assert_eq!(lab.leftovers(), "");
        assert!(!lab.socket().exists());
    }
    let after =
        lab.leftovers() + &lab.ip(Host::R, "rule") + &lab.ip(Host::R, "route show table all");
    assert_eq!(before, after);
}

#[test]
fn what_a_killed_router_leaves_the_next_start_removes() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    router.stop(Signal::KILL);
    assert!(
        lab.leftovers().contains("1001") && lab.socket().exists(),
        "a kill leaves something"
    );
    let router = lab.start(&link("rate_bps = 10e6"));
    forwards(&lab);
    let rules = lab.ip(Host::R, "rule");
    assert_eq!(rules.matches("ek-bn").count(), 1, "{rules}");
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn two_routers_in_one_host_leave_each_other_alone() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    let other = "[[links]]\nname = \"back\"\ntun = \"ek-back\"\ntable = 3001\n\
                 routes = [{ to = \"10.0.1.1/32\", dev = \"va\" }]\n";
    // Table 2001 would be the first one's too: it removes what it finds there.
    lab.start_in(Host::R, other).stop(Signal::KILL);
    let second = lab.start_in(Host::R, other);
    forwards(&lab);
    let rules = lab.ip(Host::R, "rule");
    assert!(
        rules.contains("ek-bn lookup 1001") && rules.contains("ek-back lookup 3001"),
        "{rules}"
    );
    router.stop(Signal::TERM);
    let rules = lab.ip(Host::R, "rule");
    assert!(
        !rules.contains("1001") && rules.contains("ek-back lookup 3001"),
        "{rules}"
    );
    assert!(second.stop(Signal::TERM).0.success());
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_router_leads_into_the_link_of_another_one() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.ip(Host::R, "rule add fwmark 0x100 lookup 777 priority 40000");
    let second = lab.start_in(
        Host::R,
        "[[links]]\nname = \"second\"\ntun = \"ek-second\"\n\
         routes = [{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\", table = 777 }]\n",
    );
    let first = lab.start(
        "[[links]]\nname = \"first\"\ntun = \"ek-first\"\ntable = 1500\n\
         routes = [{ to = \"10.0.2.0/24\", dev = \"ek-second\" }]\n",
    );
    let watch = lab
        .command(Host::R, "timeout")
        .args(["3", "ip", "monitor", "route"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Both look at their routes now.
    lab.ip(Host::R, "rule add fwmark 0x200 lookup 777 priority 40000");
    let changes = String::from_utf8(watch.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(changes, "");
    forwards(&lab);
    for router in [&first, &second] {
        let link = router.link();
        assert_eq!(number(&link, "total.arrived.packets"), 1.0, "{link}");
    }
}

#[test]
fn a_router_whose_device_is_removed_says_so_and_cleans_up() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let mut router = lab.start(&link("rate_bps = 10e6"));
    lab.ip(Host::R, "link del ek-bn");
    let (status, stderr) = router.wait();
    assert_eq!(status.code(), Some(1));
    assert!(
        stderr.contains("link bottleneck has lost its TUN device ek-bn"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1);
    assert_eq!(lab.leftovers(), "");
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_router_whose_output_finds_the_disk_full_forwards_and_keeps_its_exit_status() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let config = lab.write_config(&link("rate_bps = 10e6"));
    let program = env!("CARGO_BIN_EXE_evenkeel-router");
    let shell = |script: &str| {
        let mut command = lab.command(Host::R, "sh");
        command.args(["-c", script, "sh", program]);
        command
    };
    let mut run = shell("exec \"$1\" run --config \"$2\" >/dev/full 2>/dev/full");
    let mut router = Killed(run.arg(&config).spawn().unwrap());
    let status = |to: &str| {
        let mut command = shell(&format!("exec \"$1\" status --socket \"$2\" {to}"));
        command.arg(lab.socket()).output().unwrap()
    };
    let answers = (0..300).any(|_| {
        thread::park_timeout(Duration::from_millis(20));
        status("").status.success()
    });
    assert!(answers, "it runs without a word");
    forwards(&lab);
    let unprinted = status(">/dev/full");
    let error = String::from_utf8(unprinted.stderr).unwrap();
    assert_eq!(unprinted.status.code(), Some(1), "{error}");
    assert_eq!(
        error,
        "evenkeel-router: cannot write to standard output: No space left on device (os error 28); is the disk full?\n"
    );
    // Its last words, of the device that is gone, find no room either.
    lab.ip(Host::R, "link delete ek-bn");
    assert_eq!(router.0.wait().unwrap().code(), Some(1));
    assert_eq!(lab.leftovers(), "");
}
