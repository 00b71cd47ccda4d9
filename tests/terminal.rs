//! A pseudo-terminal of the kernel's, and a screen that understands what is drawn on it.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// How often the screen is looked at, and how often at most: 30 s in all.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 600;

/// Of every terminal here.
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();

/// A terminal with a screen; what is typed and drawn goes through the kernel.
pub struct Terminal {
    /// The side of the person before it.
    front: File,
    /// The side of programs, open as long as anybody wants to draw.
    back: Option<OwnedFd>,
    screen: Arc<Mutex<vt100::Parser>>,
    drawing: Option<JoinHandle<()>>,
}

impl Terminal {
    /// A terminal of this many columns.
    ///
    /// # Panics
    /// As everything here, if the kernel does not do as it should.
    #[must_use]
    pub fn new(columns: u16) -> Self {
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
    pub fn run(&self, command: &Command, piped: &[&str]) -> Child {
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

    /// The side of programs.
    pub fn back(&self) -> &OwnedFd {
        self.back.as_ref().expect("it is open until the end")
    }

    /// Another width; the kernel tells who draws.
    pub fn resize(&self, columns: u16) {
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
    pub fn press(&mut self, key: u8) {
        self.front.write_all(&[key]).unwrap();
    }

    /// What is on the screen.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// What is on the screen, with the control sequences that make it so.
    pub fn formatted(&self) -> String {
        let parser = self.screen.lock().unwrap();
        parser.screen().contents_formatted()
    }

    /// What is on the screen as soon as it is as wanted.
    pub fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        for _ in 0..LOOKS {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            thread::park_timeout(LOOK);
        }
        panic!("that never came: {}", self.text());
    }

    /// Everything that was drawn is on the screen now, and it is as before: nothing set, the cursor
    /// seen, at the beginning of a line.
    pub fn leave(mut self, before: &Termios) -> String {
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
