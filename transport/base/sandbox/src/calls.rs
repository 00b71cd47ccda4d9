//! Restricts system calls by seccomp.
//!
//! A call that is not allowed returns EPERM: what tried it says so with its own words, and what
//! else the program does goes on.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

use super::{Confinement, SandboxError, kernel};

/// What programs may do with whatever arguments.
const ALWAYS: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // What is open, and what Landlock lets them open.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    // Events and time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    // Sockets that they have.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Themselves.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// What only this architecture has, as older forms of others.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Ways to type into the terminal that started the program: TIOCSTI and TIOCLINUX
/// (asm-generic/ioctls.h; the C libraries give them different types).
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// Lets the program make only the calls that programs of evenkeel need; with `networks` also for
/// new sockets of IP and of the kernel's routing.
pub(super) fn restrict(networks: bool, confinement: &mut Confinement) -> Result<(), SandboxError> {
    let failed = |error: Error| kernel("system calls")(io::Error::other(error));
    for filter in filters(networks).map_err(|error| failed(error.into()))? {
        match apply_filter_all_threads(&filter) {
            Err(Error::Seccomp(error)) if is_absent(&error) => {
                confinement.lacks.push("no seccomp".to_owned());
                return Ok(());
            }
            applied => applied.map_err(failed)?,
        }
    }
    confinement.seccomp = true;
    Ok(())
}

/// Whether the kernel has no filters, or a container does not let anybody install one.
fn is_absent(error: &io::Error) -> bool {
    let absent = [libc::ENOSYS, libc::EINVAL, libc::EPERM];
    error.raw_os_error().is_some_and(|n| absent.contains(&n))
}

fn filters(networks: bool) -> Result<[BpfProgram; 2], BackendError> {
    let compile = |rules, otherwise, action| {
        SeccompFilter::new(rules, otherwise, action, ARCH.try_into()?)?.try_into()
    };
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    // The C library then makes threads by clone, whose flags a filter can see.
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let threads = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    // The kernel takes the first of two refusals: the later filter leaves this one to the earlier.
    Ok([
        compile(threads, SeccompAction::Allow, absent)?,
        compile(rules(networks)?, refused, SeccompAction::Allow)?,
    ])
}

/// What is allowed: a call by its number, with any of the conditions; without any, always.
fn rules(networks: bool) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let always = ALWAYS.iter().chain(OLDER).map(|call| (*call, Vec::new()));
    let mut rules: BTreeMap<_, _> = always.collect();
    let is = |argument, value: libc::c_int| condition(argument, Eq, value as u64);
    let without = |argument, flag: libc::c_int| condition(argument, MaskedEq(flag as u64), 0);
    let with =
        |argument, flag: libc::c_int| condition(argument, MaskedEq(flag as u64), flag as u64);
    // No new code.
    rules.insert(libc::SYS_mmap, vec![rule([without(2, libc::PROT_EXEC)])?]);
    let protect = vec![rule([without(2, libc::PROT_EXEC)])?];
    rules.insert(libc::SYS_mprotect, protect);
    // No new programs.
    rules.insert(libc::SYS_clone3, Vec::new());
    rules.insert(libc::SYS_clone, vec![rule([with(0, libc::CLONE_THREAD)])?]);
    // This one may end itself, name its threads, and ask for its limits.
    let own = std::process::id() as libc::c_int;
    rules.insert(libc::SYS_tgkill, vec![rule([is(0, own)])?]);
    rules.insert(libc::SYS_prctl, vec![rule([is(0, libc::PR_SET_NAME)])?]);
    let asks = vec![rule([is(0, 0), is(2, 0)])?, rule([is(0, own), is(2, 0)])?];
    rules.insert(libc::SYS_prlimit64, asks);
    let quiet = TYPING.map(|request| condition(1, Ne, request));
    rules.insert(libc::SYS_ioctl, vec![rule(quiet)?]);
    let mut sockets = vec![rule([is(0, libc::AF_UNIX)])?];
    if networks {
        sockets.push(rule([is(0, libc::AF_INET)])?);
        sockets.push(rule([is(0, libc::AF_INET6)])?);
        let routing = [is(0, libc::AF_NETLINK), is(2, libc::NETLINK_ROUTE)];
        sockets.push(rule(routing)?);
    }
    rules.insert(libc::SYS_socket, sockets);
    Ok(rules)
}

type Condition = Result<SeccompCondition, BackendError>;

/// Of an argument's lower half: nothing here is longer.
fn condition(argument: u8, compare: SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(argument, Dword, compare, value)
}

/// All of these.
fn rule<const N: usize>(conditions: [Condition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}
