//! What can be told of all evidence that there can be.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const ROUNDING: f64 = 1e-7;

/// Two floating-point outputs that agree in every way but in their bits, with shadows of both.
fn within_noise() -> Evidence {
    Evidence {
        agreement: Agreement::Equivalent,
        dtype: DType::F32,
        is_unsteady: false,
        order: OrderEvidence::Independent,
        base_rounding: ROUNDING,
        got_rounding: ROUNDING,
        half_unit: 0.0,
        elements: None,
        shadow: Some(shadow(0, 0)),
        errors: Some(errors(ROUNDING, ROUNDING)),
        lost_share: None,
        gained_share: None,
        drift: None,
        errs_alike: false,
        is_unexplained: false,
    }
}

fn beyond_noise() -> Evidence {
    Evidence { agreement: Agreement::Diverged, ..within_noise() }
}

fn errors(base: f64, got: f64) -> ErrorEvidence {
    ErrorEvidence { base, got, by_oracle: false, base_without_ties: None, got_without_ties: None }
}

fn change(changed: u64, moved: u64) -> ShadowChange {
    let first = (changed > 0).then_some(0);
    let relative_l2 = 1e-3 * changed as f64;
    let moved_by = 1e-3 * moved as f64;
    ShadowChange {
        relative_l2,
        changed,
        changed_by: relative_l2,
        first,
        moved,
        moved_by,
        dtype: DType::F64,
        rounded: false,
    }
}

fn shadow(changed: u64, moved: u64) -> ShadowEvidence {
    let change = change(changed, moved);
    ShadowEvidence { moved_at_first: moved > 0, change, is_roundoff: false, steps: None }
}

fn drift() -> Drift {
    Drift { slice: None, elements: 8192, scale: 0.01, offset: 0.0, ratio: 9.0 }
}

/// Every shadow that the outputs of `agreement` can have.
fn shadows(agreement: Agreement) -> Vec<ShadowEvidence> {
    let is_within_noise = agreement == Agreement::Equivalent;
    let mut shadows = Vec::new();
    for (changed, moved) in [(0, 0), (9, 0), (9, 9)] {
        shadows.push(shadow(changed, moved));
        if is_within_noise && moved > 0 {
            shadows.push(ShadowEvidence { is_roundoff: true, ..shadow(changed, moved) });
        }
        for moved_at_first in [false, true] {
            let is_possible = if is_within_noise {
                moved_at_first || moved == 0
            } else {
                moved_at_first == (moved > 0)
            };
            if !is_possible {
                continue;
            }
            for bits in 0..16 {
                let is = |bit: u32| bits >> bit & 1 == 1;
                let steps = StepEvidence {
                    change: change(changed, if is(0) { moved } else { 0 }),
                    are_on_both_sides: is(1),
                    explain_most: is(2) && moved > 0,
                    explain_a_part: is(3) && moved_at_first && !is(1),
                };
                let steps = Some(steps);
                shadows.push(ShadowEvidence { moved_at_first, steps, ..shadow(changed, moved) });
            }
        }
    }
    shadows
}

/// Every error that both sides can have around a truth.
fn all_errors() -> Vec<ErrorEvidence> {
    let mut all = Vec::new();
    for base in [1e-9, ROUNDING, 1e-6, 1e-4] {
        for got in [1e-9, ROUNDING, 1e-6, 1e-4, f64::NAN] {
            for by_oracle in [false, true] {
                all.push(ErrorEvidence { by_oracle, ..errors(base, got) });
            }
        }
    }
    all
}

/// `known` with every answer that its questions can have.
fn answered(known: &Evidence) -> Vec<Evidence> {
    let shares = |is_asked: bool| if is_asked { vec![Some(0.1), Some(0.5)] } else { vec![None] };
    let ties =
        |is_asked: bool| if is_asked { vec![None, Some(1e-9), Some(1e-4)] } else { vec![None] };
    let mut all = Vec::new();
    for lost_share in shares(known.asks_for_lost_share()) {
        for gained_share in shares(known.asks_for_gained_share()) {
            for got_without_ties in ties(known.suspects_loss()) {
                for base_without_ties in ties(known.suspects_gain()) {
                    let errors = known.errors.map(|errors| ErrorEvidence {
                        base_without_ties,
                        got_without_ties,
                        ..errors
                    });
                    all.push(Evidence { lost_share, gained_share, errors, ..known.clone() });
                }
            }
        }
    }
    let alike = |known: Evidence| {
        let is_asked = known.asks_whether_sides_err_alike();
        let excused = is_asked.then(|| Evidence { errs_alike: true, ..known.clone() });
        [Some(known), excused].into_iter().flatten()
    };
    let unexplained = |known: Evidence| {
        let is_asked = known.asks_for_unexplained().is_some();
        let wrong = is_asked.then(|| Evidence { is_unexplained: true, ..known.clone() });
        [Some(known), wrong].into_iter().flatten()
    };
    all.into_iter().flat_map(alike).flat_map(unexplained).collect()
}

/// All evidence that there can be of outputs that come to `agreement`.
fn all_evidence(agreement: Agreement) -> Vec<Evidence> {
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::I32] {
        let is_float = dtype.is_float();
        let differs = agreement != Agreement::Identical;
        let has_shadows = differs && (is_float || agreement == Agreement::Equivalent);
        let mut both: Vec<(Option<ShadowEvidence>, Option<ErrorEvidence>)> = vec![(None, None)];
        if is_float && differs {
            both.extend(all_errors().into_iter().map(|errors| (None, Some(errors))));
        }
        for shadow in shadows(agreement).into_iter().filter(|_| has_shadows) {
            if is_float {
                both.extend(all_errors().into_iter().map(|errors| (Some(shadow), Some(errors))));
            } else {
                both.push((Some(shadow), None));
            }
        }
        for (shadow, errors) in both {
            for (base_rounding, got_rounding) in
                [(ROUNDING, ROUNDING), (ROUNDING, 1e-4), (1e-4, ROUNDING)]
            {
                let may_drift = agreement == Agreement::Equivalent && shadow.is_none() && is_float;
                for drift in [None, Some(drift())].into_iter().take(1 + usize::from(may_drift)) {
                    let known = Evidence {
                        agreement,
                        dtype,
                        base_rounding,
                        got_rounding,
                        shadow,
                        errors,
                        drift,
                        ..within_noise()
                    };
                    all.extend(answered(&known));
                }
            }
        }
    }
    all
}

/// Each of `all` in every order.
fn in_every_order(all: Vec<Evidence>) -> impl Iterator<Item = Evidence> {
    let orders = [OrderEvidence::Independent, OrderEvidence::OnBothSides, OrderEvidence::New];
    let ordered =
        move |evidence: Evidence| orders.map(|order| Evidence { order, ..evidence.clone() });
    all.into_iter().flat_map(ordered)
}

/// The name of a story.
fn name(story: &Story) -> String {
    let accuracy = |accuracy: &Option<Finding>| {
        accuracy.map_or("of unknown accuracy".to_owned(), |finding| format!("{finding:?}"))
    };
    match story {
        Story::Agrees(Equivalence::Identical) => "identical".to_owned(),
        Story::Agrees(Equivalence::WithinNoise { accuracy: finding, .. }) => {
            format!("within noise, {}", accuracy(finding))
        }
        Story::Agrees(Equivalence::ErrsAlike { accuracy: finding, .. }) => {
            format!("errs alike, {}", accuracy(finding))
        }
        Story::Drifted { accuracy: finding, .. } => format!("drifted, {}", accuracy(finding)),
        Story::OrderDependent(_)
        | Story::Unsteady
        | Story::Wrong(_)
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate
        | Story::BeyondNoise { .. } => format!("{story:?}"),
    }
}

#[test]
fn the_stories_that_each_comparison_can_have() {
    let mut table: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for agreement in [Agreement::Identical, Agreement::Equivalent, Agreement::Diverged] {
        for evidence in all_evidence(agreement) {
            let names = table.entry(format!("{agreement:?}")).or_default();
            names.insert(name(&tell_story(&evidence)));
        }
    }
    let rows = table.iter().flat_map(|(agreement, names)| {
        names.iter().map(move |name| format!("{agreement}: {name}"))
    });
    let rows: Vec<String> = rows.collect();
    insta::assert_snapshot!(rows.join("\n"), @"
    Diverged: AsAccurate
    Diverged: BeyondNoise { order_dependent: false }
    Diverged: Imprecise(RoundedShadow)
    Diverged: Imprecise(SameShadow)
    Diverged: LessAccurate
    Diverged: MoreAccurate
    Diverged: Wrong(Distance)
    Diverged: Wrong(Shadow)
    Diverged: errs alike, AsAccurate
    Diverged: errs alike, Imprecise
    Diverged: errs alike, MoreAccurate
    Diverged: errs alike, of unknown accuracy
    Equivalent: Imprecise(Noise)
    Equivalent: Imprecise(RoundedShadow)
    Equivalent: Imprecise(SameShadow)
    Equivalent: LessAccurate
    Equivalent: MoreAccurate
    Equivalent: Wrong(HiddenShadow)
    Equivalent: drifted, AsAccurate
    Equivalent: drifted, Imprecise
    Equivalent: drifted, LessAccurate
    Equivalent: drifted, MoreAccurate
    Equivalent: drifted, of unknown accuracy
    Equivalent: within noise, AsAccurate
    Equivalent: within noise, MoreAccurate
    Equivalent: within noise, of unknown accuracy
    Identical: identical
    ");
}

#[test]
fn identical_bits_never_diverge_by_value() {
    for evidence in in_every_order(all_evidence(Agreement::Identical)) {
        let story = tell_story(&evidence).without_order();
        assert_eq!(story, Story::Agrees(Equivalence::Identical), "{evidence:?}");
    }
}

#[test]
fn a_shadow_that_moved_is_never_equivalent_unless_roundoff_or_steps_explain_it() {
    for agreement in [Agreement::Equivalent, Agreement::Diverged] {
        for evidence in all_evidence(agreement) {
            let Some(shadow) = evidence.shadow.filter(|shadow| shadow.change.moved > 0) else {
                continue;
            };
            let by_oracle = evidence.errors.is_some_and(|errors| errors.by_oracle);
            let is_explained = shadow.is_roundoff || shadow.steps.is_some();
            let story = tell_story(&evidence);
            if !is_explained {
                assert_eq!(story.verdict(), Verdict::Diverged, "{evidence:?}");
                assert!(by_oracle || matches!(story, Story::Wrong(_)), "{evidence:?}");
            }
            if story.verdict() == Verdict::Equivalent {
                assert_eq!(evidence.shadow_change().map(|change| change.moved), Some(0));
            }
        }
    }
}

#[test]
fn elements_beyond_noise_are_excused_only_where_both_sides_err_alike() {
    for evidence in all_evidence(Agreement::Diverged) {
        let story = tell_story(&evidence);
        let is_excused = matches!(story, Story::Agrees(Equivalence::ErrsAlike { .. }));
        assert_eq!(story.verdict() == Verdict::Equivalent, is_excused, "{evidence:?}");
        assert!(!is_excused || evidence.errs_alike, "{evidence:?}");
        assert_ne!(story, Story::Wrong(WrongBy::HiddenShadow), "{evidence:?}");
    }
}

#[test]
fn within_noise_nothing_is_called_wrong_without_shadows() {
    for evidence in all_evidence(Agreement::Equivalent) {
        let story = tell_story(&evidence);
        if evidence.shadow.is_none() {
            assert!(!matches!(story, Story::Wrong(_)), "{evidence:?}");
        }
        assert!(!matches!(story, Story::BeyondNoise { .. } | Story::AsAccurate), "{evidence:?}");
    }
}

#[test]
fn what_lies_within_noise_is_equivalent_with_shadows_and_unchecked_without() {
    for evidence in all_evidence(Agreement::Equivalent) {
        let story = tell_story(&evidence);
        if matches!(story, Story::Agrees(Equivalence::WithinNoise { .. })) {
            let is_unseen = evidence.shadow.is_none();
            let expected = if is_unseen { Verdict::Unchecked } else { Verdict::Equivalent };
            assert_eq!(story.verdict(), expected, "{evidence:?}");
            assert!(story.verdict().agrees());
        }
    }
}

#[test]
fn a_new_dependence_on_the_order_diverges_and_says_nothing_of_accuracy() {
    for agreement in [Agreement::Identical, Agreement::Equivalent, Agreement::Diverged] {
        for evidence in all_evidence(agreement) {
            let by_value = tell_story(&evidence);
            let story = tell_story(&Evidence { order: OrderEvidence::New, ..evidence.clone() });
            assert_eq!(story.verdict(), Verdict::Diverged, "{evidence:?}");
            if by_value.verdict() < Verdict::Diverged {
                assert_eq!(story.finding(), None, "{evidence:?}");
                let alone = story.without_order();
                assert_eq!(alone.verdict(), by_value.verdict(), "{evidence:?}");
            }
        }
    }
}

#[test]
fn a_dependence_of_both_sides_on_the_order_is_no_change() {
    for agreement in [Agreement::Identical, Agreement::Equivalent] {
        for evidence in all_evidence(agreement) {
            let both = Evidence { order: OrderEvidence::OnBothSides, ..evidence.clone() };
            assert_eq!(tell_story(&both), tell_story(&evidence), "{evidence:?}");
        }
    }
}

#[test]
fn what_differs_by_itself_is_only_unsteady() {
    for agreement in [Agreement::Identical, Agreement::Equivalent, Agreement::Diverged] {
        for evidence in in_every_order(all_evidence(agreement)) {
            let unsteady = Evidence { is_unsteady: true, ..evidence };
            assert_eq!(tell_story(&unsteady), Story::Unsteady);
        }
    }
}

#[test]
fn errors_tell_wrong_from_imprecise_from_more_accurate() {
    let same = beyond_noise();
    assert_eq!(tell_story(&same), Story::AsAccurate);
    let further = Evidence { errors: Some(errors(ROUNDING, 1e-3)), ..same.clone() };
    assert_eq!(tell_story(&further), Story::Imprecise(ImpreciseBy::SameShadow));
    let moved = Evidence { shadow: Some(shadow(9, 9)), ..further };
    assert_eq!(tell_story(&moved), Story::Wrong(WrongBy::Shadow));
    let no_number = Evidence { errors: Some(errors(ROUNDING, f64::NAN)), ..same.clone() };
    assert_eq!(tell_story(&no_number), Story::Imprecise(ImpreciseBy::SameShadow));
    let closer = Evidence { errors: Some(errors(1e-3, ROUNDING)), ..same.clone() };
    assert_eq!(tell_story(&closer), Story::MoreAccurate);
    let repaired = Evidence { shadow: Some(shadow(9, 9)), ..closer };
    assert_eq!(tell_story(&repaired), Story::Wrong(WrongBy::Shadow));
    let by_oracle = |errors: ErrorEvidence| Some(ErrorEvidence { by_oracle: true, ..errors });
    let repaired = Evidence { errors: by_oracle(errors(1e-3, ROUNDING)), ..repaired };
    assert_eq!(tell_story(&repaired), Story::MoreAccurate);
    let alike = Evidence { errors: by_oracle(errors(ROUNDING, ROUNDING)), ..repaired };
    assert_eq!(tell_story(&alike), Story::AsAccurate);
    let hidden = Evidence { agreement: Agreement::Equivalent, ..alike };
    assert_eq!(tell_story(&hidden), Story::Wrong(WrongBy::HiddenShadow));
}

/// Outputs in bfloat16 that agree, of which the trusted one is rounded to it once.
fn in_bfloat16(base: f64, got: f64, got_rounding: f64) -> Evidence {
    Evidence {
        dtype: DType::BF16,
        base_rounding: 0.0058,
        got_rounding,
        half_unit: 0.0029,
        elements: Some(4096),
        errors: Some(errors(base, got)),
        ..within_noise()
    }
}

#[test]
fn an_error_that_no_single_rounding_reaches_is_a_loss_within_the_noise_of_the_other_side() {
    for got in [0.0036, 0.0107, 0.0575] {
        for by_oracle in [false, true] {
            let lost = in_bfloat16(0.00155, got, 0.41);
            let lost_errors = ErrorEvidence { by_oracle, ..errors(0.00155, got) };
            let lost = Evidence { errors: Some(lost_errors), ..lost };
            assert!(lost.asks_for_half_unit());
            assert_eq!(tell_story(&lost), Story::Imprecise(ImpreciseBy::SameShadow));
            let shown = Evidence { agreement: Agreement::Diverged, ..lost.clone() };
            assert_eq!(tell_story(&shown), Story::Imprecise(ImpreciseBy::SameShadow));
            let gained = Evidence {
                base_rounding: lost.got_rounding,
                got_rounding: lost.base_rounding,
                errors: Some(ErrorEvidence { by_oracle, ..errors(got, 0.00155) }),
                ..lost
            };
            assert!(gained.asks_for_half_unit());
            let story = tell_story(&gained);
            assert_eq!(story.verdict(), Verdict::Equivalent);
            assert_eq!(story.finding(), Some(Finding::MoreAccurate));
        }
    }
}

#[test]
fn a_few_elements_that_were_rounded_luckily_convict_nobody() {
    let noisy = Evidence { base_rounding: 0.0068, ..in_bfloat16(0.0026, 0.0065, 0.0068) };
    let few = Evidence { elements: Some(4), ..noisy.clone() };
    assert_eq!(tell_story(&few).verdict(), Verdict::Equivalent);
    assert_eq!(tell_story(&noisy), Story::Imprecise(ImpreciseBy::SameShadow));
    let back = Evidence { errors: Some(errors(0.0065, 0.0026)), ..few.clone() };
    assert_eq!(tell_story(&back).finding(), Some(Finding::AsAccurate));
    let coarse = Evidence { got_rounding: 0.41, ..few };
    assert_eq!(tell_story(&coarse), Story::Imprecise(ImpreciseBy::SameShadow), "noise tells");
}

#[test]
fn an_error_within_one_rounding_to_the_format_is_no_loss() {
    for (base, got) in [(0.0001, 0.0028), (0.00155, 0.003), (0.00155, 0.00155)] {
        let story = tell_story(&in_bfloat16(base, got, 0.0058));
        assert_eq!(story.verdict(), Verdict::Equivalent, "{base} -> {got}");
    }
}

#[test]
fn an_error_within_what_roundings_on_the_way_cost_is_a_loss_only_where_noise_grew_too() {
    // The trusted side rounds to bfloat16 on the way, too.
    let noisy = Evidence { base_rounding: 0.02, ..in_bfloat16(0.003, 0.01, 0.02) };
    assert_eq!(tell_story(&noisy).verdict(), Verdict::Equivalent);
    let coarser = Evidence { got_rounding: 0.5, ..noisy };
    assert_eq!(tell_story(&coarser), Story::Imprecise(ImpreciseBy::SameShadow));
}
