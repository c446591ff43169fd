//! Launches and failures in the words of the format. Accepted snapshots hold these words, so they stay when reports
//! change.
//!
//! A failure has its kind, its operation, and its kernel, block and thread. Lines of sources, addresses and explanations
//! are left out: they can change while the numbers stay.

use std::fmt::Write;

use super::number::format_snapshot_number;
use replay_engine::trial::{Failure, Outcome};
use replay_runtime::report::{LaunchRecord, ReplayFault};

/// The most lines of launches in a snapshot.
const LAUNCHES: usize = 64;

/// The failure in one line.
pub(super) fn failure_line(run_failure: &Failure) -> String {
    flatten_text(&match run_failure {
        Failure::Launch { launch } => {
            let error = launch.error.as_deref().unwrap_or("refused");
            format!("launch error: {}: {error}", format_launch_line(launch))
        }
        Failure::Fault { fault } => self::format_fault_line(fault),
        Failure::Exit { code } => {
            format!("exit: the code called exit({code}) before the call returned")
        }
        Failure::Status { code } => format!("exit: the program ended with exit status {code}"),
        Failure::Outputs { problem, .. } => format!("outputs: {problem}"),
        Failure::OutsideRead { output, count, of, first } => format!(
            "reads outside its tensors: {count} of {of} elements of {output}, first at {first:?}"
        ),
        Failure::Raised { message } => format!("raised: {message}"),
        Failure::EndsByPoison { outside, failure } => {
            let memory = if *outside { "around tensors" } else { "in unwritten memory" };
            format!(
                "{}: fails with other values {memory}: {}",
                run_failure.kind(),
                failure_line(failure)
            )
        }
        Failure::EndsByChance { failure } => {
            format!("not deterministic: a repetition fails: {}", failure_line(failure))
        }
        // Their number is another each time.
        Failure::NotDeterministic { output, .. } => format!("not deterministic: {output}"),
        Failure::Killed { signal } => format!("killed: signal {signal}"),
        Failure::Timeout { seconds, place } => {
            let kernel = place.as_ref().and_then(|fault| fault.kernel.as_deref());
            let place = kernel.map_or("in host code".to_owned(), |kernel| format!("in {kernel}"));
            format!(
                "timeout: still running {place} after {} s",
                format_snapshot_number(*seconds, 4)
            )
        }
        // The memory taken by then is another number each time.
        Failure::Memory { limit, .. } => format!("memory: more than {limit} bytes"),
        Failure::Overrun { .. } => "out-of-bounds write".to_owned(),
        Failure::NonFinite { output, nan, inf, first } => format!(
            "non-finite: {output} has {nan} NaN and {inf} Inf from finite inputs, first at {first:?}"
        ),
        Failure::Unwritten { output, count, of, first } => {
            format!("unwritten: {count} of {of} elements of {output}, first at {first:?}")
        }
        Failure::PoisonDependent { output, count, of, first } => format!(
            "depends on unwritten memory: {count} of {of} elements of {output}, first at {first:?}"
        ),
        Failure::Sanitizer { tool, finding } => {
            let kernel = finding.kernel.as_ref();
            let kernel = kernel.map_or(String::new(), |kernel| format!(" in {kernel}"));
            format!("{}: {}{kernel}", tool.name(), finding.what)
        }
    })
}

fn format_fault_line(fault: &ReplayFault) -> String {
    let ReplayFault { what, kernel, block, thread, .. } = fault;
    let Some(kernel) = kernel else {
        return if fault.tells_host_code() { what.clone() } else { format!("{what} in host code") };
    };
    let mut text = format!("{what} in {kernel}");
    if let (Some([bx, by, bz]), Some([tx, ty, tz])) = (block, thread) {
        let _ = write!(text, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})");
    }
    text
}

/// One line for each run of equal launches, at most [`LAUNCHES`] of them.
pub(super) fn launch_lines(outcome: &Outcome) -> Vec<String> {
    let mut runs: Vec<(String, u64)> = Vec::new();
    for launch in &outcome.launches {
        let line = format_launch_line(launch);
        match runs.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => runs.push((line, 1)),
        }
    }
    let lines = runs.into_iter().map(|(line, times)| match times {
        1 => line,
        times => format!("{line} x {times}"),
    });
    lines.take(LAUNCHES).collect()
}

/// `kernel<<<256, 34, 136>>>`, as CUDA writes it; dynamic shared memory of 0 is left out.
fn format_launch_line(launch: &LaunchRecord) -> String {
    let kernel = &launch.kernel;
    let grid = format_launch_extent(launch.grid);
    let block = format_launch_extent(launch.block);
    flatten_text(&match launch.shared_bytes {
        0 => format!("{kernel}<<<{grid}, {block}>>>"),
        bytes => format!("{kernel}<<<{grid}, {block}, {bytes}>>>"),
    })
}

/// The extent of a grid or block, without trailing dimensions of 1.
fn format_launch_extent([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => format!("{x}"),
        (_, 1) => format!("({x}, {y})"),
        _ => format!("({x}, {y}, {z})"),
    }
}

/// Text without control characters, on one line.
pub(super) fn flatten_text(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_cuda::sanitizer::{SanitizerFinding, Tool};

    fn fault(detail: &str) -> Failure {
        Failure::Fault {
            fault: ReplayFault {
                what: "out-of-bounds access".to_owned(),
                kernel: Some("k".to_owned()),
                block: Some([1, 0, 0]),
                thread: Some([2, 0, 0]),
                detail: detail.to_owned(),
            },
        }
    }

    #[test]
    fn failures_are_told_in_words_that_are_kept() {
        let launch = LaunchRecord {
            kernel: "k".to_owned(),
            grid: [4, 1, 1],
            block: [32, 2, 1],
            shared_bytes: 16,
            site: "k.cu:3".to_owned(),
            error: Some("invalid".to_owned()),
        };
        let finding = SanitizerFinding {
            what: "Invalid write".to_owned(),
            kernel: Some("k".to_owned()),
            sites: vec!["k.cu:5".to_owned()],
            block: None,
            thread: None,
            address: Some("0x7f00".to_owned()),
            detail: "Access to 0x7f00 is out of bounds".to_owned(),
            count: 2,
        };
        let output = || "y".to_owned();
        let all = [
            Failure::Launch { launch },
            fault("address 0x7f0000001000"),
            Failure::Exit { code: 3 },
            Failure::Killed { signal: 9 },
            Failure::Timeout { seconds: 2.5, place: None },
            Failure::Overrun { detail: "before x, at 0x7f00".to_owned() },
            Failure::NonFinite { output: output(), nan: 1, inf: 2, first: vec![0, 3] },
            Failure::Unwritten { output: output(), count: 1, of: 4, first: vec![2] },
            Failure::PoisonDependent { output: output(), count: 1, of: 4, first: vec![2] },
            Failure::Status { code: 3 },
            Failure::OutsideRead { output: output(), count: 1, of: 4, first: vec![2] },
            Failure::Raised { message: "IndexError: 7".to_owned() },
            Failure::EndsByPoison {
                outside: true,
                failure: Box::new(Failure::Raised { message: "IndexError: 7".to_owned() }),
            },
            Failure::EndsByPoison { outside: false, failure: Box::new(Failure::Exit { code: 3 }) },
            Failure::EndsByChance { failure: Box::new(Failure::Exit { code: 3 }) },
            Failure::NotDeterministic {
                output: output(),
                count: 1,
                of: 4,
                first: vec![2],
                max_abs: 0.5,
            },
            Failure::Outputs { problem: "output `y` is missing".to_owned(), outputs: Vec::new() },
            Failure::Memory { taken: 9, limit: 8 },
            Failure::Sanitizer { tool: Tool::Memcheck, finding },
        ];
        let lines: Vec<String> = all.iter().map(failure_line).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        launch error: k<<<4, (32, 2), 16>>>: invalid
        out-of-bounds access in k, block (1, 0, 0), thread (2, 0, 0)
        exit: the code called exit(3) before the call returned
        killed: signal 9
        timeout: still running in host code after 2.5 s
        out-of-bounds write
        non-finite: y has 1 NaN and 2 Inf from finite inputs, first at [0, 3]
        unwritten: 1 of 4 elements of y, first at [2]
        depends on unwritten memory: 1 of 4 elements of y, first at [2]
        exit: the program ended with exit status 3
        reads outside its tensors: 1 of 4 elements of y, first at [2]
        raised: IndexError: 7
        reads outside its tensors: fails with other values around tensors: raised: IndexError: 7
        depends on unwritten memory: fails with other values in unwritten memory: exit: the code called exit(3) before the call returned
        not deterministic: a repetition fails: exit: the code called exit(3) before the call returned
        not deterministic: y
        outputs: output `y` is missing
        memory: more than 8 bytes
        memcheck: Invalid write in k
        ");
    }

    #[test]
    fn an_address_is_no_part_of_a_failure() {
        assert_eq!(failure_line(&fault("0x7f0000001000")), failure_line(&fault("0x7e0000002000")));
    }
}
