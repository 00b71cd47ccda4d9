//! Holds the kernel, and ends it when the caller is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, setrlimit,
    waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::clock::pause;
use super::job::{ENDED, FAILED, INIT, Job, KERNEL_LOG};

/// The kernel's memory. It is taken as it is used, from a file without a name.
const MEMORY: &str = "mem=1G";

/// Where that file is best: in memory, if there is room for all of it.
const SHARED_MEMORY: &str = "/dev/shm";
const NEEDED_MEMORY: u64 = 1 << 30;

/// Lets the kernel run on processors whose registers are more than it knows; empty where there is
/// no user-mode Linux.
const XSTATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xstate.so"));

/// Its name in the kernel's directory.
const XSTATE_FILE: &str = "./xstate.so";

/// How long the load of the CPUs is watched before one is chosen.
const LOOK: Duration = Duration::from_millis(200);

/// Starts the kernel that the job in `work` asks for; ends it, and removes `work`, when standard
/// input ends. That is so when the caller wants it, and when the caller is no more.
pub fn guard(work: &Path) {
    match start(work) {
        Ok((mut kernel, _claim)) => {
            let pid = Pid::from_child(&kernel);
            thread::scope(|scope| {
                scope.spawn(|| {
                    // It stays a zombie: its number, which is its group's, is nobody else's.
                    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                    let _ = waitid(WaitId::Pid(pid), options);
                    let _ = fs::write(work.join(ENDED), "");
                });
                wait_for_caller();
                let _ = kill_process_group(pid, Signal::KILL);
            });
            let _ = kernel.wait();
        }
        Err(error) => {
            let _ = fs::write(work.join(FAILED), error.to_string());
            wait_for_caller();
        }
    }
    let _ = fs::remove_dir_all(work);
}

fn wait_for_caller() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

/// The kernel, and the claim on its CPU.
fn start(work: &Path) -> io::Result<(Child, Option<UnixDatagram>)> {
    let job = Job::read(work)?;
    let cpu = stay_on_one_cpu();
    // Each file that is open inside is one of the kernel's.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    let log = File::create(work.join(KERNEL_LOG))?;
    fs::write(work.join(XSTATE_FILE), XSTATE)?;
    let work_text = work.display();
    let kernel = Command::new(&job.kernel.program)
        .arg(MEMORY)
        .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"])
        .arg(format!("init={}", work.join(INIT).display()))
        .args([&format!("uml_dir={work_text}"), "umid=vm"])
        .args(["con=null", "con0=null,fd:1", "ssl=null", "noreboot"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", work)
        .env("TMPDIR", memory_directory(work))
        .env("LD_PRELOAD", XSTATE_FILE)
        .current_dir(work)
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
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let claim = |cpu: usize| {
        let name = SocketAddr::from_abstract_name(format!("evenkeel-uml/cpu{cpu}")).ok()?;
        Some((cpu, UnixDatagram::bind_addr(&name).ok()?))
    };
    // Where it would have to share with others' work it might hardly run at all.
    let before = taken();
    pause(LOOK);
    let after = taken();
    let load = |cpu: &usize| Some(after.get(cpu)?.saturating_sub(*before.get(cpu)?));
    cpus.sort_by_key(load);
    let claimed = cpus.iter().copied().find_map(claim);
    let (cpu, socket) = match claimed {
        Some((cpu, socket)) => (cpu, Some(socket)),
        None => (*cpus.first()?, None),
    };
    let mut one = CpuSet::new();
    one.set(cpu);
    let _ = sched_setaffinity(None, &one);
    socket
}

/// Time that each CPU has spent on what does not give way, in the kernel's ticks (proc(5), stat:
/// user, system, irq and softirq; what is niced does).
fn taken() -> BTreeMap<usize, u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().filter_map(taken_by).collect()
}

fn taken_by(line: &str) -> Option<(usize, u64)> {
    let mut fields = line.strip_prefix("cpu")?.split(' ');
    let cpu = fields.next()?.parse().ok()?;
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let [user, _nice, system, _idle, _iowait, irq, softirq, ..] = ticks[..] else {
        return None;
    };
    Some((cpu, user + system + irq + softirq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_way_does_not_count_as_load_of_a_cpu() {
        let line = "cpu1 174200 373577 41382 23440 375 0 1222 204 0 0";
        assert_eq!(taken_by(line), Some((1, 174_200 + 41_382 + 1222)));
        // The sum of all, and what is no CPU.
        assert_eq!(taken_by("cpu  1 2 3 4 5 6 7 8 9 10"), None);
        assert_eq!(taken_by("ctxt 123456"), None);
    }
}
