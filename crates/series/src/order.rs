//! The order of steps: by their numbers where all have one, else by their names.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde::Serialize;

use replay_numerics::constants::MOST_MISSING_STEPS;

/// A named step. Only its provenance is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStep {
    pub path: PathBuf,
    /// The number of the step in its provenance.
    pub number: Option<i64>,
}

/// Irregular numbers of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Numbering {
    /// Steps without a number, where others have one: all were then ordered by name.
    pub without: Vec<String>,
    /// Numbers shared by several steps.
    pub repeated: Vec<i64>,
    /// Left-out numbers between neighbours, where nearly all are equally far apart.
    pub missing: Vec<i64>,
}

/// A sort key for paths by name, with numbers by their value: `step9` before `step10`.
pub fn natural_sort_key(path: &Path) -> String {
    /// Digits of the largest number sorted by value.
    const DIGITS: usize = 20;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut key = String::new();
    let mut rest = &*name;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let tail = &rest[start..];
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        key.push_str(&rest[..start]);
        key.push_str(&format!("{:0>DIGITS$}", &tail[..end]));
        rest = &tail[end..];
    }
    key + rest
}

/// The number of a step, from the `text` in its provenance.
pub fn parse_step_number(text: Option<&str>) -> Option<i64> {
    text?.trim().replace('_', "").parse().ok()
}

/// Puts `steps` in their order, each folder once.
pub fn order_steps(mut steps: Vec<NamedStep>) -> (Vec<NamedStep>, Numbering) {
    let numbered = steps.iter().all(|step| step.number.is_some());
    steps.sort_by(|a, b| {
        let numbers = if numbered { a.number.cmp(&b.number) } else { Ordering::Equal };
        numbers
            .then_with(|| natural_sort_key(&a.path).cmp(&natural_sort_key(&b.path)))
            .then_with(|| a.path.cmp(&b.path))
    });
    let mut met = std::collections::HashSet::new();
    steps.retain(|step| {
        let real_path = step.path.canonicalize().unwrap_or_else(|_| step.path.clone());
        met.insert(real_path)
    });
    let mut numbering = Numbering::default();
    if numbered {
        let numbers: Vec<i64> = steps.iter().filter_map(|step| step.number).collect();
        numbering.repeated = find_repeated_numbers(&numbers);
        numbering.missing = find_missing_numbers(&numbers);
    } else if steps.iter().any(|step| step.number.is_some()) {
        let without = steps.iter().filter(|step| step.number.is_none());
        numbering.without = without.map(|step| step.path.display().to_string()).collect();
    }
    (steps, numbering)
}

fn find_repeated_numbers(sorted: &[i64]) -> Vec<i64> {
    let pairs = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let mut repetitions: Vec<i64> = pairs.collect();
    repetitions.dedup();
    repetitions
}

/// The left-out numbers: none unless four of five neighbours are equally far apart.
fn find_missing_numbers(sorted: &[i64]) -> Vec<i64> {
    let gaps = sorted.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    let gaps: Vec<i64> = gaps.filter(|&gap| gap > 0).collect();
    let Some(&usual) = gaps.iter().min() else { return Vec::new() };
    let as_usual = gaps.iter().filter(|&&gap| gap == usual).count();
    if as_usual * 5 < gaps.len() * 4 || as_usual < 2 {
        return Vec::new();
    }
    let skipped_numbers = sorted.windows(2).flat_map(|pair| {
        let next = pair[0].saturating_add(usual);
        (next..pair[1]).step_by(usual as usize)
    });
    let found: Vec<i64> = skipped_numbers.take(MOST_MISSING_STEPS + 1).collect();
    if found.len() > MOST_MISSING_STEPS { Vec::new() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(steps: &[(&str, Option<i64>)]) -> (Vec<String>, Numbering) {
        let named = |&(path, number): &(&str, Option<i64>)| NamedStep { path: path.into(), number };
        let (steps, numbering) = order_steps(steps.iter().map(named).collect());
        (steps.iter().map(|step| step.path.display().to_string()).collect(), numbering)
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let mut names = ["step10", "step9-loss", "step9", "step", "step100", "a7", "step09-b"];
        names.sort_by_cached_key(|name| natural_sort_key(Path::new(name)));
        assert_eq!(names, ["a7", "step", "step9", "step09-b", "step9-loss", "step10", "step100"]);
    }

    #[test]
    fn the_provenance_decides_where_every_step_has_a_number() {
        let (steps, numbering) = order(&[("b", Some(7)), ("c", Some(-1)), ("a", Some(30))]);
        assert_eq!(steps, ["c", "b", "a"]);
        assert_eq!(numbering, Numbering::default());
        let (steps, numbering) = order(&[("s10", Some(1)), ("s9", None)]);
        assert_eq!(steps, ["s9", "s10"]);
        assert_eq!(numbering.without, ["s9"]);
        assert_eq!(parse_step_number(Some("1_200")), Some(1200));
        assert_eq!(parse_step_number(Some("warmup")), None);
    }

    #[test]
    fn a_folder_that_is_named_twice_is_one_step() {
        assert_eq!(order(&[("a", Some(1)), ("a", Some(1))]).0, ["a"]);
    }

    #[test]
    fn gaps_and_repetitions_are_told() {
        let run = |numbers: &[i64]| {
            let names: Vec<String> = (0..numbers.len()).map(|at| format!("s{at}")).collect();
            let steps = names.iter().zip(numbers).map(|(name, &n)| (name.as_str(), Some(n)));
            order(&steps.collect::<Vec<_>>()).1
        };
        assert_eq!(run(&[0, 1, 2, 3, 5, 6, 7, 7, 8]).missing, [4]);
        assert_eq!(run(&[0, 1, 2, 3, 5, 6, 7, 7, 8]).repeated, [7]);
        assert_eq!(run(&[0, 100, 200, 300, 400, 600]).missing, [500]);
        // Captured where something happened: no regular distance.
        assert_eq!(run(&[0, 1, 2, 17, 40, 41, 90]).missing, [0i64; 0]);
        assert_eq!(run(&[5]), Numbering::default());
    }
}
