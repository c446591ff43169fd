//! Large copies to the device: through pinned memory, several at a time.
//!
//! From pageable memory the driver copies piece by piece, waiting for each.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::sys;
use rayon::prelude::*;

use super::driver::{Address, checked};
use crate::runtime::error::CudaError;

/// Bytes of a piece; smaller copies are left to the driver.
pub(super) const PIECE: usize = 16 << 20;
/// Pieces on their way.
const IN_FLIGHT: usize = 4;
/// What one thread copies of a piece.
const SHARE: usize = 1 << 20;

/// Pinned memory, and the stream that copies out of it.
struct Lane {
    pinned: *mut u8,
    stream: sys::CUstream,
}

impl Lane {
    fn new() -> Result<Lane, CudaError> {
        let mut pinned: *mut c_void = std::ptr::null_mut();
        // SAFETY: fills in a pointer.
        checked(unsafe { sys::cuMemHostAlloc(&raw mut pinned, PIECE, 0) })?;
        let mut lane = Lane { pinned: pinned.cast(), stream: std::ptr::null_mut() };
        // SAFETY: fills in a handle. The stream waits for the default one, which fills with poison.
        checked(unsafe { sys::cuStreamCreate(&raw mut lane.stream, 0) })?;
        Ok(lane)
    }

    /// Sends `piece` on its way once the one before it has arrived.
    fn send(&mut self, to: Address, piece: &[u8]) -> Result<(), CudaError> {
        self.wait()?;
        // SAFETY: the memory is as long as a piece, and nothing reads it any more.
        let pinned = unsafe { std::slice::from_raw_parts_mut(self.pinned, piece.len()) };
        let pairs = pinned.par_chunks_mut(SHARE).zip(piece.par_chunks(SHARE));
        pairs.for_each(|(to, from)| to.copy_from_slice(from));
        let from = self.pinned.cast();
        // SAFETY: the pinned memory is left alone until `wait` has returned.
        checked(unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, piece.len(), self.stream) })
    }

    fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: waits.
        checked(unsafe { sys::cuStreamSynchronize(self.stream) })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and given back once; what was on its way is waited for.
        unsafe {
            if !self.stream.is_null() {
                sys::cuStreamSynchronize(self.stream);
                sys::cuStreamDestroy_v2(self.stream);
            }
            sys::cuMemFreeHost(self.pinned.cast());
        }
    }
}

/// Copies `bytes` to the device.
pub(super) fn upload(to: Address, bytes: &[u8]) -> Result<(), CudaError> {
    let mut lanes = (0..IN_FLIGHT).map(|_| Lane::new()).collect::<Result<Vec<_>, _>>()?;
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        lanes[number % IN_FLIGHT].send(to + (number * PIECE) as Address, piece)?;
    }
    lanes.iter().try_for_each(Lane::wait)
}
