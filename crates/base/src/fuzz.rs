//! What the fuzzed properties of all parts share: values out of a fuzzer's bytes, and the claim on errors.

use std::error::Error;

/// Bytes from which values are taken one after the other; zeros once these are used up.
pub struct FuzzDraw<'a> {
    bytes: &'a [u8],
}

impl<'a> FuzzDraw<'a> {
    /// Takes from `bytes`.
    pub fn new(bytes: &'a [u8]) -> FuzzDraw<'a> {
        FuzzDraw { bytes }
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&first, remaining_bytes)) => {
                self.bytes = remaining_bytes;
                first
            }
            None => 0,
        }
    }

    /// One bit, of a byte.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number of four bytes.
    pub fn number(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number below `limit`, which is at most 256.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// At most `most_bytes` bytes, as many as the next byte says.
    pub fn bytes(&mut self, most_bytes: usize) -> &'a [u8] {
        let count = usize::from(self.byte()).min(most_bytes).min(self.bytes.len());
        let (taken_bytes, remaining_bytes) = self.bytes.split_at(count);
        self.bytes = remaining_bytes;
        taken_bytes
    }

    /// Text of at most `most_bytes` bytes before those that are not UTF-8 are replaced.
    pub fn text(&mut self, most_bytes: usize) -> String {
        String::from_utf8_lossy(self.bytes(most_bytes)).into_owned()
    }

    /// Everything that is left.
    pub fn remaining_bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// An error and each of its causes have words, and so has a hint if there is one.
pub fn check_error_text(error: &dyn Error, hint: Option<String>) {
    let mut next = Some(error);
    while let Some(cause) = next {
        assert!(!cause.to_string().is_empty(), "an error without words: {cause:?}");
        next = cause.source();
    }
    assert!(hint.is_none_or(|hint| !hint.is_empty()), "an empty hint for {error}");
}
