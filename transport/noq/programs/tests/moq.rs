//! The program `moq`, as people run it: a publisher, a relay and a subscriber.

#![expect(clippy::disallowed_methods, reason = "programs run in real time")]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_noq_programs::Result;

/// Pictures and seconds of the source.
const PICTURES: usize = 100;
const SECONDS: u64 = 4;
/// Frames of AAC in them: 1024 samples each, of 48,000 a second.
const SOUNDS: usize = 187;
/// Less than the source has.
const SLOW_BPS: u64 = 500_000;

#[test]
fn sound_and_pictures_pass_a_relay_to_two_subscribers() -> Result<()> {
    let here = scratch("relayed")?;
    let source = source(&here)?;
    let (_relay, address) = relay(&here, "keel")?;
    let mut first = subscriber(&here, &address, "first.ts")?;
    let mut second = subscriber(&here, &address, "second.ts")?;
    let mut publisher = moq(&here, &["publish", &address, "camera"])
        .stdin(Stdio::piped())
        .spawn()?;
    let input = publisher.stdin.take().ok_or("no input")?;
    paced(&source, input)?;
    assert!(publisher.wait()?.success());
    for (viewer, output) in [(&mut first, "first.ts"), (&mut second, "second.ts")] {
        let mut report = String::new();
        let said = viewer.0.stderr.take().ok_or("no report")?;
        BufReader::new(said).read_to_string(&mut report)?;
        assert!(viewer.0.wait()?.success(), "{report}");
        let pictures: usize = report.split(' ').next().unwrap_or_default().parse()?;
        // A subscriber begins with the newest group of pictures.
        assert!((PICTURES / 2..=PICTURES).contains(&pictures), "{report}");
        let output = here.join(output);
        assert_eq!(count(&output, "v:0")?, pictures, "{report}");
        assert!(count(&output, "a:0")? > pictures, "{report}");
    }
    Ok(())
}

#[test]
fn a_link_that_is_too_slow_costs_pictures_and_no_sound() -> Result<()> {
    let here = scratch("slow")?;
    let source = source(&here)?;
    let (_relay, address) = relay(&here, "keel")?;
    let slow = slow_link(address.parse()?)?.to_string();
    let mut viewer = subscriber(&here, &slow, "slow.ts")?;
    let mut publisher = moq(&here, &["publish", &address, "camera"])
        .stdin(Stdio::piped())
        .spawn()?;
    paced(&source, publisher.stdin.take().ok_or("no input")?)?;
    publisher.wait()?;
    let (mut report, said) = (String::new(), viewer.0.stderr.take().ok_or("no report")?);
    BufReader::new(said).read_to_string(&mut report)?;
    let (pictures, sounds) = (
        count(&here.join("slow.ts"), "v:0")?,
        count(&here.join("slow.ts"), "a:0")?,
    );
    assert!(pictures < PICTURES * 3 / 4, "{report}");
    assert!(sounds > SOUNDS * 3 / 4, "{report}");
    Ok(())
}

#[test]
fn a_relay_with_another_certificate_is_refused() -> Result<()> {
    let (one, other) = (scratch("one")?, scratch("other")?);
    let (_relay, address) = relay(&one, "default")?;
    let (_made, _) = relay(&other, "default")?;
    let output = moq(&other, &["subscribe", &address, "camera"]).output()?;
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("certificate"), "{said}");
    Ok(())
}

#[test]
fn a_relay_outlives_those_who_speak_no_moq_and_who_have_nothing_to_say() -> Result<()> {
    let here = scratch("hostile")?;
    let (mut relay, address) = relay(&here, "keel")?;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    for length in 0..1500 {
        socket.send_to(&vec![0xc3; length], &address)?;
    }
    let output = moq(&here, &["publish", &address, "camera"])
        .stdin(Stdio::null())
        .output()?;
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("no picture and no sound"), "{said}");
    assert!(relay.0.try_wait()?.is_none());
    Ok(())
}

#[test]
fn a_subscriber_reports_what_it_saw_when_the_relay_stops() -> Result<()> {
    let here = scratch("stopped")?;
    let source = source(&here)?;
    let (mut relay, address) = relay(&here, "keel")?;
    let mut viewer = subscriber(&here, &address, "seen.ts")?;
    let mut publisher = moq(&here, &["publish", &address, "camera"])
        .stdin(Stdio::piped())
        .spawn()?;
    // It has not ended.
    let mut input = publisher.stdin.take().ok_or("no input")?;
    paced(&source, &mut input)?;
    let id = relay.0.id().to_string();
    assert!(Command::new("kill").arg(&id).status()?.success());
    let mut said = String::new();
    let errors = viewer.0.stderr.take().ok_or("no report")?;
    BufReader::new(errors).read_to_string(&mut said)?;
    let (report, error) = said.trim_end().rsplit_once('\n').ok_or(said.clone())?;
    assert!(
        report.contains(" pictures, ") && report.contains(" of sound, "),
        "{said}"
    );
    assert!(error.starts_with("the relay is gone: "), "{said}");
    assert!(!viewer.0.wait()?.success() && relay.0.wait()?.success());
    publisher.wait()?;
    Ok(())
}

/// A process that is killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn moq(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moq"));
    command.args(words).current_dir(directory);
    command
}

fn relay(directory: &Path, controller: &str) -> Result<(Process, String)> {
    let mut relay = moq(directory, &["relay", "--listen", "127.0.0.1:0"])
        .args(["--controller", controller])
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut line, output) = (String::new(), relay.stdout.take().ok_or("no output")?);
    let relay = Process(relay);
    BufReader::new(output).read_line(&mut line)?;
    let address = line.trim().rsplit(' ').next().unwrap_or_default();
    Ok((relay, address.to_owned()))
}

fn subscriber(directory: &Path, relay: &str, output: &str) -> Result<Process> {
    let subscriber = moq(
        directory,
        &["subscribe", relay, "camera", "--latency", "1000"],
    )
    .stdout(File::create(directory.join(output))?)
    .stderr(Stdio::piped())
    .spawn()?;
    Ok(Process(subscriber))
}

/// Starts a proxy to `relay` that sends what comes back at [`SLOW_BPS`]; returns its address.
fn slow_link(relay: SocketAddr) -> Result<SocketAddr> {
    let (near, far) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    let address = near.local_addr()?;
    far.connect(relay)?;
    let (to_relay, from_viewer) = (far.try_clone()?, near.try_clone()?);
    let viewer = Arc::new(OnceLock::new());
    let known = viewer.clone();
    thread::spawn(move || -> io::Result<()> {
        let mut packet = [0; 2048];
        loop {
            let (length, from) = from_viewer.recv_from(&mut packet)?;
            known.get_or_init(|| from);
            to_relay.send(&packet[..length])?;
        }
    });
    thread::spawn(move || -> io::Result<()> {
        let mut packet = [0; 2048];
        loop {
            let length = far.recv(&mut packet)?;
            if let Some(viewer) = viewer.get() {
                near.send_to(&packet[..length], viewer)?;
            }
            thread::sleep(Duration::from_micros(
                8 * length as u64 * 1_000_000 / SLOW_BPS,
            ));
        }
    });
    Ok(address)
}

fn scratch(test: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("moq-{test}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// A few seconds of H.264 and AAC in MPEG-TS, by ffmpeg.
fn source(directory: &Path) -> Result<Vec<u8>> {
    let path = directory.join("source.ts");
    let status = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x180:rate=25",
        ])
        .args(["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"])
        .args([
            "-t",
            &SECONDS.to_string(),
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
        ])
        .args(["-tune", "zerolatency", "-g", "25", "-c:a", "aac"])
        .arg(&path)
        .status()
        .map_err(|error| format!("ffmpeg: {error}; apt-get install ffmpeg"))?;
    assert!(status.success());
    Ok(fs::read(path)?)
}

/// Writes the stream in as much time as it lasts.
fn paced(stream: &[u8], mut to: impl Write) -> Result<()> {
    let (start, lasts) = (Instant::now(), Duration::from_secs(SECONDS));
    let pieces = stream.chunks(188 * 7);
    let each = lasts / pieces.len() as u32;
    for (number, piece) in pieces.enumerate() {
        let due = start + each * number as u32;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        to.write_all(piece)?;
    }
    Ok(())
}

/// Frames of one stream of a file, by ffprobe.
fn count(path: &Path, stream: &str) -> Result<usize> {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-count_frames", "-select_streams", stream])
        .args(["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"])
        .arg(path)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let first = text.lines().next().unwrap_or_default();
    Ok(first
        .trim_matches(',')
        .parse()
        .map_err(|_| format!("ffprobe: {text}"))?)
}
