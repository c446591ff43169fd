//! Large copies to the device, from mapped files, and back: through pinned memory, many pieces at a time.
//!
//! The driver copies pageable memory piece by piece and waits for each. Here several threads fill or empty pinned
//! pieces while others are on their way. All pieces together fit in the processor's cache.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cudarc::driver::sys;

use crate::cuda::CudaError;
use crate::cuda::driver::{Address, Context, checked};
use crate::tensor::parts;

/// Smaller copies are left to the driver.
pub(super) const LARGE: usize = 64 << 20;
/// Bytes of a piece.
const PIECE: usize = 2 << 20;
/// Pieces of a thread: one on its way, one being filled.
const PIECES: usize = 2;
/// Threads that fill pieces; more do not make memory faster.
const THREADS: usize = 12;

/// The pinned memory of one thread, and the stream that copies out of it and into it.
struct Lane {
    pinned: *mut u8,
    stream: sys::CUstream,
    /// Recorded after the last copy of each piece.
    events: [sys::CUevent; PIECES],
}

// SAFETY: memory and handles, which any thread may use.
unsafe impl Send for Lane {}

impl Lane {
    fn new() -> Result<Lane, CudaError> {
        let mut pinned: *mut c_void = std::ptr::null_mut();
        // SAFETY: fills in a pointer.
        checked(unsafe { sys::cuMemHostAlloc(&raw mut pinned, PIECES * PIECE, 0) })?;
        let mut lane = Lane {
            pinned: pinned.cast(),
            stream: std::ptr::null_mut(),
            events: [std::ptr::null_mut(); PIECES],
        };
        // SAFETY: fill in handles. The stream waits for the default one, which fills with poison.
        unsafe {
            checked(sys::cuStreamCreate(&raw mut lane.stream, 0))?;
            for event in &mut lane.events {
                const NO_TIMING: u32 = 2;
                checked(sys::cuEventCreate(event, NO_TIMING))?;
            }
        }
        Ok(lane)
    }

    /// Sends the pieces of `bytes` that `next` gives until there are no more, and waits for them.
    fn work(&mut self, to: Address, bytes: &[u8], next: &AtomicUsize) -> Result<(), CudaError> {
        for turn in 0.. {
            let begin = next.fetch_add(1, Ordering::Relaxed) * PIECE;
            if begin >= bytes.len() {
                break;
            }
            let piece = &bytes[begin..bytes.len().min(begin + PIECE)];
            self.send(to + begin as Address, piece, turn % PIECES)?;
        }
        // SAFETY: waits.
        checked(unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// Brings the pieces of the `bytes` from `from` on that `next` gives until there are no more.
    fn fetch(
        &self,
        to: Target,
        from: Address,
        bytes: usize,
        next: &AtomicUsize,
    ) -> Result<(), CudaError> {
        let mut earlier: Option<(usize, usize)> = None;
        for turn in 0.. {
            let begin = next.fetch_add(1, Ordering::Relaxed) * PIECE;
            let slot = turn % PIECES;
            if begin < bytes {
                self.request(from + begin as Address, PIECE.min(bytes - begin), slot)?;
            }
            // One piece is on its way while the one before it is copied.
            if let Some((begin, slot)) = earlier {
                let length = PIECE.min(bytes - begin);
                // SAFETY: the piece has arrived, and its place is a part of the target.
                unsafe {
                    checked(sys::cuEventSynchronize(self.events[slot]))?;
                    let pinned = self.pinned.add(slot * PIECE);
                    std::ptr::copy_nonoverlapping(pinned, to.0.add(begin), length);
                }
            }
            earlier = (begin < bytes).then_some((begin, slot));
            if earlier.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Asks for `length` bytes to come to pinned piece `slot`.
    fn request(&self, from: Address, length: usize, slot: usize) -> Result<(), CudaError> {
        // SAFETY: the pinned piece is as long as any, and its earlier content was copied away.
        unsafe {
            let pinned = self.pinned.add(slot * PIECE);
            checked(sys::cuMemcpyDtoHAsync_v2(pinned.cast(), from, length, self.stream))?;
            checked(sys::cuEventRecord(self.events[slot], self.stream))
        }
    }

    /// Sends `piece` by way of pinned piece `slot`, once that one's earlier content has arrived.
    fn send(&self, to: Address, piece: &[u8], slot: usize) -> Result<(), CudaError> {
        // SAFETY: the pinned piece is as long as any, and nothing reads it once its event is over;
        // it is left alone until then.
        unsafe {
            checked(sys::cuEventSynchronize(self.events[slot]))?;
            let pinned = self.pinned.add(slot * PIECE);
            std::ptr::copy_nonoverlapping(piece.as_ptr(), pinned, piece.len());
            checked(sys::cuMemcpyHtoDAsync_v2(to, pinned.cast(), piece.len(), self.stream))?;
            checked(sys::cuEventRecord(self.events[slot], self.stream))
        }
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
            for event in self.events.into_iter().filter(|event| !event.is_null()) {
                sys::cuEventDestroy_v2(event);
            }
            sys::cuMemFreeHost(self.pinned.cast());
        }
    }
}

/// Memory of the host that several threads write parts of.
#[derive(Clone, Copy)]
struct Target(*mut u8);

// SAFETY: each thread writes pieces of its own.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// Lanes for copies, made when the first large one comes.
#[derive(Default)]
pub(super) struct Uploader {
    lanes: Mutex<Vec<Lane>>,
}

impl Uploader {
    /// Copies `bytes` to the device.
    pub(super) fn upload(
        &self,
        context: &Context,
        to: Address,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        let next = AtomicUsize::new(0);
        self.with_lanes(context, |lane| lane.work(to, bytes, &next))
    }

    /// Copies `bytes` from the device.
    ///
    /// # Safety
    /// `to` must have room for them.
    pub(super) unsafe fn download(
        &self,
        context: &Context,
        to: *mut u8,
        from: Address,
        bytes: usize,
    ) -> Result<(), CudaError> {
        let (next, to) = (AtomicUsize::new(0), Target(to));
        self.with_lanes(context, |lane| lane.fetch(to, from, bytes, &next))
    }

    /// Does `work` on every lane, each on a thread.
    fn with_lanes(
        &self,
        context: &Context,
        work: impl Fn(&mut Lane) -> Result<(), CudaError> + Sync,
    ) -> Result<(), CudaError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let threads = parts::cores().clamp(1, THREADS);
        while lanes.len() < threads {
            lanes.push(Lane::new()?);
        }
        thread::scope(|scope| {
            let begun = lanes.iter_mut().map(|lane| {
                let work = &work;
                scope.spawn(move || {
                    context.enter()?;
                    work(lane)
                })
            });
            let begun: Vec<_> = begun.collect();
            let join = |handle: thread::ScopedJoinHandle<'_, _>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            begun.into_iter().map(join).collect::<Result<Vec<()>, CudaError>>().map(|_| ())
        })
    }
}

/// Seconds that a plain copy of `bytes` out of pinned memory takes, the best that the bus gives. For
/// measurements.
///
/// # Errors
/// CUDA's error if the device or its memory cannot be had.
pub fn pinned_copy_seconds(ordinal: usize, bytes: usize) -> Result<f64, CudaError> {
    const PINNED: usize = 256 << 20;
    let context = Context::open(ordinal).map_err(|_| CudaError::INITIALIZATION)?;
    let room = context.allocate(bytes)?;
    let mut pinned: *mut c_void = std::ptr::null_mut();
    // SAFETY: fills in a pointer; all of the memory is written before it is read, and freed once.
    unsafe {
        checked(sys::cuMemHostAlloc(&raw mut pinned, PINNED, 0))?;
        std::ptr::write_bytes(pinned.cast::<u8>(), 1, PINNED);
        let begun = std::time::Instant::now();
        for begin in (0..bytes).step_by(PINNED) {
            let length = PINNED.min(bytes - begin);
            let to = room + begin as Address;
            checked(sys::cuMemcpyHtoDAsync_v2(to, pinned, length, std::ptr::null_mut()))?;
        }
        context.synchronize()?;
        let seconds = begun.elapsed().as_secs_f64();
        checked(sys::cuMemFreeHost(pinned))?;
        context.free(room)?;
        Ok(seconds)
    }
}
