//! Process 1 inside user-mode Linux.

use std::convert::Infallible;
use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{Pid, WaitOptions, wait};
use rustix::system::{RebootCommand, reboot, uname};

use super::super::kernel::output_of;
use super::job::{ERRORS, FAILED, Job, OUTPUT, STATUS, UP};

/// Loaded beforehand; a run cannot do without the first two, nor netem without the others. The
/// kernel asks for whatever else a command needs.
const MODULES: [&str; 9] = [
    "veth",
    "tun",
    "overlay",
    "ipv6",
    "ifb",
    "sch_netem",
    "sch_ingress",
    "cls_matchall",
    "act_mirred",
];

/// Where things are that only this kernel needs.
const PRIVATE: &str = "/run/evenkeel-uml";

/// Makes the kernel usable, runs what the job in `work` says, and switches the kernel off. It
/// returns only if not even that is possible.
pub fn init(work: &Path) {
    let (file, text) = match prepare(work).and_then(|job| run(&job, work)) {
        Ok(status) => (STATUS, status.to_string()),
        Err(error) => (FAILED, error.to_string()),
    };
    // Under its name only when it is whole.
    let new = work.join("status.new");
    let _ = fs::write(&new, text).and_then(|()| fs::rename(new, work.join(file)));
    let _: Result<Infallible, _> = reboot(RebootCommand::PowerOff).map(|()| unreachable!());
}

/// Mounts, modules, the loopback device. All files are the machine's but for those mounted here.
fn prepare(work: &Path) -> io::Result<Job> {
    let job = Job::read(work)?;
    mounted("proc", "/proc", None)?;
    mounted("sysfs", "/sys", None)?;
    mounted("tmpfs", "/run", Some(c"mode=755"))?;
    if !is_mounted("/dev")? {
        mounted("devtmpfs", "/dev", None)?;
    }
    fs::create_dir_all("/dev/pts")?;
    fs::create_dir_all("/dev/shm")?;
    mounted("devpts", "/dev/pts", Some(c"mode=620,ptmxmode=666"))?;
    mounted("tmpfs", "/dev/shm", Some(c"mode=1777"))?;
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ] {
        let link = Path::new("/dev").join(name);
        if !link.exists() {
            symlink(target, link)?;
        }
    }
    if fs::canonicalize("/var/run").is_ok_and(|path| path != Path::new("/run")) {
        mount_bind("/run", "/var/run")
            .map_err(|error| failed_to("mount /var/run", error.into()))?;
    }
    load_modules(&job)?;
    // `ip netns` keeps files of each namespace in /etc: they must not reach the machine's.
    let layers = ["upper", "work"].map(|name| Path::new(PRIVATE).join(name));
    for layer in &layers {
        fs::create_dir_all(layer)?;
    }
    let options = c"lowerdir=/etc,upperdir=/run/evenkeel-uml/upper,workdir=/run/evenkeel-uml/work";
    mounted("overlay", "/etc", Some(options))?;
    let mut ip = Command::new("ip");
    let status = ip.args(["link", "set", "lo", "up"]).status();
    status.map_err(|error| failed_to("run ip", error))?;
    Ok(job)
}

/// Modules stay where Debian has put them; modprobe wants them below `lib/modules` of some root,
/// also when the kernel itself calls it.
fn load_modules(job: &Job) -> io::Result<()> {
    let private = Path::new(PRIVATE);
    let modules = private.join("lib/modules");
    fs::create_dir_all(&modules)?;
    let version = uname().release().to_string_lossy().into_owned();
    symlink(&job.kernel.modules, modules.join(version))?;
    let modprobe = job.kernel.modprobe.display();
    let text = format!("#!/bin/sh\nexec '{modprobe}' -d {PRIVATE} \"$@\"\n");
    let script = private.join("modprobe");
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let name = script.as_os_str().as_encoded_bytes();
    fs::write("/proc/sys/kernel/modprobe", name)?;
    let output = output_of(Command::new(&script).arg("-a").args(MODULES), "");
    let output = output.map_err(|error| failed_to("run modprobe", error))?;
    output.map(|_| ()).map_err(io::Error::other)
}

fn run(job: &Job, work: &Path) -> io::Result<i32> {
    let append = |name| OpenOptions::new().append(true).open(work.join(name));
    let output = append(OUTPUT)?;
    let errors = match job.merged {
        true => output.try_clone()?,
        false => append(ERRORS)?,
    };
    // The kernel begins with none, and files would be everybody's.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    let mut command = Command::new(&job.program);
    command
        .args(&job.arguments)
        .current_dir(&job.directory)
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let path = job.environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or_else(String::new, |(_, path)| {
        format!("{}:", path.to_string_lossy())
    });
    command.env("PATH", format!("{path}/usr/sbin:/usr/bin:/sbin:/bin"));
    File::create(work.join(UP))?;
    let child = command.spawn();
    let child = child.map_err(|error| failed_to("start the program", error))?;
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        // Process 1 is the parent of all orphans.
        let Some((pid, status)) = wait(WaitOptions::empty())? else {
            continue;
        };
        if Some(pid) == child {
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            return Ok(status.exit_status().or(signal).unwrap_or(1));
        }
    }
}

fn mounted(kind: &str, at: &str, options: Option<&CStr>) -> io::Result<()> {
    mount(kind, at, kind, MountFlags::empty(), options)
        .map_err(|error| failed_to(&format!("mount {at}"), error.into()))
}

fn is_mounted(at: &str) -> io::Result<bool> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let mut mounts = mounts.lines();
    Ok(mounts.any(|line| line.split(' ').nth(1) == Some(at)))
}

fn failed_to(what: &str, error: io::Error) -> io::Error {
    io::Error::other(format!("cannot {what}: {error}"))
}
