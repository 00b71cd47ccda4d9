//! The settings of a link's device.

use crate::config::LinkSpec;
use crate::family::Family;
use crate::sysctl::Sysctl;

/// Returns the settings that let packets come back out of a TUN device.
pub(super) fn settings(link: &LinkSpec) -> Vec<(Sysctl, i64)> {
    let tun = &link.tun;
    let v4 = |name, value| (Sysctl::of_interface("ipv4", tun, name), value);
    let v6 = |name, value| (Sysctl::of_interface("ipv6", tun, name), value);
    let mut settings = Vec::new();
    for family in link.families() {
        settings.extend(match family {
            // Packets come from anywhere, even from the host's own addresses, and the way back does
            // not lead here; the kernel forwards them.
            Family::V4 => vec![
                v4("rp_filter", 0),
                v4("accept_local", 1),
                v4("forwarding", 1),
            ],
            // No address of its own (1: none, Documentation/networking/ip-sysctl.rst), and none
            // learned from router advertisements.
            Family::V6 => vec![
                v6("disable_ipv6", 0),
                v6("addr_gen_mode", 1),
                v6("accept_ra", 0),
            ],
        });
    }
    settings
}
