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

use replay_base::tensor::parallel;
use replay_cuda::CudaError;
use replay_cuda::driver::{Address, Context, check_driver_result};

/// Smaller copies are left to the driver.
pub(super) const LARGE: usize = 64 << 20;
/// Bytes of a piece.
const PIECE: usize = 2 << 20;
/// Pieces of a thread: one on its way, one being filled.
const PIECES: usize = 2;
/// Threads for filling pieces; more do not make memory faster.
const THREADS: usize = 12;

/// The pinned memory of one thread, and the stream for copies out of it and into it.
struct UploadStream {
    pinned: *mut u8,
    stream: sys::CUstream,
    /// Recorded after the last copy of each piece.
    events: [sys::CUevent; PIECES],
}

// SAFETY: memory and handles; any thread may use them.
unsafe impl Send for UploadStream {}

impl UploadStream {
    fn new() -> Result<UploadStream, CudaError> {
        let mut pinned: *mut c_void = std::ptr::null_mut();
        // SAFETY: fills in a pointer.
        check_driver_result(unsafe { sys::cuMemHostAlloc(&raw mut pinned, PIECES * PIECE, 0) })?;
        let mut lane = UploadStream {
            pinned: pinned.cast(),
            stream: std::ptr::null_mut(),
            events: [std::ptr::null_mut(); PIECES],
        };
        // SAFETY: fill in handles. The stream waits for the default one and its poison.
        unsafe {
            check_driver_result(sys::cuStreamCreate(&raw mut lane.stream, 0))?;
            for event in &mut lane.events {
                const NO_TIMING: u32 = 2;
                check_driver_result(sys::cuEventCreate(event, NO_TIMING))?;
            }
        }
        Ok(lane)
    }

    /// Sends pieces of `bytes`, by `next`, until there are no more, and waits for them.
    fn work(
        &mut self,
        destination: Address,
        bytes: &[u8],
        next: &AtomicUsize,
    ) -> Result<(), CudaError> {
        for turn in 0.. {
            let piece_begin = next.fetch_add(1, Ordering::Relaxed) * PIECE;
            if piece_begin >= bytes.len() {
                break;
            }
            let piece = &bytes[piece_begin..bytes.len().min(piece_begin + PIECE)];
            self.send(destination + piece_begin as Address, piece, turn % PIECES)?;
        }
        // SAFETY: waits.
        check_driver_result(unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// Brings pieces of the `bytes` from `source` on, by `next`, until there are no more.
    fn fetch(
        &self,
        destination: UploadTarget,
        source: Address,
        bytes: usize,
        next: &AtomicUsize,
    ) -> Result<(), CudaError> {
        let mut earlier: Option<(usize, usize)> = None;
        for turn in 0.. {
            let piece_begin = next.fetch_add(1, Ordering::Relaxed) * PIECE;
            let slot = turn % PIECES;
            if piece_begin < bytes {
                self.request(
                    source + piece_begin as Address,
                    PIECE.min(bytes - piece_begin),
                    slot,
                )?;
            }
            // One piece is on its way while the one before it is copied.
            if let Some((earlier_begin, slot)) = earlier {
                let length = PIECE.min(bytes - earlier_begin);
                // SAFETY: the piece has arrived, and its place is a part of the target.
                unsafe {
                    check_driver_result(sys::cuEventSynchronize(self.events[slot]))?;
                    let pinned = self.pinned.add(slot * PIECE);
                    std::ptr::copy_nonoverlapping(pinned, destination.0.add(earlier_begin), length);
                }
            }
            earlier = (piece_begin < bytes).then_some((piece_begin, slot));
            if earlier.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Asks for `length` bytes to come to pinned piece `slot`.
    fn request(&self, source: Address, length: usize, slot: usize) -> Result<(), CudaError> {
        // SAFETY: the pinned piece is as long as any, and its earlier content was copied away.
        unsafe {
            let pinned = self.pinned.add(slot * PIECE);
            check_driver_result(sys::cuMemcpyDtoHAsync_v2(
                pinned.cast(),
                source,
                length,
                self.stream,
            ))?;
            check_driver_result(sys::cuEventRecord(self.events[slot], self.stream))
        }
    }

    /// Sends `piece` by way of pinned piece `slot`, after the arrival of the slot's earlier content.
    fn send(&self, destination: Address, piece: &[u8], slot: usize) -> Result<(), CudaError> {
        // SAFETY: the pinned piece is as long as any, and nothing reads it once its event is over;
        // it is left alone until then.
        unsafe {
            check_driver_result(sys::cuEventSynchronize(self.events[slot]))?;
            let pinned = self.pinned.add(slot * PIECE);
            std::ptr::copy_nonoverlapping(piece.as_ptr(), pinned, piece.len());
            check_driver_result(sys::cuMemcpyHtoDAsync_v2(
                destination,
                pinned.cast(),
                piece.len(),
                self.stream,
            ))?;
            check_driver_result(sys::cuEventRecord(self.events[slot], self.stream))
        }
    }
}

impl Drop for UploadStream {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and given back once; pending copies are waited for.
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

/// Memory of the host, written in parts by several threads.
#[derive(Clone, Copy)]
struct UploadTarget(*mut u8);

// SAFETY: each thread writes pieces of its own.
unsafe impl Send for UploadTarget {}
// SAFETY: as above.
unsafe impl Sync for UploadTarget {}

/// Lanes for copies, made when the first large one comes.
#[derive(Default)]
pub(super) struct Uploader {
    lanes: Mutex<Vec<UploadStream>>,
}

impl Uploader {
    /// Copies `bytes` to the device.
    pub(super) fn upload(
        &self,
        context: &Context,
        destination: Address,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        let next = AtomicUsize::new(0);
        self.with_lanes(context, |lane| lane.work(destination, bytes, &next))
    }

    /// Copies `bytes` from the device.
    ///
    /// # Safety
    /// `destination` must have room for them.
    pub(super) unsafe fn download(
        &self,
        context: &Context,
        destination: *mut u8,
        source: Address,
        bytes: usize,
    ) -> Result<(), CudaError> {
        let next = AtomicUsize::new(0);
        let target = UploadTarget(destination);
        self.with_lanes(context, |lane| lane.fetch(target, source, bytes, &next))
    }

    /// Does `work` on every lane, each on a thread.
    fn with_lanes(
        &self,
        context: &Context,
        work: impl Fn(&mut UploadStream) -> Result<(), CudaError> + Sync,
    ) -> Result<(), CudaError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let threads = parallel::count_cores().clamp(1, THREADS);
        while lanes.len() < threads {
            lanes.push(UploadStream::new()?);
        }
        thread::scope(|scope| {
            let thread_starts = lanes.iter_mut().map(|lane| {
                let work = &work;
                scope.spawn(move || {
                    context.enter()?;
                    work(lane)
                })
            });
            let lane_threads: Vec<_> = thread_starts.collect();
            let mut result = Ok(());
            for lane_thread in lane_threads {
                let lane_result =
                    lane_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(lane_result);
            }
            result
        })
    }
}

/// The seconds of a plain copy of `bytes` out of pinned memory, the bus's best. For measurements.
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
        check_driver_result(sys::cuMemHostAlloc(&raw mut pinned, PINNED, 0))?;
        std::ptr::write_bytes(pinned.cast::<u8>(), 1, PINNED);
        let started_at = std::time::Instant::now();
        for piece_begin in (0..bytes).step_by(PINNED) {
            let length = PINNED.min(bytes - piece_begin);
            let destination = room + piece_begin as Address;
            check_driver_result(sys::cuMemcpyHtoDAsync_v2(
                destination,
                pinned,
                length,
                std::ptr::null_mut(),
            ))?;
        }
        context.synchronize()?;
        let seconds = started_at.elapsed().as_secs_f64();
        check_driver_result(sys::cuMemFreeHost(pinned))?;
        context.free(room)?;
        Ok(seconds)
    }
}
