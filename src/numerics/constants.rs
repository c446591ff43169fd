//! The constants of the verdicts. None is an option: `docs/verdicts.md` justifies each.

/// An element is beyond noise when its distance exceeds this many times the summed noise of both
/// sides.
///
/// A handful of replays sees less than the whole spread: with six, an element's own spread is
/// typically half of what a seventh would show at worst. Benign rewrites stay near 1 and defects
/// lie orders of magnitude above, so the factor only has to cover the first.
pub(crate) const NOISE_FACTOR: f64 = 8.0;

/// An element's branch flipped when at most two replays deviate this many times further than all
/// the others. Rounding moves all replays alike; a tie that falls the other way moves a few.
pub(crate) const FLIP_FACTOR: f64 = 1024.0;

/// An element depends on the order of blocks and threads when another order moves it by more than
/// this many times its rounding, in that order and in the order of the indices. A sum taken in
/// another order moves by rounding: no benign variant of the corpus reaches 4 times that. A race
/// moves it by the size of the lost terms: 200 times and more.
pub(crate) const ORDER_FACTOR: f64 = 64.0;

/// Replays below which nothing is said about flips.
pub(crate) const FLIP_REPLAYS: u32 = 4;

/// The float64 shadow's noise, as a multiple of the native noise scaled down by the ratio of the
/// two formats' precisions. It is larger than [`NOISE_FACTOR`], since two shadows of one
/// mathematics also differ in where their sources round.
pub(crate) const SHADOW_FACTOR: f64 = 1024.0;

/// Shadows that agree within this, relative to the element, have the same mathematics: constants
/// written with nine digits in a source differ by as much.
pub(crate) const SHADOW_RELATIVE: f64 = 1e-9;

/// Differences of shadows below this, relative to the tensor's root mean square, are rounding of
/// elements that cancel to zero.
pub(crate) const SHADOW_ABSOLUTE: f64 = 1e-12;

/// An error against the oracle has changed when it is this many times larger or smaller.
pub(crate) const ERROR_RATIO: f64 = 2.0;

/// A loss of accuracy by this factor is told whatever caused it, and so is a gain. Other orders of sums cost or save
/// less: the corpus calls 16 times the error of a base benign, and none of its benign variants reaches it. Errors
/// below the unit roundoff of the output count as that, so no last place is a loss.
pub(crate) const LOSS_RATIO: f64 = 16.0;

/// The share of the elements that are not zero which a loss of accuracy moves, where no shadow tells it from a
/// few ties that fall the other way.
pub(crate) const LOST_SHARE: f64 = 0.25;

/// Relative L2 errors above this are as large as those of rounding to a narrow format. It is about
/// the geometric mean of the unit roundoffs of float32 (2^-24) and bfloat16 (2^-9). Benign float32
/// rewrites of the corpus stay sixteen times below it.
pub(crate) const NARROW_ROUNDING: f64 = 1.0 / 32768.0;

/// The noise of an element is at least this share of the median noise of those in its row that are about
/// as large. In a sum that cancels, all terms round on one coarse grid, so an element whose replays happen to
/// agree has the noise of its neighbours all the same. A median does not let a flip excuse a row, and those of
/// other magnitudes say nothing of one that is small by itself: a second moment of 1e-13 beside others of 1e-4.
pub(crate) const ROW_SHARE: f64 = 0.5;

/// Fewer elements than this have no median worth the name.
pub(crate) const LEAST_ROW: usize = 8;

/// A change of the shadow counts where it exceeds this share of the noise. Constants are written
/// with nine digits or more, an error that reaches the output as the rounding of float32 does, times
/// a sixtieth at most.
pub(crate) const HIDDEN_SHARE: f64 = 1.0 / 64.0;

/// A shadow that moves by less than this share of what inputs do that move by a unit in the last place of float32 has
/// not moved: a constant rounded to float32 is off by half a unit at most, and reaches the output as the inputs beside it do.
pub(crate) const ROUNDOFF_SHARE: f64 = 0.5;

/// A shadow that moves by more than so many unit roundoffs of an element has moved, however steep the mathematics is: a
/// factor of 1.00001 is 168 of them in float32.
pub(crate) const ROUNDOFF_UNITS: f64 = 64.0;

/// Elements whose errors tell how far elements of their magnitude err.
pub(crate) const LEAST_CLASS: u64 = 64;

/// Elements below which chance decides the mean of their errors.
pub(crate) const LEAST_SLICE: usize = 256;

/// An output whose noise is at most this many units in the last place, in L2, is computed in a wider
/// format than it is stored in. Each side's last rounding makes one; a share of the median of the row
/// takes both to the root of five at most.
pub(crate) const WIDER_NOISE: f64 = 2.5;

/// The unit roundoff of the coarsest format that sums are taken in, bfloat16. An element that lies further off than
/// noise would be if every operation rounded to it is explained by no rounding.
pub(crate) const COARSE_ROUNDING: f64 = 1.0 / 256.0;

/// The share of an element that rounding it once changes in the coarsest format of all: float8 with two digits
/// of mantissa rounds by an eighth, and the scale around it may round as far.
pub(crate) const COARSEST_SHARE: f64 = 0.25;
