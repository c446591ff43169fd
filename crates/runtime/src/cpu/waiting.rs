//! Groups the threads of a block by where they wait, in words, for the report of a deadlock.

/// Threads of a block waiting at the same place, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitingGroup {
    /// Linear thread indices as ranges, `0..16, 32..48`.
    pub threads: String,
    /// Where and for what they wait, with file and line.
    pub place: String,
}

/// Groups the threads of a block, whose places come in their order.
pub(super) fn group_waiting_threads(places: impl Iterator<Item = String>) -> Vec<WaitingGroup> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (linear, place) in places.enumerate() {
        match groups.iter_mut().find(|(known_place, _)| *known_place == place) {
            Some((_, threads)) => threads.push(linear),
            None => groups.push((place, vec![linear])),
        }
    }
    groups
        .into_iter()
        .map(|(place, threads)| WaitingGroup { threads: format_ranges(&threads), place })
        .collect()
}

/// Sorted numbers as half-open ranges: `0..16, 40, 64..96`.
fn format_ranges(sorted: &[usize]) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut remaining_threads = sorted;
    while let [first, ..] = remaining_threads {
        let run =
            remaining_threads.iter().enumerate().take_while(|&(k, n)| *n == first + k).count();
        texts.push(if run == 1 { format!("{first}") } else { format!("{first}..{}", first + run) });
        remaining_threads = &remaining_threads[run..];
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_runs_and_single_threads() {
        assert_eq!(format_ranges(&[0, 1, 2, 5, 7, 8]), "0..3, 5, 7..9");
        assert_eq!(format_ranges(&[]), "");
    }
}
