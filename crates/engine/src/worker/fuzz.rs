//! The properties that must hold for any report and any outputs of a child.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::memory::OutputMemory;
use super::run::{Account, DeclaredTensors, Ending, finish_run};
use super::{CallPart, WorkerError};
use replay_base::fuzz::{FuzzDraw, check_error_text};
use replay_base::process::tree::End;
use replay_base::tensor::{DType, Dim};
use replay_fixture::fixture::Output;
use replay_runtime::journal;

/// Any journal gives either a run whose outputs can be read or a refusal with a message, and a
/// journal of any bytes can be read. The first byte says how the child ended, the second whether it
/// timed out and whether its code had begun.
pub fn child_report(bytes: &[u8]) {
    let mut draw = FuzzDraw::new(bytes);
    let status = i32::from(draw.byte() as i8);
    let end = if status < 0 { End::Killed(-status) } else { End::Exited(status) };
    let timed_out = draw.flag().then_some(Duration::from_secs(1));
    let has_begun = draw.flag();
    let journal_bytes = draw.remaining_bytes();
    let entries = journal_bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let printed =
        String::from_utf8_lossy(&journal_bytes[..journal_bytes.len().min(256)]).into_owned();
    let account = Account { entries, printed, timed_out, end, has_begun, is_wrapped: false };
    read_journal(journal_bytes);
    let layout = DeclaredTensors::outputs(sample_outputs()).layout(&CallPart::Whole);
    let nowhere = Path::new("/nonexistent");
    let memory = OutputMemory::new(layout.bytes, nowhere).expect("memory for a few numbers");
    let run = match finish_run(account, &layout, memory, &Arc::default()) {
        Ok(run) => run,
        // In the child's words, if it has any.
        Err(WorkerError::Refused { .. }) => return,
        Err(error) => return check_error_text(&error, error.hint()),
    };
    assert!(run.launch_count >= run.launches.len() as u64);
    if run.ending == Ending::Completed {
        let told_of = run.outputs().count() + run.summaries.len();
        assert!(told_of >= sample_outputs().len(), "an output that nothing is known of");
    }
    for (output, view) in run.outputs() {
        assert_eq!(view.bytes.len(), output.shape.iter().product::<usize>() * output.dtype.size());
        assert!((0..view.len()).all(|index| view.get_f64(index) == 0.0), "nothing was written");
    }
}

/// Reads a journal that begins with `bytes`; no entry is longer than they are.
fn read_journal(bytes: &[u8]) {
    let entries =
        journal::read_journal_file(&create_memory_file(journal::BYTES, bytes)).expect("memory");
    assert!(entries.iter().all(|entry| entry.len() <= bytes.len()));
}

/// A file of this size that begins with the given bytes.
fn create_memory_file(length: usize, first: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(first).expect("room");
    file.set_len(length.max(1) as u64).expect("room");
    file
}

/// A scalar and a matrix.
fn sample_outputs() -> Vec<Output> {
    let output = |name: &str, sizes: &[usize]| Output {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: sizes.iter().map(|&size| Dim { name: None, size }).collect(),
        gradient_of: None,
        of: Vec::new(),
        upstream: Vec::new(),
        straight_through: false,
        non_finite: false,
    };
    vec![output("loss", &[]), output("grad", &[4, 5])]
}
