//! Counts or weighs the nodes in reach of each node of a subgraph.
//!
//! A node with one parent reaches itself and the parent's reach: only merges need sets. These are bit sets over
//! at most [`COLUMNS`] members at a time. Memory is bounded by `nodes x 512` bytes, work by `nodes x members /
//! 64` words.

const WORDS: usize = 64;
const COLUMNS: usize = WORDS * 64;

/// The weight of one reached member in a sum.
#[derive(Clone, Copy)]
pub(super) enum Measure<'a> {
    Count,
    /// Its entry in this slice, by local index.
    Mass(&'a [f64]),
}

/// An induced subgraph with local indices `0..len`, in topological order.
#[derive(Clone, Debug, Default)]
pub(super) struct ReachGraph {
    /// The node of each local index.
    pub nodes: Vec<u32>,
    offsets: Vec<u32>,
    edges: Vec<u32>,
    linear: bool,
}

impl ReachGraph {
    /// Keeps the nodes marked in `keep` and the edges between them.
    pub(super) fn new(parents: &[Vec<u32>], keep: &[bool]) -> Self {
        let mut out = Self { offsets: vec![0], linear: true, ..Self::default() };
        let mut local = vec![u32::MAX; parents.len()];
        for node in (0..parents.len()).filter(|&node| keep[node]) {
            local[node] = out.nodes.len() as u32;
            out.nodes.push(node as u32);
            let edges_before = out.edges.len();
            let kept_parents = parents[node].iter().map(|&parent| local[parent as usize]);
            out.edges.extend(kept_parents.filter(|&parent| parent != u32::MAX));
            out.linear &= out.edges.len() - edges_before < 2;
            out.offsets.push(out.edges.len() as u32);
        }
        out
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The local index of `node`, if it is here.
    pub(super) fn local(&self, node: u32) -> Option<u32> {
        self.nodes.binary_search(&node).ok().map(|index| index as u32)
    }

    fn parents(&self, local: usize) -> &[u32] {
        &self.edges[self.offsets[local] as usize..self.offsets[local + 1] as usize]
    }

    /// Marks the nodes in reach of `tip`, itself included.
    pub(super) fn from(&self, tip: u32) -> Vec<bool> {
        let mut marked = vec![false; self.len()];
        marked[tip as usize] = true;
        for local in (0..=tip as usize).rev() {
            if marked[local] {
                for &parent in self.parents(local) {
                    marked[parent as usize] = true;
                }
            }
        }
        marked
    }

    /// For each node, the sum of `measure` over the `members` it reaches, itself included.
    pub(super) fn sums(&self, members: &[u32], measure: Measure) -> Vec<f64> {
        let mut total = vec![0.0; self.len()];
        for chunk in members.chunks(if self.linear { members.len().max(1) } else { COLUMNS }) {
            self.add_chunk(chunk, measure, &mut total);
        }
        total
    }

    fn add_chunk(&self, chunk: &[u32], measure: Measure, total: &mut [f64]) {
        let words = if self.linear { 0 } else { chunk.len().div_ceil(64) };
        let mut column = vec![u32::MAX; self.len()];
        for (index, &member) in (0u32..).zip(chunk) {
            column[member as usize] = index;
        }
        let mut rows = vec![0u64; self.len() * words];
        let mut sums = vec![0.0; self.len()];
        for local in 0..self.len() {
            let row_begin = local * words;
            sums[local] = match measure {
                _ if column[local] == u32::MAX => 0.0,
                Measure::Count => 1.0,
                Measure::Mass(mass) => mass[local],
            };
            if let [first, other_parents @ ..] = self.parents(local) {
                let source_begin = *first as usize * words;
                rows.copy_within(source_begin..source_begin + words, row_begin);
                if other_parents.is_empty() {
                    sums[local] += sums[*first as usize];
                } else {
                    other_parents.iter().for_each(|&other_parent| {
                        merge_rows(&mut rows, other_parent as usize, local, words)
                    });
                    sums[local] += weigh_row(&rows[row_begin..row_begin + words], chunk, measure);
                }
            }
            if words > 0 && column[local] != u32::MAX {
                rows[row_begin + column[local] as usize / 64] |= 1 << (column[local] % 64);
            }
        }
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
}

/// Adds the row of an earlier node to the row of `into`.
fn merge_rows(rows: &mut [u64], source_row: usize, into: usize, words: usize) {
    let (earlier, later) = rows.split_at_mut(into * words);
    let source = &earlier[source_row * words..(source_row + 1) * words];
    later[..words].iter_mut().zip(source).for_each(|(a, b)| *a |= b);
}

fn weigh_row(row: &[u64], chunk: &[u32], measure: Measure) -> f64 {
    match measure {
        Measure::Count => row.iter().map(|word| word.count_ones()).sum::<u32>().into(),
        Measure::Mass(mass) => {
            let mut sum = 0.0;
            for (base, &word) in row.iter().enumerate() {
                let mut remaining_bits = word;
                while remaining_bits != 0 {
                    sum +=
                        mass[chunk[base * 64 + remaining_bits.trailing_zeros() as usize] as usize];
                    remaining_bits &= remaining_bits - 1;
                }
            }
            sum
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dice, random_parents};

    fn by_marking(reach: &ReachGraph, members: &[u32], mass: &[f64]) -> Vec<f64> {
        let sum = |tip: u32| {
            let marked = reach.from(tip);
            members.iter().filter(|&&m| marked[m as usize]).map(|&m| mass[m as usize]).sum()
        };
        (0..reach.len() as u32).map(sum).collect()
    }

    #[test]
    fn sums_equal_plain_marking_on_random_graphs() {
        let mut dice = Dice::new(11);
        for _ in 0..100 {
            let size = dice.between(1, 150);
            let parents = random_parents(&mut dice, size);
            let keep: Vec<bool> = (0..size).map(|_| dice.chance(80)).collect();
            let reach = ReachGraph::new(&parents, &keep);
            let members: Vec<u32> = (0..reach.len() as u32).filter(|_| dice.chance(70)).collect();
            let mass: Vec<f64> =
                (0..reach.len()).map(|_| f64::from(dice.between(0, 9) as u32)).collect();
            let ones = vec![1.0; reach.len()];
            assert_eq!(reach.sums(&members, Measure::Count), by_marking(&reach, &members, &ones));
            assert_eq!(
                reach.sums(&members, Measure::Mass(&mass)),
                by_marking(&reach, &members, &mass)
            );
        }
    }

    #[test]
    fn sets_wider_than_one_chunk_are_counted_whole() {
        // Two strands of 3,000 from one root, merged at the end.
        let mut parents: Vec<Vec<u32>> = vec![vec![]];
        (1..6001u32).for_each(|node| parents.push(vec![node.saturating_sub(2)]));
        parents.push(vec![5999, 6000]);
        let reach = ReachGraph::new(&parents, &vec![true; parents.len()]);
        let members: Vec<u32> = (0..reach.len() as u32).collect();
        assert_eq!(reach.sums(&members, Measure::Count)[6001], 6002.0);
    }
}
