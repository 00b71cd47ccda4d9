use std::fs::File;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use evenkeel_tests::skip::{Need, can_run};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::*;
use crate::netlink::Selection;
use crate::sysctl::Sysctl;

static TURN: Mutex<()> = Mutex::new(());

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip {arguments}");
}

/// Does something in an empty network namespace, if this is root.
fn in_namespace(name: &str, work: impl FnOnce() + Send) {
    if !can_run(&[Need::root(), Need::tun(), Need::program("ip", "iproute2")]) {
        return;
    }
    // A program that another test starts would hold our descriptors, and with them the device, for
    // a moment.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("ek-{}-{name}", std::process::id());
    ip(&format!("netns add {name}"));
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = File::open(Path::new("/run/netns").join(&name)).unwrap();
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            work();
        });
        thread.join()
    });
    ip(&format!("netns del {name}"));
    result.unwrap();
}

fn allow_forwarding() {
    Sysctl::of("ipv4/ip_forward").set(1).unwrap();
    for family in ["ipv4", "ipv6"] {
        Sysctl::of_interface(family, "all", "forwarding")
            .set(1)
            .unwrap();
    }
    Sysctl::of_interface("ipv4", "all", "rp_filter")
        .set(0)
        .unwrap();
}

fn ours(netlink: &mut Netlink) -> (Vec<RuleEntry>, Vec<RouteEntry>) {
    let (mut rules, mut routes) = (Vec::new(), Vec::new());
    for family in Family::ALL {
        rules.extend(netlink.rules(family).unwrap());
        routes.extend(netlink.routes(family, Selection::All).unwrap());
    }
    rules.retain(|rule| rule.is_ours);
    routes.retain(|route| route.is_ours);
    (rules, routes)
}

#[test]
fn a_panic_leaves_no_rule_no_route_and_no_device() {
    in_namespace("panic", || {
        ip("link add va type veth peer name vb");
        ip("link set va up");
        ip("link set vb up");
        ip("addr add 10.0.9.1/24 dev va");
        ip("addr add fd00:9::1/64 dev va");
        let text = "name = \"r\"\n[[links]]\nname = \"l\"\ntun = \"ek-l\"\nroutes = [\n\
                { to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"va\" },\n\
                { to = \"fd00:2::/64\", via = \"fd00:9::2\", dev = \"va\" },\n]";
        let config = Config::parse(text, "r.toml", Path::new(".")).unwrap();
        allow_forwarding();
        let mut netlink = Netlink::open().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                let netlink = Netlink::open().unwrap();
                let installed = Plumbing::install(&config, netlink).unwrap();
                let (rules, routes) = ours(&mut Netlink::open().unwrap());
                // Per family: a rule; a route in, a route on and the table's end.
                assert_eq!((rules.len(), routes.len()), (2, 6));
                assert_eq!(installed.1.len(), 1);
                panic!("as if the router had a bug");
            });
        }));
        let message = panicked.unwrap_err();
        assert_eq!(message.downcast_ref(), Some(&"as if the router had a bug"));
        assert_eq!(ours(&mut netlink), (Vec::new(), Vec::new()));
        assert_eq!(netlink.interface("ek-l").unwrap(), None);
    });
}

#[test]
fn an_installation_that_fails_half_way_is_undone() {
    in_namespace("half", || {
        allow_forwarding();
        let text = "name = \"r\"\n[[links]]\nname = \"l\"\ntun = \"ek-l\"\n\
                routes = [{ to = \"10.0.2.0/24\", dev = \"va\" }]";
        let config = Config::parse(text, "r.toml", Path::new(".")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let error = runtime.block_on(async {
            // The rule is there before the route is refused.
            Plumbing::install(&config, Netlink::open().unwrap()).err()
        });
        let text = error.expect("there is no such device").to_string();
        assert!(
            text.starts_with("r.toml:5: there is no device \"va\""),
            "{text}"
        );
        let mut netlink = Netlink::open().unwrap();
        assert_eq!(ours(&mut netlink), (Vec::new(), Vec::new()));
        assert_eq!(netlink.interface("ek-l").unwrap(), None);
    });
}
