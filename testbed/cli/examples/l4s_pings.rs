//! Draws pings beside a transfer through a router with a queue for L4S, with L4S on and off: real
//! programs in namespaces, in a minute and a half. Needs root and ping.
//!
//! ```text
//! cargo build --release -p evenkeel-testbed -p evenkeel-apps -p evenkeel-router
//! cargo run --release -p evenkeel-testbed --example l4s_pings -- docs/l4s-pings.svg
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use evenkeel_testbed::report::picture::{Axis, Line, Picture, Point, Style};

/// What sends, and how.
const SENDERS: [(&str, &str); 3] = [
    ("cubic", "--controller cubic"),
    ("keel, classic ECN", "--controller keel --ecn classic"),
    ("keel, L4S", "--controller keel --ecn l4s"),
];

/// One packet in 50 ms.
const PINGS: u32 = 480;
const INTERVAL_S: f64 = 0.05;

/// The transfer begins after this many pings.
const BEFORE: u32 = 80;

/// The link.
const SETTINGS: [&str; 6] = [
    "links.0.loss=0",
    "links.0.rate_bps=20000000",
    "links.0.delay_ms=20",
    "links.0.queue_packets=1000",
    "links.0.discipline=dualpi2",
    "links.0.emulator=evenkeel",
];

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("name the file to draw into, such as docs/l4s-pings.svg");
        return ExitCode::from(2);
    };
    match draw(Path::new(&file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn draw(file: &Path) -> Result<(), Box<dyn Error>> {
    let programs = programs()?;
    let mut lines = Vec::new();
    for (colour, (name, options)) in SENDERS.into_iter().enumerate() {
        let times = pings(&programs, options)?;
        let mut loaded: Vec<f64> = times[BEFORE as usize + 40..]
            .iter()
            .flatten()
            .copied()
            .collect();
        if loaded.len() < 100 {
            return Err(format!("{name}: only {} pings came back", loaded.len()).into());
        }
        loaded.sort_by(f64::total_cmp);
        let at = |share: f64| loaded[(share * loaded.len() as f64) as usize];
        println!(
            "{name}: beside the transfer {:.1} ms at the median, {:.1} at p99",
            at(0.5),
            at(0.99)
        );
        let points = times.iter().enumerate();
        lines.push(Line {
            name: name.into(),
            colour,
            style: Style::Plain,
            points: points
                .map(|(number, time)| Point::new(number as f64 * INTERVAL_S, *time))
                .collect(),
        });
    }
    let picture = Picture {
        title: "Pings beside a transfer through dualpi2: 20 Mb/s, 40 ms".into(),
        x: Axis::Time(0.0, f64::from(PINGS) * INTERVAL_S),
        y_label: "round trip, ms".into(),
        y_from: Some(35.0),
        warmup_s: f64::from(BEFORE) * INTERVAL_S,
        panels: vec![lines],
    };
    std::fs::write(file, picture.file())
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(())
}

/// The directory of the programs, which is that above this one's.
fn programs() -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let directory = own
        .ancestors()
        .nth(2)
        .ok_or("this program has no directory")?;
    for name in ["evenkeel", "evenkeel-router", "evenkeel-testbed"] {
        let program = directory.join(name);
        if !program.is_file() {
            return Err(format!("{} is missing; build it first", program.display()).into());
        }
    }
    Ok(directory.to_owned())
}

/// Round trips in ms of pings before and beside a transfer with these options; `None` for a lost one.
fn pings(programs: &Path, options: &str) -> Result<Vec<Option<f64>>, Box<dyn Error>> {
    let evenkeel = programs.join("evenkeel");
    let evenkeel = evenkeel.display();
    let wait = f64::from(BEFORE) * INTERVAL_S;
    let time = f64::from(PINGS - BEFORE) * INTERVAL_S;
    // What is in the background ends by itself: the transfer after its time, the server after it.
    let script = format!(
        "ip netns exec $EVENKEEL_NETNS_server {evenkeel} bulk server --listen 10.0.0.2:5000 --once \
           > /dev/null & \
         (sleep {wait}; {evenkeel} bulk client 10.0.0.2:5000 --insecure --no-pings {options} \
           --time {time} > /dev/null) & \
         ping -i {INTERVAL_S} -c {PINGS} server; wait"
    );
    let mut exec = Command::new(programs.join("evenkeel-testbed"));
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/lossy.toml");
    exec.args(["exec", scenario, "--host", "client"]);
    for setting in SETTINGS {
        exec.args(["--set", setting]);
    }
    let output = exec
        .args(["--", "sh", "-c", &script])
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut times = vec![None; PINGS as usize];
    for line in said.lines() {
        let field = |name: &str| -> Option<f64> {
            let rest = line.split_once(name)?.1;
            rest.split_whitespace().next()?.parse().ok()
        };
        if let (Some(number), Some(time)) = (field("icmp_seq="), field("time=")) {
            let place = (number as usize).checked_sub(1);
            if let Some(place) = place.and_then(|number| times.get_mut(number)) {
                *place = Some(time);
            }
        }
    }
    Ok(times)
}
