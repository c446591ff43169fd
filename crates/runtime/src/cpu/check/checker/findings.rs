//! The findings, one for each pair of places in the code.

use std::collections::HashMap;

use super::super::cells::Touch;
use crate::abi::CallSite;

/// The most findings of a replay; more are only counted.
const MAX_FINDINGS: usize = 64;

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CheckerFindingKind {
    /// Two threads touch an address, one of them writes, and nothing orders them.
    Race,
    /// The same, and the write does not change the value.
    SameValue,
    /// A thread reads a value atomically after another one wrote it atomically, and nothing else orders them.
    Flag,
    /// A kernel reads memory nobody wrote.
    Unwritten,
    /// A kernel touches memory beside an allocation.
    OutOfBounds,
    /// A kernel touches an address that is no multiple of the alignment of the type.
    Misaligned,
    /// A shuffle reads a lane outside of it.
    StrayLane,
    /// Host code touches device memory.
    HostAccess,
    /// A kernel touches memory of the host.
    DeviceAccess,
}

/// Where something stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum At {
    /// The code before this return address.
    Code(usize),
    /// A line of the sources.
    Line(CallSite),
}

/// One side of a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CheckerSpot {
    /// Whether it reads or writes, and how.
    pub touch: Touch,
    /// Where it stands.
    pub site: At,
    /// The kernel, or `a copy`, `a fill`, `host code`.
    pub name: &'static str,
    /// Block and thread of a kernel.
    pub place: Option<([u32; 3], [u32; 3])>,
}

/// How far apart the two sides of a finding are. The further, the less can a device order them by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Apart {
    /// Threads of one warp, or one side alone.
    #[default]
    InWarp,
    /// Threads of two warps of one block.
    InBlock,
    /// Two blocks, or two operations.
    Beyond,
}

/// Something wrong, once for each pair of places in the code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckerFinding {
    /// The kind.
    pub kind: CheckerFindingKind,
    /// Whether a race is between two launches, or a launch and a copy.
    pub between_streams: bool,
    /// The earlier access of a race.
    pub first: Option<CheckerSpot>,
    /// The access that showed it.
    pub second: CheckerSpot,
    /// How far apart the two are.
    pub apart: Apart,
    /// The memory's name.
    pub memory: String,
    /// The first byte of the access in it; beyond its end or negative if outside.
    pub offset: i64,
    /// Bytes of the access.
    pub bytes: usize,
    /// How often it happened.
    pub count: u64,
}

impl CheckerFinding {
    /// One seen once, at `second`.
    pub(crate) fn new(
        kind: CheckerFindingKind,
        second: CheckerSpot,
        memory: String,
        offset: i64,
        bytes: usize,
    ) -> CheckerFinding {
        let between_streams = false;
        CheckerFinding {
            kind,
            between_streams,
            first: None,
            second,
            apart: Apart::default(),
            memory,
            offset,
            bytes,
            count: 1,
        }
    }
}

/// The findings of a replay.
#[derive(Default)]
pub(crate) struct CheckerFindings {
    /// In their order in time.
    pub kept: Vec<CheckerFinding>,
    /// By kind and places.
    known: HashMap<(CheckerFindingKind, [u32; 2]), usize>,
    /// Findings beyond the kept ones.
    pub left_out: u64,
}

impl CheckerFindings {
    /// Counts `finding`, and keeps it as the example of `places` if it is the first there, or further apart than those
    /// before. Returns the index of the kept one.
    pub(crate) fn note(&mut self, finding: CheckerFinding, places: [u32; 2]) -> Option<usize> {
        let key = (finding.kind, places);
        if let Some(&finding_index) = self.known.get(&key) {
            let kept_finding = &mut self.kept[finding_index];
            let CheckerFinding { kind, count, .. } = *kept_finding;
            if finding.apart > kept_finding.apart {
                *kept_finding = finding;
            }
            // An example says nothing of the others.
            kept_finding.kind = kind;
            kept_finding.count = count + 1;
            return Some(finding_index);
        }
        if self.kept.len() == MAX_FINDINGS {
            self.left_out += 1;
            return None;
        }
        self.known.insert(key, self.kept.len());
        self.kept.push(finding);
        Some(self.kept.len() - 1)
    }

    /// The same. Returns whether it is the first at `places`.
    pub(crate) fn note_first(&mut self, finding: CheckerFinding, places: [u32; 2]) -> bool {
        let kept_index = self.note(finding, places);
        kept_index.is_some_and(|index| self.kept[index].count == 1)
    }
}
