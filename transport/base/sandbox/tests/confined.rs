//! A program that gives up its rights, and then tries what it may not do. It has one thread, as
//! programs do when they confine themselves: so this is no test of libtest's.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use evenkeel_sandbox::{Access, Capabilities, Rights};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Pid, Signal, kill_process};

/// An argument with which this program only waits to be killed.
const VICTIM: &str = "victim";

fn main() {
    if env::args().any(|argument| argument == VICTIM) {
        // Until the test ends.
        io::copy(&mut io::stdin(), &mut io::sink()).expect("it can be read");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    for (name, text) in [("read/file", "r"), ("change/file", "c"), ("out", "o")] {
        fs::create_dir_all(at(name).parent().expect("a directory")).expect("it is made");
        fs::write(at(name), text).expect("it is written");
    }
    for name in ["fill", "sockets"] {
        fs::create_dir(at(name)).expect("it is made");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    let this = env::current_exe().expect("it has a path");
    let mut other = Command::new(this);
    other.arg(VICTIM).stdin(Stdio::piped());
    let mut other = other.spawn().expect("this program once more");
    let victim = Pid::from_child(&other);

    let rights = Rights {
        capabilities: Some(Capabilities::NET_ADMIN),
        files: vec![
            (at("read"), Access::Read),
            (at("change"), Access::Change),
            (at("fill"), Access::Fill),
            (at("sockets"), Access::Sockets),
        ],
        networks: true,
    };
    let missing = Rights {
        files: vec![(at("missing"), Access::Read)],
        ..Rights::default()
    };
    let error = missing.confine().expect_err("it does not exist");
    assert!(error.to_string().contains("missing"), "{error}");
    let (confinement, held) = rights.confine().expect("it is confined");
    println!("confined: {confinement}");

    let status = fs::read_to_string("/proc/self/status");
    if confinement.landlock.is_some() {
        refused(status, ErrorKind::PermissionDenied, "what is not allowed");
        files(directory.path());
        let connected = TcpStream::connect(address);
        refused(connected, ErrorKind::PermissionDenied, "TCP to others");
    }
    if confinement.seccomp {
        let started = Command::new("/bin/true").status();
        refused(started, ErrorKind::PermissionDenied, "a program");
        let raw = socket(AddressFamily::PACKET, SocketType::RAW, None);
        refused(raw, ErrorKind::PermissionDenied, "a raw socket");
        let other = socket(
            AddressFamily::NETLINK,
            SocketType::RAW,
            Some(rustix::net::netlink::NETFILTER),
        );
        refused(other, ErrorKind::PermissionDenied, "the packet filter");
        let killed = kill_process(victim, Signal::TERM);
        refused(killed, ErrorKind::PermissionDenied, "a signal to others");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        let changed = fs::set_permissions(at("out"), mode);
        refused(changed, ErrorKind::PermissionDenied, "other permissions");
    }
    // What every program here does.
    UdpSocket::bind("127.0.0.1:0").expect("a socket of UDP");
    socket(AddressFamily::NETLINK, SocketType::RAW, None)
        .expect("a socket of the kernel's routing");
    let named = thread::Builder::new().name("other".to_owned());
    let thread = named.spawn(|| File::open("/etc/passwd").is_err());
    let is_confined = thread.expect("a thread").join().expect("it does not panic");
    assert!(
        is_confined || confinement.landlock.is_none(),
        "threads are confined"
    );
    drop(held);
    drop(other.stdin.take());
    // It ends with its input; a confined program may not even wait for it.
    let _ = other.wait();
    println!("test a_confined_program_can_do_what_it_said_and_nothing_else ... ok");
}

/// What may be done with files, and what not.
fn files(directory: &Path) {
    let denied = ErrorKind::PermissionDenied;
    let at = |name: &str| directory.join(name);
    let write = |name: &str| OpenOptions::new().write(true).open(at(name));
    refused(fs::read(at("out")), denied, "a file outside");
    refused(fs::read(at("read/../out")), denied, "a file outside");
    fs::read(at("read/file")).expect("it may be read");
    refused(write("read/file"), denied, "writing what may be read");
    refused(fs::write(at("read/new"), ""), denied, "a new file");
    fs::write(at("change/file"), "other").expect("it may be changed");
    refused(fs::write(at("change/new"), ""), denied, "a new file");
    fs::write(at("fill/new"), "text").expect("it may be made");
    refused(fs::remove_file(at("fill/new")), denied, "removing");
    UnixListener::bind(at("sockets/socket")).expect("it may be made");
    fs::remove_file(at("sockets/socket")).expect("it may be removed");
    refused(
        fs::write(at("sockets/file"), ""),
        denied,
        "a file for a socket",
    );
}

fn refused<T>(done: Result<T, impl Into<io::Error>>, kind: ErrorKind, what: &str) {
    let error = done.err().unwrap_or_else(|| panic!("{what} is allowed"));
    assert_eq!(error.into().kind(), kind, "{what}");
}
