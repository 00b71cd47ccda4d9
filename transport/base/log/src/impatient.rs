//! Standard error of a program that must not wait for its reader.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pipe with any room takes at once: PIPE_BUF of pipe(7).
const PIECE: usize = 4096;

/// Lines that were lost and have not been told of.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Prints lines on standard error. A line for which it would have to wait, because a pipe or a
/// terminal is full, is lost; the next one that has room tells how many were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Impatient {
    /// Says that this many lines are lost, in a line.
    pub(crate) notice: fn(u64) -> String,
}

impl Write for Impatient {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        print(&mut io::stderr(), &LOST, self.notice, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn print(out: &mut (impl Write + Room), lost: &AtomicU64, notice: fn(u64) -> String, line: &[u8]) {
    let count = lost.swap(0, Ordering::Relaxed);
    let is_told = count == 0 || put(out, notice(count).as_bytes());
    if !is_told {
        lost.fetch_add(count, Ordering::Relaxed);
    }
    if !(is_told && put(out, line)) {
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes as long as there is room; returns whether there was for all. What cannot be written for
/// other reasons, such as a full disk, counts as written.
fn put(out: &mut (impl Write + Room), text: &[u8]) -> bool {
    text.chunks(PIECE).all(|piece| {
        let has_room = out.has_room();
        if has_room {
            let _ = out.write_all(piece);
        }
        has_room
    })
}

/// Tells whether it would take a piece at once.
trait Room {
    fn has_room(&self) -> bool;
}

#[cfg(unix)]
mod polled {
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    impl<T: AsFd> super::Room for T {
        fn has_room(&self) -> bool {
            let mut polled = [PollFd::new(self, PollFlags::OUT)];
            // What cannot be polled is no pipe.
            poll(&mut polled, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
        }
    }
}

/// Nothing is asked, so a line may have to wait.
#[cfg(not(unix))]
impl<T> Room for T {
    fn has_room(&self) -> bool {
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read;

    use super::*;

    fn notice(count: u64) -> String {
        format!("{count} lost\n")
    }

    #[test]
    fn a_pipe_that_nobody_reads_loses_lines_and_is_told_how_many() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let lost = AtomicU64::new(0);
        let line = [&[b'x'; 99][..], b"\n"].concat();
        for _ in 0..5000 {
            print(&mut writer, &lost, notice, &line);
        }
        let before = lost.load(Ordering::Relaxed);
        assert!((1..5000).contains(&before), "{before}");
        // One page is read, and there is room for one.
        reader.read_exact(&mut [0; PIECE]).unwrap();
        print(&mut writer, &lost, notice, b"the last\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let whole = 5000 - before as usize;
        assert_eq!(PIECE + rest.len(), whole * 100 + notice(before).len() + 9);
        assert!(rest.ends_with(&format!("x\n{before} lost\nthe last\n")));
        assert_eq!(lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_line_that_is_longer_than_a_pipe_is_lost() {
        let (_reader, mut writer) = io::pipe().unwrap();
        let lost = AtomicU64::new(0);
        print(&mut writer, &lost, notice, &vec![b'x'; 1 << 20]);
        assert_eq!(lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn where_nobody_is_left_to_read_nothing_is_counted() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let lost = AtomicU64::new(0);
        print(&mut writer, &lost, notice, b"a line\n");
        assert_eq!(lost.load(Ordering::Relaxed), 0);
    }
}
