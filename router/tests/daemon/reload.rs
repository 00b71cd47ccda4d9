//! A router takes over another configuration while it forwards.

use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::raw::{self, Injector, Sniffer, forwards};
use crate::support::{Host, Lab, Router, Versions, eventually, number};

fn link(values: &str) -> String {
    format!(
        "[[links]]\nname = \"there\"\ntun = \"ek-there\"\n{values}\n\
         routes = [{{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\" }}]\n"
    )
}

const BACK: &str = "[[links]]\nname = \"back\"\ntun = \"ek-back\"\nrate_bps = 10e6\n\
                    routes = [{ to = \"10.0.1.1/32\", dev = \"va\" }]\n";

fn reload(lab: &Lab, links: &str) -> Output {
    lab.write_config(links);
    let mut command = lab.evenkeel_router(&["reload", "--socket"]);
    command.arg(lab.socket()).output().unwrap()
}

fn reloaded(lab: &Lab, links: &str) {
    let output = reload(lab, links);
    assert!(output.status.success(), "{output:?}");
}

fn status(router: &Router) -> Value {
    router.ask(r#"{"request":"status"}"#)
}

fn packet(number: u16) -> Vec<u8> {
    raw::v4(
        64,
        253,
        number,
        &[],
        format!("packet {number:03}").as_bytes(),
    )
}

/// Stops a router, which has told of nothing but reloads.
fn stop(router: Router) {
    let (_, log) = router.stop(Signal::TERM);
    let is_reload = |line: &str| line.contains(" INFO ") && line.contains("reloaded ");
    assert!(log.lines().all(is_reload), "{log}");
}

#[test]
fn packets_that_wait_survive_another_rate_queue_discipline_and_stamps() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    // So slow that nothing leaves before the reload; one packet is on its way.
    let slow = link("rate_bps = 100\nqueue_packets = 30");
    let router = lab.start(&(slow + BACK));
    let sniffer = Sniffer::new(&lab, Host::B);
    let injector = Injector::new(&lab, Host::A);
    for number in 0..20 {
        injector.send(&packet(number)).unwrap();
    }
    let link_of = |router: &Router| status(router)["links"][0].clone();
    eventually("they wait", || {
        number(&link_of(&router), "inside.packets") == 20.0
    });
    let back = status(&router)["links"][1].clone();
    let values = "rate_bps = 5e6\ndelay_ms = 3\nqueue_packets = 5\n\
                  discipline = \"codel\"\nstamps = [\"aqt\", \"flows\"]";
    reloaded(&lab, &(link(values) + BACK));
    for number in 0..20 {
        let text = format!("packet {number:03}");
        // Not B's answers, which quote them.
        let is_one = |packet: &[u8]| packet[9] == 253 && packet.windows(7).any(|b| b == b"packet ");
        let found = sniffer.find(is_one);
        let found = String::from_utf8_lossy(&found).into_owned();
        assert!(found.ends_with(&text), "{found:?} for {text}");
    }
    let link = link_of(&router);
    assert_eq!(number(&link, "rate_bps"), 5e6);
    assert_eq!(number(&link, "total.delivered.packets"), 20.0);
    // The other link has noticed nothing: its figures go on.
    let after = status(&router)["links"][1].clone();
    assert!(number(&after, "window_s") > number(&back, "window_s"));
    assert!(number(&after, "window_s") > number(&link, "window_s"));
    stop(router);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn traffic_goes_on_through_reloads_without_a_loss() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let links = |values: &str| link(&format!("queue_packets = 2000\n{values}"));
    let (fast, slow) = (
        links("rate_bps = 20e6\ndelay_ms = 10"),
        links("rate_bps = 5e6\ndelay_ms = 1\ndiscipline = \"fq-codel\""),
    );
    let router = lab.start(&fast);
    let receiver = lab.udp(Host::B, "10.0.2.1:4711");
    let sender = lab.udp(Host::A, "10.0.1.1:0");
    let count = 1000_u32;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                let bytes = number.to_be_bytes();
                sender.send_to(&bytes, "10.0.2.1:4711").unwrap();
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
        });
        scope.spawn(|| {
            let reload = |links: &str| {
                lab.write_config(links);
                let answer = router.ask(r#"{"request":"reload"}"#);
                assert_eq!(answer["error"], Value::Null, "{answer}");
            };
            for _ in 0..5 {
                reload(&(slow.clone() + BACK));
                reload(&slow);
                reload(&(BACK.to_owned() + &fast));
            }
        });
        for number in 0..count {
            let mut bytes = [0; 4];
            receiver.recv(&mut bytes).unwrap();
            assert_eq!(u32::from_be_bytes(bytes), number);
        }
    });
}

#[test]
fn another_rate_delay_or_loss_keeps_the_queue_its_discipline_and_the_figures() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    // 20 packets take seconds at each of these rates.
    let links = |rate_bps: u32, rest: &str| {
        let values = "queue_packets = 30\ndiscipline = \"codel\"";
        link(&format!("rate_bps = {rate_bps}\n{values}\n{rest}"))
    };
    let router = lab.start(&links(800, ""));
    let injector = Injector::new(&lab, Host::A);
    for number in 0..20 {
        injector.send(&packet(number)).unwrap();
    }
    eventually("they wait", || {
        number(&router.link(), "inside.packets") == 20.0
    });
    let before = router.link();
    for step in 1..=10 {
        reloaded(&lab, &links(800 + step, "delay_ms = 3\nloss = 0.01"));
    }
    let after = router.link();
    assert_eq!(number(&after, "rate_bps"), 810.0);
    assert_eq!(number(&after, "configured.delay_ms"), 3.0);
    assert_eq!(number(&after, "total.arrived.packets"), 20.0);
    assert!(number(&after, "window_s") > number(&before, "window_s"));
    assert!(number(&after, "since_s") < number(&after, "window_s"));
    // Another queue is another link.
    reloaded(&lab, &(links(810, "").replace("30", "40")));
    assert!(number(&router.link(), "window_s") < number(&after, "window_s"));
    stop(router);
}

#[test]
fn links_and_routes_come_and_go() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let there = link("rate_bps = 10e6");
    let router = lab.start(&there);
    forwards(&lab);
    reloaded(&lab, &(BACK.to_owned() + &there));
    let names = |router: &Router| {
        let links = status(router)["links"].as_array().unwrap().clone();
        let names = links.iter().map(|link| link["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(",")
    };
    assert_eq!(names(&router), "back,there");
    let routes = lab.ip(Host::R, "route");
    assert!(routes.contains("10.0.1.1 dev ek-back"), "{routes}");
    let table = |router: &Router| number(&status(router)["links"][1], "table");
    assert_eq!(table(&router), 1001.0, "it keeps its table");
    forwards(&lab);
    // A route goes from one link to the other.
    let moved = BACK.replace(
        "routes = [",
        "routes = [{ to = \"10.0.2.1/32\", via = \"10.0.9.2\", dev = \"vb\" }, ",
    );
    reloaded(
        &lab,
        &(moved.clone() + &there.replace("10.0.2.0/24", "10.0.3.0/24")),
    );
    forwards(&lab);
    let routes = lab.ip(Host::R, "route");
    assert!(
        routes.contains("10.0.2.1 dev ek-back") && !routes.contains("10.0.2.0/24 dev"),
        "{routes}"
    );
    reloaded(&lab, &moved);
    forwards(&lab);
    assert_eq!(names(&router), "back");
    eventually("the other device goes", || {
        !lab.leftovers().contains("ek-there")
    });
    stop(router);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    let whole = lab.leftovers();
    let refused = |links: &str, said: &[&str]| {
        let output = reload(&lab, links);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stderr.lines().count(), said.len(), "{stderr}");
        for (line, said) in stderr.lines().zip(said) {
            let begin = "evenkeel-router: the router refuses: nothing has been reloaded: ";
            assert!(line.starts_with(begin) && line.contains(said), "{stderr}");
        }
        assert_eq!(lab.leftovers(), whole);
        assert_eq!(number(&router.link(), "rate_bps"), 10e6);
    };
    refused("links = 7", &["r1.toml:3: links is an integer"]);
    refused(
        "sead = 1\nseed = -1\nlinks = 7",
        &["r1.toml:3: sead: ", "r1.toml:4: seed ", "r1.toml:5: links "],
    );
    let wrong = link("rate_bps = 1e6") + &BACK.replace("\"va\"", "\"eth7\"");
    refused(
        &wrong.replace("ek-there", "ek-other"),
        &["tun of link \"there\" cannot change", "no device \"eth7\""],
    );
    forwards(&lab);
    // By signal it is the same.
    lab.write_config("links = 7");
    let pid = Pid::from_raw(router.pid() as i32).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    let says = "nothing has been reloaded: ";
    eventually("refused", || router.log().matches(says).count() == 4);
    lab.write_config(&link("rate_bps = 2e6"));
    kill_process(pid, Signal::HUP).unwrap();
    eventually("reloaded", || number(&router.link(), "rate_bps") == 2e6);
    forwards(&lab);
    let (_, log) = router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
    // Each in a line, by signal or not.
    let refusals: Vec<_> = log.lines().filter(|line| line.contains(says)).collect();
    assert_eq!(refusals.len(), 4, "{log}");
    assert_eq!(refusals[1].matches("r1.toml:").count(), 3, "{log}");
}

#[test]
fn check_beside_a_running_router_foresees_what_a_reload_refuses() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let running = link("rate_bps = 10e6") + BACK;
    let router = lab.start(&running);
    let whole = lab.leftovers();
    let say = |arguments: &[&str]| {
        let output = lab.evenkeel_router(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let causes = stderr.lines().map(|line| {
            let line = line.strip_prefix("evenkeel-router: the router refuses: ");
            let line = line.unwrap_or_else(|| panic!("{stderr}"));
            let cause = line.strip_prefix("nothing has been reloaded: ");
            cause.unwrap_or(line).to_owned()
        });
        (output.status.code(), causes.collect::<Vec<_>>())
    };
    let config = lab.directory().join("r1.toml");
    let socket = lab.socket();
    let both = |links: &str, said: &[&str]| {
        let path = lab.write_config(links);
        let checked = say(&["check", "--config", path.to_str().unwrap()]);
        let reloaded = say(&["reload", "--socket", socket.to_str().unwrap()]);
        // The running router names its file as it was named to it, which here is the same.
        assert_eq!(checked, reloaded);
        assert_eq!(checked.1.len(), said.len(), "{checked:?}");
        for (cause, said) in checked.1.iter().zip(said) {
            assert!(cause.contains(said), "{checked:?}");
        }
        assert_eq!(checked.0, Some(if said.is_empty() { 0 } else { 2 }));
    };
    both(
        &running.replace("ek-there", "ek-other"),
        &["tun of link \"there\" cannot change"],
    );
    both(
        &running.replace("name = \"there\"", "name = \"elsewhere\""),
        &["the name of link \"there\" cannot change"],
    );
    both(
        &(running.replace("tun = \"ek-back\"", "tun = \"ek-back\"\ntable = 2000")
            + &third("eth7").replace("tun = ", "offload = false\ntun = ")),
        &["table of link \"back\" cannot change", "no device \"eth7\""],
    );
    both(
        &format!(
            "metrics = \"127.0.0.1:9310\"\n{}",
            running.replace("tun = ", "offload = false\ntun = ")
        ),
        &[
            "metrics cannot",
            "offload of link \"there\"",
            "offload of link \"back\"",
        ],
    );
    lab.ip(Host::R, "link add ek-third type veth peer name ek-peer");
    lab.ip(Host::R, "rule add iif va table 1003 priority 77");
    both(
        &(running.clone() + &third("vb")),
        &[
            "there is an interface of this name",
            "table 1003 of link \"third\" is in use by a rule",
        ],
    );
    assert_eq!(lab.leftovers().replace("ek-third", ""), whole);
    lab.ip(Host::R, "link del ek-third");
    lab.ip(Host::R, "rule del iif va table 1003 priority 77");

    // What would be taken over, in another order: links keep their tables, and `check` says so.
    let path = lab.write_config(&(third("vb") + BACK + &link("rate_bps = 5e6")));
    let mut check = lab.evenkeel_router(&["check", "--config"]);
    let output = check.arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("nothing wrong, a reload takes it over"),
        "{text}"
    );
    for line in [
        "there: 10.0.2.0/24 -> ek-there (MTU 1500) -> table 1001 ",
        "back: 10.0.1.1/32 -> ek-back (MTU 1500) -> table 1002 ",
        "third: 10.0.7.0/24 -> ek-third (MTU 1500) -> table 1003 ",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(lab.leftovers(), whole);
    assert_eq!(number(&status(&router)["links"][0], "rate_bps"), 10e6);

    // Another file is checked as if it had the configuration's place, where the router may read it.
    let text = std::fs::read_to_string(&config).unwrap();
    let next = lab.directory().join("next.toml");
    std::fs::write(&next, text.replace("name = \"r1\"", "name = \"r2\"")).unwrap();
    let (code, causes) = say(&["check", "--config", next.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(
        causes[0].contains("the router's name cannot change"),
        "{causes:?}"
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let far = elsewhere.path().join("far.toml");
    std::fs::write(&far, &text).unwrap();
    let (code, causes) = say(&["check", "--config", far.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(
        causes[0].contains("put the file beside its configuration"),
        "{causes:?}"
    );
    forwards(&lab);
    router.stop(Signal::TERM);
}

/// A link that leaves by this device.
fn third(dev: &str) -> String {
    format!(
        "[[links]]\nname = \"third\"\ntun = \"ek-third\"\n\
         routes = [{{ to = \"10.0.7.0/24\", dev = {dev:?} }}]\n"
    )
}
