//! The beginning and the end of a text of any length.

use std::collections::VecDeque;

/// The bytes to keep of the beginning of each stream of a program.
const KEPT_OUTPUT: usize = 1 << 20;
/// The bytes to keep of its end, if it is longer: there programs say why they failed.
const KEPT_TAIL: usize = 64 << 10;

/// The kept parts of a text.
#[derive(Debug, Default)]
pub struct Bounded {
    head: Vec<u8>,
    /// The end of the text beyond the head.
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Bounded {
    pub(super) const fn new() -> Bounded {
        Bounded { head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    /// Adds the next bytes of the text.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT_OUTPUT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let excess = self.tail.len().saturating_sub(KEPT_TAIL);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The text with a note in place of the omitted bytes, and their number.
    pub fn finish(mut self) -> (Vec<u8>, u64) {
        if self.left_out > 0 {
            self.head.extend_from_slice(omission_note(self.left_out).as_bytes());
        }
        self.head.extend(self.tail);
        (self.head, self.left_out)
    }
}

/// The note in place of so many bytes.
pub fn omission_note(left_out: u64) -> String {
    format!("\n[{left_out} bytes left out]\n")
}
