//! Memory for the variables of the threads of a kernel in thread-loop form.

use std::ffi::c_void;

/// The alignment of the memory.
pub(crate) const ALIGNMENT: usize = 256;

/// The unit of the memory.
#[derive(Clone, Copy)]
#[repr(align(256))]
struct Piece {
    _bytes: [u8; ALIGNMENT],
}

/// Memory as large as the largest block so far, used again for each.
#[derive(Default)]
pub(super) struct Frames {
    pieces: Vec<Piece>,
}

impl Frames {
    /// At least `bytes` bytes, aligned to [`ALIGNMENT`], or none if there is no memory. Their
    /// content is left over from earlier use. They stay in place until more are asked for.
    pub(super) fn reserve(&mut self, bytes: usize) -> Option<*mut c_void> {
        let count = bytes.div_ceil(size_of::<Piece>());
        let missing = count.saturating_sub(self.pieces.len());
        self.pieces.try_reserve_exact(missing).ok()?;
        self.pieces.resize(self.pieces.len() + missing, Piece { _bytes: [0; ALIGNMENT] });
        Some(self.pieces.as_mut_ptr().cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_aligned_and_too_many_are_none() {
        let mut frames = Frames::default();
        for bytes in [1, 256, 257, 100_000] {
            assert_eq!(frames.reserve(bytes).unwrap() as usize % 256, 0, "{bytes} bytes");
        }
        assert_eq!(frames.pieces.len(), 100_000usize.div_ceil(256));
        assert!(frames.reserve(isize::MAX as usize).is_none());
    }
}
