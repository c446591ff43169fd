//! Why the check of a gradient stands as it does. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GradientVerdict;
use replay_base::summary::Number;
use replay_base::tensor::DType;
use replay_fixture::fixture::NonFiniteInput;
use replay_numerics::derivative::HiddenChange;

/// Why the check of a gradient stands as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum GradientStory {
    /// It is the gradient of the loss.
    Matches,
    /// The check has no answer.
    Unchecked(UncheckedGradient),
    /// The shadow matches the loss, and the output departs from it.
    ImpreciseOutput,
    /// The shadow departs from the loss by no more than it is rounded on the way to a format of fewer digits.
    RoundedShadow,
    /// It is not the gradient of the loss.
    Mismatch,
    /// Without a shadow: it agrees with differences of the native loss.
    NearDifferences {
        /// Why there is no shadow.
        why: UncheckedGradient,
        /// The format of the input, in which it was stepped.
        dtype: DType,
    },
    /// Without a shadow: it is far off by differences of the native loss.
    FarFromDifferences {
        /// Why there is no shadow.
        why: UncheckedGradient,
        /// The format of the input, in which it was stepped.
        dtype: DType,
    },
    /// NaN or infinity in inputs spoils the loss or the gradient: it was checked with finite neighbours in their place.
    Beside {
        /// Those inputs.
        inputs: Vec<SpoiltInput>,
        /// The check with the neighbours.
        story: Box<GradientStory>,
    },
}

/// An input with NaN or infinity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpoiltInput {
    name: String,
    /// The index of the first NaN or infinity, along each dimension.
    first: Vec<usize>,
    /// Its value.
    #[serde(with = "Number")]
    value: f64,
    /// How many there are.
    count: usize,
}

impl From<NonFiniteInput> for SpoiltInput {
    fn from(input: NonFiniteInput) -> SpoiltInput {
        let NonFiniteInput { name, first, value, count } = input;
        SpoiltInput { name, first, value, count }
    }
}

/// Why a gradient could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UncheckedGradient {
    /// The harness declares no loss.
    NoLoss,
    /// The replay failed.
    ReplayFailed,
    /// There is no float64 shadow, and why.
    NoShadow(String),
    /// The inputs of the shadow cannot be moved.
    FixedShadow,
    /// A run for the check did not complete, and why.
    Unfinished(String),
    /// The input is absent.
    NoInput,
    /// This output has no float64 shadow, and why.
    NoShadowOf(String, String),
    /// The gradient or the loss is not computed in float64.
    NotInShadow,
    /// The gradient is empty.
    NoElements,
    /// The shadow of this output is not finite.
    NotFinite {
        /// The loss or the gradient.
        output: String,
        /// The first such element and its value, in words.
        element: String,
        /// Whether the output itself is finite.
        is_output_finite: bool,
    },
    /// The shadow of the gradient lies further off the output than any rounding explains, and where.
    FarShadow(String),
    /// The gradient does not have the size of the input.
    OtherSize,
    /// The loss has no value beside the captured inputs.
    NoLossBeside,
    /// The loss is not smooth.
    NotSmooth,
    /// The rounding of the loss hides its slopes: the figures, in words.
    HiddenByRounding(String),
    /// The loss of this output is a staircase: the sources round to integers, and its gradient is that of the loss
    /// without.
    Staircase(String),
    /// It matches a loss with a slope of one at rounding, if what scales rounded numbers is constant.
    HeldScale {
        /// Whether all elements were looked at.
        is_everywhere: bool,
    },
    /// It matches a loss without rounding, and none with a slope of one at rounding; what scales rounded numbers moves
    /// with the input.
    OpenScale,
    /// Beside the captured inputs the sources round other numbers to integers.
    OtherRoundings,
    /// The sources round more often to integers than a record holds.
    ManyRoundings,
    /// There is no record of what is rounded to integers.
    NoRecord,
    /// The loss is a staircase in an element: the sources take numbers through integers, or compare them.
    IntegerStaircase {
        /// Where the sources take numbers to integers, as far as that is known.
        places: Vec<String>,
    },
    /// The loss jumps, and the sources take numbers to integers: a gradient straight through them has no loss here.
    IntegerJump {
        /// Where they do.
        places: Vec<String>,
    },
    /// It does not match where rounded numbers are no integers, and the sources take numbers to integers: there a right
    /// one that does so matches no better.
    IntegersBeside {
        /// Where they do.
        places: Vec<String>,
    },
    /// A replay took too long. This says as much about the machine.
    OutOfTime,
    /// There is no shadow, and differences of the native loss tell nothing either.
    NoDifferences {
        /// Why there is no shadow.
        why: Box<UncheckedGradient>,
        /// The format of the input, in which it was stepped.
        dtype: DType,
        /// Why differences tell nothing.
        doubt: String,
    },
    /// The user wants none.
    LeftOut,
    /// The check takes longer than it may. This says as much about the machine.
    TooLong {
        /// How many more evaluations of the loss it may need.
        evaluations: usize,
        /// The time that they would take, in seconds.
        seconds: u64,
    },
}

impl UncheckedGradient {
    /// The reason for `loss`, whose rounding hides `hidden`.
    pub(super) fn hidden_by_rounding(loss: f64, hidden: HiddenChange) -> UncheckedGradient {
        let HiddenChange { change, rounding } = hidden;
        let [loss, rounding, change] = [loss, rounding, change].map(format_magnitude);
        UncheckedGradient::HiddenByRounding(format!(
            "the loss is {loss}, rounding moves it by {rounding}, and the longest step by {change}"
        ))
    }
}

/// Two digits; with a power of ten where there would be many zeros.
fn format_magnitude(x: f64) -> String {
    let two_digits = format!("{x:.1e}");
    match two_digits.parse::<f64>() {
        Ok(rounded) if (1e-3..1e5).contains(&rounded.abs()) => rounded.to_string(),
        _ => two_digits.replace(".0e", "e"),
    }
}

/// The first of `places`, behind a colon.
fn format_places(places: &[String]) -> String {
    /// More than these are only counted.
    const SHOWN: usize = 3;
    if places.is_empty() {
        return String::new();
    }
    let shown = places[..places.len().min(SHOWN)].join("; ");
    match places.len().saturating_sub(SHOWN) {
        0 => format!(": {shown}"),
        more => format!(": {shown}; and {more} more"),
    }
}

impl fmt::Display for UncheckedGradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            UncheckedGradient::NoLoss => "the harness declares no loss to differentiate",
            UncheckedGradient::ReplayFailed => "the replay failed",
            UncheckedGradient::NoShadow(reason) | UncheckedGradient::Unfinished(reason) => reason,
            UncheckedGradient::FixedShadow => {
                "it has no float64 shadow whose inputs can be changed"
            }
            UncheckedGradient::NoInput => "the input is absent",
            UncheckedGradient::NoShadowOf(output, reason) => {
                return write!(f, "{output} has no float64 shadow: {reason}");
            }
            UncheckedGradient::NotInShadow => "it is not computed in float64 when the inputs are",
            UncheckedGradient::NoElements => "it has no elements",
            UncheckedGradient::NotFinite { output, element, is_output_finite: true } => {
                return write!(f, "{output} is {element} in the float64 shadow alone");
            }
            UncheckedGradient::NotFinite { output, element, .. } => {
                return write!(f, "{output} is {element}");
            }
            UncheckedGradient::FarShadow(words) => {
                return write!(f, "the float64 shadow is none: {words}");
            }
            UncheckedGradient::OtherSize => "it has not as many elements as the input",
            UncheckedGradient::NoLossBeside => {
                "the loss cannot be computed beside the captured inputs"
            }
            UncheckedGradient::NotSmooth => "the loss is not smooth at most elements",
            UncheckedGradient::HiddenByRounding(figures) => {
                return write!(f, "the rounding of the loss hides its slopes: {figures}");
            }
            UncheckedGradient::Staircase(output) => {
                return write!(
                    f,
                    "the loss is a staircase, for the sources round to integers; it may match straight through this \
                     rounding: straight_through = true in [outputs.{output}], if that is meant"
                );
            }
            UncheckedGradient::HeldScale { .. } => {
                "it matches straight through rounding to integers if what scales these numbers is held constant"
            }
            UncheckedGradient::OpenScale => {
                "it matches where the sources round nothing to integers, but not where rounding keeps its values and has a \
                 slope of one; what scales these numbers moves with the input, and may be meant to be constant"
            }
            UncheckedGradient::OtherRoundings => {
                "beside the captured inputs the sources round other numbers to integers"
            }
            UncheckedGradient::ManyRoundings => {
                "the sources round more than 8388608 numbers to integers: too many for a record"
            }
            UncheckedGradient::NoRecord => {
                "there is no record of the numbers that the sources round to integers"
            }
            UncheckedGradient::IntegerStaircase { places } => {
                return write!(
                    f,
                    "the loss is a staircase: flat in an element, and flat again behind a jump, as where numbers go \
                     through integers{}",
                    format_places(places)
                );
            }
            UncheckedGradient::IntegerJump { places } => {
                return write!(
                    f,
                    "the loss jumps, and numbers go through integers, which have no slope{}",
                    format_places(places)
                );
            }
            UncheckedGradient::IntegersBeside { places } => {
                return write!(
                    f,
                    "it does not match beside integers, where conversions to integers still round{}",
                    format_places(places)
                );
            }
            UncheckedGradient::OutOfTime => "a replay beside the captured inputs ran out of time",
            UncheckedGradient::NoDifferences { why, dtype, doubt } => {
                let name = format_long_name(*dtype);
                return write!(f, "{why}; by {name} differences of the loss: {doubt}");
            }
            UncheckedGradient::LeftOut => "left out by --gradients off",
            UncheckedGradient::TooLong { evaluations, seconds } => {
                let time = describe_duration(*seconds);
                return write!(f, "{evaluations} evaluations would take {time}: --gradients full");
            }
        };
        f.write_str(words)
    }
}

impl GradientStory {
    /// The verdict on the gradient. A match beside the captured inputs is none at them.
    pub fn verdict(&self) -> GradientVerdict {
        match self {
            GradientStory::Matches => GradientVerdict::Matches,
            GradientStory::Unchecked(_) => GradientVerdict::Unknown,
            GradientStory::ImpreciseOutput | GradientStory::RoundedShadow => {
                GradientVerdict::Imprecise
            }
            GradientStory::NearDifferences { .. } => GradientVerdict::Agrees,
            GradientStory::Mismatch | GradientStory::FarFromDifferences { .. } => {
                GradientVerdict::Mismatch
            }
            GradientStory::Beside { story, .. } => match story.verdict() {
                GradientVerdict::Matches | GradientVerdict::Agrees | GradientVerdict::Unknown => {
                    GradientVerdict::Unknown
                }
                GradientVerdict::Imprecise => GradientVerdict::Imprecise,
                GradientVerdict::Mismatch => GradientVerdict::Mismatch,
            },
        }
    }

    /// Why it is unknown, or imprecise in the shadow too; where it was seen, if not at the captured inputs.
    pub fn reason(&self) -> Option<String> {
        match self {
            GradientStory::Matches | GradientStory::ImpreciseOutput | GradientStory::Mismatch => {
                None
            }
            GradientStory::Unchecked(why)
            | GradientStory::NearDifferences { why, .. }
            | GradientStory::FarFromDifferences { why, .. } => Some(why.to_string()),
            GradientStory::RoundedShadow => {
                Some("the float64 shadow is rounded on the way to fewer digits, too".to_owned())
            }
            GradientStory::Beside { inputs, story } => {
                let named: Vec<String> = inputs.iter().map(name_input).collect();
                let what = match story.verdict() {
                    GradientVerdict::Matches | GradientVerdict::Agrees => {
                        "it matches with finite neighbours in their place".to_owned()
                    }
                    GradientVerdict::Unknown => {
                        let reason = story.reason().unwrap_or_default();
                        format!("with finite neighbours in their place, {reason}")
                    }
                    GradientVerdict::Imprecise | GradientVerdict::Mismatch => {
                        "seen with finite neighbours in their place".to_owned()
                    }
                };
                Some(format!("{}; {what}", named.join(", ")))
            }
        }
    }

    /// Whether slopes of the loss told something of the gradient, or of scales that it holds.
    pub(super) fn is_about_slopes(&self) -> bool {
        match self {
            GradientStory::Matches | GradientStory::RoundedShadow | GradientStory::Mismatch => true,
            GradientStory::Unchecked(why) => {
                matches!(why, UncheckedGradient::HeldScale { .. } | UncheckedGradient::OpenScale)
            }
            _ => false,
        }
    }

    /// Whether it has no answer for lack of a float64 shadow.
    pub(super) fn lacks_shadow(&self) -> bool {
        match self {
            GradientStory::Unchecked(why) => match why {
                UncheckedGradient::NoShadow(_)
                | UncheckedGradient::FixedShadow
                | UncheckedGradient::Unfinished(_)
                | UncheckedGradient::NoShadowOf(..)
                | UncheckedGradient::NotInShadow
                | UncheckedGradient::FarShadow(_) => true,
                UncheckedGradient::NotFinite { is_output_finite, .. } => *is_output_finite,
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether another run may tell more, because a replay ran out of time.
    pub(super) fn rests_on_time(&self) -> bool {
        match self {
            GradientStory::Unchecked(why) => match why {
                UncheckedGradient::OutOfTime | UncheckedGradient::TooLong { .. } => true,
                UncheckedGradient::LeftOut
                | UncheckedGradient::NoDifferences { .. }
                | UncheckedGradient::NoLoss
                | UncheckedGradient::ReplayFailed
                | UncheckedGradient::NoShadow(_)
                | UncheckedGradient::FixedShadow
                | UncheckedGradient::Unfinished(_)
                | UncheckedGradient::NoInput
                | UncheckedGradient::NoShadowOf(..)
                | UncheckedGradient::NotInShadow
                | UncheckedGradient::NoElements
                | UncheckedGradient::NotFinite { .. }
                | UncheckedGradient::FarShadow(_)
                | UncheckedGradient::OtherSize
                | UncheckedGradient::NoLossBeside
                | UncheckedGradient::NotSmooth
                | UncheckedGradient::HiddenByRounding(_)
                | UncheckedGradient::Staircase(_)
                | UncheckedGradient::HeldScale { .. }
                | UncheckedGradient::OpenScale
                | UncheckedGradient::OtherRoundings
                | UncheckedGradient::ManyRoundings
                | UncheckedGradient::NoRecord
                | UncheckedGradient::IntegerStaircase { .. }
                | UncheckedGradient::IntegerJump { .. }
                | UncheckedGradient::IntegersBeside { .. } => false,
            },
            GradientStory::Matches
            | GradientStory::ImpreciseOutput
            | GradientStory::RoundedShadow
            | GradientStory::NearDifferences { .. }
            | GradientStory::FarFromDifferences { .. }
            | GradientStory::Mismatch => false,
            GradientStory::Beside { story, .. } => story.rests_on_time(),
        }
    }
}

/// The name of a floating-point format for people.
pub fn format_long_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        _ => dtype.name(),
    }
}

/// `40 s`, `7 minutes`, `3 hours`.
fn describe_duration(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{} s", seconds.max(1)),
        100..5400 => format!("{} minutes", (seconds + 30) / 60),
        _ => format!("{} hours", (seconds + 1800) / 3600),
    }
}

/// `x is NaN at [0, 3] and 2 more`.
fn name_input(input: &SpoiltInput) -> String {
    let more =
        if input.count > 1 { format!(" and {} more", input.count - 1) } else { String::new() };
    format!("{} is {} at {:?}{more}", input.name, input.value, input.first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(story: GradientStory) -> GradientStory {
        let name = "x".to_owned();
        let first = vec![0, 3];
        let input = SpoiltInput { name, first, value: f64::INFINITY, count: 3 };
        GradientStory::Beside { inputs: vec![input], story: Box::new(story) }
    }

    #[test]
    fn what_ran_out_of_time_is_never_remembered_at_whatever_point() {
        let late = GradientStory::Unchecked(UncheckedGradient::OutOfTime);
        assert!(late.rests_on_time());
        assert!(beside(late).rests_on_time());
        assert!(!beside(GradientStory::Matches).rests_on_time());
        assert!(!GradientStory::Unchecked(UncheckedGradient::NotSmooth).rests_on_time());
        let long = UncheckedGradient::TooLong { evaluations: 400, seconds: 415 };
        assert!(GradientStory::Unchecked(long).rests_on_time());
    }

    #[test]
    fn work_that_takes_too_long_says_how_much_there_is_and_what_does_it() {
        let told = [0, 40, 415, 11_000]
            .map(|seconds| UncheckedGradient::TooLong { evaluations: 400, seconds }.to_string());
        insta::assert_snapshot!(told.join("\n"), @"
        400 evaluations would take 1 s: --gradients full
        400 evaluations would take 40 s: --gradients full
        400 evaluations would take 7 minutes: --gradients full
        400 evaluations would take 3 hours: --gradients full
        ");
    }

    #[test]
    fn a_loss_whose_rounding_hides_its_slopes_tells_the_figures() {
        let told = |loss, change, rounding| {
            UncheckedGradient::hidden_by_rounding(loss, HiddenChange { change, rounding })
                .to_string()
        };
        insta::assert_snapshot!(told(1e14, 0.2614, 0.5178), @"the rounding of the loss hides its slopes: the loss is 1e14, rounding moves it by 0.52, and the longest step by 0.26");
        insta::assert_snapshot!(told(-78.93, 3.04e-11, 1.16e-10), @"the rounding of the loss hides its slopes: the loss is -79, rounding moves it by 1.2e-10, and the longest step by 3e-11");
    }

    #[test]
    fn what_kept_a_straight_through_gradient_from_a_check_is_told() {
        let reasons = [
            UncheckedGradient::HeldScale { is_everywhere: true },
            UncheckedGradient::OpenScale,
            UncheckedGradient::OtherRoundings,
            UncheckedGradient::ManyRoundings,
            UncheckedGradient::NoRecord,
            UncheckedGradient::IntegersBeside { places: vec!["q.cu:8: (int)x".to_owned()] },
        ];
        insta::assert_snapshot!(reasons.map(|why| why.to_string()).join("\n"), @"
        it matches straight through rounding to integers if what scales these numbers is held constant
        it matches where the sources round nothing to integers, but not where rounding keeps its values and has a slope of one; what scales these numbers moves with the input, and may be meant to be constant
        beside the captured inputs the sources round other numbers to integers
        the sources round more than 8388608 numbers to integers: too many for a record
        there is no record of the numbers that the sources round to integers
        it does not match beside integers, where conversions to integers still round: q.cu:8: (int)x
        ");
    }

    #[test]
    fn a_gradient_that_matches_beside_the_captured_inputs_is_not_known_to_match_at_them() {
        let stories = [
            GradientStory::Matches,
            GradientStory::Unchecked(UncheckedGradient::NotSmooth),
            GradientStory::ImpreciseOutput,
            GradientStory::RoundedShadow,
            GradientStory::Mismatch,
        ];
        let told = stories.map(|story| {
            let story = beside(story);
            format!("{:?}: {}", story.verdict(), story.reason().unwrap_or_default())
        });
        insta::assert_snapshot!(told.join("\n"), @"
        Unknown: x is inf at [0, 3] and 2 more; it matches with finite neighbours in their place
        Unknown: x is inf at [0, 3] and 2 more; with finite neighbours in their place, the loss is not smooth at most elements
        Imprecise: x is inf at [0, 3] and 2 more; seen with finite neighbours in their place
        Imprecise: x is inf at [0, 3] and 2 more; seen with finite neighbours in their place
        Mismatch: x is inf at [0, 3] and 2 more; seen with finite neighbours in their place
        ");
    }
}
