//! docs/router.md, from nothing to a shaped, stamped link, as it is written there: its marked commands
//! on two hosts. Needs root, TUN, util-linux, ping, sysctl and the workspace's programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{eventually, has_namespaces_and, number, program, text};

/// Commands of the manual.
#[derive(Debug, PartialEq)]
struct Block {
    host: String,
    /// They go on until somebody ends them.
    stays: bool,
    commands: String,
}

/// The blocks that say where they are to be typed: `<!-- on HOST -->` or `<!-- on HOST, stays -->`.
fn blocks(manual: &str) -> Vec<Block> {
    let marked = manual.split("<!-- on ").skip(1);
    let block = |part: &str| {
        let (mark, rest) = part
            .split_once(" -->\n```\n")
            .expect("a block follows a mark");
        let (commands, _) = rest.split_once("\n```").expect("a block ends");
        let (host, stays) = match mark.split_once(", ") {
            Some((host, "stays")) => (host, true),
            None => (mark, false),
            Some(_) => panic!("{mark:?} says something else than where"),
        };
        Block {
            host: host.into(),
            stays,
            commands: commands.into(),
        }
    };
    marked.map(block).collect()
}

/// A host: a shell's network and files of its own, which end with it.
struct Host {
    shell: Child,
    /// Where its `/etc` and `/run` are; only there they change.
    _files: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let place = files.path().display();
        let script = format!(
            "mount -t tmpfs none {place} && cp -a /etc {place}/etc && mount --bind {place}/etc /etc && \
             mount -t tmpfs none /run && ip link set lo up && echo up && read end"
        );
        let mut shell = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux");
        let mut up = String::new();
        let output = shell.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut up).expect("a line");
        assert_eq!(up, "up\n");
        Self {
            shell,
            _files: files,
        }
    }

    fn pid(&self) -> String {
        // `unshare` has become the shell.
        self.shell.id().to_string()
    }

    /// A shell that ends at the first command that fails.
    fn command(&self, commands: &str) -> Command {
        let programs = program("evenkeel");
        let programs = programs.parent().expect("a directory").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("nsenter");
        command
            .args([
                "--target",
                &self.pid(),
                "--mount",
                "--net",
                "sh",
                "-e",
                "-c",
            ])
            .arg(commands)
            .env("PATH", format!("{programs}:{path}"))
            .stdin(Stdio::null());
        command
    }

    /// What commands print that must succeed.
    fn run(&self, commands: &str) -> String {
        let output = self.command(commands).output().expect("util-linux");
        let said = text(&output.stdout);
        assert!(
            output.status.success(),
            "{commands}\n{said}{}",
            text(&output.stderr)
        );
        said
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// What goes on in a terminal of its own.
struct Terminal {
    shell: Child,
    lines: PathBuf,
}

impl Terminal {
    fn open(host: &Host, commands: &str, directory: &Path, number: usize) -> Self {
        let lines = directory.join(format!("terminal-{number}"));
        let file = fs::File::create(&lines).expect("it can be written");
        let commands = format!("exec {commands}");
        let shell = host.command(&commands).stdout(file).spawn();
        let terminal = Self {
            shell: shell.expect("util-linux"),
            lines,
        };
        eventually("its first words", || !terminal.text().is_empty());
        terminal
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.lines).expect("it is there")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn an_operator_who_types_what_the_manual_says_has_a_shaped_and_stamped_link() {
    let programs = [
        ("unshare", "util-linux"),
        ("nsenter", "util-linux"),
        ("sysctl", "procps"),
        ("ping", "iputils-ping"),
    ];
    if !has_namespaces_and(&programs) {
        return;
    }
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/router.md");
    let blocks = blocks(&fs::read_to_string(manual).expect("it is there"));
    let count = |host: &str, stays| {
        let mine = blocks
            .iter()
            .filter(|block| block.host == host && block.stays == stays);
        mine.count()
    };
    assert_eq!(
        (
            count("alpha", false),
            count("alpha", true),
            count("beta", true)
        ),
        (3, 1, 1)
    );
    let (alpha, beta) = (Host::new(), Host::new());
    let (a, b) = (alpha.pid(), beta.pid());
    let link = format!("link add eth0 netns {a} type veth peer name eth0 netns {b}");
    let added = Command::new("ip").args(link.split(' ')).status();
    assert!(added.expect("iproute2").success());
    for (host, address) in [(&alpha, "10.1.1.1/24"), (&beta, "10.1.1.2/24")] {
        host.run(&format!(
            "ip address add {address} dev eth0; ip link set eth0 up"
        ));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut terminals = Vec::new();
    let mut said = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let host = if block.host == "alpha" { &alpha } else { &beta };
        if block.stays {
            let place = directory.path();
            terminals.push(Terminal::open(host, &block.commands, place, number));
        } else {
            said.push(host.run(&block.commands));
        }
    }
    assert!(
        said[1].starts_with("router beta: nothing wrong\n"),
        "{}",
        said[1]
    );
    let ready = terminals[0].text();
    assert!(
        ready.starts_with("ready name=beta ") && ready.ends_with("links=to-beta\n"),
        "{ready}"
    );
    // ping, a transfer, and what the router saw of them.
    let least = crate::support::least_round_trip_ms(&said[2]);
    assert!((20.0..30.0).contains(&least), "{least} ms: {}", said[2]);
    let status = alpha.run("evenkeel-router status --json");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let link = &status["links"][0];
    let total = |name: &str| number(&link["total"][name]["packets"]);
    // 5 s at 8 Mb/s are 5 MB and 4000 packets of 1260 bytes.
    assert!(total("forwarded") > 2500.0, "{link:#}");
    let bytes = number(&link["total"]["forwarded"]["bytes"]);
    assert!(bytes < 1.2 * 5e6, "{bytes} in 5 s at 8 Mb/s: {link:#}");
    let stamped = number(&link["total"]["headers"]["stamped"]);
    assert!(stamped > 0.9 * total("forwarded"), "{link:#}");
    assert!(said[2].contains("to-beta"), "{}", said[2]);
    println!("{}", said[2]);
}

#[test]
fn a_mark_and_its_block_are_read() {
    let manual =
        "text\n<!-- on alpha -->\n```\na\nb\n```\n\n<!-- on beta, stays -->\n```\nc\n```\n";
    let block = |host: &str, stays, commands: &str| Block {
        host: host.into(),
        stays,
        commands: commands.into(),
    };
    assert_eq!(
        blocks(manual),
        [block("alpha", false, "a\nb"), block("beta", true, "c")]
    );
}
