//! Numbers that are rounded on purpose: int8 and three values by a scale of the row, and parameters in bfloat16 that are
//! rounded at random. Many of them lie on the edge between two steps, where other forms of the same mathematics take the
//! other step. That convicts nobody, and each defect is found or said not to be checked.

use std::fs;
use std::sync::Arc;

use replay::fixture::{NewTensor, write_safetensors};
use replay::frontend::Threads;
use replay::judge::{Equivalence, Judgement, ShadowShift, Story, Verdict, judge_trial};
use replay::numerics::oracle::Finding;
use replay::tensor::DType;
use replay::trial::{Lab, Trial};
use replay::worker::Limits;
use tempfile::TempDir;

use super::families;
use super::inputs::Random;

const ROWS: usize = 6;
const COLUMNS: usize = 256;

const INPUTS: &str = r#"
sources = ["quantised.cu"]
[inputs.form]
dtype = "i32"
shape = []
[inputs.x]
dtype = "f32"
shape = ["rows", "cols"]
"#;
const QUANTISED: &str = r#"
[outputs.q]
dtype = "i8"
shape = ["rows", "cols"]
[outputs.scales]
dtype = "f32"
shape = ["rows"]
[outputs.y]
dtype = "f32"
shape = ["rows", "cols"]
[outputs.w]
dtype = "f32"
shape = ["rows", "cols"]
[outputs.sums]
dtype = "f32"
shape = ["rows"]
"#;
const STEPPED: &str = r#"
[outputs.p]
dtype = "bf16"
shape = ["rows", "cols"]
"#;

/// The trusted form.
const BASE: i32 = 0;

/// Trials of one call.
struct Calls {
    lab: Arc<Lab>,
    folder: TempDir,
    harness: String,
}

impl Calls {
    fn new(call: &str, outputs: &str) -> Calls {
        let lab = families::lab(families::cpu(Limits::TIMEOUT, Threads::Lanes));
        let harness = format!("call = \"{call}\"{INPUTS}{outputs}");
        Calls { lab, folder: TempDir::new().expect("a temporary folder"), harness }
    }

    /// What is said of `form` beside the trusted one.
    fn judge(&self, form: i32) -> Judgement {
        judge_trial(&self.trial(BASE), &self.trial(form)).expect("the machine can replay")
    }

    fn trial(&self, form: i32) -> Trial {
        let folder = self.folder.path().join(form.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("replay.toml"), &self.harness).expect("a harness");
        fs::write(folder.join("fixture.toml"), "harness = \"replay.toml\"\n").expect("a fixture");
        let x: Vec<u8> = numbers().iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensors: [NewTensor; 2] = [
            ("form", DType::I32, &[], &form.to_le_bytes()),
            ("x", DType::F32, &[ROWS, COLUMNS], &x),
        ];
        write_safetensors(&folder, &tensors, &[]).expect("a fixture can be written");
        families::trial(&self.lab, &folder, &families::folder("quantised"))
    }
}

/// Half of the rows hold multiples of half a step of 127, up to their rounding to float32; the others any numbers.
fn numbers() -> Vec<f32> {
    let mut random = Random(3);
    let mut values = Vec::new();
    for row in 0..ROWS {
        let step = [0.1, 0.03, 0.7][row / 2];
        let mut row_values: Vec<f64> = (0..COLUMNS).map(|_| random.bell()).collect();
        if row % 2 == 0 {
            for value in &mut row_values {
                *value = step * (value.clamp(-2.5, 2.5) * 100.0).round() / 2.0;
            }
            row_values[7] = step * 127.0;
        }
        values.extend(row_values.iter().map(|&value| value as f32));
    }
    values
}

/// The worst verdict on an output, and whether one is wrong.
fn summarize(judgement: &Judgement) -> (Verdict, bool) {
    let worst = judgement.outputs.iter().map(|output| output.story.verdict()).max();
    let is_wrong =
        judgement.outputs.iter().any(|output| output.story.finding() == Some(Finding::Wrong));
    (worst.expect("an output"), is_wrong)
}

#[test]
fn steps_that_another_form_takes_at_a_tie_are_equivalent_and_other_scales_wrong() {
    let calls = Calls::new("quantise(x, q, scales, y, w, sums, rows, cols, form);", QUANTISED);
    let mut flipped = 0;
    for form in [1, 2, 3] {
        let judgement = calls.judge(form);
        let (worst, _) = summarize(&judgement);
        assert!(worst <= Verdict::Equivalent, "form {form}: {:?}", judgement.outputs);
        flipped += u32::from(judgement.outputs[0].story.verdict() == Verdict::Equivalent);
    }
    assert_eq!(flipped, 2, "forms that take other steps");
    for form in 10..15 {
        assert_eq!(summarize(&calls.judge(form)), (Verdict::Diverged, true), "form {form}");
    }
}

/// How far the shadow of the parameters changed, if they agree.
fn find_shift(judgement: &Judgement) -> Option<ShadowShift> {
    match judgement.outputs[0].story {
        Story::Agrees(Equivalence::WithinNoise { shadow, .. }) => Some(shadow),
        _ => None,
    }
}

#[test]
fn rounding_at_random_convicts_nobody_and_hides_no_defect() {
    let [fused, rate, bias] = [4, 15, 16];
    // A bias of a quarter of the last place of bfloat16 is noted.
    for (by_bits, shift) in [(false, ShadowShift::BelowDtype), (true, ShadowShift::Unseen)] {
        let calls = Calls::new(&format!("step(p, x, rows, cols, {by_bits}, form);"), STEPPED);
        let (worst, _) = summarize(&calls.judge(fused));
        assert!(worst <= Verdict::Unchecked, "by bits: {by_bits}");
        assert_eq!(summarize(&calls.judge(rate)).0, Verdict::Diverged, "by bits: {by_bits}");
        assert_eq!(find_shift(&calls.judge(bias)), Some(shift), "by bits: {by_bits}");
    }
}
