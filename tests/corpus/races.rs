//! Checked replays of the corpus: races that show in no order are found, and no benign variant is accused.

use std::sync::Mutex;

use replay::judge::check_trial_accesses;
use replay::runtime::report::FoundKind;
use replay::trial::AccessCheck;

use super::families::{Case, Corpus, Truth, Variant};
use super::{RACES, is_race, wanted};

/// What a checked replay of `case` finds that the base has not.
fn found(corpus: &Corpus, case: &Case) -> Vec<(FoundKind, String)> {
    let (base, got) = case.trials(&corpus.lab);
    let found = check_trial_accesses(&got, Some(&base), AccessCheck::Always)
        .expect("the machine can replay");
    let found = found.unwrap_or_else(|| panic!("{case}: the call does not return"));
    assert_eq!(found.unchecked, None, "{case}");
    found.failures().map(|found| (found.kind, found.memory.clone())).collect()
}

#[test]
fn plain_sums_where_atomics_belong_are_found_although_no_order_shows_them() {
    let corpus = Corpus::new();
    let is_it = |variant: &Variant| variant.file == "defect/race_without_barrier.cu";
    corpus.each(is_it, |case| {
        let found = found(&corpus, case);
        assert!(found.contains(&(FoundKind::Race, "grad_table".to_owned())), "{case}: {found:?}");
    });
}

#[test]
fn benign_variants_are_not_accused_and_races_are() {
    let corpus = Corpus::new();
    let wrong = Mutex::new(Vec::new());
    let raced = Mutex::new(Vec::new());
    let is_wanted = |variant: &Variant| {
        let file = variant.file.as_str();
        RACES.contains(&file) || wanted(variant) && variant.truth == Truth::Benign
    };
    corpus.each(is_wanted, |case| {
        let found = found(&corpus, case);
        let races = found.iter().any(|(kind, _)| *kind == FoundKind::Race);
        println!("{case}: {found:?}");
        match is_race(case) {
            true if races => raced.lock().expect("no panic").push(case.variant.file.clone()),
            false if !found.is_empty() => {
                wrong.lock().expect("no panic").push(format!("{case}: {found:?}"));
            }
            _ => {}
        }
    });
    assert_eq!(wrong.into_inner().expect("no panic"), [""; 0]);
    let raced = raced.into_inner().expect("no panic");
    let missed = RACES.iter().filter(|file| raced.iter().all(|found| found != *file));
    assert_eq!(missed.collect::<Vec<_>>(), [&""; 0], "on no fixture of their family");
}
