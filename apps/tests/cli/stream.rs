//! `evenkeel stream` as its users run it.

use std::{
    io::Write,
    net::UdpSocket,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evenkeel_apps::stream::{AccessUnit, AccessUnits};
use evenkeel_tests::one_of_three_tries;
use evenkeel_tests::skip::{Need, can_run};

use crate::program::{
    Process, Server, client, evenkeel, failure, json, last_words, pause, records, run, success,
};

/// A viewer that has been at it for some intervals.
fn start(server: &Server, arguments: &[&str], intervals: u32) -> Process {
    let mut command = server.client(&["--interval", "0.2"]);
    command.args(arguments);
    let mut viewer = Process::start(command);
    for _ in 0..intervals {
        assert_ne!(viewer.line(), "");
    }
    viewer
}

#[test]
fn a_viewer_prints_what_it_saw() {
    let server = Server::stream(&[]);
    let text = success(client(&server, &["--time", "1"]));
    for word in [
        "received",
        "frames",
        "frame delay",
        "stalls",
        "encoder",
        "first picture",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // No escape sequences into what is no terminal.
    assert!(!text.contains('\x1b'));
}

#[test]
fn the_command_that_a_server_prints_is_a_viewers() {
    let server = Server::stream(&["--delivery", "datagrams"]);
    let command: Vec<&str> = server.command.iter().map(String::as_str).collect();
    assert_eq!(command[..2], ["stream", "client"]);
    let mut command = evenkeel(&command);
    command.args(["--time", "0.5"]);
    success(command.output().unwrap());
}

#[test]
fn json_has_every_figure_and_lines_come_each_interval() {
    let server = Server::stream(&["--fixed", "--bitrate", "2M", "--group", "15"]);
    let arguments = [
        "--time",
        "2",
        "--json-lines",
        "--interval",
        "0.5",
        "--clock",
        "shared",
    ];
    let text = success(client(&server, &arguments));
    let records = records(&text);
    let (last, intervals) = records.split_last().unwrap();
    assert!(intervals.len() >= 3, "{text}");
    let (mut udp, mut content) = (0, 0);
    for interval in intervals {
        assert_eq!(interval["record"], "view_interval");
        udp += interval["udp_bytes_received"].as_u64().unwrap();
        content += interval["bytes"].as_u64().unwrap();
        assert!(udp >= content, "{text}");
    }
    assert_eq!(
        (&last["record"], &last["interrupted"]),
        (&json("\"view\""), &json("false"))
    );
    let report = &last["report"];
    assert_eq!(report["clock"]["kind"], "shared");
    assert_eq!(report["bitrate"]["max_bps"], 2_000_000);
    assert_eq!(report["bitrate"]["switches"], 0);
    assert!(report["frames"]["received"].as_u64().unwrap() >= 45);
    assert_eq!(report["variation"].as_array().unwrap().len(), 4);
    assert!(report["delay_ms"]["p50"].as_f64().unwrap() >= 0.0);
}

#[test]
fn a_viewer_says_with_which_codepoints_packets_came() {
    let server = Server::stream(&["--ecn", "l4s"]);
    let text = success(client(&server, &["--time", "0.5"]));
    let line = text.lines().find(|line| line.starts_with("ECN, packets "));
    assert!(line.is_some_and(|line| line.ends_with(" ECT(1)")), "{text}");
    let view = json(&success(client(&server, &["--time", "0.5", "--json"])));
    assert!(view["ecn"]["back"]["ect1"].as_u64() > Some(0), "{view}");
}

#[test]
fn a_fixed_delay_is_kept_and_told() {
    let server = Server::stream(&["--fixed", "--bitrate", "1M"]);
    let arguments = ["--time", "1.5", "--latency", "300ms"];
    for clock in ["shared", "estimated"] {
        let more = ["--clock", clock, "--json"];
        let view = json(&success(client(&server, &[&arguments[..], &more].concat())));
        assert_eq!(
            (&view["latency_ms"], &view["buffer_ms"]),
            (&json("300.0"), &json("null"))
        );
        let report = &view["report"];
        let count = |name: &str| report["frames"][name].as_u64().unwrap();
        let told = ["on_time", "late", "dropped"].map(count);
        assert_eq!(count("received"), told.iter().sum::<u64>(), "{report}");
        assert!(count("on_time") > 0 && count("skipped") == 0, "{report}");
        // A picture is shown when it is due, and later only if the machine was not there.
        let error_ms = report["clock"]["error_ms"].as_f64().unwrap_or(0.0) + 0.1;
        let least_ms = report["display_ms"]["min"].as_f64().unwrap();
        assert!(least_ms >= 300.0 - error_ms, "{report}");
    }
    let text = success(client(&server, &arguments));
    assert!(text.contains("fixed delay     300 ms: "), "{text}");
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for (arguments, word) in [
        (&["server", "--bitrate", "3MB"][..], "3MB"),
        (&["server", "--bitrate", "0"], "bitrate"),
        (&["server", "--frame-rate", "0"], "frame rate"),
        (&["server", "--frame-rate", "nan"], "frame rate"),
        (&["server", "--headroom", "1.5"], "headroom"),
        (&["server", "--fixed", "--rise", "1"], "cannot be used with"),
        (&["server", "--group", "0"], "group"),
        (&["server", "--delivery", "pigeon"], "pigeon"),
        (&["server", "--repeat"], "--input"),
        (
            &["server", "--input", "x", "--seed", "2"],
            "cannot be used with",
        ),
        (&["server", "--viewers", "0"], "0"),
        (&["server", "--controller", "warp"], "unknown controller"),
        (&["client"], "HOST"),
        (&["client", "h", "--buffer", "100000"], "60000"),
        (&["client", "h", "--latency", "0"], "0.001"),
        (
            &["client", "h", "--latency", "1s", "--buffer", "200"],
            "cannot be used with",
        ),
        (&["client", "h", "--time", "0"], "above 0"),
        (&["client", "h", "--clock", "sundial"], "sundial"),
        (
            &["client", "h", "--insecure", "--ca", "x"],
            "cannot be used with",
        ),
        (
            &["client", "h", "--json", "--json-lines"],
            "cannot be used with",
        ),
    ] {
        let output = run(&[&["stream"], arguments].concat());
        let line = failure(&output, 2);
        assert!(line.contains(word), "{arguments:?}: {line}");
        assert!(
            line.contains("--help") || line.contains("--controller"),
            "{line}"
        );
    }
}

#[test]
fn a_file_that_is_no_video_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clip.mp4");
    std::fs::write(&path, b"\0\0\0\x20ftypisom....").unwrap();
    for (input, word) in [
        (path.to_str().unwrap(), "Annex B"),
        ("/nowhere/clip.h264", "no such file"),
    ] {
        let output = evenkeel(&[
            "stream",
            "server",
            "--listen",
            "127.0.0.1:0",
            "--input",
            input,
        ]);
        let line = failure(&{ output }.output().unwrap(), 1);
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn a_file_is_overwritten_only_for_a_server_that_is_trusted_and_accepts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "precious").unwrap();
    let output = ["--output", path.to_str().unwrap(), "--time", "0.3"];
    let server = Server::stream(&[]);
    let untrusting = [&["stream", "client", &server.address], &output[..]].concat();
    failure(&run(&untrusting), 1);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    success(client(&server, &output));
    assert_ne!(std::fs::read(&path).unwrap(), b"precious");
    let nowhere = ["--output", "/nowhere/at/all", "--time", "0.3"];
    let line = failure(&client(&server, &nowhere), 1);
    assert!(line.contains("cannot write /nowhere/at/all"), "{line}");
    assert!(line.contains("choose another --output"), "{line}");
}

#[test]
fn a_wrong_address_or_certificate_says_what_to_do() {
    // Nobody listens: the port was free a moment ago.
    let port = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("127.0.0.1:{port}");
    let output = run(&["stream", "client", &address, "--insecure"]);
    let line = failure(&output, 1);
    assert!(
        line.contains("cannot connect") && line.contains("evenkeel stream server"),
        "{line}"
    );
    let output = run(&["stream", "client", "no-such-host.invalid", "--insecure"]);
    assert!(failure(&output, 1).contains("cannot resolve"));

    let server = Server::stream(&[]);
    let output = run(&["stream", "client", &server.address]);
    let line = failure(&output, 1);
    let remedy = format!(
        "evenkeel stream client {} --pin {}",
        server.address, server.pin
    );
    assert!(line.contains(&remedy), "{line}");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let output = run(&["stream", "client", &server.address, "--pin", &wrong]);
    assert!(failure(&output, 1).contains("another server or an attacker"));
    // One application's client at the other's server.
    let output = run(&["bulk", "client", &server.address, "--pin", &server.pin]);
    let line = failure(&output, 1);
    assert!(
        line.contains("what answers there is no `evenkeel bulk server`"),
        "{line}"
    );
}

#[test]
fn a_server_that_is_gone_or_a_viewer_that_is_gone_is_noticed_and_named() {
    let server = Server::stream(&["--idle-timeout", "1"]);
    let viewer = start(&server, &[], 4);
    server.signal("KILL");
    let output = viewer.output();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(
        errors,
        format!(
            "evenkeel: the stream from {} ended early: connection lost: timed out; check that the \
             server still runs and that UDP gets through, then try again\n",
            server.address
        )
    );
    // What came until then is told.
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("frame delay"), "{text}");

    let server = Server::stream(&["--idle-timeout", "1", "--once"]);
    let viewer = start(&server, &[], 4);
    viewer.signal("KILL");
    viewer.output();
    let (status, text, errors) = server.end();
    assert_eq!(status, Some(1));
    assert!(text.contains("frames of all tracks in"), "{text}");
    assert!(
        errors.starts_with("evenkeel: the stream to 127.0.0.1:") && errors.contains("timed out"),
        "{errors}"
    );
}

#[test]
fn an_interrupted_or_terminated_viewer_still_prints_its_report() {
    let server = Server::stream(&[]);
    for (name, status) in [("INT", 130), ("TERM", 143)] {
        let viewer = start(&server, &["--json-lines"], 4);
        viewer.signal(name);
        let output = viewer.output();
        let line = last_words(&output, status);
        assert!(line.starts_with("evenkeel: interrupted after "), "{line}");
        let records = records(str::from_utf8(&output.stdout).unwrap());
        let last = records.last().unwrap();
        assert_eq!(last["interrupted"], true);
        assert!(last["report"]["frames"]["received"].as_u64().unwrap() > 0);
    }
    server.signal("INT");
    let (status, text, errors) = server.end();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(text.matches("frames of all tracks in").count(), 2, "{text}");
}

#[test]
fn a_viewer_that_still_waits_for_its_server_can_be_ended_too() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let viewer = Process::start(evenkeel(&["stream", "client", &address, "--insecure"]));
    // It has sent its first packet.
    silent.recv(&mut [0; 2000]).unwrap();
    viewer.signal("TERM");
    let line = failure(&viewer.output(), 143);
    assert!(line.contains("interrupted before it began"), "{line}");
}

#[test]
fn a_server_that_is_interrupted_or_restarted_tells_its_viewers() {
    let server = Server::stream(&[]);
    let address = server.address.clone();
    let viewer = start(&server, &["--json-lines"], 4);
    server.signal("TERM");
    let output = viewer.output();
    let line = last_words(&output, 1);
    assert!(line.contains("the server stops"), "{line}");
    let records = records(str::from_utf8(&output.stdout).unwrap());
    let last = records.last().unwrap();
    assert!(last["error"].as_str().unwrap().contains("the server stops"));
    assert!(last["report"]["frames"]["received"].as_u64().unwrap() > 0);
    assert_eq!(server.end().0, Some(0));
    // Its successor has another certificate: the old pin is not enough.
    let successor = Server::stream_on(&address, &[]);
    let pin = format!("sha256:{}", "1".repeat(64));
    let output = run(&["stream", "client", &address, "--pin", &pin]);
    assert!(failure(&output, 1).contains(&successor.pin));
    success(client(&successor, &["--time", "0.3"]));
}

#[test]
fn once_is_one_viewer_and_a_full_server_refuses() {
    let server = Server::stream(&["--once", "--viewers", "1"]);
    let first = start(&server, &["--json-lines"], 2);
    let line = failure(&client(&server, &[]), 1);
    assert!(line.contains("cannot connect"), "{line}");
    first.signal("INT");
    first.output();
    assert_eq!(server.end().0, Some(0));
}

/// Passes datagrams on between a client and `server`, and drops every `nth` from the server
/// after the first thirty.
fn lossy_relay(server: &str, nth: u32, over: Arc<AtomicBool>) -> String {
    let (front, back) = (
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    back.connect(server).unwrap();
    let address = front.local_addr().unwrap().to_string();
    for socket in [&front, &back] {
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
    }
    let client = Arc::new(std::sync::Mutex::new(None));
    let (front_in, back_in) = (front.try_clone().unwrap(), back.try_clone().unwrap());
    let (client_in, over_in) = (client.clone(), over.clone());
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while !over_in.load(Ordering::Relaxed) {
            if let Ok((length, from)) = front_in.recv_from(&mut buffer) {
                *client_in.lock().unwrap() = Some(from);
                let _ = back_in.send(&buffer[..length]);
            }
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        let mut count = 0_u32;
        while !over.load(Ordering::Relaxed) {
            let Ok(length) = back.recv(&mut buffer) else {
                continue;
            };
            count += 1;
            let client = *client.lock().unwrap();
            if let Some(client) = client
                && (count <= 30 || !count.is_multiple_of(nth))
            {
                let _ = front.send_to(&buffer[..length], client);
            }
        }
    });
    address
}

/// The clip: 4 s of H.264 with 25 pictures per second and a key frame each second, made by
///
/// ```sh
/// ffmpeg -f lavfi -i testsrc=size=160x120:rate=25 -t 4 -c:v libx264 -preset veryslow \
///     -tune zerolatency -crf 32 -g 25 -threads 1 -f h264 apps/tests/cli/clip.h264
/// ```
const CLIP: &[u8] = include_bytes!("clip.h264");

/// The pictures of an H.264 byte stream.
fn pictures(stream: &[u8]) -> Vec<AccessUnit> {
    let mut parser = AccessUnits::default();
    let mut pictures = parser.push(stream).unwrap();
    pictures.extend(parser.finish());
    pictures
}

#[test]
fn real_video_crosses_a_lossy_path() {
    let directory = tempfile::tempdir().unwrap();
    let clip = directory.path().join("clip.h264");
    std::fs::write(&clip, CLIP).unwrap();
    let sent = pictures(CLIP);
    assert_eq!(sent.len(), 100);
    for delivery in ["frames", "groups", "datagrams"] {
        let input = [
            "--input",
            clip.to_str().unwrap(),
            "--frame-rate",
            "25",
            "--delivery",
            delivery,
            "--no-mtu-discovery",
        ];
        let server = Server::stream(&input);
        let over = Arc::new(AtomicBool::new(false));
        let relay = lossy_relay(&server.address, 10, over.clone());
        let received = directory.path().join(delivery);
        let output = evenkeel(&["stream", "client", &relay, "--pin", &server.pin])
            .args(["--json", "--output", received.to_str().unwrap()])
            .output()
            .unwrap();
        over.store(true, Ordering::Relaxed);
        let report = json(&success(output))["report"].clone();
        let frames = &report["frames"];
        let count = |name: &str| frames[name].as_u64().unwrap();
        let (whole, lost) = (count("received"), count("lost"));
        let shown_or_not = count("on_time") + count("late") + count("skipped");
        assert_eq!(whole, shown_or_not, "{report}");
        // Nobody encodes it.
        assert!(report["bitrate"].is_null(), "{report}");
        let received = std::fs::read(&received).unwrap();
        if delivery == "datagrams" {
            // What was dropped is missing, and the report says so.
            assert!(lost > 0, "{report}");
            assert!(whole < 100 && whole + lost <= 100, "{report}");
            assert!(count("damaged") > 0, "{report}");
            // What came is what was sent, picture by picture and in order.
            let shown = pictures(&received);
            assert_eq!(shown.len() as u64, whole - count("skipped"), "{report}");
            let mut rest = sent.iter();
            let in_order = shown.iter().all(|picture| rest.any(|sent| sent == picture));
            assert!(!shown.is_empty() && in_order, "{report}");
        } else {
            // It was sent again.
            assert_eq!((whole, lost), (100, 0), "{delivery}: {report}");
            assert!(received == CLIP, "{delivery}");
        }
    }
}

#[test]
fn video_from_standard_input_reaches_standard_output() {
    let mut command = evenkeel(&[
        "stream",
        "server",
        "--listen",
        "127.0.0.1:0",
        "--input",
        "-",
    ]);
    let (input, mut encoder) = std::io::pipe().unwrap();
    command.args(["--frame-rate", "25"]).stdin(input);
    let server = Server::start(command);
    // An encoder makes a picture every 40 ms.
    let encoding = std::thread::spawn(move || {
        for picture in pictures(CLIP) {
            encoder.write_all(&picture.bytes).unwrap();
            pause(Duration::from_millis(40));
        }
    });
    let output = client(&server, &["--output", "-"]);
    encoding.join().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The report is not in the way of the video.
    assert!(String::from_utf8_lossy(&output.stderr).contains("frame delay"));
    // The viewer may have come after the first group, of 25.
    assert!(pictures(&output.stdout).len() >= 50);
    assert!(CLIP.ends_with(&output.stdout));
    // The server ends with its source.
    let (status, _, errors) = server.end();
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(
        errors,
        "evenkeel: standard input has ended, and the server with it\n"
    );
}

#[test]
fn a_source_that_nobody_watched_or_that_is_no_video_ends_the_server_with_a_line() {
    for (source, word) in [
        (CLIP, "standard input ended before anybody watched"),
        (b"", "nothing in standard input begins a picture"),
        (b"\0\0\0\x20ftypisom....", "it is MP4, not H.264 or HEVC"),
        (b"\x12\x00\x0a\x0b\0\0", "it is AV1, not H.264 or HEVC"),
    ] {
        let mut command = evenkeel(&[
            "stream",
            "server",
            "--listen",
            "127.0.0.1:0",
            "--input",
            "-",
        ]);
        let (input, mut encoder) = std::io::pipe().unwrap();
        command.stdin(input);
        let server = Server::start(command);
        encoder.write_all(source).unwrap();
        drop(encoder);
        let line = last_words(&server.output(), 1);
        assert!(line.contains(word), "{line}");
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_viewer_that_joins_a_real_encoder_late_can_decode_what_it_gets() {
    if !can_run(&[
        Need::program("ffmpeg", "ffmpeg"),
        Need::program("ffprobe", "ffmpeg"),
    ]) {
        return;
    }
    one_of_three_tries(|| {
        // The encoder holds back 2 s: the viewer comes 4 s after its first picture.
        let mut ffmpeg = Command::new("ffmpeg")
            .args(["-v", "error", "-re", "-f", "lavfi", "-i"])
            .args([
                "testsrc2=size=320x180:rate=25:duration=12",
                "-c:v",
                "libx264",
                "-f",
                "h264",
                "-",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut command = evenkeel(&[
            "stream",
            "server",
            "--listen",
            "127.0.0.1:0",
            "--input",
            "-",
        ]);
        command.args(["--frame-rate", "25"]);
        command.stdin(ffmpeg.stdout.take().unwrap());
        let server = Server::start(command);
        pause(Duration::from_secs(6));
        let directory = tempfile::tempdir().unwrap();
        let received = directory.path().join("late.h264");
        let output = client(&server, &["--json", "--output", received.to_str().unwrap()]);
        let report = json(&success(output))["report"].clone();
        ffmpeg.wait().unwrap();
        let count = |name: &str| report["frames"][name].as_u64().unwrap();
        let probe = Command::new("ffprobe")
            .args(["-v", "error", "-count_frames", "-of", "csv=p=0"])
            .args(["-show_entries", "stream=nb_read_frames"])
            .arg(&received)
            .output()
            .unwrap();
        let decoded: u64 = str::from_utf8(&probe.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(count("received") > 50 && count("preroll") > 25, "{report}");
        assert_eq!(decoded, count("received") + count("preroll"), "{report}");
        assert_eq!((count("damaged"), count("lost")), (0, 0), "{report}");
    });
}
