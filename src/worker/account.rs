//! Listens to a child until it has said everything, or its time is over.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::runtime::report::Report;

/// The head and the tail of what the child prints are kept, each up to this many bytes.
const KEPT_OUTPUT: usize = 32 << 10;
/// How long a child that was told to end may take to say where it is.
const GRACE: Duration = Duration::from_millis(300);

/// What a child said until its end.
pub(super) struct Account {
    pub reports: Vec<Report>,
    pub printed: String,
    pub timed_out: bool,
}

/// The ends of the pipes that a child writes to.
pub(super) struct Ears<'f> {
    pub reports: &'f File,
    pub printed: &'f File,
    /// Where a third party says how the child ended.
    pub ending: Option<&'f File>,
}

impl Ears<'_> {
    /// Reads everything until all writers are gone; gives what was said of the ending, too. When
    /// `timeout` is over, the child is sent SIGTERM by `signal`, and SIGKILL a little later.
    pub(super) fn listen(
        &self,
        timeout: Duration,
        signal: impl Fn(i32),
    ) -> io::Result<(Account, Vec<u8>)> {
        let begun = Instant::now();
        let (mut report_text, mut ending) = (Vec::new(), Vec::new());
        let mut kept = Kept::default();
        let mut open = [Some(self.reports), Some(self.printed), self.ending];
        let mut told_to_end = None;
        while open.iter().any(Option::is_some) {
            let deadline = told_to_end.map_or(timeout, |since: Duration| since + GRACE);
            let left = deadline.saturating_sub(begun.elapsed());
            if left.is_zero() {
                match told_to_end {
                    None => {
                        signal(libc::SIGTERM);
                        told_to_end = Some(begun.elapsed());
                        continue;
                    }
                    Some(_) => {
                        signal(libc::SIGKILL);
                        break;
                    }
                }
            }
            let ready = poll(open, left)?;
            let mut buffer = [0u8; 16 << 10];
            for (index, slot) in open.iter_mut().enumerate() {
                let Some(mut file) = slot.filter(|_| ready[index]) else { continue };
                let count = file.read(&mut buffer)?;
                match index {
                    _ if count == 0 => *slot = None,
                    0 => report_text.extend_from_slice(&buffer[..count]),
                    1 => kept.push(&buffer[..count]),
                    _ => ending.extend_from_slice(&buffer[..count]),
                }
            }
        }
        let lines = report_text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        // A line that is cut short is that of a child killed while it wrote.
        let reports = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let timed_out = told_to_end.is_some();
        Ok((Account { reports, printed: kept.text(), timed_out }, ending))
    }
}

fn poll(files: [Option<&File>; 3], timeout: Duration) -> io::Result<[bool; 3]> {
    let mut entries = files.map(|file| libc::pollfd {
        fd: file.map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLIN,
        revents: 0,
    });
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: three entries, and the count says so.
    if unsafe { libc::poll(entries.as_mut_ptr(), 3, milliseconds) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(entries.map(|entry| entry.revents != 0))
}

/// The head and the tail of a text of any length.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    dropped: u64,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT_OUTPUT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        while self.tail.len() > KEPT_OUTPUT {
            self.tail.pop_front();
            self.dropped += 1;
        }
    }

    fn text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.dropped > 0 {
            text.push_str(&format!("\n[{} bytes left out]\n", self.dropped));
        }
        let tail: Vec<u8> = self.tail.into_iter().collect();
        text.push_str(&String::from_utf8_lossy(&tail));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_its_head_and_its_tail() {
        let mut kept = Kept::default();
        kept.push(b"begin ");
        for _ in 0..100_000 {
            kept.push(b"x");
        }
        kept.push(b" end");
        let text = kept.text();
        assert!(text.starts_with("begin x") && text.ends_with("x end"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < 2 * KEPT_OUTPUT + 64);
    }
}
