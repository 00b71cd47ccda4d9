//! What pacing and path headers cost: CPU seconds per gigabyte and throughput, against plain quinn
//! with the same controller, in interleaved rounds.
//!
//! `cargo run --release -p evenkeel --example cost -- [ROUNDS] [MEGABYTES] [CONTROLLER]` sends over
//! loopback. With `NAMESPACE` and `ADDRESS` behind these the receiver is in that network namespace,
//! at that address, and the CPU time of the kernel and the routers in between does not count. With
//! the variable `MODE` set to `Quinn`, `Paced` or `Headed`, only that is run, for a profiler.
//! docs/performance.md has the commands.

mod tls;

use std::error::Error;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls;
use quinn::{ClientConfig, Endpoint, Runtime, ServerConfig, TokioRuntime, TransportConfig};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn Error + Send + Sync>;

/// What is compared; the first is what the others are compared to.
const MODES: [Mode; 3] = [Mode::Quinn, Mode::Paced, Mode::Headed];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Quinn,
    Paced,
    /// And a header on every datagram.
    Headed,
}

struct Plan {
    rounds: usize,
    megabytes: usize,
    controller: String,
    /// Where the receiver is, if not here.
    elsewhere: Option<PathBuf>,
    /// Its address.
    receiver: IpAddr,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    cpu_s_per_gb: f64,
    mbit_per_s: f64,
    pacing_waits: u64,
}

fn main() -> ExitCode {
    match plan().and_then(|plan| measure(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan() -> Result<Plan, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: usize| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let receiver = arguments
        .get(4)
        .map_or(Ok(Ipv4Addr::LOCALHOST.into()), |text| text.parse())?;
    Ok(Plan {
        rounds: number(0, 21)?,
        megabytes: number(1, 200)?,
        controller: arguments.get(2).cloned().unwrap_or_else(|| "cubic".into()),
        elsewhere: arguments
            .get(3)
            .map(|name| Path::new("/run/netns").join(name)),
        receiver,
    })
}

fn measure(plan: &Plan) -> Result<(), Failure> {
    if let Ok(only) = std::env::var("MODE") {
        let mode = MODES.into_iter().find(|mode| format!("{mode:?}") == only);
        let mode = mode.ok_or("MODE is Quinn, Paced or Headed")?;
        for _ in 0..plan.rounds {
            println!("{:?}", transfer(plan, mode)?);
        }
        return Ok(());
    }
    let mut outcomes = [const { Vec::new() }; MODES.len()];
    for round in 0..plan.rounds {
        for at in 0..MODES.len() {
            // Another order each round, so that what drifts hits all alike.
            let mode = (at + round) % MODES.len();
            outcomes[mode].push(transfer(plan, MODES[mode])?);
        }
    }
    println!(
        "{} rounds of {} MB, {}: median (least to most)",
        plan.rounds, plan.megabytes, plan.controller
    );
    let base = spread(&outcomes[0], |outcome| outcome.cpu_s_per_gb).1;
    for (mode, outcomes) in MODES.iter().zip(&outcomes) {
        let (least, median, most) = spread(outcomes, |outcome| outcome.cpu_s_per_gb);
        let (slowest, speed, fastest) = spread(outcomes, |outcome| outcome.mbit_per_s);
        let waits = spread(outcomes, |outcome| outcome.pacing_waits as f64).1;
        println!(
            "{mode:?}: {median:.3} CPU s/GB ({least:.3} to {most:.3}), x {:.3}; {speed:.0} Mb/s \
             ({slowest:.0} to {fastest:.0}); held back {waits:.0} times",
            median / base
        );
    }
    Ok(())
}

/// Least, median and most.
fn spread(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> (f64, f64, f64) {
    let mut values: Vec<f64> = outcomes.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}

/// Sends from one thread to another.
fn transfer(plan: &Plan, mode: Mode) -> Result<Outcome, Failure> {
    let (server_tls, client_tls) = tls::configs()?;
    let (address, bound) = channel();
    let controller = plan.controller.clone();
    let (at, elsewhere) = (plan.receiver, plan.elsewhere.clone());
    let receiver = thread::spawn(move || -> Result<f64, Failure> {
        if let Some(namespace) = elsewhere {
            let namespace = File::open(namespace)?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        }
        block_on(async {
            let server = server(mode, at, &controller, server_tls)?;
            address.send(server.local_addr()?)?;
            let connection = server
                .accept()
                .await
                .ok_or("the endpoint was closed")?
                .await?;
            let mut stream = connection.accept_uni().await?;
            let before = thread_cpu_s();
            while stream.read_chunk(usize::MAX, true).await?.is_some() {}
            let cpu = thread_cpu_s() - before;
            connection.closed().await;
            Ok(cpu)
        })
    });
    let to = bound.recv()?;
    let (sent, elapsed, pacing_waits) = block_on(async {
        let client = client(mode, &plan.controller, client_tls)?;
        let connection = client.connect(to, "localhost")?.await?;
        let mut stream = connection.open_uni().await?;
        let block = vec![0; 1_000_000];
        let (cpu, start) = (thread_cpu_s(), TokioRuntime.now());
        for _ in 0..plan.megabytes {
            stream.write_all(&block).await?;
        }
        stream.finish()?;
        stream.stopped().await?;
        let spent = (thread_cpu_s() - cpu, TokioRuntime.now() - start);
        let context = evenkeel::Context::of(&connection);
        connection.close(0_u32.into(), b"done");
        client.wait_idle().await;
        let waits = context.map_or(0, |context| context.state().pacing_waits);
        Ok::<_, Failure>((spent.0, spent.1, waits))
    })?;
    let received = receiver.join().map_err(|_| "the receiver panicked")??;
    let megabytes = plan.megabytes as f64;
    Ok(Outcome {
        cpu_s_per_gb: (sent + received) * 1000.0 / megabytes,
        mbit_per_s: megabytes * 8.0 / elapsed.as_secs_f64(),
        pacing_waits,
    })
}

fn server(
    mode: Mode,
    at: IpAddr,
    controller: &str,
    tls: rustls::ServerConfig,
) -> Result<Endpoint, Failure> {
    if mode == Mode::Quinn {
        let tls = QuicServerConfig::try_from(tls)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(plain(controller)?));
        return Ok(Endpoint::server(config, (at, 0).into())?);
    }
    let (evenkeel, transport) = evenkeel(mode, controller)?;
    let config = evenkeel.server_config(tls, transport)?;
    Ok(evenkeel.bind((at, 0).into(), Some(config))?)
}

fn client(mode: Mode, controller: &str, tls: rustls::ClientConfig) -> Result<Endpoint, Failure> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let (mut endpoint, config) = if mode == Mode::Quinn {
        let tls = QuicClientConfig::try_from(tls)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(plain(controller)?));
        (Endpoint::client(any)?, config)
    } else {
        let (evenkeel, transport) = evenkeel(mode, controller)?;
        let config = evenkeel.client_config(tls, transport)?;
        (evenkeel.bind(any, None)?, config)
    };
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

fn evenkeel(
    mode: Mode,
    controller: &str,
) -> Result<(evenkeel::EndpointBuilder, Arc<TransportConfig>), Failure> {
    let evenkeel = evenkeel::EndpointBuilder::new().path_headers(u32::from(mode == Mode::Headed));
    let factory = evenkeel::controller(controller)?;
    let transport = evenkeel.transport(TransportConfig::default(), factory);
    Ok((evenkeel, transport))
}

fn plain(controller: &str) -> Result<TransportConfig, Failure> {
    let mut config = TransportConfig::default();
    config.congestion_controller_factory(evenkeel::controller(controller)?);
    Ok(config)
}

fn block_on<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(task)
}

/// CPU time of this thread; 0 for a profiler, because valgrind does not run what rustix does here.
fn thread_cpu_s() -> f64 {
    if std::env::var_os("MODE").is_some() {
        return 0.0;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
