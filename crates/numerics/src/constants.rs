//! The constants of the verdicts. None is an option: `docs/verdicts.md` justifies each.

use replay_base::tensor::DType;

/// An element is beyond noise when its distance exceeds this many times the summed noise of both
/// sides.
///
/// A handful of replays sees less than the whole spread: the largest of six deviations is typically half of the
/// worst of many. Benign rewrites stay near 1, and defects lie orders of magnitude above. The factor only has to
/// cover the first.
pub const NOISE_FACTOR: f64 = 8.0;

/// An element's branch flipped when at most two replays deviate this many times further than all
/// the others. Rounding moves all replays alike; a tie moves a few.
pub const FLIP_FACTOR: f64 = 1024.0;

/// An element depends on the order of blocks and threads when another order moves it by more than
/// this many times its rounding, in both orders. Another order of a sum moves it by rounding: benign variants of
/// the corpus stay below 4 times. A race moves it by the lost terms: 200 times and more.
pub const ORDER_FACTOR: f64 = 64.0;

/// Fewer replays tell no flips.
pub(crate) const FLIP_REPLAYS: u32 = 4;

/// The float64 shadow's noise, as a multiple of the native noise scaled down by the ratio of the
/// two formats' precisions. It is larger than [`NOISE_FACTOR`]: two shadows of one mathematics also differ in the
/// places of their roundings.
pub(crate) const SHADOW_FACTOR: f64 = 1024.0;

/// Shadows within this distance, relative to the element, have the same mathematics: constants of nine digits in a
/// source are as far apart.
pub(crate) const SHADOW_RELATIVE: f64 = 1e-9;

/// Differences of shadows below this, relative to the tensor's root mean square, are rounding of
/// elements whose terms cancel.
pub(crate) const SHADOW_ABSOLUTE: f64 = 1e-12;

/// Beyond noise, an error against the truth has changed when it is this many times larger or smaller: `imprecise` or more
/// accurate.
pub const ERROR_RATIO_BEYOND_NOISE: f64 = 2.0;

/// Within noise, a loss of accuracy by this factor is `imprecise` whatever caused it, and such a gain is more accurate. Other orders of sums cost or save
/// less: no benign variant of the corpus reaches it. Errors below the unit roundoff of the output count as that, so no
/// last place is a loss.
pub const ERROR_RATIO_WITHIN_NOISE: f64 = 16.0;

/// Standard deviations that chance does not reach: one time in 16,000.
pub const CHANCE_DEVIATIONS: f64 = 4.0;

/// The share of the elements other than zero for a loss of accuracy without a shadow. Ties move fewer.
pub const LOST_SHARE: f64 = 0.25;

/// Relative L2 errors above this are as large as those of rounding to a narrow format. It is about
/// the geometric mean of the unit roundoffs of float32 (2^-24) and bfloat16 (2^-9). Benign float32
/// rewrites of the corpus stay sixteen times below it.
pub const NARROW_ROUNDING: f64 = 1.0 / 32768.0;

/// The noise of an element is at least this share of the median noise of its row, among elements of its magnitude.
/// All terms of a sum that cancels round on one coarse grid. If its replays happen to agree, it has the noise of its
/// neighbours all the same. A median does not let a flip excuse a row. Other magnitudes have grids of their own: a
/// second moment of 1e-13 stands beside others of 1e-4.
pub(crate) const ROW_SHARE: f64 = 0.5;

/// Fewer elements have no median worth the name.
pub(crate) const LEAST_ROW: usize = 8;

/// A change of the shadow counts where it exceeds this share of the noise. Constants have nine digits or more. Their
/// errors reach the output as the rounding of float32 does, times a sixtieth at most.
pub(crate) const HIDDEN_SHARE: f64 = 1.0 / 64.0;

/// A change by more unit roundoffs of an element is no rounding of a constant, however steep the mathematics is: a
/// factor of 1.00001 is 168 of them in float32.
pub(crate) const ROUNDOFF_UNITS: f64 = 64.0;

/// One factor explains a change if each element lies within this share of its own prediction. Rounding in float64 is
/// 1024 times ([`SHADOW_FACTOR`]) smaller than the least change of note.
pub(crate) const FACTOR_SHARE: f64 = 1.0 / 64.0;

/// So many elements of one magnitude tell how far their like err.
pub(crate) const LEAST_CLASS: u64 = 64;

/// Chance decides the mean error of fewer elements.
pub(crate) const LEAST_SLICE: usize = 256;

/// An output is computed in a wider format than it is stored in if its noise is at most this many units in the last
/// place, in L2. Each side's last rounding makes one; a share of the median of the row takes both to the root of five
/// at most.
pub(crate) const WIDER_NOISE: f64 = 2.5;

/// The unit roundoff of bfloat16, the coarsest format for sums. No rounding explains an element further off than the
/// noise of that format.
pub(crate) const COARSE_ROUNDING: f64 = 1.0 / 256.0;

/// One rounding in the coarsest format of all changes this share of an element: float8 with two digits of mantissa
/// rounds by an eighth, and the scale around it may round as far.
pub(crate) const COARSEST_SHARE: f64 = 0.25;

/// A mismatch must exceed the slopes' own error by this factor.
pub(crate) const SLOPE_ERROR_FACTOR: f64 = 64.0;

/// Relative mismatches below this are alike: constants in sources have nine digits.
pub(crate) const SLOPE_FLOOR: f64 = 1e-7;

/// Slopes cross a kink if their error exceeds this share of the gradient's norm.
pub(crate) const SMOOTH_SHARE: f64 = 1e-6;

/// An element counts as checked if it shows mismatches of this share of the gradient's norm.
pub(crate) const COARSEST_MISMATCH: f64 = 1e-3;

/// Rounds of directions, each without the kinks of the rounds before.
pub(crate) const DIRECTION_ROUNDS: usize = 4;

/// A cancellation error may be this many times the rounding of the loss alone.
pub(crate) const CANCELLATION_FACTOR: f64 = 8.0;

/// At most so many ranges are halved at a time. If more have kinks, kinks are everywhere.
pub(crate) const MOST_ROUGH_RANGES: usize = 8;

/// The allowance of a half: the slopes of halves add up.
pub(crate) const HALF_SHARE: f64 = 0.25;

/// The error of most elements is a quantile at this share: ties are few.
pub(crate) const FEW_TIES: f64 = 0.9;

/// Steps may leave one of so many moved elements unexplained.
pub(crate) const LEFT_OVER: f64 = 4.0;

/// Steps explain most of a change of the shadow if they leave at most this share of it, in squares.
pub(crate) const LEFT_SHARE: f64 = 0.75;

/// Steps explain a change of the shadow if they make this share of it at least, in squares.
pub(crate) const EXPLAINED_SHARE: f64 = 0.25;

/// The median of a longer row is one of samples.
pub(crate) const SAMPLED_ROW: usize = 1 << 16;

/// The scale of a row is at least this share of the tensor's root mean square.
pub(crate) const LEAST_SCALE: f64 = 1.0 / 1024.0;

/// The least change of note, in units: several steps of positions, or of constants of nine digits in float32.
pub(crate) const LEAST_CHANGE: f64 = 1.0 / 16.0;

/// The finest unit, relative: two shadows of one mathematics may lie apart by half of it (`SHADOW_RELATIVE`), in outputs
/// of any dtype.
pub(crate) const LEAST_UNIT: f64 = 1.0 / (1u64 << 29) as f64;

/// By the most elements of an input: the number of directions for slopes of the loss, and the most evaluations of the
/// loss. A replay of many elements takes long, and a few directions show a wrong gradient. The limit is a number of
/// evaluations and not a time, so a report does not depend on the load.
pub const SLOPE_EFFORT: [(usize, u64, usize); 3] =
    [(1 << 16, 8, 1024), (1 << 20, 8, 256), (usize::MAX, 2, 64)];

/// The same where little work is asked for, whatever the elements.
pub const QUICK_SLOPE_EFFORT: (u64, usize) = (2, 64);

/// Differences of a native loss are taken at steps of these shares of an element, by its format. The first is tried
/// first. A step is two units in the last place at least, so its half is one, and steps of the same format lie apart by a
/// factor of four.
pub(crate) const NATIVE_LENGTHS: [(DType, &[f64]); 6] = [
    (DType::F64, &[1.0 / 128.0, 1.0 / 1024.0, 1.0 / 16.0]),
    (DType::F32, &[1.0 / 128.0, 1.0 / 1024.0, 1.0 / 16.0]),
    (DType::F16, &[1.0 / 64.0, 1.0 / 256.0, 1.0 / 16.0]),
    (DType::BF16, &[1.0 / 32.0, 1.0 / 8.0]),
    (DType::F8E4M3, &[1.0 / 4.0]),
    (DType::F8E5M2, &[1.0 / 2.0]),
];

/// The error of a slope by native differences is this many times the rounding of the loss, over the length of the step:
/// four values at weights of 8/3, 8/3, 1/6 and 1/6 come to 2.7 roundings if they are independent.
pub(crate) const NATIVE_ROUNDINGS: f64 = 3.0;

/// A gradient agrees with native differences if no direction shows a larger mismatch, with the error of the differences,
/// over the gradient's norm.
pub(crate) const NATIVE_AGREEMENT: f64 = 0.1;

/// And only if the directions see this share of its norm: one that is twice as large then shows a mismatch of an eighth.
pub(crate) const NATIVE_PROJECTION: f64 = 0.25;

/// Native differences convict a gradient only beyond this share of its norm: tens of percent.
pub(crate) const NATIVE_MISMATCH: f64 = 0.25;

/// And only beyond this many times their error, and the gradient's own rounding.
pub(crate) const NATIVE_ERROR_FACTOR: f64 = 8.0;

/// And only if slopes at another length differ from them by at most this share of the mismatch: those of a jump do not.
pub(crate) const NATIVE_STEADINESS: f64 = 0.25;

/// The most evaluations of a native loss for one gradient.
pub const NATIVE_SLOPE_BUDGET: usize = 256;

/// An element depends on the poison if this moves it so many times further than a repetition does.
pub const POISON_FACTOR: f64 = 8.0;

/// The same as [`POISON_FACTOR`], as a share of the largest element, for atomic sums of floats. A repetition can come
/// out the same by chance. Poison reads as NaN or as about 1e30, and moves a float by more.
pub const POISON_SHARE: f64 = 1.0 / 1024.0;

/// Identical replays may differ by so many units in the last place, at the element or the root mean square of all:
/// another order of a sum, or another algorithm by the clock.
pub const REORDERED_ULPS: f64 = 16.0;

/// Identical replays differ by more than rounding if their twins in float64 move by this share of it. Rounding moves a
/// twin 2^29 times less.
pub const TWIN_SHARE: f64 = 1.0 / 256.0;

/// So many pairs of runs must repeat a fault before poison is blamed on a device that gives other bits by itself. Code that tosses a coin repeats
/// two different results by chance once in 4^6 times.
pub const POISON_REPETITIONS: u32 = 6;

/// An element of this size in a float64 shadow may be poison, or a result of it. Numbers of float32 and narrower formats are
/// smaller.
pub const LEAST_POISON_SIZE: f64 = 1e150;

/// So many repetitions of two runs must end as they did before poison is the reason. Code with a random failure in a
/// third of its runs does so six times with a probability of (2/9)^6, 1 in 8,000.
pub const ENDING_REPETITIONS: usize = 6;

/// Smaller relative shifts of the shadow are none of a narrow format: bfloat16 and float16 round by 2^-12 and
/// more, and few elements may carry it.
pub const NARROW_SHIFT: f64 = 1.0 / 131_072.0;

/// A gap of more step numbers in a series is another run.
pub const MOST_MISSING_STEPS: usize = 1000;

/// A series of fewer steps shows nothing lasting.
pub const LASTING_STEPS: usize = 3;

/// A parameter moves far if its median step is a larger share of itself: a tenth, where training moves by a
/// thousandth.
pub const LARGE_UPDATE: f64 = 0.1;

/// A parameter hardly moves if its median step is a smaller share of itself: a few units in the last place of
/// float32.
pub const SMALL_UPDATE: f64 = 1e-6;

/// So many steps before a spike are the usual ones.
pub const SPIKE_WINDOW: usize = 16;

/// Fewer steps do not tell the usual ones.
pub const LEAST_SPIKE_STEPS: usize = 8;

/// A spike must also exceed the median of so many last steps: a trend need not go on.
pub const RECENT_STEPS: usize = 5;

/// A spike lies more than this many deviations above its prediction.
pub const SPIKE_DEVIATIONS: f64 = 6.0;

/// A spike exceeds its prediction by at least this factor, whatever the noise.
pub const SPIKE_FACTOR: f64 = 1.5;

/// Fewer layers have no depth.
pub const LEAST_LAYERS: usize = 3;

/// Gradients vanish or explode where the first and the last layer differ by this factor.
pub const FLOW_FACTOR: f64 = 1e3;

/// Fewer steps have no trend of their distances.
pub const LEAST_GROWTH_STEPS: usize = 5;

/// More steps tell nothing new of that trend; the slopes between all pairs of them take memory.
pub const MOST_GROWTH_STEPS: usize = 500;

/// Fewer steps have no trend of the loss.
pub const LEAST_LOSS_STEPS: usize = 12;

/// Clipping is often if it happens at this part of the steps.
pub const OFTEN_CLIPPED: f64 = 0.5;

/// Smaller squares of moments may have been lost to underflow in float32.
pub const LEAST_MOMENT: f64 = 1e-15;

/// Rounding may add so much to the square of a first moment.
pub const MOMENT_SLACK: f64 = 1.02;
