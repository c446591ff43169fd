//! What the child process tells its parent while it replays: one JSON document a line, written
//! at once, so that a crash loses nothing that was said before it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// One `kernel<<<grid, block, shared>>>` that host code performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u64,
    /// `file:line` of the launch.
    pub site: String,
    /// Why it did not happen, in CUDA's words; none if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What ended a replay before its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// What happened: `out-of-bounds access`, `barrier never reached`, ...
    pub what: String,
    /// Details in words: address and tensor, waiting groups, the text of an assertion.
    pub detail: String,
    /// The kernel that ran, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The block along x, y, z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// The thread along x, y, z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<[u32; 3]>,
}

/// One line of the child's account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A launch is about to run, or was refused.
    Launch(LaunchRecord),
    /// The replay ends here; the process exits next.
    Fault(Fault),
    /// What an output is, where it stays on the device.
    Summary {
        /// Its name.
        output: String,
        /// The device's summary.
        summary: Box<Summary>,
    },
    /// Memory outside of a tensor or allocation was written.
    Overrun {
        /// What the memory belongs to and where.
        detail: String,
    },
    /// What the device is, once it is known.
    Device {
        /// A name for people, such as `NVIDIA H200, driver 13.0`.
        description: String,
        /// The device's class: `cpu`, `sm_90`.
        class: String,
    },
    /// Device code lacks this; the replay is made again with a module that has it.
    Unresolved {
        /// A kernel, or `&` and a variable, as NVRTC is asked for it.
        expression: String,
    },
    /// The call could not be made at all: a message for the user.
    Refused {
        /// What was wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The call returned and the outputs are written.
    Done {
        /// All launches, also those beyond the ones reported.
        launches: u64,
        /// The launches that had begun when the watched output was last written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_write: Option<u64>,
        /// Microseconds until the inputs lay on the device, from when it was ready.
        inputs_us: u64,
        /// Microseconds spent in `call`, copies of inputs and outputs not included.
        call_us: u64,
        /// Microseconds until the outputs were written, or summarised.
        outputs_us: u64,
    },
}

/// More launches than this are only counted.
pub const MAX_LAUNCHES: u64 = 4096;

/// The child's end of the pipe.
pub struct Reporter {
    pipe: Mutex<File>,
    descriptor: RawFd,
    launches: AtomicU64,
}

impl Reporter {
    /// A reporter that writes to `pipe`.
    pub fn new(pipe: File) -> Reporter {
        let descriptor = pipe.as_raw_fd();
        Reporter { pipe: Mutex::new(pipe), descriptor, launches: AtomicU64::new(0) }
    }

    /// Writes one line. A parent that has gone is no error: the child is about to be killed.
    pub fn send(&self, report: &Report) {
        let mut line = serde_json::to_string(report).expect("reports are plain data");
        line.push('\n');
        let mut pipe = self.pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = pipe.write_all(line.as_bytes());
    }

    /// Reports a launch, the first [`MAX_LAUNCHES`] and every one that failed.
    pub fn launch(&self, record: LaunchRecord) {
        if self.launches.fetch_add(1, Ordering::Relaxed) < MAX_LAUNCHES || record.error.is_some() {
            self.send(&Report::Launch(record));
        }
    }

    /// The launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// The file descriptor, for a signal handler that may not lock.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor
    }
}
