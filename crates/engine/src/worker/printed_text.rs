//! The head and the tail of the text printed by replayed code.

use std::collections::VecDeque;

use replay_base::foreign::omission_note;

/// The head and the tail are kept, each up to this many bytes.
const KEPT: usize = 32 << 10;

/// The head and the tail of a text of any length.
#[derive(Default)]
pub(super) struct Printed {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Printed {
    /// Adds the next bytes of the text.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// The text, with a remark in the place of the dropped part.
    pub(super) fn text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.dropped > 0 {
            text.push_str(&omission_note(self.dropped));
        }
        let tail: Vec<u8> = self.tail.into();
        text.push_str(&String::from_utf8_lossy(&tail));
        text
    }
}

/// The head and the tail of `text`, with a note in place of the middle. So many bytes of the middle have been `left_out`
/// before.
pub(crate) fn shorten_printed_text(text: &[u8], left_out: u64) -> String {
    let mut printed = Printed::default();
    printed.push(text);
    if left_out > 0 {
        // The note goes with the middle.
        printed.dropped += left_out - omission_note(left_out).len() as u64;
    }
    printed.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_its_head_and_its_tail() {
        let mut printed = Printed::default();
        printed.push(b"begin ");
        for _ in 0..100_000 {
            printed.push(b"x");
        }
        printed.push(b" end");
        let text = printed.text();
        assert!(text.starts_with("begin x") && text.ends_with("x end"));
        assert!(text.contains(&omission_note((6 + 100_000 + 4 - 2 * KEPT) as u64)));
        assert!(text.len() < 2 * KEPT + 64);
    }

    #[test]
    fn what_was_left_out_twice_is_counted_once() {
        let length = 3_000_000;
        let mut kept = replay_base::foreign::Bounded::default();
        (0..length / 1000).for_each(|_| kept.push(&[b'x'; 1000]));
        let (text, left_out) = kept.finish();
        let shown = shorten_printed_text(&text, left_out);
        assert!(shown.contains(&omission_note((length - 2 * KEPT) as u64)), "{left_out}");
        assert_eq!(shown.matches("left out").count(), 1);
    }
}
