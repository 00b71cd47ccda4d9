//! The program `files`, as people run it.

#![expect(
    clippy::disallowed_methods,
    reason = "it waits for programs in real time"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use evenkeel_noq_programs::Result;
use iroh::protocol::Router;
use iroh::{Endpoint, RelayMode, endpoint::presets};
use iroh_blobs::format::collection::Collection;
use iroh_blobs::store::mem::MemStore;
use iroh_blobs::ticket::BlobTicket;
use iroh_blobs::{BlobFormat, BlobsProtocol};

#[test]
fn a_directory_arrives_as_it_was_sent() -> Result<()> {
    let here = Scratch::new("directory")?;
    let tree = here.0.join("tree");
    fs::create_dir_all(tree.join("deep/er"))?;
    fs::write(tree.join("empty"), "")?;
    fs::write(tree.join("small"), "seventeen bytes..")?;
    fs::write(tree.join("deep/large"), noise(300_000, 1))?;
    fs::write(tree.join("deep/er/the same"), noise(300_000, 1))?;
    std::os::unix::fs::symlink("/etc/passwd", tree.join("link"))?;
    let sender = here.send(&tree, "keel")?;
    let output = here.receive(&sender.ticket, "keel").output()?;
    assert_eq!(error_of(&output), "", "a receiver that succeeds");
    let got = here.0.join("got/tree");
    for name in ["empty", "small", "deep/large", "deep/er/the same"] {
        assert_eq!(
            fs::read(got.join(name))?,
            fs::read(tree.join(name))?,
            "{name}"
        );
    }
    assert!(!got.join("link").exists(), "links are left out");
    assert_eq!(
        fs::read_dir(here.0.join("got"))?.count(),
        1,
        "no state is left"
    );
    Ok(())
}

#[test]
fn a_receiver_that_was_killed_goes_on_with_what_it_has() -> Result<()> {
    let here = Scratch::new("killed")?;
    let file = here.0.join("file");
    fs::write(&file, noise(200_000_000, 2))?;
    let sender = here.send(&file, "keel")?;
    let mut receiver = here.receive(&sender.ticket, "keel").spawn()?;
    // iroh-blobs writes down what it has a few times a second.
    while stored(&here.0.join("got")) < 120_000_000 {
        std::thread::sleep(Duration::from_millis(5));
        assert!(
            receiver.try_wait()?.is_none(),
            "it was to be killed on the way"
        );
    }
    receiver.kill()?;
    receiver.wait()?;
    assert!(!here.0.join("got/file").exists());

    let output = here.receive(&sender.ticket, "keel").output()?;
    let said = String::from_utf8(output.stderr)?;
    assert!(output.status.success(), "{said}");
    let first = said.split(" of which ").nth(1).unwrap_or_default();
    let kept: u64 = first.split(' ').next().unwrap_or_default().parse()?;
    assert!(kept >= 4_000_000, "{said}");
    assert!(fs::read(&file)? == fs::read(here.0.join("got/file"))?);
    Ok(())
}

#[test]
fn a_sender_that_was_killed_serves_the_same_ticket_again() -> Result<()> {
    let here = Scratch::new("sender")?;
    let file = here.0.join("file");
    fs::write(&file, noise(50_000, 3))?;
    let first = here.send(&file, "keel")?;
    let ticket = first.ticket.clone();
    drop(first);
    let port: BlobTicket = ticket.parse()?;
    let port = port.addr().ip_addrs().next().ok_or("no address")?.port();
    let second = here.send_from(&file, "keel", port)?;
    assert_eq!(second.ticket, ticket);
    assert!(here.receive(&ticket, "cubic").status()?.success());
    Ok(())
}

#[test]
fn nothing_that_exists_is_overwritten() -> Result<()> {
    let here = Scratch::new("exists")?;
    let file = here.0.join("file");
    fs::write(&file, noise(50_000, 4))?;
    let sender = here.send(&file, "default")?;
    fs::create_dir(here.0.join("got"))?;
    fs::write(here.0.join("got/file"), "mine")?;
    let output = here.receive(&sender.ticket, "default").output()?;
    assert!(!output.status.success());
    assert!(
        error_of(&output).contains("exists"),
        "{}",
        error_of(&output)
    );
    assert_eq!(fs::read(here.0.join("got/file"))?, b"mine");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_lead_out_of_the_directory_are_refused() -> Result<()> {
    let here = Scratch::new("names")?;
    let store = MemStore::new();
    let data = store.blobs().add_slice("evil").temp_tag().await?;
    let endpoint = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports()
        .bind_addr("127.0.0.1:0")?
        .bind()
        .await?;
    let blobs = BlobsProtocol::new(&store, None);
    let router = Router::builder(endpoint.clone())
        .accept(iroh_blobs::ALPN, blobs)
        .spawn();
    for names in [
        &["../evil"][..],
        &["/tmp/evil"],
        &["fine", "a/../../evil"],
        &["./evil"],
        &["a//evil"],
        &["evil/"],
        &[""],
        &["evil\0"],
        &["twice", "twice"],
        &["both", "both/evil"],
    ] {
        let files = names.iter().map(|name| (*name, data.hash()));
        let collection: Collection = files.collect();
        let tag = collection.store(&store).await?;
        let ticket = BlobTicket::new(endpoint.addr(), tag.hash(), BlobFormat::HashSeq);
        let output = here.receive(&ticket.to_string(), "keel").output()?;
        let error = error_of(&output);
        assert!(!output.status.success(), "{names:?}: {error}");
        assert!(error.starts_with("the sender has "), "{names:?}: {error}");
        let files = fs::read_dir(here.0.join("got"))?;
        for file in files {
            let name = file?.file_name();
            assert!(name.to_string_lossy().starts_with(".evenkeel-"), "{name:?}");
        }
    }
    assert!(!here.0.join("evil").exists());
    router.shutdown().await?;
    Ok(())
}

#[test]
fn a_sender_that_is_not_there_is_named() -> Result<()> {
    let here = Scratch::new("absent")?;
    let file = here.0.join("file");
    fs::write(&file, "file")?;
    let sender = here.send(&file, "keel")?;
    let ticket = sender.ticket.clone();
    drop(sender);
    let output = here.receive(&ticket, "keel").output()?;
    assert!(!output.status.success());
    assert_eq!(
        error_of(&output),
        "the sender does not answer: does it run?\n"
    );
    Ok(())
}

/// A sender on this machine alone; dropped, it is killed.
struct Sender {
    child: Child,
    ticket: String,
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{test}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn send(&self, path: &Path, controller: &str) -> Result<Sender> {
        self.send_from(path, controller, 0)
    }

    fn send_from(&self, path: &Path, controller: &str, port: u16) -> Result<Sender> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_files"))
            .arg("send")
            .arg(path)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--controller", controller])
            .arg("--state")
            .arg(self.0.join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (output, error) = (child.stdout.take(), child.stderr.take());
        let mut ticket = String::new();
        BufReader::new(output.ok_or("no output")?).read_line(&mut ticket)?;
        if ticket.is_empty() {
            let mut said = String::new();
            error.ok_or("no error")?.read_to_string(&mut said)?;
            return Err(said.into());
        }
        let ticket = ticket.trim().to_owned();
        Ok(Sender { child, ticket })
    }

    /// `files receive` into `got`.
    fn receive(&self, ticket: &str, controller: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_files"));
        command
            .args(["receive", ticket])
            .arg(self.0.join("got"))
            .args(["--listen", "127.0.0.1:0", "--controller", controller])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a program that failed says at last; nothing of one that succeeded.
fn error_of(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => String::new(),
        false => said
            .lines()
            .last()
            .map_or(String::new(), |line| format!("{line}\n")),
    }
}

/// Bytes on disk below a directory.
fn stored(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |metadata| metadata.len());
    };
    entries.flatten().map(|entry| stored(&entry.path())).sum()
}

/// Bytes that repeat nowhere.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 29).to_le_bytes()
    });
    words.take(bytes).collect()
}
