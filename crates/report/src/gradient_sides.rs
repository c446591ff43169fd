//! What the culprit of a search does to a gradient and its loss, in a sentence.

use super::numbers::format_short_number;
use replay_bisect::GradientSides;
use replay_engine::judge::{GradientCheck, GradientStory, GradientVerdict};

/// A gradient beside its loss on both sides of the culprit: `dx no longer matches its loss (rel. 0.26); at its parent it
/// does`.
pub(super) fn describe_gradient_sides(sides: &GradientSides) -> String {
    let GradientSides { culprit, parent, keeps_loss, .. } = sides;
    let output = &culprit.output;
    let own_words = describe_check(culprit);
    let other_loss = if *keeps_loss { "" } else { "the loss itself is another one" };
    let Some(parent) = parent else { return format!("{output} {own_words}") };
    let parent_words = describe_check(parent);
    let own_verdict = culprit.story.verdict();
    match [own_verdict, parent.story.verdict()].map(GradientStanding::of_verdict) {
        [GradientStanding::Off, GradientStanding::Right]
            if own_verdict == GradientVerdict::Mismatch =>
        {
            let off_by = off_by_words(culprit);
            format!("{output} no longer matches its loss ({off_by}); at its parent it does")
        }
        [GradientStanding::Off, GradientStanding::Off] => {
            format!("{output} {own_words}, and did not before it either ({})", off_by_words(parent))
        }
        [GradientStanding::Right, GradientStanding::Right] if *keeps_loss => {
            format!("{output} {own_words} on both sides")
        }
        [GradientStanding::Right, GradientStanding::Right] => {
            format!("{output} {own_words} on both sides: {other_loss}")
        }
        [GradientStanding::Right, GradientStanding::Off] => {
            let change = if *keeps_loss { String::new() } else { format!("; {other_loss}") };
            format!(
                "{output} {own_words}, and does not before it ({}){change}",
                off_by_words(parent)
            )
        }
        [GradientStanding::Unknown, GradientStanding::Unknown] => format!("{output} {own_words}"),
        [_, GradientStanding::Unknown] => {
            let reason = parent.story.reason().unwrap_or_default();
            format!("{output} {own_words}; its parent is not checked: {reason}")
        }
        [_, GradientStanding::Right | GradientStanding::Off] => {
            format!("{output} {own_words}; at its parent it {parent_words}")
        }
    }
}

/// How a gradient stands beside its loss.
enum GradientStanding {
    Right,
    Unknown,
    Off,
}

impl GradientStanding {
    fn of_verdict(verdict: GradientVerdict) -> GradientStanding {
        match verdict {
            GradientVerdict::Matches | GradientVerdict::Agrees => GradientStanding::Right,
            GradientVerdict::Unknown => GradientStanding::Unknown,
            GradientVerdict::Imprecise | GradientVerdict::Mismatch => GradientStanding::Off,
        }
    }
}

/// `does not match its loss (rel. 0.26)`.
fn describe_check(check: &GradientCheck) -> String {
    match check.story.verdict() {
        GradientVerdict::Matches => "matches its loss".to_owned(),
        GradientVerdict::Agrees => "agrees with differences of its loss".to_owned(),
        GradientVerdict::Unknown => {
            let reason = check.story.reason().unwrap_or_default();
            format!("is not held against its loss: {reason}")
        }
        GradientVerdict::Imprecise => {
            format!("is an imprecise gradient of its loss ({})", off_by_words(check))
        }
        GradientVerdict::Mismatch => format!("does not match its loss ({})", off_by_words(check)),
    }
}

/// `rel. 0.26`.
fn off_by_words(check: &GradientCheck) -> String {
    let distance = match check.story {
        GradientStory::ImpreciseOutput => check.native_error,
        _ => check.worst,
    };
    format!("rel. {}", format_short_number(distance, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::judge::UncheckedGradient;

    fn check(story: GradientStory, worst: f64) -> GradientCheck {
        GradientCheck {
            output: "dx".to_owned(),
            gradient_of: "x".to_owned(),
            of: vec!["loss".to_owned()],
            straight_through: None,
            constraint: None,
            matches_along: None,
            story,
            directions: 8,
            of_directions: 8,
            elements: 64,
            checked: 64,
            worst,
            error: 1e-9,
            place: None,
            native_error: 0.001,
            native_ratio: 90.0,
        }
    }

    fn sides(
        culprit: &GradientCheck,
        parent: Option<&GradientCheck>,
        keeps_loss: bool,
    ) -> GradientSides {
        GradientSides {
            fixture: "step0".to_owned(),
            is_wanted: true,
            culprit: culprit.clone(),
            parent: parent.cloned(),
            keeps_loss,
        }
    }

    fn told(culprit: &GradientCheck, parent: Option<&GradientCheck>, keeps_loss: bool) -> String {
        describe_gradient_sides(&sides(culprit, parent, keeps_loss))
    }

    #[test]
    fn a_gradient_is_broken_where_it_held_before() {
        let right = check(GradientStory::Matches, 1e-10);
        let off = check(GradientStory::Mismatch, 0.26);
        let unknown = check(GradientStory::Unchecked(UncheckedGradient::NotSmooth), 0.0);
        for (culprit, parent, is_broken) in [
            (&off, Some(&right), true),
            (&off, Some(&off), false),
            (&off, Some(&unknown), false),
            (&off, None, false),
            (&right, Some(&right), false),
            (&unknown, Some(&right), false),
        ] {
            assert_eq!(sides(culprit, parent, true).are_broken(), is_broken);
        }
    }

    #[test]
    fn a_sentence_says_which_side_has_the_gradient_of_its_loss() {
        let right = check(GradientStory::Matches, 1e-10);
        let off = check(GradientStory::Mismatch, 0.26);
        let rough = check(GradientStory::ImpreciseOutput, 1e-10);
        let unknown = check(GradientStory::Unchecked(UncheckedGradient::NotSmooth), 0.0);
        let sentences = [
            told(&off, Some(&right), true),
            told(&off, Some(&off), true),
            told(&off, Some(&rough), true),
            told(&off, Some(&unknown), true),
            told(&off, None, true),
            told(&rough, Some(&right), true),
            told(&right, Some(&right), false),
            told(&right, Some(&right), true),
            told(&right, Some(&off), true),
            told(&right, Some(&off), false),
            told(&right, Some(&unknown), true),
            told(&unknown, Some(&unknown), true),
            told(&unknown, Some(&right), true),
            told(&unknown, Some(&off), true),
        ];
        insta::assert_snapshot!(sentences.join("\n"), @"
        dx no longer matches its loss (rel. 0.26); at its parent it does
        dx does not match its loss (rel. 0.26), and did not before it either (rel. 0.26)
        dx does not match its loss (rel. 0.26), and did not before it either (rel. 0.001)
        dx does not match its loss (rel. 0.26); its parent is not checked: the loss is not smooth at most elements
        dx does not match its loss (rel. 0.26)
        dx is an imprecise gradient of its loss (rel. 0.001); at its parent it matches its loss
        dx matches its loss on both sides: the loss itself is another one
        dx matches its loss on both sides
        dx matches its loss, and does not before it (rel. 0.26)
        dx matches its loss, and does not before it (rel. 0.26); the loss itself is another one
        dx matches its loss; its parent is not checked: the loss is not smooth at most elements
        dx is not held against its loss: the loss is not smooth at most elements
        dx is not held against its loss: the loss is not smooth at most elements; at its parent it matches its loss
        dx is not held against its loss: the loss is not smooth at most elements; at its parent it does not match its loss (rel. 0.26)
        ");
    }
}
