//! Planted findings, and random ones against all smaller cuts.

use super::*;
use std::cell::Cell;
use std::convert::Infallible;

fn slices(count: usize, center: usize) -> CutSize {
    CutSize { count, first: vec![center], is_number: false }
}

struct Found {
    cut: SizeCut,
    tries: usize,
    /// The tries at other lengths of the first size.
    tried: Vec<(usize, TestAnswer)>,
}

impl Found {
    fn lengths(&self) -> Vec<usize> {
        self.cut.iter().map(Vec::len).collect()
    }

    fn rule(&self) -> Option<SizeRule> {
        find_size_rule(self.cut[0].len(), &self.tried)
    }
}

fn shrink_within(
    sizes: &[CutSize],
    most_tries: usize,
    oracle: &dyn Fn(&SizeCut) -> TestAnswer,
) -> Found {
    let tries = Cell::new(0);
    let mut tester = |cut: &SizeCut| {
        tries.set(tries.get() + 1);
        Ok::<_, Infallible>(oracle(cut))
    };
    let mut shrinker = Shrinker::new(sizes, &mut tester, most_tries);
    let Ok(cut) = shrinker.shrink();
    let Ok(tried) = shrinker.probe_need(&cut, 0);
    assert!(tries.get() <= most_tries);
    Found { cut, tried, tries: tries.get() }
}

/// The finding stays where `keeps` says so.
fn shrink(sizes: &[CutSize], keeps: &dyn Fn(&SizeCut) -> bool) -> Found {
    shrink_within(sizes, 1000, &|cut| if keeps(cut) { TestAnswer::Bad } else { TestAnswer::Good })
}

#[test]
fn one_slice_of_each_size_is_the_first_try() {
    let found = shrink(&[slices(8, 5), slices(1 << 20, 70_000), slices(34, 23)], &|_| true);
    assert_eq!(found.cut, [vec![5], vec![70_000], vec![23]]);
    assert!(found.tries <= 6, "{}", found.tries);
    assert_eq!(found.rule(), None);
}

#[test]
fn slices_in_the_middle_are_found_without_their_neighbours() {
    let keeps = |cut: &SizeCut| cut[0].contains(&41) && cut[0].contains(&77);
    let found = shrink(&[slices(100, 77), slices(6, 0)], &keeps);
    assert_eq!(found.cut, [vec![41, 77], vec![0]]);
    assert!(found.tries < 100, "{}", found.tries);
}

#[test]
fn a_length_above_a_border_is_told_by_the_last_length_without_the_finding() {
    let found = shrink(&[slices(2004, 1500), slices(32, 3)], &|cut| cut[0].len() > 1024);
    assert_eq!(found.lengths(), [1025, 1]);
    assert_eq!(found.rule(), Some(SizeRule::AtLeast(1025)));
    assert!(found.tried.contains(&(1024, TestAnswer::Good)));
    assert!(found.tries < 60, "{}", found.tries);
}

#[test]
fn a_length_that_is_no_power_of_two_is_told() {
    let found = shrink(&[slices(34, 20), slices(8, 3)], &|cut| !cut[0].len().is_power_of_two());
    assert_eq!(found.lengths(), [3, 1]);
    assert_eq!(found.rule(), Some(SizeRule::NoPowerOfTwo));
}

#[test]
fn the_smallest_divisor_that_does_is_told() {
    for divisor in [4, 8, 16, 32] {
        let found = shrink(&[slices(77, 40)], &|cut| !cut[0].len().is_multiple_of(divisor));
        assert_eq!(found.rule(), Some(SizeRule::NoMultipleOf(divisor)), "{:?}", found.tried);
    }
}

#[test]
fn many_slices_that_are_not_needed_are_dropped_by_more_than_one_at_a_time() {
    // The first slice and 64 others, wherever they lie; all windows around the last one lack the first one.
    let keeps = |cut: &SizeCut| cut[0].contains(&0) && cut[0].len() > 64;
    let found = shrink(&[slices(100, 99)], &keeps);
    assert_eq!(found.lengths(), [65]);
    assert!(found.tries <= 45, "{}", found.tries);
}

#[test]
fn slices_without_the_needed_ones_say_nothing_of_their_number() {
    // Two tokens of one label, far from each other.
    let keeps = |cut: &SizeCut| cut[0].contains(&17) && cut[0].contains(&44);
    let found = shrink(&[slices(60, 17)], &keeps);
    assert_eq!(found.cut, [vec![17, 44]]);
    assert_eq!(found.rule(), Some(SizeRule::AtLeast(2)), "{:?}", found.tried);
}

#[test]
fn a_length_with_a_weaker_finding_is_one_with_the_finding() {
    use TestAnswer::{Bad, Good, Other};
    let tried = [(128, Good), (129, Other), (145, Bad)];
    assert_eq!(find_size_rule(144, &tried), Some(SizeRule::AtLeast(129)));
}

#[test]
fn blocks_stay_blocks_where_a_finding_needs_them() {
    let found = shrink(&[slices(512, 100)], &|cut| cut[0].len() % 64 == 0);
    assert_eq!(found.lengths(), [64]);
    assert_eq!(found.rule(), Some(SizeRule::MultipleOf(64)));
}

#[test]
fn more_than_one_head_is_two_heads() {
    let found = shrink(&[slices(12, 7), slices(128, 4)], &|cut| cut[0].len() > 1);
    assert_eq!(found.lengths(), [2, 1]);
    assert_eq!(found.rule(), Some(SizeRule::AtLeast(2)));
}

#[test]
fn three_rows_of_one_label_are_found_among_others() {
    let label = |row: usize| row * 7 % 5;
    let keeps = |cut: &SizeCut| cut[0].iter().filter(|&&row| label(row) == 3).count() >= 3;
    let found = shrink(&[slices(64, 9)], &keeps);
    assert_eq!(found.lengths(), [3]);
    assert!(found.cut[0].iter().all(|&row| label(row) == 3));
}

#[test]
fn slices_that_belong_together_are_tried_together_first() {
    // Two tokens of one label, far from each other, and blocks of 32 of another size.
    let tokens = CutSize { count: 4096, first: vec![100, 3000, 4000], is_number: false };
    let keeps = |cut: &SizeCut| {
        let both = [100, 3000].iter().all(|token| cut[0].contains(token));
        both && cut[1].len().is_multiple_of(32)
    };
    let found = shrink(&[tokens, slices(64, 9), slices(16, 3)], &keeps);
    assert_eq!(found.cut[0], [100, 3000]);
    assert_eq!(found.lengths(), [2, 32, 1]);
    assert!(found.tries < 60, "{}", found.tries);
}

#[test]
fn a_number_is_cut_from_its_end() {
    let number = CutSize { count: 12, first: Vec::new(), is_number: true };
    let found = shrink(&[number, slices(768, 0)], &|cut| {
        cut[0].len() >= 2 && cut[1].len() % cut[0].len() == 0
    });
    assert_eq!(found.cut, [vec![0, 1], vec![0, 1]]);
}

#[test]
fn a_finding_that_every_cut_loses_leaves_all_slices() {
    let found =
        shrink(&[slices(9, 4), slices(3, 0)], &|cut| cut[0].len() == 9 && cut[1].len() == 3);
    assert_eq!(found.lengths(), [9, 3]);
}

#[test]
fn without_sizes_there_is_nothing_to_cut() {
    let mut tester = |_: &SizeCut| Ok::<_, Infallible>(TestAnswer::Bad);
    let Ok(cut) = Shrinker::new(&[], &mut tester, 10).shrink();
    assert!(cut.is_empty());
}

#[test]
fn the_result_shows_the_finding_and_loses_it_without_its_last_slice_whatever_the_finding_is() {
    for seed in 0..300u64 {
        let hash = |cut: &SizeCut| {
            let indices = cut.iter().enumerate().flat_map(|(size, kept)| {
                kept.iter().map(move |slice| (size * 100 + slice) as u64 + 1)
            });
            indices.fold(seed + 1, |hash, index| {
                (hash ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
            })
        };
        let sizes = [slices(6, (seed % 6) as usize), slices(4, 1)];
        let is_whole = |cut: &SizeCut| cut[0].len() == 6 && cut[1].len() == 4;
        let oracle = |cut: &SizeCut| match hash(cut) % 8 {
            _ if is_whole(cut) => TestAnswer::Bad,
            0 => TestAnswer::Bad,
            1 => TestAnswer::Skip,
            2 => TestAnswer::Other,
            _ => TestAnswer::Good,
        };
        let found = shrink_within(&sizes, 1000, &oracle);
        assert_eq!(oracle(&found.cut), TestAnswer::Bad);
        for size in 0..2 {
            let mut shorter = found.cut.clone();
            shorter[size].pop();
            if !shorter[size].is_empty() {
                assert_ne!(oracle(&shorter), TestAnswer::Bad, "{:?}", found.cut);
            }
        }
    }
}

#[test]
fn of_findings_that_more_slices_never_lose_no_smaller_cut_has_one() {
    for seed in 0..200usize {
        let needed = [vec![seed % 6, seed / 6 % 6], vec![seed % 5]];
        let sizes = [slices(6, needed[0][0]), slices(5, needed[1][0])];
        let found = shrink(&sizes, &|cut| {
            (0..2).all(|size| needed[size].iter().all(|slice| cut[size].contains(slice)))
        });
        let mut expected = needed.clone();
        expected[0].sort_unstable();
        expected[0].dedup();
        assert_eq!(found.cut, expected);
    }
}

#[test]
fn tries_that_ran_out_leave_the_smallest_cut_so_far() {
    let keeps = |cut: &SizeCut| {
        if cut[0].len() > 40 { TestAnswer::Bad } else { TestAnswer::Good }
    };
    let found = shrink_within(&[slices(100, 0), slices(9, 0)], 13, &keeps);
    assert_eq!(keeps(&found.cut), TestAnswer::Bad);
}
