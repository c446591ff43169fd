//! Chooses commits with the best joint division of the candidates.
//!
//! Several tests at once sort the candidates into classes: two are in one class if the same
//! tests would turn bad for both. The size expected to be left is the sum of squared class sizes
//! over the number of candidates; picks make that sum small.

use super::reach::{Measure, ReachGraph};

/// A cached outcome is taken instead of the best pick if its gain is at least this share of the best gain.
/// Three quarters: a commit one quarter from either end qualifies when the best is the middle.
pub(super) const CACHED_SHARE: f64 = 0.75;

/// Above this many candidates picks are placed by their reach alone and not improved together.
const IMPROVE_LIMIT: usize = 20_000;
const IMPROVE_SWEEPS: usize = 3;

/// The facts about each candidate, by local index.
pub(super) struct CandidateFacts<'a> {
    pub reach: &'a ReachGraph,
    /// May be tested now.
    pub free: Vec<bool>,
    /// Was found untestable.
    pub blocked: Vec<bool>,
    /// Its outcome is already in the cache.
    pub cached: Vec<bool>,
    /// Two candidates with equal numbers need one test.
    pub variant: Vec<u32>,
}

impl CandidateFacts<'_> {
    /// Up to `slots` candidates to test besides those `in_flight`.
    pub(super) fn choose(&self, in_flight: &[u32], slots: usize) -> Vec<u32> {
        let mut fixed = in_flight.to_vec();
        let mut picks = Vec::new();
        if slots > 0
            && let Some(pick) = self.around_blocked(&fixed)
        {
            fixed.push(pick);
            picks.push(pick);
        }
        let first = picks.len();
        self.place(&fixed, &mut picks, slots - first);
        if self.reach.len() <= IMPROVE_LIMIT {
            self.improve(in_flight, &mut picks, first);
        }
        self.drop_useless(in_flight, &mut picks);
        picks
    }

    fn may_join(&self, local: u32, chosen: &[u32]) -> bool {
        let index = local as usize;
        self.free[index] && chosen.iter().all(|&c| self.variant[c as usize] != self.variant[index])
    }

    /// Spreads `slots` picks evenly by reach, in the gaps between `fixed`.
    fn place(&self, fixed: &[u32], picks: &mut Vec<u32>, slots: usize) {
        let all_candidates: Vec<u32> = (0..self.reach.len() as u32).collect();
        let reach = self.reach.sums(&all_candidates, Measure::Count);
        let parts = (fixed.len() + slots + 1) as f64;
        let mut targets: Vec<f64> = (1..=fixed.len() + slots)
            .map(|part| all_candidates.len() as f64 * part as f64 / parts)
            .collect();
        for &fixed_pick in fixed {
            let target_index =
                find_nearest_index(targets.iter().copied(), reach[fixed_pick as usize]);
            target_index.map(|index| targets.remove(index));
        }
        let mut chosen = fixed.to_vec();
        for target in targets {
            let joinable: Vec<u32> = all_candidates
                .iter()
                .copied()
                .filter(|&local| self.may_join(local, &chosen))
                .collect();
            let reaches = joinable.iter().map(|&local| reach[local as usize]);
            let Some(nearest_index) = find_nearest_index(reaches, target) else { return };
            picks.push(joinable[nearest_index]);
            chosen.push(joinable[nearest_index]);
        }
    }

    /// Moves one pick at a time, the others held, while this divides the candidates better.
    fn improve(&self, in_flight: &[u32], picks: &mut [u32], first: usize) {
        for _ in 0..IMPROVE_SWEEPS {
            let mut has_moved = false;
            for index in first..picks.len() {
                let other_picks: Vec<u32> = list_other_picks(in_flight, picks, index);
                let scores = self.scores(&other_picks);
                let Some(better) = self.best(&scores, &other_picks) else { continue };
                let new = better as usize;
                let old = picks[index] as usize;
                if scores.left[new] < scores.left[old] || (self.cached[new] && !self.cached[old]) {
                    has_moved |= new != old;
                    picks[index] = better;
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Drops picks without a further division of the candidates.
    fn drop_useless(&self, in_flight: &[u32], picks: &mut Vec<u32>) {
        for index in (0..picks.len()).rev() {
            let scores = self.scores(&list_other_picks(in_flight, picks, index));
            if scores.left[picks[index] as usize] >= scores.now {
                picks.remove(index);
            }
        }
    }

    /// The free candidate with the least left; a cached one if it is nearly as good.
    fn best(&self, scores: &Scores, chosen: &[u32]) -> Option<u32> {
        let mut joinable: Vec<u32> =
            (0..self.reach.len() as u32).filter(|&local| self.may_join(local, chosen)).collect();
        let best = scores.least_left(&joinable)?;
        joinable.retain(|&local| self.cached[local as usize]);
        match scores.least_left(&joinable) {
            Some(cached) if scores.gain(cached) >= CACHED_SHARE * scores.gain(best) => Some(cached),
            _ => Some(best),
        }
    }

    /// A testable candidate some way off, for when the best one is untestable: its neighbours tend
    /// to be untestable too. Picked as by `skip_away` in git's bisect.c.
    fn around_blocked(&self, fixed: &[u32]) -> Option<u32> {
        if !self.blocked.contains(&true) {
            return None;
        }
        let scores = self.scores(fixed);
        let best_free = scores.least_left(&list_marked(&self.free))?;
        let best_blocked = scores.least_left(&list_marked(&self.blocked))?;
        if scores.left[best_free as usize] <= scores.left[best_blocked as usize] {
            return None;
        }
        let mut useful_candidates: Vec<u32> = (0..self.reach.len() as u32)
            .filter(|&local| self.may_join(local, fixed) && scores.gain(local) > 0.0)
            .collect();
        useful_candidates
            .sort_by(|&a, &b| scores.left[a as usize].total_cmp(&scores.left[b as usize]));
        useful_candidates.get(skip_away(useful_candidates.len())).copied()
    }

    fn scores(&self, chosen: &[u32]) -> Scores {
        let mut out = Scores { now: 0.0, left: vec![0.0; self.reach.len()] };
        for class in self.classes(chosen) {
            let size = class.len() as f64;
            out.now += size * size;
            for (left, size_inside) in
                out.left.iter_mut().zip(self.reach.sums(&class, Measure::Count))
            {
                *left += size_inside * size_inside + (size - size_inside) * (size - size_inside);
            }
        }
        out
    }

    fn classes(&self, chosen: &[u32]) -> Vec<Vec<u32>> {
        partition_by_reach(self.reach, chosen)
    }
}

/// Sums of squared class sizes: as things are, and with one more pick.
struct Scores {
    now: f64,
    left: Vec<f64>,
}

impl Scores {
    /// How much less one more pick leaves.
    fn gain(&self, local: u32) -> f64 {
        self.now - self.left[local as usize]
    }

    /// The first of `locals` with the least left.
    fn least_left(&self, locals: &[u32]) -> Option<u32> {
        let mut least: Option<u32> = None;
        for &local in locals {
            if least.is_none_or(|known| self.left[local as usize] < self.left[known as usize]) {
                least = Some(local);
            }
        }
        least
    }
}

fn list_marked(marked: &[bool]) -> Vec<u32> {
    (0u32..).zip(marked).filter_map(|(local, is_marked)| is_marked.then_some(local)).collect()
}

/// Sorts the candidates into classes by the members of `chosen` in whose reach they are.
pub(super) fn partition_by_reach(reach: &ReachGraph, chosen: &[u32]) -> Vec<Vec<u32>> {
    let mut classes = vec![(0..reach.len() as u32).collect::<Vec<u32>>()];
    for &pick in chosen {
        let marked = reach.from(pick);
        let mut split_classes = Vec::new();
        for class in classes {
            let (inside, outside): (Vec<u32>, Vec<u32>) =
                class.into_iter().partition(|&local| marked[local as usize]);
            split_classes.extend([inside, outside].into_iter().filter(|half| !half.is_empty()));
        }
        classes = split_classes;
    }
    classes
}

fn list_other_picks(in_flight: &[u32], picks: &[u32], index: usize) -> Vec<u32> {
    let other_picks = picks.iter().enumerate().filter(|(other_index, _)| *other_index != index);
    in_flight.iter().copied().chain(other_picks.map(|(_, &pick)| pick)).collect()
}

fn find_nearest_index(values: impl Iterator<Item = f64>, target: f64) -> Option<usize> {
    let distances = values.map(|value| (value - target).abs()).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}

/// git's `get_prn` and `skip_away`: a fixed pseudo-random index, biased towards the best by a
/// square root.
fn skip_away(count: usize) -> usize {
    const MODULO: u64 = 32_768;
    let seed = (count as u32).wrapping_mul(1_103_515_245).wrapping_add(12_345);
    let random = u64::from(seed) / 65_536 % MODULO;
    (count as u64 * random / MODULO * random.isqrt() / MODULO.isqrt()) as usize
}
