//! The memory of the tree of processes below this one. Shared pages count once. Pages of files,
//! such as libraries, do not count: the system can take them back.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Pid, current_pid, tree};

/// The shortest time between two looks.
const PERIOD: Duration = Duration::from_millis(10);
/// The time between two looks is this multiple of the time of a look.
const PAUSE: u32 = 20;

/// More memory than a replay may have, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryExcess {
    /// The memory of all its processes at the time of the look.
    pub taken: u64,
    /// Their limit.
    pub limit: u64,
}

impl fmt::Display for MemoryExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = Bytes(self.taken);
        let limit = Bytes(self.limit);
        write!(f, "took {taken} of memory, and a replay may have {limit} (--memory)")
    }
}

/// A number of bytes, in the largest decimal unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        match units.into_iter().find(|(unit, _)| self.0 as f64 >= *unit) {
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / unit),
            None if self.0 == 1 => write!(f, "1 byte"),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// Watches over the memory of the tree below this process.
pub(crate) struct MemoryWatch {
    /// The limit in bytes, if there is one.
    limit: Option<u64>,
    /// When it is looked at next.
    due: Instant,
}

impl MemoryWatch {
    /// A watch over a tree with a limit of `limit` bytes. `u64::MAX` is no limit.
    pub(crate) fn new(limit: u64) -> MemoryWatch {
        MemoryWatch { limit: Some(limit).filter(|&limit| limit < u64::MAX), due: Instant::now() }
    }

    /// The time until the next look; none where nothing is watched.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.limit.map(|_| self.due.saturating_duration_since(Instant::now()))
    }

    /// The excess of the tree, if it is time to look and the tree is beyond its limit.
    pub(crate) fn excess(&mut self) -> Option<MemoryExcess> {
        let limit = self.limit?;
        let begun = Instant::now();
        if begun < self.due {
            return None;
        }
        let taken = tree_bytes(&tree::list_descendants(current_pid()), limit);
        self.due = Instant::now() + PERIOD.max(begun.elapsed() * PAUSE);
        (taken > limit).then_some(MemoryExcess { taken, limit })
    }
}

/// The bytes of all `processes`. Shared pages are told apart only if the sum may be more than `most`: the system has to
/// walk through all pages for it.
fn tree_bytes(processes: &[Pid], most: u64) -> u64 {
    let resident: u64 = processes.iter().filter_map(|&process| resident_bytes(process)).sum();
    if resident <= most {
        return resident;
    }
    processes
        .iter()
        .filter_map(|&process| proportional_bytes(process).or_else(|| resident_bytes(process)))
        .sum()
}

/// The bytes of `process` in memory and in swap, its own and shared ones, files excepted (proc_pid_status(5)); none if it
/// has gone.
fn resident_bytes(process: Pid) -> Option<u64> {
    sum_of_fields(process, "status", &["RssAnon:", "RssShmem:", "VmSwap:"])
}

/// The same, with shared bytes divided among their processes (proc_pid_smaps(5)); none if the system does not tell.
fn proportional_bytes(process: Pid) -> Option<u64> {
    sum_of_fields(process, "smaps_rollup", &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"])
}

/// The sum of the fields with these `names` of a file about `process`, in bytes; none if it has none of them.
fn sum_of_fields(process: Pid, file: &str, names: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let fields = text.lines().filter_map(|line| {
        let value = names.iter().find_map(|name| line.strip_prefix(name))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    fields.reduce(u64::saturating_add).map(|kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_is_counted_of_processes_that_are_there() {
        let resident = resident_bytes(current_pid()).unwrap();
        let own = proportional_bytes(current_pid()).unwrap();
        assert!(own > 0 && own < 2 * resident, "{own} of {resident}");
        // No process has a number that is negative.
        assert_eq!(tree_bytes(&[-1], 0), 0);
    }

    #[test]
    fn a_tree_has_the_children_of_children() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut number = String::new();
        let mut told = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut told, &mut number).unwrap();
        let sleeper: Pid = number.trim().parse().unwrap();
        let all = tree::list_descendants(current_pid());
        let both = [shell.id() as Pid, sleeper].map(|process| all.contains(&process));
        tree::signal_process(sleeper, libc::SIGKILL);
        shell.wait().unwrap();
        assert_eq!(both, [true, true]);
    }

    #[test]
    fn what_has_no_limit_is_not_looked_at() {
        let mut watch = MemoryWatch::new(u64::MAX);
        assert_eq!((watch.pause(), watch.excess()), (None, None));
    }
}
