//! Findings on a series in words, with their figures.

use super::SeriesReport;
use crate::numerics::oracle;
use crate::report::numbers::{count, short};
use crate::report::text::failure;
use crate::series::{Gradients, Kind, Other, Parted, Spell};

/// Names that are listed before the rest is counted.
const SHOWN: usize = 3;

/// The finding as a sentence.
pub fn sentence(report: &SeriesReport, kind: &Kind) -> String {
    let at = |spell: &Spell| at(report, spell);
    match kind {
        Kind::Failed { spell, failure: first } => {
            format!("the replay fails {}: {}", at(spell), failure(first))
        }
        Kind::Untestable { spell, reason } => {
            format!("the revision cannot be replayed {}: {reason}", at(spell))
        }
        Kind::NotFinite { spell, tensors, affected } => {
            let more = affected.saturating_sub(tensors.len()) as u64;
            let then = match more {
                0 => String::new(),
                _ => format!(", later in {} more", count(more, "tensor")),
            };
            format!("NaN or infinity {}: first in {}{then}", at(spell), list(tensors))
        }
        Kind::GradientWrong { output, spell, worst, error } => format!(
            "{output} does not match its loss {}: worst rel. {} (noise {})",
            at(spell),
            digits(*worst),
            digits(*error)
        ),
        Kind::Parted { parted } => parted_words(report, parted),
        Kind::Misaligned { .. } => misaligned(report, kind),
        Kind::NoGradient { .. }
        | Kind::Frozen { .. }
        | Kind::Spike { .. }
        | Kind::Clipped { .. }
        | Kind::Flow { .. }
        | Kind::Updates { .. }
        | Kind::LossRises { .. }
        | Kind::AdamNegative { .. }
        | Kind::AdamDamped { .. }
        | Kind::AdamUnrelated { .. } => training(report, kind),
        Kind::Missing { numbers } => {
            format!("{} left out: {}", are(numbers.len()), list_numbers(numbers))
        }
        Kind::Repeated { numbers } => {
            format!("there are several steps with the same number: {}", list_numbers(numbers))
        }
        Kind::WithoutNumber { fixtures } => format!(
            "the steps are in the order of their names: {} {} no number in {} provenance",
            list(fixtures),
            verb(fixtures, "has", "have"),
            verb(fixtures, "its", "their")
        ),
    }
}

/// What losses, gradients and parameters do over the steps.
fn training(report: &SeriesReport, kind: &Kind) -> String {
    let at = |spell: &Spell| at(report, spell);
    match kind {
        Kind::NoGradient { parameters, spell } => {
            format!(
                "{} {} no gradient {}",
                list(parameters),
                verb(parameters, "gets", "get"),
                at(spell)
            )
        }
        Kind::Frozen { parameters, spell } => format!(
            "{} {} the same bits {}, although there are gradients",
            list(parameters),
            verb(parameters, "keeps", "keep"),
            at(spell)
        ),
        Kind::Spike { .. } => spike(report, kind),
        Kind::Clipped { .. } => clipped(report, kind),
        Kind::Flow { group, layers, first, last, factor } => {
            let what = if *factor < 1.0 { "vanish" } else { "explode" };
            format!(
                "gradients {what} on their way back through the {layers} layers of {group}: {} an \
                 element in the last, {} in the first, times {} a layer",
                digits(*last),
                digits(*first),
                digits(*factor)
            )
        }
        Kind::Updates { parameters, ratio, large, of } => format!(
            "a step moves {} by {} of {}: update-to-weight ratio {}, the median of {}",
            list(parameters),
            if *large { "more than a tenth" } else { "less than a millionth" },
            if parameters.len() == 1 { "itself" } else { "themselves" },
            digits(*ratio),
            count(*of as u64, "step")
        ),
        Kind::LossRises { from, to, noise } => format!(
            "the loss rises: {} in the first quarter, {} in the last (noise {} a step)",
            short(*from, 4),
            short(*to, 4),
            percent(*noise)
        ),
        _ => adam(report, kind),
    }
}

fn digits(x: f64) -> String {
    short(x, 2)
}

fn verb(of: &[String], one: &'static str, several: &'static str) -> &'static str {
    if of.len() == 1 { one } else { several }
}

fn are(steps: usize) -> String {
    format!("{} {}", count(steps as u64, "step"), if steps == 1 { "is" } else { "are" })
}

/// `at all 20 steps`, `at step 7`, `at 3 of 20 steps, first at step 7`.
fn at(report: &SeriesReport, spell: &Spell) -> String {
    let first = report.step_name(spell.first);
    match (spell.steps, spell.of) {
        (1, 1) => format!("at {first}, the only one"),
        (2, 2) => "at both steps".to_owned(),
        (steps, of) if steps == of => format!("at all {of} steps"),
        (1, _) => format!("at {first}"),
        (steps, of) if steps == spell.last - spell.first + 1 => {
            format!("at {steps} of {of} steps, {first} to {}", report.step_name(spell.last))
        }
        (steps, of) => format!("at {steps} of {of} steps, first at {first}"),
    }
}

/// `a, b, c and 4 more`.
fn list(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        names if names.len() <= SHOWN + 1 => {
            let (last, others) = names.split_last().expect("there are several");
            format!("{} and {last}", others.join(", "))
        }
        names => format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN),
    }
}

fn list_numbers(numbers: &[i64]) -> String {
    list(&numbers.iter().map(i64::to_string).collect::<Vec<_>>())
}

fn parted_words(report: &SeriesReport, parted: &Parted) -> String {
    let parts_from = |from: &str| format!("parts from {from} beyond noise");
    let what = match (parted.from, &report.against) {
        (Other::Captured, _) => "is not as captured".to_owned(),
        (Other::Oracle, _) => parts_from("the oracle"),
        (Other::Trusted, Some(revision)) => parts_from(&revision.short),
        (Other::Trusted, None) => parts_from("the trusted revision"),
    };
    let meaning = match parted.meaning {
        Some(oracle::Finding::Wrong) => "; wrong, not imprecise",
        Some(oracle::Finding::Imprecise) => "; imprecise, not wrong",
        _ => "",
    };
    let distance = match parted.spell.steps {
        1 => format!("rel. {}", digits(parted.first)),
        _ => format!(
            "rel. {} at {}, {} at {}, at most {}",
            digits(parted.first),
            report.step_name(parted.spell.first),
            digits(parted.last),
            report.step_name(parted.spell.last),
            digits(parted.largest)
        ),
    };
    let trend = match parted.growth {
        Some(factor) if factor > 1.0 => format!(", growing by {} a step", percent(factor - 1.0)),
        Some(factor) => format!(", shrinking by {} a step", percent(1.0 - factor)),
        None => String::new(),
    };
    format!("{} {what} {}: {distance}{trend}{meaning}", parted.output, at(report, &parted.spell))
}

fn percent(part: f64) -> String {
    format!("{} %", short(part * 100.0, 2))
}

fn misaligned(report: &SeriesReport, kind: &Kind) -> String {
    let Kind::Misaligned { spell, shift, differ, of, place } = kind else { return String::new() };
    let what = match shift {
        Some(1) => {
            let place =
                place.as_ref().map_or(String::new(), |place| format!(", first at {place:?}"));
            format!("the targets are not the next token at {differ} of {of} places{place}")
        }
        Some(0) => "the targets are the tokens themselves, not those shifted by one".to_owned(),
        Some(-1) => "the targets are the tokens before, not those behind".to_owned(),
        Some(by) => format!("the targets are the tokens shifted by {by}, not by one"),
        None => "the targets are not the tokens shifted by one".to_owned(),
    };
    format!("{what}, {}", at(report, spell))
}

fn spike(report: &SeriesReport, kind: &Kind) -> String {
    let Kind::Spike { quantity, spell, worst, value, expected, deviations, others } = kind else {
        return String::new();
    };
    let what = match quantity.as_str() {
        "loss" => "the loss".to_owned(),
        "gradients" => "the norm of all gradients".to_owned(),
        parameter => format!("the gradient of {parameter}"),
    };
    let others = match others {
        0 => String::new(),
        more => format!("; so do the gradients of {}", count(*more as u64, "other parameter")),
    };
    let steps = match spell.steps {
        1 => String::new(),
        steps => format!(", the highest of {steps} such steps"),
    };
    format!(
        "{what} jumps at {}{steps}: {} where the steps before lead to {}, {} deviations above{others}",
        report.step_name(*worst),
        short(*value, 3),
        short(*expected, 3),
        short(*deviations, 2)
    )
}

fn clipped(report: &SeriesReport, kind: &Kind) -> String {
    let Kind::Clipped { spell, norm, removed, most, gradients } = kind else {
        return String::new();
    };
    let meaning = match gradients {
        Gradients::Match => "the gradient matches its loss: it is large, not wrong",
        Gradients::Mismatch => "the gradient does not match its loss: mend that first",
        Gradients::Unchecked => {
            "whether the gradient matches its loss, a capture does not tell: --rev REV does"
        }
    };
    let steps = if spell.is_always() && spell.steps > 2 {
        "at every step".to_owned()
    } else {
        at(report, spell)
    };
    format!(
        "gradients are clipped {steps}, which removes {} of a norm of {} (medians; at most {}), and \
         {meaning}",
        percent(*removed),
        short(*norm, 3),
        percent(*most)
    )
}

fn adam(report: &SeriesReport, kind: &Kind) -> String {
    match kind {
        Kind::AdamNegative { parameters, spell } => format!(
            "Adam's second moment of {} is negative {}: a mean of squares cannot be",
            list(parameters),
            at(report, spell)
        ),
        Kind::AdamUnrelated { parameters, spell, elements, of } => format!(
            "Adam's moments of {} do not belong together {}: {elements} of {of} elements have a first \
             one larger than any gradients make it beside the second",
            list(parameters),
            at(report, spell)
        ),
        Kind::AdamDamped { parameters, spell, part } => format!(
            "epsilon is larger than the root of Adam's second moment in {} of {} {}: its steps are \
             damped",
            percent(*part),
            list(parameters),
            at(report, spell)
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Revision;
    use crate::report::series::made_up;
    use crate::series::{Finding, Measured, Severity, Step};
    use crate::trial::Failure;

    /// A report on twenty steps, the numbers 100 to 119.
    fn report() -> SeriesReport {
        let step = |at: i64| Step {
            fixture: format!("s{at}"),
            number: Some(100 + at),
            measured: Measured::default(),
            replay: None,
        };
        let against = Revision { id: "0".repeat(40), short: "37707d4".into(), subject: "a".into() };
        let made_up = made_up((0..20).map(step).collect());
        SeriesReport { replayed: true, against: Some(against), ..made_up }
    }

    fn spell(steps: usize, of: usize, first: usize, last: usize) -> Spell {
        Spell { steps, of, first, last }
    }

    fn told(kinds: &[Kind]) -> String {
        let report = report();
        kinds.iter().map(|kind| sentence(&report, kind) + "\n").collect()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_figures() {
        let parted = |from, growth, meaning| {
            let parted = Parted {
                from,
                output: "g".into(),
                spell: spell(15, 20, 5, 19),
                first: 3.2e-6,
                last: 0.052,
                largest: 0.052,
                growth,
                meaning,
            };
            Kind::Parted { parted }
        };
        let kinds = [
            Kind::Failed { spell: spell(1, 20, 7, 7), failure: Failure::Exit { code: 3 } },
            Kind::NotFinite { spell: spell(12, 20, 8, 19), tensors: vec!["a".into()], affected: 3 },
            Kind::GradientWrong {
                output: "g".into(),
                spell: spell(20, 20, 0, 19),
                worst: 0.76,
                error: 2.8e-9,
            },
            parted(Other::Trusted, Some(2.0), Some(oracle::Finding::Wrong)),
            parted(Other::Captured, Some(0.9), None),
            parted(Other::Oracle, None, Some(oracle::Finding::Imprecise)),
            Kind::AdamNegative { parameters: vec!["w".into()], spell: spell(2, 20, 1, 9) },
            Kind::Misaligned {
                spell: spell(20, 20, 0, 19),
                shift: Some(0),
                differ: 9,
                of: 9,
                place: None,
            },
            Kind::Misaligned {
                spell: spell(1, 1, 0, 0),
                shift: None,
                differ: 9,
                of: 9,
                place: None,
            },
            Kind::Misaligned {
                spell: spell(2, 2, 0, 1),
                shift: Some(1),
                differ: 1,
                of: 9,
                place: Some(vec![0, 3]),
            },
        ];
        insta::assert_snapshot!(told(&kinds), @"
        the replay fails at step 107: exit: the code called exit(3) before the call returned
        NaN or infinity at 12 of 20 steps, step 108 to step 119: first in a, later in 2 tensors more
        g does not match its loss at all 20 steps: worst rel. 0.76 (noise 2.8e-9)
        g parts from 37707d4 beyond noise at 15 of 20 steps, step 105 to step 119: rel. 3.2e-6 at step 105, 0.052 at step 119, at most 0.052, growing by 100 % a step; wrong, not imprecise
        g is not as captured at 15 of 20 steps, step 105 to step 119: rel. 3.2e-6 at step 105, 0.052 at step 119, at most 0.052, shrinking by 10 % a step
        g parts from the oracle beyond noise at 15 of 20 steps, step 105 to step 119: rel. 3.2e-6 at step 105, 0.052 at step 119, at most 0.052; imprecise, not wrong
        Adam's second moment of w is negative at 2 of 20 steps, first at step 101: a mean of squares cannot be
        the targets are the tokens themselves, not those shifted by one, at all 20 steps
        the targets are not the tokens shifted by one, at step 100, the only one
        the targets are not the next token at 1 of 9 places, first at [0, 3], at both steps
        ");
    }

    #[test]
    fn what_is_unusual_is_told_with_its_figures() {
        let names = |count: usize| (0..count).map(|at| format!("layers.{at}")).collect::<Vec<_>>();
        let spike = |quantity: &str, steps, others| Kind::Spike {
            quantity: quantity.into(),
            spell: spell(steps, 20, 11, 11 + steps - 1),
            worst: 11,
            value: 9.5,
            expected: 2.125,
            deviations: 12.34,
            others,
        };
        let clipped = |gradients| Kind::Clipped {
            spell: spell(20, 20, 0, 19),
            norm: 3.5,
            removed: 0.714,
            most: 0.9,
            gradients,
        };
        let updates = |large, ratio| Kind::Updates { parameters: names(1), ratio, large, of: 20 };
        let kinds = [
            Kind::NoGradient { parameters: names(2), spell: spell(8, 20, 12, 19) },
            Kind::Frozen { parameters: names(9), spell: spell(20, 20, 0, 19) },
            spike("loss", 1, 0),
            spike("gradients", 3, 0),
            spike("layers.0", 1, 4),
            clipped(Gradients::Match),
            clipped(Gradients::Mismatch),
            clipped(Gradients::Unchecked),
            Kind::Flow { group: "layers".into(), layers: 6, first: 3e-7, last: 0.03, factor: 0.1 },
            updates(true, 0.5),
            updates(false, 1e-8),
            Kind::LossRises { from: 1.2, to: 2.9, noise: 0.02 },
            Kind::AdamDamped { parameters: names(1), spell: spell(1, 20, 3, 3), part: 0.75 },
            Kind::AdamUnrelated {
                parameters: names(1),
                spell: spell(1, 20, 3, 3),
                elements: 4,
                of: 64,
            },
            Kind::Untestable { spell: spell(20, 20, 0, 19), reason: "it does not compile".into() },
            Kind::Missing { numbers: vec![7] },
            Kind::Missing { numbers: vec![7, 8, 9, 10, 11, 12] },
            Kind::Repeated { numbers: vec![7] },
            Kind::WithoutNumber { fixtures: names(2) },
        ];
        insta::assert_snapshot!(told(&kinds), @"
        layers.0 and layers.1 get no gradient at 8 of 20 steps, step 112 to step 119
        layers.0, layers.1, layers.2 and 6 more keep the same bits at all 20 steps, although there are gradients
        the loss jumps at step 111: 9.5 where the steps before lead to 2.12, 12 deviations above
        the norm of all gradients jumps at step 111, the highest of 3 such steps: 9.5 where the steps before lead to 2.12, 12 deviations above
        the gradient of layers.0 jumps at step 111: 9.5 where the steps before lead to 2.12, 12 deviations above; so do the gradients of 4 other parameters
        gradients are clipped at every step, which removes 71 % of a norm of 3.5 (medians; at most 90 %), and the gradient matches its loss: it is large, not wrong
        gradients are clipped at every step, which removes 71 % of a norm of 3.5 (medians; at most 90 %), and the gradient does not match its loss: mend that first
        gradients are clipped at every step, which removes 71 % of a norm of 3.5 (medians; at most 90 %), and whether the gradient matches its loss, a capture does not tell: --rev REV does
        gradients vanish on their way back through the 6 layers of layers: 0.03 an element in the last, 3e-7 in the first, times 0.1 a layer
        a step moves layers.0 by more than a tenth of itself: update-to-weight ratio 0.5, the median of 20 steps
        a step moves layers.0 by less than a millionth of itself: update-to-weight ratio 1e-8, the median of 20 steps
        the loss rises: 1.2 in the first quarter, 2.9 in the last (noise 2 % a step)
        epsilon is larger than the root of Adam's second moment in 75 % of layers.0 at step 103: its steps are damped
        Adam's moments of layers.0 do not belong together at step 103: 4 of 64 elements have a first one larger than any gradients make it beside the second
        the revision cannot be replayed at all 20 steps: it does not compile
        1 step is left out: 7
        6 steps are left out: 7, 8, 9 and 3 more
        there are several steps with the same number: 7
        the steps are in the order of their names: layers.0 and layers.1 have no number in their provenance
        ");
    }

    #[test]
    fn a_finding_of_a_capture_stands_where_its_severity_says() {
        let mut report = report();
        assert!(!report.standing().is_wrong());
        let kind = Kind::Missing { numbers: vec![1] };
        report.findings.push(Finding { severity: Severity::Unusual, kind: kind.clone() });
        assert!(!report.standing().is_wrong());
        report.findings.push(Finding { severity: Severity::Wrong, kind });
        assert!(report.standing().is_wrong());
    }
}
