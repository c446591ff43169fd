//! Finds the elements on kinks, or with a wrong gradient, by bisection of the index range.

use std::ops::Range;

use crate::constants::{HALF_SHARE, MOST_ROUGH_RANGES};
use replay_base::tensor::step::Step;

use super::slope::{BOTH_HALVES, Slope, SlopeProbe};
use super::{GradientMismatch, SlopeSearch, unite_ranges};

impl<E, F: FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>> SlopeSearch<'_, F> {
    /// Ranges that contain all kinks along `rough`, as small as the budget allows.
    pub(super) fn kinks(&mut self, rough: &Slope) -> Result<Vec<Range<usize>>, E> {
        let tolerance = HALF_SHARE * rough.smooth_share() * rough.size();
        let mut open_ranges = vec![rough.probe.among.clone()];
        let mut kink_ranges = Vec::new();
        while !open_ranges.is_empty() {
            if open_ranges.len() > MOST_ROUGH_RANGES || self.left < BOTH_HALVES * open_ranges.len()
            {
                kink_ranges.append(&mut open_ranges);
                break;
            }
            let mut next = Vec::new();
            let halves: Vec<[SlopeProbe; 2]> =
                open_ranges.iter().map(|range| self.halves(&rough.probe, range)).collect();
            let slopes = self.slopes(halves.into_iter().flatten().collect())?;
            for (parent, halves) in open_ranges.drain(..).zip(slopes.chunks_exact(2)) {
                let rough: Vec<_> =
                    halves.iter().filter(|half| !half.is_smooth_within(tolerance)).collect();
                if rough.is_empty() {
                    // It shows only where both halves move.
                    kink_ranges.push(parent);
                }
                for half in rough {
                    let range = half.probe.among.clone();
                    if range.len() == 1 { kink_ranges.push(range) } else { next.push(range) }
                }
            }
            open_ranges = next;
        }
        Ok(unite_ranges(Vec::new(), kink_ranges))
    }

    /// Follows the largest mismatch of `slopes` to where it is, or else to kinks that feigned it.
    pub(super) fn follow(
        &mut self,
        slopes: &[Slope],
    ) -> Result<(Option<GradientMismatch>, Vec<Range<usize>>), E> {
        let by_mismatch = slopes.iter().max_by(|a, b| a.mismatch().total_cmp(&b.mismatch()));
        let mut worst = by_mismatch.expect("a slope differs").clone();
        let smooth_share = worst.smooth_share();
        let tolerance = HALF_SHARE * smooth_share * worst.size();
        while worst.probe.among.len() > 1 && self.left >= BOTH_HALVES {
            let halves = self.halves(&worst.probe, &worst.probe.among).to_vec();
            let halves = self.slopes(halves)?;
            let rough: Vec<_> = halves
                .iter()
                .filter(|half| !half.is_smooth_within(tolerance.max(smooth_share * half.size())))
                .collect();
            if let [rough, ..] = rough[..] {
                return Ok((None, self.kinks(rough)?));
            }
            let half = halves
                .into_iter()
                .max_by(|a, b| a.mismatch().total_cmp(&b.mismatch()))
                .expect("two halves");
            // Below this the two halves cannot be told apart.
            if half.mismatch() <= 2.0 * half.error {
                break;
            }
            worst = half;
        }
        Ok((Some(self.place(&worst)), Vec::new()))
    }

    fn place(&self, slope: &Slope) -> GradientMismatch {
        let unit_step = slope.probe.unit_step();
        let per_element = match unit_step.among.len() {
            1 => {
                let index = unit_step.among.start;
                unit_step.displacement(
                    self.question.scales,
                    index,
                    self.question.input.get_f64(index),
                )
            }
            _ => 1.0,
        };
        GradientMismatch {
            elements: unit_step.among,
            gradient: slope.expected / per_element,
            slope: slope.derivative / per_element,
        }
    }

    /// The same probe along each half of `range`.
    fn halves(&self, probe: &SlopeProbe, range: &Range<usize>) -> [SlopeProbe; 2] {
        let middle = range.start + range.len() / 2;
        [range.start..middle, middle..range.end].map(|among| SlopeProbe { among, ..probe.clone() })
    }
}
