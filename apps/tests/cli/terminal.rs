//! The live views on a terminal: a pseudo-terminal of the kernel's, and a screen that understands
//! what is drawn on it.

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZeroU16,
    os::fd::OwnedFd,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::program::{Server, client, pause, success};

/// How often the screen is looked at, and how often at most: 30 s in all.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 600;

/// Of every terminal here.
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();

/// A terminal with a screen; what is typed and drawn goes through the kernel.
struct Terminal {
    /// The side of the person before it.
    front: File,
    /// The side of programs, open as long as anybody wants to draw.
    back: Option<OwnedFd>,
    screen: Arc<Mutex<vt100::Parser>>,
    drawing: Option<JoinHandle<()>>,
}

impl Terminal {
    fn new(columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let front = openpt(flags).unwrap();
        grantpt(&front).unwrap();
        unlockpt(&front).unwrap();
        let back = ioctl_tiocgptpeer(&front, flags).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, cells(columns), 0)));
        let front = File::from(front);
        let (mut output, drawn) = (front.try_clone().unwrap(), screen.clone());
        let drawing = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // When the last program has gone, reading fails.
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                drawn.lock().unwrap().process(&bytes[..length]);
            }
        });
        let terminal = Self {
            front,
            back: Some(back),
            screen,
            drawing: Some(drawing),
        };
        terminal.resize(columns);
        terminal
    }

    /// As a shell in it would run `command`: in a session of its own, which the terminal controls.
    /// What is not piped is the terminal.
    fn run(&self, command: &Command, piped: &[&str]) -> Child {
        let mut session = Command::new("/usr/bin/setsid");
        session.args(["--ctty"]).arg(command.get_program());
        session.args(command.get_args()).env("TERM", "xterm");
        session.env_remove("SSLKEYLOGFILE");
        let way = |name: &str| match piped.contains(&name) {
            true => Stdio::piped(),
            false => Stdio::from(self.back().try_clone().unwrap()),
        };
        session
            .stdin(way("stdin"))
            .stdout(way("stdout"))
            .stderr(way("stderr"));
        session
            .spawn()
            .expect("setsid is there (apt install util-linux)")
    }

    fn back(&self) -> &OwnedFd {
        self.back.as_ref().expect("it is open until the end")
    }

    /// Another width; the kernel tells who draws.
    fn resize(&self, columns: u16) {
        let size = Winsize {
            ws_row: ROWS.get(),
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.front, size).unwrap();
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(ROWS, cells(columns));
    }

    /// What a key sends.
    fn press(&mut self, key: u8) {
        self.front.write_all(&[key]).unwrap();
    }

    /// What is on the screen.
    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// What is on the screen as soon as it is as wanted.
    fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        for _ in 0..LOOKS {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            pause(LOOK);
        }
        panic!("that never came: {}", self.text());
    }

    /// Everything that was drawn is on the screen now, and it is as before: nothing set, the cursor
    /// seen, at the beginning of a line.
    fn leave(mut self, before: &Termios) -> String {
        let after = tcgetattr(self.back()).unwrap();
        assert_eq!(
            (
                after.input_modes,
                after.output_modes,
                after.control_modes,
                after.local_modes
            ),
            (
                before.input_modes,
                before.output_modes,
                before.control_modes,
                before.local_modes
            )
        );
        drop(self.back.take());
        self.drawing.take().unwrap().join().unwrap();
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        assert!(!screen.hide_cursor() && !screen.alternate_screen());
        assert_eq!(screen.cursor_position().1, 0, "{}", screen.contents());
        assert_eq!(screen.fgcolor(), vt100::Color::Default);
        assert!(!screen.bold() && !screen.inverse());
        screen.contents()
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a terminal has columns")
}

/// The number before `unit` in a view.
fn before(unit: &str, text: &str) -> f64 {
    let words = text.split(unit).next().unwrap().trim_end();
    let number = words.rsplit(' ').next().unwrap();
    number
        .parse()
        .unwrap_or_else(|_| panic!("no number before {unit:?}: {text}"))
}

#[test]
fn a_viewers_terminal_shows_rate_delay_buffer_and_stalls_and_is_left_as_it_was() {
    let server = Server::stream(&["--fixed", "--bitrate", "2M"]);
    let mut terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&server.client(&["--clock", "shared"]), &[]);

    let full = |text: &str| text.contains("buffer") && text.contains("Mb/s");
    let text = terminal.wait_for(|text| full(text) && text.contains("stalls 0 (0.0 s)"));
    assert!(before("ms  buffer", &text) < 500.0, "{text}");
    // The rate of half a second of it.
    terminal.wait_for(|text| full(text) && (1.2..2.8).contains(&before("Mb/s", text)));
    // The playout buffer is 200 ms and what the first frame took.
    terminal.wait_for(|text| full(text) && (100.0..300.0).contains(&before("ms  stalls", text)));

    // A server that does nothing for a while is a stall, and is shown as one.
    server.signal("STOP");
    terminal.wait_for(|text| text.contains("buffer 0 ms"));
    pause(Duration::from_millis(800));
    server.signal("CONT");
    let text = terminal.wait_for(|text| full(text) && !text.contains("stalls 0"));
    assert!(before(" s)", &text.replace('(', " ")) >= 0.5, "{text}");

    // In a narrower or wider window the line goes on in one place.
    for columns in [40, 120] {
        terminal.resize(columns);
        let shown = terminal.text();
        terminal.wait_for(|text| full(text) && text != shown);
        pause(Duration::from_secs(2));
        let text = terminal.wait_for(full);
        assert_eq!(text.matches("buffer").count(), 1, "{columns}: {text}");
    }

    // Control and C.
    terminal.press(3);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = terminal.leave(&modes);
    assert!(!text.contains("buffer"), "{text}");
    for word in [
        "first picture",
        "frame delay",
        "evenkeel: interrupted after ",
    ] {
        assert_eq!(text.matches(word).count(), 1, "{word}: {text}");
    }
}

#[test]
fn a_viewer_without_a_terminal_for_messages_draws_nothing() {
    let server = Server::stream(&[]);
    let terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let command = server.client(&["--time", "1.5"]);
    let Output { status, stderr, .. } = terminal
        .run(&command, &["stderr"])
        .wait_with_output()
        .unwrap();
    assert_eq!((status.code(), stderr), (Some(0), Vec::new()));
    let text = terminal.leave(&modes);
    assert!(text.trim_start().starts_with("received"), "{text}");
    // Nor does anything of it get into the files of one who redirects both.
    let text = success(client(&server, &["--time", "1.5"]));
    assert!(
        !text.contains('\x1b') && !text.contains('\r') && !text.contains("buffer"),
        "{text}"
    );
}

#[test]
fn a_report_in_a_file_leaves_the_live_view_on_the_terminal() {
    let server = Server::stream(&[]);
    let terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let child = terminal.run(&server.client(&["--time", "3"]), &["stdout"]);
    terminal.wait_for(|text| text.contains("buffer") && text.contains("stalls"));
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(0));
    let report = String::from_utf8(stdout).unwrap();
    assert!(
        report.starts_with("received") && !report.contains('\x1b'),
        "{report}"
    );
    assert_eq!(terminal.leave(&modes).trim(), "");
}

#[test]
fn a_viewers_terminal_is_left_as_it_was_when_the_server_stops() {
    let server = Server::stream(&[]);
    let terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&server.client(&[]), &[]);
    terminal.wait_for(|text| text.contains("buffer"));
    server.signal("INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let text = terminal.leave(&modes);
    assert!(
        !text.contains("buffer") && text.contains("the server stops"),
        "{text}"
    );
}

#[test]
fn a_transfers_progress_is_drawn_on_a_terminal_and_gone_after_it() {
    let server = Server::bulk(&[]);
    let mut terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&server.client(&["--time", "20"]), &[]);
    terminal.wait_for(|text| {
        ["%", "b/s", "RTT", "lost", "s left", "[="]
            .iter()
            .all(|word| text.contains(word))
    });
    terminal.press(3);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = terminal.leave(&modes);
    assert!(
        !text.contains("RTT") && text.contains("interrupted after"),
        "{text}"
    );
}
