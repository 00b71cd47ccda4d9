//! Moves the same bytes over every stack, in turns, and prints docs/performance.md's table.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::stack::{Evenkeel, Failure, Feature, Identity, Noq, Order, Quinn, S2n, Serving, Stack};

/// What is compared; the others with the first. quiche is not here: it leaves pacing to its user, and
/// [`Quiche`](crate::stack::Quiche) does not pace.
static WAYS: [Way; 10] = [
    Way::Stack(&Quinn),
    Way::Stack(&Noq),
    Way::Stack(&S2n),
    Way::Stack(&evenkeel("cubic", false)),
    Way::Stack(&evenkeel("cubic", true)),
    Way::Stack(&evenkeel("keel", false)),
    Way::Stack(&evenkeel("keel", true)),
    Way::Bulk { checksums: false },
    Way::Bulk { checksums: true },
    Way::Iperf3,
];

const fn evenkeel(controller: &'static str, headers: bool) -> Evenkeel {
    Evenkeel {
        controller,
        headers,
        l4s: None,
    }
}

/// A program that moves bytes from a client to a server over loopback.
#[derive(Clone, Copy)]
enum Way {
    /// One process, both sides on a thread each, one stream.
    Stack(&'static dyn Stack),
    /// `evenkeel bulk`, two processes.
    Bulk { checksums: bool },
    /// TCP, two processes.
    Iperf3,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    mbit_per_s: f64,
    cpu_s_per_gb: f64,
}

/// Interleaves `rounds` of `megabytes` each, and prints medians and ranges.
pub(crate) fn speed(rounds: usize, megabytes: u64) -> Result<(), Failure> {
    let mut outcomes = vec![Vec::new(); WAYS.len()];
    for round in 0..rounds {
        for (index, way) in WAYS.iter().enumerate() {
            eprintln!("round {} of {rounds}: {}", round + 1, way.name());
            match way.measure(index, megabytes) {
                Ok(outcome) => outcomes[index].push(outcome),
                Err(failure) => eprintln!("{}: {failure}", way.name()),
            }
        }
    }
    println!("| | Mb/s | of plain quinn | CPU s/GB | of plain quinn |");
    println!("|---|---|---|---|---|");
    let plain =
        [Outcome::mbit_per_s, Outcome::cpu_s_per_gb].map(|of| Spread::new(&outcomes[0], of));
    for (way, outcomes) in WAYS.iter().zip(&outcomes) {
        let mut row = format!("| {} |", way.name());
        for (of, plain) in [Outcome::mbit_per_s, Outcome::cpu_s_per_gb]
            .iter()
            .zip(&plain)
        {
            match (Spread::new(outcomes, *of), plain) {
                (Some(spread), Some(plain)) => {
                    let ratio = spread.median / plain.median;
                    row = format!("{row} {spread} | {ratio:.2} |");
                }
                _ => row = format!("{row} failed | |"),
            }
        }
        println!("{row}");
    }
    Ok(())
}

/// Moves the bytes in this process, and prints what [`Way::measure`] reads.
pub(crate) fn one(index: usize, megabytes: u64) -> Result<(), Failure> {
    let Some(Way::Stack(stack)) = WAYS.get(index) else {
        return Err(format!("there is no stack {index}").into());
    };
    let identity = Identity::new()?;
    let server = stack.serve(&identity, Serving::default())?;
    let order = Order {
        up: megabytes * 1_000_000,
        down: 1,
        feature: Feature::Transfer,
    };
    let (began, cpu) = (Instant::now(), cpu_s());
    stack.exchange(server, &identity, order)?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_s() - cpu);
    println!("{seconds} {cpu}");
    Ok(())
}

/// The processor time of this process, in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Way {
    fn name(self) -> String {
        match self {
            Self::Stack(stack) => stack.name(),
            Self::Bulk { checksums: true } => "`evenkeel bulk`, with checksums".into(),
            Self::Bulk { checksums: false } => "`evenkeel bulk`, without checksums".into(),
            Self::Iperf3 => "iperf3, TCP".into(),
        }
    }

    fn measure(self, index: usize, megabytes: u64) -> Result<Outcome, Failure> {
        match self {
            Self::Stack(_) => in_a_process(index, megabytes),
            Self::Bulk { checksums } => bulk(checksums, megabytes),
            Self::Iperf3 => iperf3(megabytes),
        }
    }
}

/// Runs [`one`] in a process of its own, so that no transfer inherits another's memory or sockets.
fn in_a_process(index: usize, megabytes: u64) -> Result<Outcome, Failure> {
    let mut itself = Command::new(env::current_exe()?);
    let text = output(itself.args(["one", &index.to_string(), &megabytes.to_string()]))?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(seconds)), Some(Ok(cpu_s))) => Ok(Outcome::new(megabytes, seconds, cpu_s)),
        _ => Err(format!("it printed {text:?}").into()),
    }
}

fn bulk(checksums: bool, megabytes: u64) -> Result<Outcome, Failure> {
    let program = PathBuf::from("target/release/evenkeel");
    let mut server = Child(
        Command::new(&program)
            .args(["bulk", "server", "--once", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| {
                format!(
                    "{}: {e}; cargo build --release -p evenkeel-apps",
                    program.display()
                )
            })?,
    );
    // It says how to reach it in the line that begins so.
    let mut lines = BufReader::new(server.0.stdout.take().ok_or("no output")?).lines();
    let client = loop {
        let line = lines.next().ok_or("the server ended")??;
        if let Some(client) = line.strip_prefix("connect with: evenkeel bulk client ") {
            break client.to_owned();
        }
    };
    let bytes = format!("{megabytes}MB");
    let mut command = Command::new(&program);
    command
        .args(["bulk", "client"])
        .args(client.split_whitespace());
    command.args(["--bytes", &bytes, "--json", "--no-pings"]);
    if !checksums {
        command.arg("--no-verify");
    }
    let result: Value = serde_json::from_str(&output(&mut command)?)?;
    let side = |side: &str| {
        let cpu = |kind: &str| number(&result, &format!("/{side}/cpu/{kind}_s"));
        Ok::<_, Failure>(cpu("user")? + cpu("system")?)
    };
    let cpu_s = side("sender")? + side("receiver")?;
    Ok(Outcome::new(
        megabytes,
        number(&result, "/receiver/duration_s")?,
        cpu_s,
    ))
}

fn iperf3(megabytes: u64) -> Result<Outcome, Failure> {
    const PORT: &str = "54321";
    let mut server = Command::new("iperf3");
    server.args([
        "--server",
        "--one-off",
        "--bind",
        "127.0.0.1",
        "--port",
        PORT,
        "--json",
    ]);
    let server = server.stdout(Stdio::piped()).spawn();
    let _server = Child(server.map_err(|e| format!("iperf3: {e}; apt install iperf3"))?);
    let client = || {
        let mut client = Command::new("iperf3");
        client.args(["--client", "127.0.0.1", "--port", PORT, "--json"]);
        let text = output(client.args(["--bytes", &format!("{megabytes}000000")]))?;
        let result: Value = serde_json::from_str(&text)?;
        // Its status is 0 in any case.
        match result.get("error") {
            Some(error) => Err(Failure::from(error.to_string())),
            None => Ok(result),
        }
    };
    // Its server says nothing when it listens.
    let mut tries = 0;
    let result = loop {
        match client() {
            Err(_) if tries < 50 => {
                tries += 1;
                thread::sleep(Duration::from_millis(100));
            }
            result => break result?,
        }
    };
    let seconds = number(&result, "/end/sum_received/seconds")?;
    let percent = number(&result, "/end/cpu_utilization_percent/host_total")?
        + number(&result, "/end/cpu_utilization_percent/remote_total")?;
    Ok(Outcome::new(megabytes, seconds, seconds * percent / 100.0))
}

/// Returns the number at a place of a result.
fn number(result: &Value, at: &str) -> Result<f64, Failure> {
    let number = result.pointer(at).and_then(Value::as_f64);
    Ok(number.ok_or_else(|| format!("{at} is not in the result"))?)
}

/// A server that ends with its variable.
struct Child(process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command, and returns what it printed.
fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        let failure = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, failure.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Outcome {
    fn new(megabytes: u64, seconds: f64, cpu_s: f64) -> Self {
        Self {
            mbit_per_s: megabytes as f64 * 8.0 / seconds,
            cpu_s_per_gb: cpu_s * 1000.0 / megabytes as f64,
        }
    }

    fn mbit_per_s(&self) -> f64 {
        self.mbit_per_s
    }

    fn cpu_s_per_gb(&self) -> f64 {
        self.cpu_s_per_gb
    }
}

/// Median, least and greatest.
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    fn new(outcomes: &[Outcome], of: fn(&Outcome) -> f64) -> Option<Self> {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: *values.get(values.len() / 2)?,
            least: *values.first()?,
            greatest: *values.last()?,
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median < 100.0 { 2 } else { 0 };
        let [median, least, greatest] =
            [self.median, self.least, self.greatest].map(|value| format!("{value:.digits$}"));
        write!(f, "{median} ({least} to {greatest})")
    }
}
