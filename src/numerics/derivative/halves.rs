//! Finds the elements on kinks, or with a wrong gradient, by bisection of the index range.

use std::ops::Range;

use crate::numerics::constants::{HALF_SHARE, MOST_ROUGH_RANGES, SMOOTH_SHARE};
use crate::tensor::step::Step;

use super::slope::{Probe, Slope, VALUES};
use super::{Place, Search, merged};

impl<E, F: FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>> Search<'_, F> {
    /// Ranges that contain all kinks along `rough`, as small as the budget allows.
    pub(super) fn kinks(&mut self, rough: &Slope) -> Result<Vec<Range<usize>>, E> {
        let tolerance = HALF_SHARE * SMOOTH_SHARE * rough.size();
        let mut open = vec![rough.probe.among.clone()];
        let mut found = Vec::new();
        while !open.is_empty() {
            if open.len() > MOST_ROUGH_RANGES || self.left < 2 * VALUES * open.len() {
                found.append(&mut open);
                break;
            }
            let mut next = Vec::new();
            let halves: Vec<[Probe; 2]> =
                open.iter().map(|range| self.halves(&rough.probe, range)).collect();
            let slopes = self.slopes(halves.into_iter().flatten().collect())?;
            for (parent, halves) in open.drain(..).zip(slopes.chunks_exact(2)) {
                let rough: Vec<_> =
                    halves.iter().filter(|half| !half.is_smooth_within(tolerance)).collect();
                if rough.is_empty() {
                    // It shows only where both halves move.
                    found.push(parent);
                }
                for half in rough {
                    let range = half.probe.among.clone();
                    if range.len() == 1 { found.push(range) } else { next.push(range) }
                }
            }
            open = next;
        }
        Ok(merged(Vec::new(), found))
    }

    /// Follows the largest mismatch of `slopes` to where it is, or else to kinks that feigned it.
    pub(super) fn follow(
        &mut self,
        slopes: &[Slope],
    ) -> Result<(Option<Place>, Vec<Range<usize>>), E> {
        let order = |a: &&Slope, b: &&Slope| a.mismatch().total_cmp(&b.mismatch());
        let mut worst = slopes.iter().max_by(order).expect("a slope differs").clone();
        let tolerance = HALF_SHARE * SMOOTH_SHARE * worst.size();
        while worst.probe.among.len() > 1 && self.left >= 2 * VALUES {
            let halves = self.halves(&worst.probe, &worst.probe.among).to_vec();
            let halves = self.slopes(halves)?;
            let rough: Vec<_> = halves
                .iter()
                .filter(|half| !half.is_smooth_within(tolerance.max(SMOOTH_SHARE * half.size())))
                .collect();
            if let [rough, ..] = rough[..] {
                return Ok((None, self.kinks(rough)?));
            }
            let half = halves.into_iter().max_by(|a, b| order(&a, &b)).expect("two halves");
            // Below this the two halves cannot be told apart.
            if half.mismatch() <= 2.0 * half.error {
                break;
            }
            worst = half;
        }
        Ok((Some(self.place(&worst)), Vec::new()))
    }

    fn place(&self, slope: &Slope) -> Place {
        let one = slope.probe.unit_step();
        let per_element = match one.among.len() {
            1 => {
                let index = one.among.start;
                one.of(self.question.scales, index, self.question.input.get_f64(index))
            }
            _ => 1.0,
        };
        Place {
            elements: one.among,
            gradient: slope.expected / per_element,
            slope: slope.derivative / per_element,
        }
    }

    /// The same probe along each half of `range`.
    fn halves(&self, probe: &Probe, range: &Range<usize>) -> [Probe; 2] {
        let middle = range.start + range.len() / 2;
        [range.start..middle, middle..range.end].map(|among| Probe { among, ..probe.clone() })
    }
}
