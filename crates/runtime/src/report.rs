//! The child's messages to its parent during a replay: JSON documents in a [`Journal`]. Each is
//! written at once: a crash loses none of the earlier ones.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::journal::{Journal, Weight};
use replay_base::summary::Summary;

/// One `kernel<<<grid, block, shared>>>` of host code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Why the launch was refused, in CUDA's words; none if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The error of device or host code behind the early end of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReplayFault {
    /// The kind of error: `out-of-bounds access`, `barrier never reached`, ...
    pub what: String,
    /// Details in words: address and tensor, waiting groups, the text of an assertion.
    pub detail: String,
    /// The running kernel, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The block along x, y, z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// The thread along x, y, z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<[u32; 3]>,
}

impl ReplayFault {
    /// Whether the kind of error says by itself that host code is at fault.
    pub fn tells_host_code(&self) -> bool {
        self.what.contains("host code") || self.what == CALL_MISFIT
    }
}

/// The failure of host code with an access to device memory.
pub const HOST_ACCESS: &str = "host access to device memory";
/// The failure of host code that ends the replay: a check of the sources failed, or something is not supported.
pub const HOST_STOP: &str = "host code stopped itself";
/// The end of a replay whose call differs from the functions that it calls: in the number of results, or in the dtype or
/// the shape of a tensor.
pub const CALL_MISFIT: &str = "the call does not fit";
/// The end of a float64 shadow whose code looks at the bits of its numbers, or at their size.
pub const NO_SHADOW: &str = "no float64 shadow";
/// The failure of a kernel with an access to host memory.
pub const DEVICE_ACCESS: &str = "device access to host memory";

/// The kind of a finding of a checked replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(schemars::JsonSchema)]
pub enum FoundKind {
    /// Two threads touch an address, one of them writes, and nothing orders them.
    Race,
    /// A race of writes without a change of the value in memory.
    SameValue,
    /// A thread reads a value by an atomic or volatile after another one wrote it so, and nothing else orders them. Other
    /// data of the writer is checked as far as fences order it.
    Flag,
    /// A kernel reads memory nobody wrote.
    Unwritten,
    /// A kernel touches memory beside an allocation.
    OutOfBounds,
    /// A kernel touches as a vector, or as another wide type, an address that is no multiple of its alignment.
    Misaligned,
    /// A shuffle reads a lane that has ended or is not in its mask, and an output depends on the result.
    UndefinedLane,
    /// The same, and no output does.
    UnusedLane,
    /// Host code touches device memory.
    HostAccess,
    /// A kernel touches memory of the host.
    DeviceAccess,
}

impl FoundKind {
    /// The problem with `memory`, in a few words without places.
    pub fn words(self, memory: &str) -> String {
        match self {
            FoundKind::Race => format!("race on {memory}"),
            FoundKind::SameValue => format!("the same value is written by several to {memory}"),
            FoundKind::Flag => format!("waits on memory (flag) {memory}"),
            FoundKind::Unwritten => format!("reads what nobody wrote in {memory}"),
            FoundKind::OutOfBounds => format!("out of bounds of {memory}"),
            FoundKind::Misaligned => format!("misaligned access to {memory}"),
            FoundKind::UndefinedLane => format!("a shuffle reads {memory}"),
            FoundKind::UnusedLane => {
                format!("a shuffle reads {memory}, and no output depends on it")
            }
            FoundKind::HostAccess => format!("host access to {memory}"),
            FoundKind::DeviceAccess => "device access to host memory".to_owned(),
        }
    }
}

/// One access of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FoundSpot {
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is an atomic or a volatile.
    pub atomic: bool,
    /// `file:line`, empty where it is not known.
    pub site: String,
    /// The kernel, or `a copy`, `a fill`.
    pub name: String,
    /// The block along x, y, z, of a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// The thread along x, y, z, of a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<[u32; 3]>,
}

/// A finding of a checked replay, one for each pair of places in the sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccessFinding {
    /// The kind.
    pub kind: FoundKind,
    /// Whether a race is between unordered launches or copies of different streams.
    #[serde(default)]
    pub between_streams: bool,
    /// The earlier access of a race.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FoundSpot>,
    /// The access that showed it.
    pub second: FoundSpot,
    /// The memory's name: a tensor, or where it was allocated; of a shuffle the lane, and of an access to the
    /// host's memory how the kernel came to it.
    pub memory: String,
    /// The first byte of the access, counted from the beginning of the memory.
    pub offset: i64,
    /// The element at that byte, if the memory is a tensor.
    #[serde(default)]
    pub index: Option<Vec<usize>>,
    /// Bytes of the access.
    pub bytes: u64,
    /// How often it happened.
    pub count: u64,
}

/// How far a checked replay touched a piece of device memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TouchedMemory {
    /// The memory's name: a tensor, or where it was allocated.
    pub memory: String,
    /// Bytes up to the end of the last access; 0 if there was none.
    pub bytes: u64,
}

/// The findings of a checked replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessFindings {
    /// The findings, in their order in time.
    pub found: Vec<AccessFinding>,
    /// How many more there were.
    pub left_out: u64,
    /// The bytes of device memory beyond the limit, if it ended early for want of them.
    pub refused: Option<u64>,
    /// Why the accesses were not looked at, if they were not.
    pub not_checked: Option<String>,
    /// The memory that was there at the end.
    #[serde(default)]
    pub touched: Vec<TouchedMemory>,
}

impl FoundSpot {
    /// Who does it, and whether it writes.
    fn part(&self) -> (&str, bool) {
        (&self.name, self.writes)
    }
}

impl AccessFinding {
    /// Whether the code is wrong, as opposed to a harmless habit.
    pub fn is_failure(&self) -> bool {
        !matches!(self.kind, FoundKind::SameValue | FoundKind::Flag | FoundKind::UnusedLane)
    }

    /// Whether `other` is the same defect; lines may have moved.
    pub fn is_like(&self, other: &AccessFinding) -> bool {
        fn names(finding: &AccessFinding) -> (Option<(&str, bool)>, (&str, bool), &str) {
            let first = finding.first.as_ref().map(FoundSpot::part);
            (first, finding.second.part(), finding.memory_without_line())
        }
        self.kind == other.kind && names(self) == names(other)
    }

    /// The memory's name without the line of an allocation and the number of a lane: these move.
    pub fn memory_without_line(&self) -> &str {
        if matches!(self.kind, FoundKind::UndefinedLane | FoundKind::UnusedLane) {
            return "a lane that takes no part";
        }
        match self.memory.rsplit_once(':') {
            Some((name, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &self.memory,
        }
    }
}

/// One entry of the child's account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildReport {
    /// A launch is about to run, or was refused.
    Launch(LaunchRecord),
    /// The replay ends here; the process exits next.
    Fault(ReplayFault),
    /// The summary of an output on the device.
    Summary {
        output: String,
        /// The device's summary.
        summary: Box<Summary>,
        /// Whether its elements are brought back as well.
        is_fetched: bool,
    },
    /// Memory outside of a tensor or allocation was written.
    Overrun {
        /// The allocation or tensor, and where the write lies.
        detail: String,
    },
    /// The findings of a checked replay.
    Found(AccessFindings),
    /// The code rounded other numbers to integers than those of the record.
    OtherRoundings,
    /// The device, once it is known.
    Device {
        /// A name for people, such as `NVIDIA H200, driver 13.0`.
        description: String,
        /// The device's class: `cpu`, `sm_90`.
        class: String,
    },
    /// The process sent itself a signal without a possible handler; it exits next.
    Raised { signal: i32 },
    /// A signal came from a process outside of the replay; the process exits next.
    Outside { signal: i32 },
    /// Device code lacks this; the replay is repeated with a module that has it.
    Unresolved {
        /// A kernel, or `&` and a variable, as NVRTC is asked for it.
        expression: String,
    },
    /// The machine, or this program, kept the call from starting or finishing: a message for the user.
    Refused {
        /// The reason, in words.
        message: String,
        /// A hint for the user, if there is one.
        hint: Option<String>,
    },
    /// The call returned and the outputs are written.
    Done {
        /// All launches, also those beyond the ones reported.
        launches: u64,
        /// The launches begun by the last write to the watched output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_write: Option<u64>,
        /// Microseconds until the inputs lay on the device, from when it was ready.
        inputs_us: u64,
        /// Microseconds spent in `call`, copies of inputs and outputs not included.
        call_us: u64,
        /// Its microseconds of processor time, on all cores.
        #[serde(default)]
        cpu_us: u64,
        /// Microseconds until the outputs were written, or summarised.
        outputs_us: u64,
    },
}

/// More launches than this are only counted.
pub(crate) const MAX_LAUNCHES: u64 = 4096;

/// The way back to the parent.
pub struct Reporter {
    journal: Journal,
    launches: AtomicU64,
}

impl Reporter {
    /// A reporter with `journal` as its destination.
    pub fn new(journal: Journal) -> Reporter {
        Reporter { journal, launches: AtomicU64::new(0) }
    }

    /// Writes one entry. Without room it is left out: the earlier ones say enough.
    pub fn send(&self, report: &ChildReport) {
        let weight = match report {
            ChildReport::Launch(LaunchRecord { error: None, .. }) => Weight::Ordinary,
            ChildReport::Launch(_) | ChildReport::Overrun { .. } => Weight::Failure,
            _ => Weight::Ending,
        };
        let text = serde_json::to_vec(report).expect("reports are plain data");
        self.journal.write(&text, weight);
    }

    /// Reports a launch if it is among the first `MAX_LAUNCHES` or failed.
    pub fn launch(&self, record: LaunchRecord) {
        if self.launches.fetch_add(1, Ordering::Relaxed) < MAX_LAUNCHES || record.error.is_some() {
            self.send(&ChildReport::Launch(record));
        }
    }

    /// The launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Writes why the process ends, from a signal handler; the first one counts.
    pub(crate) fn send_last(&self, word: &LastWord) {
        self.journal.write_last(&word.bytes[..word.length]);
    }
}

/// A report built without heap memory; text beyond its size is dropped.
pub struct LastWord {
    bytes: [u8; 3072],
    length: usize,
}

/// Stands for a quotation mark of JSON in the text of a [`LastWord`].
const QUOTE: u8 = 1;

impl LastWord {
    /// A [`ChildReport::Fault`] in `kernel`, `position` block and thread; `detail` writes the details.
    pub fn fault(
        what: &str,
        kernel: Option<&str>,
        position: Option<([u32; 3], [u32; 3])>,
        detail: impl FnOnce(&mut LastWord),
    ) -> LastWord {
        let mut word = LastWord::empty();
        // Text beyond the size is dropped; a truncated report is no report.
        let _ = write!(word, "{{\x01fault\x01:{{\x01what\x01:\x01{what}\x01,\x01detail\x01:\x01");
        detail(&mut word);
        let _ = word.write_str("\x01");
        if let Some(kernel) = kernel {
            let _ = write!(word, ",\x01kernel\x01:\x01{kernel}\x01");
        }
        if let Some((block, thread)) = position {
            let _ = write!(word, ",\x01block\x01:{block:?},\x01thread\x01:{thread:?}");
        }
        let _ = word.write_str("}}");
        word
    }

    /// A [`ChildReport::Refused`] with `message` and `hint`.
    pub fn refused(message: impl FnOnce(&mut LastWord), hint: &str) -> LastWord {
        let mut word = LastWord::empty();
        let _ = word.write_str("{\x01refused\x01:{\x01message\x01:\x01");
        message(&mut word);
        let _ = write!(word, "\x01,\x01hint\x01:\x01{hint}\x01}}}}");
        word
    }

    /// A [`ChildReport::Outside`].
    pub fn outside(signal: i32) -> LastWord {
        let mut word = LastWord::empty();
        let _ = write!(word, "{{\x01outside\x01:{{\x01signal\x01:{signal}}}}}");
        word
    }

    /// A [`ChildReport::Raised`].
    pub fn raised(signal: i32) -> LastWord {
        let mut word = LastWord::empty();
        let _ = write!(word, "{{\x01raised\x01:{{\x01signal\x01:{signal}}}}}");
        word
    }

    fn empty() -> LastWord {
        LastWord { bytes: [0; 3072], length: 0 }
    }
}

impl Write for LastWord {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for &byte in text.as_bytes() {
            // The strings hold names and paths: characters in need of an escape are replaced.
            let byte = match byte {
                b'"' | b'\\' => b'\'',
                QUOTE => b'"',
                0..=31 => b' ',
                plain_byte => plain_byte,
            };
            if self.length < self.bytes.len() {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(word: &LastWord) -> ChildReport {
        serde_json::from_slice(&word.bytes[..word.length]).unwrap()
    }

    #[test]
    fn last_words_are_reports() {
        assert_eq!(parsed(&LastWord::outside(15)), ChildReport::Outside { signal: 15 });
        assert_eq!(parsed(&LastWord::raised(9)), ChildReport::Raised { signal: 9 });
        let word = LastWord::fault(
            "stack \"overflow\"",
            Some("k"),
            Some(([1, 2, 3], [4, 5, 6])),
            |word| {
                let _ = write!(word, "a\nb\\c");
            },
        );
        let ChildReport::Fault(fault) = parsed(&word) else { panic!() };
        assert_eq!((fault.what.as_str(), fault.detail.as_str()), ("stack 'overflow'", "a b'c"));
        assert_eq!((fault.block, fault.thread), (Some([1, 2, 3]), Some([4, 5, 6])));
        let word = LastWord::refused(|word| _ = word.write_str("no memory"), "add some");
        let hint = Some("add some".to_owned());
        assert_eq!(parsed(&word), ChildReport::Refused { message: "no memory".into(), hint });
    }
}
