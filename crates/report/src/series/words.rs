//! Findings on a series in words, with their figures.

use super::SeriesReport;
use crate::Revision;
use crate::numbers::{format_noun_count, format_short_number};
use crate::text::describe_failure;
use replay_numerics::oracle;
use replay_series::{
    FrequentClipping, Gradients, Misalignment, Other, Parted, SeriesFinding, SeriesSpike, Spell,
};

/// The most names listed; the rest is counted.
const SHOWN: usize = 3;

/// The finding as a sentence.
pub fn describe_series_finding(report: &SeriesReport, finding: &SeriesFinding) -> String {
    match finding {
        SeriesFinding::Failed { spell, failure: first } => {
            format!(
                "the replay fails {}: {}",
                describe_spell(report, spell),
                describe_failure(first)
            )
        }
        SeriesFinding::Untestable { spell, reason } => {
            format!("the revision cannot be replayed {}: {reason}", describe_spell(report, spell))
        }
        SeriesFinding::NotFinite { spell, tensors, affected } => {
            let left_out = affected.saturating_sub(tensors.len()) as u64;
            let then = match left_out {
                0 => String::new(),
                _ => format!(", later in {} more", format_noun_count(left_out, "tensor")),
            };
            format!(
                "NaN or infinity {}: first in {}{then}",
                describe_spell(report, spell),
                join_first_names(tensors)
            )
        }
        SeriesFinding::GradientWrong { output, spell, worst, error } => format!(
            "{output} does not match its loss {}: worst rel. {} (noise {})",
            describe_spell(report, spell),
            format_two_digits(*worst),
            format_two_digits(*error)
        ),
        SeriesFinding::Parted { parted } => parted_words(report, parted),
        SeriesFinding::Misaligned { misalignment } => describe_misalignment(report, misalignment),
        SeriesFinding::NoGradient { parameters, spell } => {
            format!(
                "{} {} no gradient {}",
                join_first_names(parameters),
                inflect_verb(parameters, "gets", "get"),
                describe_spell(report, spell)
            )
        }
        SeriesFinding::Frozen { parameters, spell } => format!(
            "{} {} the same bits {}, although there are gradients",
            join_first_names(parameters),
            inflect_verb(parameters, "keeps", "keep"),
            describe_spell(report, spell)
        ),
        SeriesFinding::Spike { spike } => describe_spike(report, spike),
        SeriesFinding::Clipped { clipping } => describe_clipping(report, clipping),
        SeriesFinding::Flow { group, layers, first, last, factor } => {
            let trend = if *factor < 1.0 { "vanish" } else { "explode" };
            format!(
                "gradients {trend} on their way back through the {layers} layers of {group}: {} an \
                 element in the last, {} in the first, times {} a layer",
                format_two_digits(*last),
                format_two_digits(*first),
                format_two_digits(*factor)
            )
        }
        SeriesFinding::Updates { parameters, ratio, large, of } => format!(
            "a step moves {} by {} of {}: update-to-weight ratio {}, the median of {}",
            join_first_names(parameters),
            if *large { "more than a tenth" } else { "less than a millionth" },
            if parameters.len() == 1 { "itself" } else { "themselves" },
            format_two_digits(*ratio),
            format_noun_count(*of as u64, "step")
        ),
        SeriesFinding::LossRises { from, to, noise } => format!(
            "the loss rises: {} in the first quarter, {} in the last (noise {} a step)",
            format_short_number(*from, 4),
            format_short_number(*to, 4),
            format_fraction_percent(*noise)
        ),
        SeriesFinding::AdamNegative { parameters, spell } => format!(
            "Adam's second moment of {} is negative {}: a mean of squares cannot be",
            join_first_names(parameters),
            describe_spell(report, spell)
        ),
        SeriesFinding::AdamUnrelated { parameters, spell, elements, of } => format!(
            "Adam's moments of {} do not belong together {}: {elements} of {of} elements have a first \
             one larger than any gradients make it beside the second",
            join_first_names(parameters),
            describe_spell(report, spell)
        ),
        SeriesFinding::AdamDamped { parameters, spell, part } => format!(
            "epsilon is larger than the root of Adam's second moment in {} of {} {}: its steps are \
             damped",
            format_fraction_percent(*part),
            join_first_names(parameters),
            describe_spell(report, spell)
        ),
        SeriesFinding::Missing { numbers } => {
            format!("{} left out: {}", format_steps_subject(numbers.len()), list_numbers(numbers))
        }
        SeriesFinding::Repeated { numbers } => {
            format!("there are several steps with the same number: {}", list_numbers(numbers))
        }
        SeriesFinding::WithoutNumber { fixtures } => format!(
            "the steps are in the order of their names: {} {} no number in {} provenance",
            join_first_names(fixtures),
            inflect_verb(fixtures, "has", "have"),
            inflect_verb(fixtures, "its", "their")
        ),
    }
}

fn format_two_digits(x: f64) -> String {
    format_short_number(x, 2)
}

fn inflect_verb(
    subjects: &[String],
    singular_form: &'static str,
    plural_form: &'static str,
) -> &'static str {
    if subjects.len() == 1 { singular_form } else { plural_form }
}

fn format_steps_subject(steps: usize) -> String {
    format!("{} {}", format_noun_count(steps as u64, "step"), if steps == 1 { "is" } else { "are" })
}

/// `at all 20 steps`, `at step 7`, `at 3 of 20 steps, first at step 7`.
fn describe_spell(report: &SeriesReport, spell: &Spell) -> String {
    let first = report.step_name(spell.first);
    match (spell.steps, spell.of) {
        (1, 1) => format!("at {first}, the only one"),
        (2, 2) => "at both steps".to_owned(),
        (steps, total) if steps == total => format!("at all {total} steps"),
        (1, _) => format!("at {first}"),
        (steps, total) if steps == spell.last - spell.first + 1 => {
            format!("at {steps} of {total} steps, {first} to {}", report.step_name(spell.last))
        }
        (steps, total) => format!("at {steps} of {total} steps, first at {first}"),
    }
}

/// `a, b, c and 4 more`.
fn join_first_names(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [name] => name.clone(),
        names if names.len() <= SHOWN + 1 => {
            let (last, other_names) = names.split_last().expect("there are several");
            format!("{} and {last}", other_names.join(", "))
        }
        names => format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN),
    }
}

fn list_numbers(numbers: &[i64]) -> String {
    join_first_names(&numbers.iter().map(i64::to_string).collect::<Vec<_>>())
}

fn parted_words(report: &SeriesReport, parted: &Parted) -> String {
    let parting = match (parted.from, &report.against) {
        (Other::Captured, _) => "is not as captured".to_owned(),
        (Other::Oracle, _) => "parts from the oracle beyond noise".to_owned(),
        (Other::Trusted, Some(Revision { short, .. })) => {
            format!("parts from {short} beyond noise")
        }
        (Other::Trusted, None) => "parts from the trusted revision beyond noise".to_owned(),
    };
    let meaning = match parted.meaning {
        Some(oracle::Finding::Wrong) => "; wrong, not imprecise",
        Some(oracle::Finding::Imprecise) => "; imprecise, not wrong",
        _ => "",
    };
    let distance = match parted.spell.steps {
        1 => format!("rel. {}", format_two_digits(parted.first)),
        _ => format!(
            "rel. {} at {}, {} at {}, at most {}",
            format_two_digits(parted.first),
            report.step_name(parted.spell.first),
            format_two_digits(parted.last),
            report.step_name(parted.spell.last),
            format_two_digits(parted.largest)
        ),
    };
    let trend = match parted.growth {
        Some(factor) if factor > 1.0 => {
            format!(", growing by {} a step", format_fraction_percent(factor - 1.0))
        }
        Some(factor) => format!(", shrinking by {} a step", format_fraction_percent(1.0 - factor)),
        None => String::new(),
    };
    format!(
        "{} {parting} {}: {distance}{trend}{meaning}",
        parted.output,
        describe_spell(report, &parted.spell)
    )
}

fn format_fraction_percent(part: f64) -> String {
    format!("{} %", format_short_number(part * 100.0, 2))
}

fn describe_misalignment(report: &SeriesReport, misalignment: &Misalignment) -> String {
    let Misalignment { spell, shift, differ, of, place } = misalignment;
    let mismatch = match shift {
        Some(1) => {
            let place =
                place.as_ref().map_or(String::new(), |place| format!(", first at {place:?}"));
            format!("the targets are not the next token at {differ} of {of} places{place}")
        }
        Some(0) => "the targets are the tokens themselves, not those shifted by one".to_owned(),
        Some(-1) => "the targets are the tokens before, not those behind".to_owned(),
        Some(distance) => format!("the targets are the tokens shifted by {distance}, not by one"),
        None => "the targets are not the tokens shifted by one".to_owned(),
    };
    format!("{mismatch}, {}", describe_spell(report, spell))
}

fn describe_spike(report: &SeriesReport, spike: &SeriesSpike) -> String {
    let SeriesSpike { quantity, spell, worst, value, expected, deviations, others } = spike;
    let quantity_name = match quantity.as_str() {
        "loss" => "the loss".to_owned(),
        "gradients" => "the norm of all gradients".to_owned(),
        parameter => format!("the gradient of {parameter}"),
    };
    let others_words = match others {
        0 => String::new(),
        other_count => format!(
            "; so do the gradients of {}",
            format_noun_count(*other_count as u64, "other parameter")
        ),
    };
    let steps = match spell.steps {
        1 => String::new(),
        steps => format!(", the highest of {steps} such steps"),
    };
    format!(
        "{quantity_name} jumps at {}{steps}: {} where the steps before lead to {}, {} deviations above{others_words}",
        report.step_name(*worst),
        format_short_number(*value, 3),
        format_short_number(*expected, 3),
        format_short_number(*deviations, 2)
    )
}

fn describe_clipping(report: &SeriesReport, clipping: &FrequentClipping) -> String {
    let FrequentClipping { spell, norm, removed, most, gradients } = clipping;
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
        describe_spell(report, spell)
    };
    format!(
        "gradients are clipped {steps}, which removes {} of a norm of {} (medians; at most {}), and \
         {meaning}",
        format_fraction_percent(*removed),
        format_short_number(*norm, 3),
        format_fraction_percent(*most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::create_sample_series;
    use replay_engine::trial::Failure;
    use replay_series::{SeriesStep, StepNumbers};

    /// A report on twenty steps, the numbers 100 to 119.
    fn report() -> SeriesReport {
        let step = |at: i64| SeriesStep {
            fixture: format!("s{at}"),
            number: Some(100 + at),
            measured: StepNumbers::default(),
            replay: None,
        };
        let against = Revision { id: "0".repeat(40), short: "37707d4".into(), subject: "a".into() };
        let made_up = create_sample_series((0..20).map(step).collect());
        SeriesReport { replayed: true, against: Some(against), ..made_up }
    }

    fn spell(steps: usize, of: usize, first: usize, last: usize) -> Spell {
        Spell { steps, of, first, last }
    }

    fn told(kinds: &[SeriesFinding]) -> String {
        let report = report();
        kinds.iter().map(|kind| describe_series_finding(&report, kind) + "\n").collect()
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
            SeriesFinding::Parted { parted }
        };
        let kinds = [
            SeriesFinding::Failed { spell: spell(1, 20, 7, 7), failure: Failure::Exit { code: 3 } },
            SeriesFinding::NotFinite {
                spell: spell(12, 20, 8, 19),
                tensors: vec!["a".into()],
                affected: 3,
            },
            SeriesFinding::GradientWrong {
                output: "g".into(),
                spell: spell(20, 20, 0, 19),
                worst: 0.76,
                error: 2.8e-9,
            },
            parted(Other::Trusted, Some(2.0), Some(oracle::Finding::Wrong)),
            parted(Other::Captured, Some(0.9), None),
            parted(Other::Oracle, None, Some(oracle::Finding::Imprecise)),
            SeriesFinding::AdamNegative { parameters: vec!["w".into()], spell: spell(2, 20, 1, 9) },
            SeriesFinding::Misaligned {
                misalignment: Misalignment {
                    spell: spell(20, 20, 0, 19),
                    shift: Some(0),
                    differ: 9,
                    of: 9,
                    place: None,
                },
            },
            SeriesFinding::Misaligned {
                misalignment: Misalignment {
                    spell: spell(1, 1, 0, 0),
                    shift: None,
                    differ: 9,
                    of: 9,
                    place: None,
                },
            },
            SeriesFinding::Misaligned {
                misalignment: Misalignment {
                    spell: spell(2, 2, 0, 1),
                    shift: Some(1),
                    differ: 1,
                    of: 9,
                    place: Some(vec![0, 3]),
                },
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
        let spike = |quantity: &str, steps, others| SeriesFinding::Spike {
            spike: SeriesSpike {
                quantity: quantity.into(),
                spell: spell(steps, 20, 11, 11 + steps - 1),
                worst: 11,
                value: 9.5,
                expected: 2.125,
                deviations: 12.34,
                others,
            },
        };
        let clipped = |gradients| SeriesFinding::Clipped {
            clipping: FrequentClipping {
                spell: spell(20, 20, 0, 19),
                norm: 3.5,
                removed: 0.714,
                most: 0.9,
                gradients,
            },
        };
        let updates =
            |large, ratio| SeriesFinding::Updates { parameters: names(1), ratio, large, of: 20 };
        let kinds = [
            SeriesFinding::NoGradient { parameters: names(2), spell: spell(8, 20, 12, 19) },
            SeriesFinding::Frozen { parameters: names(9), spell: spell(20, 20, 0, 19) },
            spike("loss", 1, 0),
            spike("gradients", 3, 0),
            spike("layers.0", 1, 4),
            clipped(Gradients::Match),
            clipped(Gradients::Mismatch),
            clipped(Gradients::Unchecked),
            SeriesFinding::Flow {
                group: "layers".into(),
                layers: 6,
                first: 3e-7,
                last: 0.03,
                factor: 0.1,
            },
            updates(true, 0.5),
            updates(false, 1e-8),
            SeriesFinding::LossRises { from: 1.2, to: 2.9, noise: 0.02 },
            SeriesFinding::AdamDamped {
                parameters: names(1),
                spell: spell(1, 20, 3, 3),
                part: 0.75,
            },
            SeriesFinding::AdamUnrelated {
                parameters: names(1),
                spell: spell(1, 20, 3, 3),
                elements: 4,
                of: 64,
            },
            SeriesFinding::Untestable {
                spell: spell(20, 20, 0, 19),
                reason: "it does not compile".into(),
            },
            SeriesFinding::Missing { numbers: vec![7] },
            SeriesFinding::Missing { numbers: vec![7, 8, 9, 10, 11, 12] },
            SeriesFinding::Repeated { numbers: vec![7] },
            SeriesFinding::WithoutNumber { fixtures: names(2) },
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
        report.findings.push(SeriesFinding::Missing { numbers: vec![1] });
        report.findings.push(SeriesFinding::LossRises { from: 1.0, to: 2.0, noise: 0.0 });
        assert!(!report.standing().is_wrong());
        let parameters = vec!["w".to_owned()];
        report.findings.push(SeriesFinding::AdamNegative { parameters, spell: spell(1, 20, 0, 0) });
        assert!(report.standing().is_wrong());
    }
}
