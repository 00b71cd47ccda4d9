//! keel in tables of controllers, and what the testbed switches off to see what it is worth.

use super::Keel;
use crate::adapter::adapt;
use crate::row::{ControllerBuild, ControllerRow};
use crate::switches::switches;
use crate::window::{INITIAL_WINDOW, InitialWindow};

pub(crate) const ROW: ControllerRow = ControllerRow {
    name: "keel",
    summary: "keel: short queues, and a fair share where others fill them",
    parameters: &[INITIAL_WINDOW],
    build: ControllerBuild {
        uses_path: |_| true,
        factory: |values| {
            let initial = InitialWindow::read(values, "iw");
            Ok(adapt(move |now, mtu| {
                Box::new(Keel::new(now, initial, mtu))
            }))
        },
    },
};

switches! {
    parameters { INITIAL_WINDOW }
    without {
        slow_start: "START's slow rounds behind a queue that cross traffic may have made; it ends at once",
        reach_cap: "START's cap at what the path delivered",
        make_room: "making room to see the empty path",
        hold: "HOLD: a share beside cross traffic that fills the queue; it gives way instead",
        loss_filter: "tolerating losses of the path; each round with a loss counts",
        path_losses: "telling losses of the path by what a smaller window delivers",
        shrunk_target: "losses at a short queue shrink the target",
        curve: "CUBIC's curve, which limits growth after losses",
        jitter: "jitter in the target",
        stalls: "the window that keeps the link busy through stalls",
    }
    scale {
        standing: "STANDING, the time over which a queue stands",
        beta: "BETA, the part of CUBIC's window that a loss leaves",
        aim: "AIM, the part of the target that giving way aims at",
        most_step: "MOST_STEP, the least part to which a round lowers the window",
        follows: "FOLLOWS, the part of what is expected that follows the window",
        target_packets: "TARGET_PACKETS, the target at 5 Mb/s",
        stretched: "STRETCHED, by how much slower acknowledgements end START",
        cut: "CUT, the part of the window that excess losses leave",
        tolerated: "TOLERATED, the share of losses that is not answered",
        growth_queue: "GROWTH_QUEUE, the part of the target below which the window grows",
    }
}

/// The row with its switches as parameters.
#[cfg(feature = "ablation")]
pub(crate) const SWITCHED: ControllerRow = ControllerRow {
    parameters: Switches::PARAMETERS,
    build: ControllerBuild {
        uses_path: |_| true,
        factory: |values| {
            let initial = InitialWindow::read(values, "iw");
            let switches = Switches::read(values);
            Ok(adapt(move |now, mtu| {
                Box::new(Keel::switched(now, initial, mtu, switches))
            }))
        },
    },
    ..ROW
};

#[cfg(all(test, feature = "ablation"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use evenkeel_spec::SpecValues;

    #[test]
    fn each_switch_is_off_by_its_parameter_and_each_constant_scaled() {
        let read = |text| {
            let values = SpecValues::parse("keel", SWITCHED.parameters, text);
            Switches::read(&values.expect("known parameters"))
        };
        assert_eq!(read(None), Switches::default());
        let switches = read(Some("without.hold=true,scale.standing=2,scale.beta=0.5"));
        assert!(!switches.hold() && switches.jitter());
        assert_eq!(switches.beta(0.5), 0.25);
        assert_eq!(switches.aim(0.9), 0.9);
        let standing = Duration::from_millis(25);
        assert_eq!(switches.standing(standing), 2 * standing);
    }
}
