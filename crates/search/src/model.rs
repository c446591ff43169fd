//! Parts of several tests: seeded dice, random histories, and the ground truth about them.

use super::Graph;

/// SplitMix64 (Steele, Lea, Flood 2014): every run sees the same histories.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `low..=high`.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.between(1, 100) <= percent
    }

    /// Uniform in `0.0..1.0`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A history with a few roots, merges and octopus merges; the last commit is a child of all heads.
pub(super) fn random_parents(dice: &mut Dice, size: usize) -> Vec<Vec<u32>> {
    let mut parents: Vec<Vec<u32>> = Vec::new();
    for commit in 0..size {
        let parent_count = match dice.between(1, 100) {
            _ if commit == 0 => 0,
            1..=4 => 0,
            5..=70 => 1,
            71..=92 => 2,
            _ => dice.between(3, 5),
        };
        let mut list = Vec::new();
        for _ in 0..parent_count.min(commit) {
            let back = dice.between(1, commit.min(8));
            let parent = (commit - back) as u32;
            if !list.contains(&parent) {
                list.push(parent);
            }
        }
        parents.push(list);
    }
    let mut is_head = vec![true; size];
    parents.iter().flatten().for_each(|&parent| is_head[parent as usize] = false);
    let last = size - 1;
    let heads = (0..last).filter(|&commit| is_head[commit]).map(|commit| commit as u32);
    let heads: Vec<u32> = heads.take(12).collect();
    parents[last].extend(heads);
    parents
}

/// A history, with its bad and its untestable commits.
pub(super) struct World {
    pub graph: Graph,
    pub bad: Vec<bool>,
    pub untestable: Vec<bool>,
}

impl World {
    /// Every descendant of some culprit is bad. With `by_variant` many commits share one.
    pub(crate) fn monotone(dice: &mut Dice, size: usize, by_variant: bool) -> Self {
        let parents = random_parents(dice, size);
        let culprits: Vec<usize> =
            (0..dice.between(1, 2)).map(|_| dice.between(1, size - 1)).collect();
        let mut bad = vec![false; size];
        let mut variant: Vec<u32> = Vec::new();
        for commit in 0..size {
            let is_bad = |&parent: &u32| bad[parent as usize];
            bad[commit] = culprits.contains(&commit) || parents[commit].iter().any(is_bad);
            let equal = |&other_commit: &usize| bad[other_commit] == bad[commit];
            let sources: Vec<usize> = match dice.between(1, 100) {
                1..=50 => parents[commit].iter().map(|&p| p as usize).filter(equal).collect(),
                51..=55 => (0..commit).filter(equal).collect(),
                _ => Vec::new(),
            };
            variant.push(if sources.is_empty() || !by_variant {
                commit as u32
            } else {
                variant[sources[dice.between(0, sources.len() - 1)]]
            });
        }
        let graph = Graph::new(parents, variant).unwrap();
        Self { graph, bad, untestable: vec![false; size] }
    }

    /// Each variant is good or bad by chance, whatever its parents are.
    pub(crate) fn lawless(dice: &mut Dice, size: usize) -> Self {
        let mut world = Self::monotone(dice, size, true);
        let luck: Vec<bool> = (0..size).map(|_| dice.chance(50)).collect();
        world.bad = world.by_variant(&luck);
        world
    }

    /// Makes about `percent` of the variants untestable.
    pub(crate) fn break_some(&mut self, dice: &mut Dice, percent: usize) {
        let luck: Vec<bool> = (0..self.graph.len()).map(|_| dice.chance(percent)).collect();
        self.untestable = self.by_variant(&luck);
    }

    fn by_variant(&self, luck: &[bool]) -> Vec<bool> {
        let variant = |commit: usize| self.graph.variant(commit as u32).unwrap();
        (0..self.graph.len()).map(|commit| luck[variant(commit) as usize]).collect()
    }

    /// Bad, and no followed parent is.
    pub(crate) fn is_culprit(&self, commit: u32, first_parent: bool) -> bool {
        let parents = self.graph.followed(commit, first_parent);
        self.bad[commit as usize] && parents.iter().all(|&parent| !self.bad[parent as usize])
    }
}
