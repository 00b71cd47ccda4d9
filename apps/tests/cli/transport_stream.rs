//! MPEG transport streams as ffmpeg makes them, and what ffprobe finds in them afterwards.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel_tests::skip::{Need, can_run};
use tempfile::TempDir;

use crate::program::{Server, evenkeel};

/// 2 s of these codings.
fn clip(codings: &[&str]) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.ts").to_str().unwrap().to_owned();
    let pictures = ["-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25"];
    let sound = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"];
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg
        .args(["-loglevel", "error", "-y"])
        .args(pictures)
        .args(sound);
    ffmpeg
        .args(codings)
        .args(["-t", "2", "-f", "mpegts", &path]);
    let made = ffmpeg.stdin(Stdio::null()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    (directory, path)
}

/// What ffprobe says of each stream's packets and of what they decode to, and their times.
fn probe(path: &Path) -> (String, Vec<String>) {
    let ask = |what: &[&str]| {
        let mut ffprobe = Command::new("ffprobe");
        let output = ffprobe
            .args(["-v", "fatal", "-of", "csv"])
            .args(what)
            .arg(path)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let counts = "stream=index,codec_name,nb_read_packets,nb_read_frames";
    let counts = ask(&["-count_packets", "-count_frames", "-show_entries", counts]);
    let times = ask(&["-show_entries", "packet=stream_index,pts,dts"]);
    let mut times: Vec<_> = times.lines().map(str::to_owned).collect();
    times.sort();
    (counts, times)
}

fn has_ffmpeg() -> bool {
    can_run(&[
        Need::program("ffmpeg", "ffmpeg"),
        Need::program("ffprobe", "ffmpeg"),
    ])
}

fn publish() -> Command {
    let mut command = evenkeel(&["stream", "publish", "--listen", "127.0.0.1:0"]);
    command.args(["--cancel-after", "60"]);
    command
}

#[test]
fn every_picture_and_every_sample_of_a_file_arrives_with_its_times() {
    if !has_ffmpeg() {
        return;
    }
    let all: [&[&str]; 3] = [
        &[
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-g",
            "25",
            "-c:a",
            "aac",
        ],
        &[
            "-c:v",
            "libx265",
            "-preset",
            "ultrafast",
            "-g",
            "25",
            "-c:a",
            "libopus",
        ],
        // ffmpeg 5.1 writes AV1 as private data.
        &[
            "-c:v",
            "libsvtav1",
            "-preset",
            "12",
            "-g",
            "25",
            "-c:a",
            "libopus",
        ],
    ];
    for codings in all {
        let (directory, path) = clip(codings);
        let mut command = publish();
        command.arg(&path);
        let server = Server::start(command);
        let played = directory.path().join("out.ts");
        let output = server.client(&[]).arg(&played).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let (sent, seen) = (probe(Path::new(&path)), probe(&played));
        assert_eq!(seen.0, sent.0, "{codings:?}");
        assert_eq!(seen.1, sent.1, "{codings:?}");
        assert!(sent.1.len() > 50);
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(report.contains("\nsound "), "{report}");
    }
}

#[test]
fn a_viewer_of_a_pipe_gets_the_tables_before_the_pictures_whenever_it_comes() {
    if !has_ffmpeg() {
        return;
    }
    let codings = [
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "25",
        "-c:a",
        "aac",
    ];
    let (directory, path) = clip(&codings);
    let (input, encoder) = std::io::pipe().unwrap();
    let mut command = publish();
    command.stdin(input);
    let server = Server::start(command);
    let mut ffmpeg = {
        // The command would keep the pipe open.
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-loglevel", "error", "-re", "-stream_loop", "2"]);
        ffmpeg.args(["-i", &path, "-c", "copy", "-f", "mpegts", "-"]);
        ffmpeg.stdin(Stdio::null()).stdout(encoder).spawn().unwrap()
    };
    let played = directory.path().join("out.ts");
    let mut viewer = server.client(&["--latency", "2s"]);
    let output = viewer.arg(&played).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(ffmpeg.wait().unwrap().success());
    let (counts, times) = probe(&played);
    assert!(
        counts.contains("h264") && counts.contains("aac"),
        "{counts}"
    );
    assert!(times.len() > 50, "{counts}");
    assert_eq!(&fs::read(&played).unwrap()[..1], b"G");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_is_no_transport_stream_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("noise.ts");
    fs::write(&path, [b"G".repeat(188), vec![0; 70_000]].concat()).unwrap();
    let mut command = publish();
    let output = command.arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("MPEG-TS"), "{errors}");
}
