//! Values out of a fuzzer's bytes; zeros once these are used up.

/// Bytes from which values are taken one after the other.
pub(crate) struct FuzzDraw<'a> {
    bytes: &'a [u8],
}

impl<'a> FuzzDraw<'a> {
    /// Takes from `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> FuzzDraw<'a> {
        FuzzDraw { bytes }
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&first, remaining_bytes)) => {
                self.bytes = remaining_bytes;
                first
            }
            None => 0,
        }
    }

    /// One bit, of a byte.
    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number of four bytes.
    pub(crate) fn number(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number below `limit`, which is at most 256.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// At most `most_bytes` bytes, as many as the next byte says.
    pub(crate) fn bytes(&mut self, most_bytes: usize) -> &'a [u8] {
        let count = usize::from(self.byte()).min(most_bytes).min(self.bytes.len());
        let (taken_bytes, remaining_bytes) = self.bytes.split_at(count);
        self.bytes = remaining_bytes;
        taken_bytes
    }

    /// Text of at most `most_bytes` bytes before those that are not UTF-8 are replaced.
    pub(crate) fn text(&mut self, most_bytes: usize) -> String {
        String::from_utf8_lossy(self.bytes(most_bytes)).into_owned()
    }

    /// Everything that is left.
    pub(crate) fn remaining_bytes(self) -> &'a [u8] {
        self.bytes
    }
}
