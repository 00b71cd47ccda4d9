//! What running servers may do, and what not.

use std::fs;
use std::os::unix::fs::symlink;

use crate::program::{Server, evenkeel, success};

/// A field of the kernel's /proc/PID/status.
fn field(server: &Server, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

#[test]
fn servers_give_up_all_capabilities_and_new_privileges_and_filter_their_calls() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for server in [
        Server::bulk(&["--root", path, "--qlog", path]),
        Server::stream(&[]),
    ] {
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(field(&server, set), "0000000000000000", "{set}");
        }
        assert_eq!(field(&server, "NoNewPrivs"), "1");
        // Filters, where the kernel has them (linux/seccomp.h).
        let has_seccomp = fs::exists("/proc/sys/kernel/seccomp").unwrap();
        assert_eq!(field(&server, "Seccomp") == "2", has_seccomp);
    }
    let server = Server::bulk(&["--no-sandbox"]);
    assert_eq!(field(&server, "NoNewPrivs"), "0");
}

#[test]
fn a_confined_server_writes_no_trace_outside_its_directory() {
    for is_confined in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let [traces, elsewhere] = ["traces", "elsewhere"].map(|name| directory.path().join(name));
        fs::create_dir(&elsewhere).unwrap();
        let mut arguments = vec!["-v", "bulk", "server", "--listen", "127.0.0.1:0"];
        arguments.extend(["--qlog", traces.to_str().unwrap()]);
        arguments.extend((!is_confined).then_some("--no-sandbox"));
        let server = Server::start(evenkeel(&arguments));
        // Its path now leads elsewhere.
        fs::rename(&traces, directory.path().join("moved")).unwrap();
        symlink(&elsewhere, &traces).unwrap();
        let mut client = server.client(&["--bytes", "1kB"]);
        success(client.output().unwrap());
        server.signal("INT");
        let (_, _, errors) = server.end();
        if ["Landlock is switched off", "no Landlock"]
            .iter()
            .any(|lack| errors.contains(lack))
        {
            return;
        }
        let written = fs::read_dir(&elsewhere).unwrap().count();
        assert_eq!(written == 0, is_confined, "{errors}");
        assert_eq!(
            errors.contains("permission denied"),
            is_confined,
            "{errors}"
        );
    }
}
