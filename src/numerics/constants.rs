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

/// A shadow that moves by more than so many unit roundoffs of an element has moved, however steep the mathematics is: a
/// factor of 1.00001 is 168 of them in float32.
pub(crate) const ROUNDOFF_UNITS: f64 = 64.0;

/// Elements of a shadow are larger by one factor where each is within this share of what the first of them makes of it.
/// Rounding in float64 is 1024 times ([`SHADOW_FACTOR`]) smaller than a change that counts.
pub(crate) const FACTOR_SHARE: f64 = 1.0 / 64.0;

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

/// A mismatch must exceed the slopes' own error by this factor.
pub(crate) const SLOPE_ERROR_FACTOR: f64 = 64.0;

/// Relative mismatches below this are alike: constants in sources have nine digits.
pub(crate) const SLOPE_FLOOR: f64 = 1e-7;

/// Slopes whose error is larger than this share of the gradient's norm cross a kink.
pub(crate) const SMOOTH_SHARE: f64 = 1e-6;

/// Elements of which no mismatch below this share of the gradient's norm can be seen are not checked.
pub(crate) const COARSEST_MISMATCH: f64 = 1e-3;

/// Rounds of directions, each without the kinks that the rounds before found.
pub(crate) const DIRECTION_ROUNDS: usize = 4;

/// A cancellation error may be this many times the rounding of the loss alone.
pub(crate) const CANCELLATION_FACTOR: f64 = 8.0;

/// The most ranges that are halved at a time. If more have kinks, kinks are everywhere.
pub(crate) const MOST_ROUGH_RANGES: usize = 8;

/// Slopes of halves add up, so less is allowed for each.
pub(crate) const HALF_SHARE: f64 = 0.25;

/// The share of elements that tell how far most are off: ties are few.
pub(crate) const FEW_TIES: f64 = 0.9;

/// Of so many elements that moved, steps may leave one unexplained.
pub(crate) const LEFT_OVER: f64 = 4.0;

/// Steps explain most of a change of the shadow if they leave at most this share of it, in squares.
pub(crate) const LEFT_SHARE: f64 = 0.75;

/// Steps explain a change of the shadow where they make this share of it at least, in squares.
pub(crate) const EXPLAINED_SHARE: f64 = 0.25;

/// Longer rows are sampled to find their median.
pub(crate) const SAMPLED_ROW: usize = 1 << 16;

/// The share of the tensor's root mean square that the scale of a row is at least.
pub(crate) const LEAST_SCALE: f64 = 1.0 / 1024.0;

/// The least change that is told, in units: several steps of positions, or of constants of nine digits in float32.
pub(crate) const LEAST_CHANGE: f64 = 1.0 / 16.0;

/// The finest unit, relative: two shadows of one mathematics may lie apart by half of it (`SHADOW_RELATIVE`), whatever
/// the output holds.
pub(crate) const LEAST_UNIT: f64 = 1.0 / (1u64 << 29) as f64;

/// For inputs of up to this many elements: the number of directions along which the loss is differentiated, and the
/// most evaluations of the loss. A replay of many elements takes long, and a few directions show that a gradient is
/// wrong. Evaluations are counted instead of time, so that a report does not depend on the load.
pub(crate) const SLOPE_EFFORT: [(usize, u64, usize); 3] =
    [(1 << 16, 8, 1024), (1 << 20, 8, 256), (usize::MAX, 2, 64)];

/// How much further than in a repetition an element must move with the poison to depend on it.
pub(crate) const POISON_FACTOR: f64 = 8.0;

/// The same as [`POISON_FACTOR`], as a share of the largest element, for floats that atomics sum. A repetition can come out the same by
/// chance, and poison reads as NaN or as about 1e30, which moves a float by more.
pub(crate) const POISON_SHARE: f64 = 1.0 / 1024.0;

/// Units in the last place, at the element or the root mean square of all, by which identical replays may differ:
/// another order of a sum, or another algorithm that the clock chooses.
pub(crate) const REORDERED_ULPS: f64 = 16.0;

/// How far a twin in float64 moves at least, as a share of how far the output moves, where it is no rounding that moves
/// both. Rounding moves the twin 2^29 times less.
pub(crate) const TWIN_SHARE: f64 = 1.0 / 256.0;

/// Pairs of runs that have to repeat what is blamed on what lies around tensors.
pub(crate) const POISON_REPETITIONS: u32 = 3;

/// In a float64 shadow an element of this size or more may be poison, or be computed of it. Numbers of float32 and narrower formats are
/// smaller.
pub(crate) const LEAST_POISON_SIZE: f64 = 1e150;

/// The repetitions of two runs that must end as they did before poison is why. Code that fails in a third of its runs,
/// whatever memory holds, ends so six times with a probability of (2/9)^6, 1 in 8,000.
pub(crate) const ENDING_REPETITIONS: usize = 6;

/// Shifts of the shadow below this, relative, are none of a narrow format: bfloat16 and float16 round by 2^-12 and
/// more, and few elements may carry it.
pub(crate) const NARROW_SHIFT: f64 = 1.0 / 131_072.0;

/// More missing step numbers than this are no gap in a series, but another run.
pub(crate) const MOST_MISSING_STEPS: usize = 1000;

/// A series of fewer steps shows nothing that lasts.
pub(crate) const LASTING_STEPS: usize = 3;

/// A parameter whose median step is larger than this share of itself moves far: a tenth, where training moves by a
/// thousandth.
pub(crate) const LARGE_UPDATE: f64 = 0.1;

/// A parameter whose median step is smaller than this share of itself hardly moves: by a few units in the last place of
/// float32.
pub(crate) const SMALL_UPDATE: f64 = 1e-6;

/// The steps before one that say what is usual for a spike.
pub(crate) const SPIKE_WINDOW: usize = 16;

/// Fewer steps before one do not say what is usual.
pub(crate) const LEAST_SPIKE_STEPS: usize = 8;

/// The last steps of the window, whose median a spike must exceed, too: a trend need not go on.
pub(crate) const RECENT_STEPS: usize = 5;

/// A spike lies more than this many deviations above what is expected.
pub(crate) const SPIKE_DEVIATIONS: f64 = 6.0;

/// A spike is larger than expected by at least this factor, whatever the noise.
pub(crate) const SPIKE_FACTOR: f64 = 1.5;

/// Fewer layers have no depth.
pub(crate) const LEAST_LAYERS: usize = 3;

/// Gradients vanish or explode where the first and the last layer differ by this factor.
pub(crate) const FLOW_FACTOR: f64 = 1e3;

/// Fewer steps have no trend of their distances.
pub(crate) const LEAST_GROWTH_STEPS: usize = 5;

/// More steps tell nothing new of that trend; the slopes between all pairs of them take memory.
pub(crate) const MOST_GROWTH_STEPS: usize = 500;

/// Fewer steps have no trend of the loss.
pub(crate) const LEAST_LOSS_STEPS: usize = 12;

/// The part of the steps that must be clipped for it to be told.
pub(crate) const OFTEN_CLIPPED: f64 = 0.5;

/// Squares of moments below this may have been lost to underflow in float32.
pub(crate) const LEAST_MOMENT: f64 = 1e-15;

/// What rounding may add to the square of a first moment.
pub(crate) const MOMENT_SLACK: f64 = 1.02;
