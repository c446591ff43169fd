//! The smallest slices on which a finding stays: which cuts to try, and what the tries say of a size. Knows sizes as
//! numbers and slices as indices; the caller tests cuts.
//!
//! The first tries are the smallest: all sizes cut to a few slices around the worst place. They cost little, and one of
//! them does as a rule. Then each size is cut by itself, by whole lengths first and by single slices at the end
//! ([`Minimizer`], delta debugging).

use std::collections::HashMap;

use super::{ChangeSet, Minimizer, TestAnswer};

/// Divisors below a warp's that kernels assume: vectors of 4, and rows of them.
const SMALL_DIVISORS: [usize; 3] = [4, 8, 16];

/// A size that can be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutSize {
    /// Its slices, or its number.
    pub count: usize,
    /// Slices that are kept before others, in this order; others around the first of them.
    pub first: Vec<usize>,
    /// Whether it is a number without slices: its first ones are kept.
    pub is_number: bool,
}

/// The slices that are kept of each size, ascending.
pub type SizeCut = Vec<Vec<usize>>;

/// Tests cuts, one after the other: [`TestAnswer::Bad`] where the finding stays.
pub type CutTester<'t, E> = dyn FnMut(&SizeCut) -> Result<TestAnswer, E> + 't;

/// Tries at single slices of a size.
const MOST_SLICE_TRIES: usize = 40;
/// Rounds over all sizes: a cut of one may allow a cut of another.
const MOST_ROUNDS: usize = 4;
/// From this length on not every slice is tried by itself.
const FEW_SLICES: usize = 4;

/// Cuts sizes as far as a finding stays.
pub struct Shrinker<'t, E> {
    sizes: Vec<CutSize>,
    tester: &'t mut CutTester<'t, E>,
    tries_left: usize,
    answers: HashMap<SizeCut, TestAnswer>,
}

impl<'t, E> Shrinker<'t, E> {
    /// Asks `tester` for at most `most_tries` cuts of `sizes`.
    pub fn new(sizes: &[CutSize], tester: &'t mut CutTester<'t, E>, most_tries: usize) -> Self {
        let sizes = sizes.to_vec();
        Shrinker { sizes, tester, tries_left: most_tries, answers: HashMap::new() }
    }

    /// Whether there are no more tries.
    pub fn is_out_of_tries(&self) -> bool {
        self.tries_left == 0
    }

    /// The smallest cut that was found; all slices where every cut loses the finding.
    ///
    /// # Errors
    /// Those of the tester.
    pub fn shrink(&mut self) -> Result<SizeCut, E> {
        let mut cut = match self.cut_together()? {
            Some(cut) => cut,
            None => self.whole(),
        };
        let mut order: Vec<usize> = (0..self.sizes.len()).collect();
        for round in 0..MOST_ROUNDS {
            let before = cut.clone();
            order.sort_by_key(|&size| std::cmp::Reverse(cut[size].len()));
            for &size in &order {
                if round == 0 {
                    self.cut_length(&mut cut, size)?;
                }
                self.drop_slices(&mut cut, size)?;
            }
            if cut == before && round > 0 {
                break;
            }
        }
        Ok(cut)
    }

    /// The answers for `size` at other lengths than in `cut`, with the other sizes as they are there, by length; tries
    /// lengths that tell rules apart, such as multiples of 32.
    ///
    /// # Errors
    /// Those of the tester.
    pub fn probe_need(
        &mut self,
        cut: &SizeCut,
        size: usize,
    ) -> Result<Vec<(usize, TestAnswer)>, E> {
        let least = cut[size].len();
        for length in probed_lengths(least, self.sizes[size].count) {
            self.test_grown(cut, size, length)?;
        }
        let tried = self.list_tried(cut, size);
        if let Some(SizeRule::NoMultipleOf(divisor)) = find_size_rule(least, &tried) {
            // A smaller divisor may do as well.
            for length in SMALL_DIVISORS.into_iter().filter(|length| *length < divisor) {
                if length > least {
                    self.test_grown(cut, size, length)?;
                }
            }
        }
        Ok(self.list_tried(cut, size))
    }

    /// Tests `cut` with `length` slices of `size`.
    fn test_grown(&mut self, cut: &SizeCut, size: usize, length: usize) -> Result<(), E> {
        let slices = self.grow(&cut[size], size, length);
        self.test(&with_slices(cut, size, slices))?;
        Ok(())
    }

    /// The answers for `size` at other lengths than in `cut`, with the other sizes as they are there, by length.
    fn list_tried(&self, cut: &SizeCut, size: usize) -> Vec<(usize, TestAnswer)> {
        let least = cut[size].len();
        let mut told: Vec<(usize, TestAnswer)> = Vec::new();
        for (tried, &answer) in &self.answers {
            let is_alike = (0..cut.len()).all(|other| other == size || tried[other] == cut[other]);
            if !is_alike || tried[size] == cut[size] {
                continue;
            }
            // More slices that lack needed ones say nothing of their number.
            let has_needed = cut[size].iter().all(|slice| tried[size].contains(slice));
            if answer != TestAnswer::Bad && tried[size].len() > least && !has_needed {
                continue;
            }
            // Some slices of a length do where others do not.
            match told.iter_mut().find(|(length, _)| *length == tried[size].len()) {
                Some((_, known)) if answer == TestAnswer::Bad => *known = answer,
                Some(_) => {}
                None => told.push((tried[size].len(), answer)),
            }
        }
        told.retain(|(length, _)| *length != least);
        told.sort_unstable_by_key(|(length, _)| *length);
        told
    }

    fn whole(&self) -> SizeCut {
        self.sizes.iter().map(|size| (0..size.count).collect()).collect()
    }

    /// Cuts all sizes to one length, the smallest first; then all but one.
    fn cut_together(&mut self) -> Result<Option<SizeCut>, E> {
        let longest = self.sizes.iter().map(|size| size.count).max().unwrap_or(0);
        let lengths: Vec<usize> = ladder(longest).collect();
        let few = lengths.iter().take_while(|length| **length <= FEW_SLICES).count();
        for &length in &lengths[..few] {
            let cut = self.cut_all_to(length, None);
            if self.test(&cut)? == Some(TestAnswer::Bad) {
                return Ok(Some(cut));
            }
        }
        for kept in 0..self.sizes.len() {
            if self.sizes[kept].count <= FEW_SLICES || self.sizes.len() == 1 {
                continue;
            }
            for length in [1, 2, 4] {
                let cut = self.cut_all_to(length, Some(kept));
                if self.test(&cut)? == Some(TestAnswer::Bad) {
                    return Ok(Some(cut));
                }
            }
        }
        for &length in &lengths[few..] {
            let cut = self.cut_all_to(length, None);
            if self.test(&cut)? == Some(TestAnswer::Bad) {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    fn cut_all_to(&self, length: usize, kept: Option<usize>) -> SizeCut {
        let all = self.whole();
        let cut = all.into_iter().enumerate().map(|(size, slices)| {
            if kept == Some(size) { slices } else { self.window(&slices, size, length) }
        });
        cut.collect()
    }

    /// `length` of `slices`: the first ones of `size`, then those before the very first, then those behind it.
    fn window(&self, slices: &[usize], size: usize, length: usize) -> Vec<usize> {
        let CutSize { first, is_number, .. } = &self.sizes[size];
        if *is_number {
            return slices[..length.min(slices.len())].to_vec();
        }
        let center = first.first().copied().unwrap_or(0);
        let place = slices.partition_point(|&slice| slice <= center);
        let neighbours = slices[..place].iter().rev().chain(&slices[place..]);
        let preferred = first.iter().filter(|slice| slices.binary_search(slice).is_ok());
        let mut window: Vec<usize> = Vec::new();
        for &slice in preferred.chain(neighbours) {
            if window.len() >= length {
                break;
            }
            if !window.contains(&slice) {
                window.push(slice);
            }
        }
        window.sort_unstable();
        window
    }

    /// Finds the smallest length of `size`, in steps that grow, and by halves between two of them.
    fn cut_length(&mut self, cut: &mut SizeCut, size: usize) -> Result<(), E> {
        let slices = cut[size].clone();
        let mut lost = 0;
        let mut kept = slices.len();
        for length in ladder(slices.len()).filter(|length| *length < slices.len()) {
            let shorter = with_slices(cut, size, self.window(&slices, size, length));
            if self.test(&shorter)? == Some(TestAnswer::Bad) {
                kept = length;
                *cut = shorter;
                break;
            }
            lost = length;
        }
        while kept - lost > 1 {
            let length = lost + (kept - lost) / 2;
            let shorter = with_slices(cut, size, self.window(&slices, size, length));
            if self.test(&shorter)? == Some(TestAnswer::Bad) {
                kept = length;
                *cut = shorter;
            } else {
                lost = length;
            }
        }
        Ok(())
    }

    /// Drops slices of `size` at both ends and in the middle, and parts where the finding needs others on both sides.
    fn drop_slices(&mut self, cut: &mut SizeCut, size: usize) -> Result<(), E> {
        // Twice as many after each success.
        let mut count = 1;
        while cut[size].len() > 1 {
            let length = cut[size].len();
            count = if length <= FEW_SLICES { 1 } else { count.min(length - 1) };
            let places: Vec<usize> = if self.sizes[size].is_number {
                vec![length - count]
            } else if length <= FEW_SLICES {
                (0..length).rev().collect()
            } else {
                vec![length - count, (length - count) / 2, 0]
            };
            if self.drop_at_one_of(&places, count, cut, size)? {
                count *= 2;
            } else if count == 1 {
                break;
            } else {
                count = 1;
            }
        }
        if !self.sizes[size].is_number && cut[size].len() > FEW_SLICES {
            let quarter = cut[size].len() / 4;
            let places = [quarter, 2 * quarter];
            if self.drop_at_one_of(&places, quarter, cut, size)? {
                *cut = self.minimize_slices(cut, size)?;
            }
        }
        Ok(())
    }

    /// Drops `count` slices of `size` at the first of `places` where the finding stays without them.
    fn drop_at_one_of(
        &mut self,
        places: &[usize],
        count: usize,
        cut: &mut SizeCut,
        size: usize,
    ) -> Result<bool, E> {
        for &place in places {
            let mut left = cut[size].clone();
            left.drain(place..place + count);
            let without = with_slices(cut, size, left);
            if self.test(&without)? == Some(TestAnswer::Bad) {
                *cut = without;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn minimize_slices(&mut self, cut: &SizeCut, size: usize) -> Result<SizeCut, E> {
        let slices = cut[size].clone();
        let places: Vec<ChangeSet> =
            (0..slices.len()).map(|place| ChangeSet::from([place])).collect();
        let most_tries = MOST_SLICE_TRIES.min(self.tries_left);
        let mut tester = |sets: &[ChangeSet]| {
            let mut answers = Vec::new();
            for set in sets {
                let kept = set.iter().map(|&place| slices[place]).collect();
                let answer = self.test(&with_slices(cut, size, kept))?;
                answers.push(answer.unwrap_or(TestAnswer::Skip));
            }
            Ok(answers)
        };
        let minimum = Minimizer::new(&mut tester, 1, most_tries).minimize(&places)?;
        let kept = minimum.changes.iter().map(|&place| slices[place]).collect();
        Ok(with_slices(cut, size, kept))
    }

    /// `slices` and others of `size`: those behind the last one first, then those before.
    fn grow(&self, slices: &[usize], size: usize, length: usize) -> Vec<usize> {
        let last = slices.last().copied().unwrap_or(0);
        let behind = last + 1..self.sizes[size].count;
        let others = behind.chain((0..last).rev()).filter(|slice| !slices.contains(slice));
        let missing = length.saturating_sub(slices.len());
        let mut grown: Vec<usize> = slices.iter().copied().chain(others.take(missing)).collect();
        grown.sort_unstable();
        grown
    }

    /// The answer to `cut`; none if the tries ran out.
    fn test(&mut self, cut: &SizeCut) -> Result<Option<TestAnswer>, E> {
        if let Some(&answer) = self.answers.get(cut) {
            return Ok(Some(answer));
        }
        let is_whole = cut.iter().zip(&self.sizes).all(|(slices, size)| slices.len() == size.count);
        if is_whole {
            return Ok(Some(TestAnswer::Bad));
        }
        if self.tries_left == 0 {
            return Ok(None);
        }
        self.tries_left -= 1;
        let answer = (self.tester)(cut)?;
        self.answers.insert(cut.clone(), answer);
        Ok(Some(answer))
    }
}

fn with_slices(cut: &SizeCut, size: usize, slices: Vec<usize>) -> SizeCut {
    let mut cut = cut.clone();
    cut[size] = slices;
    cut
}

/// 1, 2, 3, and then each power of two with the number behind it, below `most`.
fn ladder(most: usize) -> impl Iterator<Item = usize> {
    let powers = (2..usize::BITS - 1).map(|exponent| 1usize << exponent);
    let steps = powers.flat_map(|power| [power, power + 1]);
    [1, 2, 3].into_iter().chain(steps).take_while(move |length| *length < most)
}

/// Lengths above `least` and up to `most` that tell rules apart.
fn probed_lengths(least: usize, most: usize) -> Vec<usize> {
    if least >= most {
        return Vec::new();
    }
    let power = (least + 1).next_power_of_two();
    let warp = (least + 1).next_multiple_of(32);
    let candidates = [least + 1, least + 2, 2 * least, power, power + 1, warp, warp + 1];
    let mut lengths: Vec<usize> = candidates.into_iter().filter(|length| *length <= most).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// What tries at other lengths say of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// Every length from this one on shows the finding, as far as tried; none below does.
    AtLeast(usize),
    /// The lengths that are no multiple of this one.
    NoMultipleOf(usize),
    /// The multiples of this one.
    MultipleOf(usize),
    NoPowerOfTwo,
    PowerOfTwo,
    Odd,
    /// From one length to another, and no longer one.
    Within(usize, usize),
    /// No simple rule fits all tries.
    Unclear,
}

impl SizeRule {
    fn allows(self, length: usize) -> bool {
        match self {
            SizeRule::AtLeast(least) => length >= least,
            SizeRule::NoMultipleOf(divisor) => !length.is_multiple_of(divisor),
            SizeRule::MultipleOf(divisor) => length.is_multiple_of(divisor),
            SizeRule::NoPowerOfTwo => !length.is_power_of_two(),
            SizeRule::PowerOfTwo => length.is_power_of_two(),
            SizeRule::Odd => !length.is_multiple_of(2),
            SizeRule::Within(least, most) => (least..=most).contains(&length),
            SizeRule::Unclear => true,
        }
    }
}

/// The simplest rule that `kept`, a length with the finding, and all `tried` ones fit. [`TestAnswer::Other`] shows it as well,
/// and [`TestAnswer::Skip`] says nothing. None if every length shows it.
pub fn find_size_rule(kept: usize, tried: &[(usize, TestAnswer)]) -> Option<SizeRule> {
    let told = tried.iter().filter_map(|&(length, answer)| match answer {
        TestAnswer::Bad | TestAnswer::Other => Some((length, true)),
        TestAnswer::Good => Some((length, false)),
        TestAnswer::Skip => None,
    });
    let mut told: Vec<(usize, bool)> = told.collect();
    if told.iter().all(|(_, shows)| *shows) {
        return None;
    }
    told.push((kept, true));
    let showing = || told.iter().filter(|(_, shows)| *shows).map(|(length, _)| *length);
    let least = showing().min().unwrap_or(kept);
    let within = SizeRule::Within(least, showing().max().unwrap_or(kept));
    let divisors = [32, 64, 128, 16, 8, 4];
    let rules =
        [SizeRule::AtLeast(least), SizeRule::NoPowerOfTwo, SizeRule::PowerOfTwo, SizeRule::Odd]
            .into_iter()
            .chain(divisors.map(SizeRule::NoMultipleOf))
            .chain(divisors.map(SizeRule::MultipleOf))
            .chain([within]);
    let mut fitting =
        rules.filter(|rule| told.iter().all(|&(length, shows)| rule.allows(length) == shows));
    Some(fitting.next().unwrap_or(SizeRule::Unclear))
}

#[cfg(test)]
mod tests;
