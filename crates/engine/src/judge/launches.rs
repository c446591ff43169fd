//! The changes of launches from one revision to another.

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use replay_runtime::report::LaunchRecord;

/// A new launch, a lost one, or one of another shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LaunchChange {
    /// The launch at the trusted side; none if it is new.
    pub before: Option<LaunchRecord>,
    /// The launch at the other side; none if it is gone.
    pub after: Option<LaunchRecord>,
}

/// The differences in order; a launch has changed where its kernel keeps its name.
pub fn diff_launches(before: &[LaunchRecord], after: &[LaunchRecord]) -> Vec<LaunchChange> {
    let old: Vec<String> = before.iter().map(serialise_shape).collect();
    let new: Vec<String> = after.iter().map(serialise_shape).collect();
    let mut changes = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        if let DiffOp::Equal { .. } = op {
            continue;
        }
        let mut gone_launches: Vec<&LaunchRecord> = before[op.old_range()].iter().collect();
        for launch in &after[op.new_range()] {
            let same_kernel = gone_launches.iter().position(|old| old.kernel == launch.kernel);
            let before = same_kernel.map(|place| gone_launches.remove(place).clone());
            changes.push(LaunchChange { before, after: Some(launch.clone()) });
        }
        let gone_launches = gone_launches.into_iter().cloned();
        changes
            .extend(gone_launches.map(|launch| LaunchChange { before: Some(launch), after: None }));
    }
    changes
}

/// The shape of `launch` as text. Its place in its file is no part of it.
fn serialise_shape(launch: &LaunchRecord) -> String {
    serialise_launch(&LaunchRecord { site: String::new(), ..launch.clone() })
}

fn serialise_launch(launch: &LaunchRecord) -> String {
    serde_json::to_string(launch).expect("launches are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(kernel: &str, threads: u32, line: u32) -> LaunchRecord {
        LaunchRecord {
            kernel: kernel.to_owned(),
            grid: [4, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            site: format!("a.cu:{line}"),
            error: None,
        }
    }

    #[test]
    fn a_launch_that_moved_in_its_file_did_not_change() {
        assert_eq!(diff_launches(&[launch("f", 32, 1)], &[launch("f", 32, 9)]), []);
    }

    #[test]
    fn a_changed_shape_pairs_the_launches_of_one_kernel() {
        let before = [launch("f", 32, 1), launch("g", 32, 2)];
        let after = [launch("f", 32, 1), launch("h", 8, 2), launch("g", 64, 3)];
        let found = diff_launches(&before, &after);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], LaunchChange { before: None, after: Some(after[1].clone()) });
        let changed =
            LaunchChange { before: Some(before[1].clone()), after: Some(after[2].clone()) };
        assert_eq!(found[1], changed);
    }
}
