//! Holds the kernel, and ends it when the caller is gone.

use std::fs::{self, File};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, setrlimit,
    waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::order::{ENDED, FAILED, INIT, KERNEL_LOG, Order};

/// The kernel's memory. It is taken as it is used, from a file without a name.
const MEMORY: &str = "mem=1G";

/// Where that file is best: in memory, if there is room for all of it.
const SHARED_MEMORY: &str = "/dev/shm";
const NEEDED_MEMORY: u64 = 1 << 30;

/// Starts the kernel that the order in `work` asks for; ends it, and removes `work`, when standard
/// input ends. That is so when the caller wants it, and when the caller is no more.
pub fn guard(work: &Path) {
    let kernel = start(work);
    let pid = match &kernel {
        Ok((kernel, _)) => Pid::from_raw(kernel.id().cast_signed()),
        Err(error) => {
            let _ = fs::write(work.join(FAILED), error.to_string());
            None
        }
    };
    if let Some(pid) = pid {
        let ended = work.join(ENDED);
        thread::spawn(move || {
            // It stays a zombie, so that its number, which is its group's, is nobody else's.
            let _ = waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            );
            let _ = fs::write(ended, "");
        });
    }
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    if let (Some(pid), Ok((mut kernel, _))) = (pid, kernel) {
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = kernel.wait();
    }
    let _ = fs::remove_dir_all(work);
}

/// The kernel, and the claim on its CPU.
fn start(work: &Path) -> io::Result<(Child, Option<UnixDatagram>)> {
    let order = Order::read(work)?;
    let cpu = stay_on_one_cpu();
    // Each file that is open inside is one of the kernel's.
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: files.maximum,
            maximum: files.maximum,
        },
    );
    let log = File::create(work.join(KERNEL_LOG))?;
    let work_text = work.display();
    let kernel = Command::new(&order.kernel.program)
        .arg(MEMORY)
        .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"])
        .arg(format!("init={}", work.join(INIT).display()))
        .args([&format!("uml_dir={work_text}"), "umid=vm"])
        .args(["con=null", "con0=null,fd:1", "ssl=null", "noreboot"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", work)
        .env("TMPDIR", memory_directory(work))
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(log.try_clone()?)
        .stdout(log)
        .process_group(0)
        .spawn()?;
    Ok((kernel, cpu))
}

fn memory_directory(work: &Path) -> PathBuf {
    let room = rustix::fs::statvfs(SHARED_MEMORY).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if room > NEEDED_MEMORY {
        SHARED_MEMORY.into()
    } else {
        work.to_owned()
    }
}

/// Binds this process and what it starts to one CPU, if possible one that no other guard has. The
/// kernel hands every system call of a process inside from one process to another, which takes
/// much longer from CPU to CPU. The socket is the claim on the CPU; it lasts as long as this process.
fn stay_on_one_cpu() -> Option<UnixDatagram> {
    let allowed = sched_getaffinity(None).ok()?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let claim = |cpu: usize| {
        let name = SocketAddr::from_abstract_name(format!("evenkeel-uml/cpu{cpu}")).ok()?;
        Some((cpu, UnixDatagram::bind_addr(&name).ok()?))
    };
    // The last first: the first ones have the machine's interrupts, as a rule.
    let claimed = cpus.iter().rev().copied().find_map(claim);
    let (cpu, socket) = match claimed {
        Some((cpu, socket)) => (cpu, Some(socket)),
        None => {
            let position = std::process::id() as usize % cpus.len();
            (cpus[position], None)
        }
    };
    let mut one = CpuSet::new();
    one.set(cpu);
    let _ = sched_setaffinity(None, &one);
    socket
}
