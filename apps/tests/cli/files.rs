//! Files and pipes of `evenkeel bulk` that change, wait, or do not fit.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::program::{Process, Server, last_words, noise};

/// Both sides' digests are of what was read: a mixture of old and new would agree with itself.
#[test]
fn a_file_that_changes_in_the_middle_is_not_verified_in_either_direction() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let server = Server::bulk(&["--root", directory.path().to_str().unwrap()]);
    let changes: [(&str, fn(&Path), &str); 3] = [
        ("rewritten", rewrite, "the file changed while it was read"),
        ("longer", grow, "the file changed while it was read"),
        ("shorter", shrink, "became shorter while it was read"),
    ];
    let mut running = Vec::new();
    for (name, change, cause) in changes {
        fs::write(path(name), noise(3, 400_000)).unwrap();
        let (file, copy) = (path(name), path(&format!("{name}-copy")));
        let upload = ["--file", &file];
        let download = ["-R", "--file", name, "--output", &copy];
        let sender = "the peer gave up: reading the data to send failed";
        for (arguments, cause) in [(&upload[..], cause), (&download, sender)] {
            let options = ["-b", "2M", "--interval", "0.2", "--no-pings"];
            let command = server.client(&[&options, arguments].concat());
            let mut client = Process::start(command);
            assert_ne!(client.line(), "");
            running.push((client, cause, copy.clone()));
        }
        change(Path::new(&file));
    }
    for (client, cause, copy) in running {
        let line = last_words(&client.output(), 1);
        assert!(line.contains(cause), "{line}");
        assert!(!fs::exists(copy).unwrap(), "it was kept");
    }
}

fn open(path: &Path) -> fs::File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn rewrite(path: &Path) {
    open(path).write_all_at(b"new", 0).unwrap();
}

fn grow(path: &Path) {
    open(path).write_all_at(b"new", 400_000).unwrap();
}

fn shrink(path: &Path) {
    open(path).set_len(300_000).unwrap();
}
