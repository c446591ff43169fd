//! Verdicts on kernels as public repositories write them, of `tests/engine/public`: a splatting pipeline with keys of
//! depth bits and shared integers, a convolution with traits over `sizeof(T)`, a trainer's main program with its headers
//! in bfloat16. One factor in each is another form of 1, or another number.

use std::fs;
use std::path::Path;

use replay::fixture::{NewTensor, write_safetensors};
use replay::frontend::Threads;
use replay::judge::{Verdict, judge_trial};
use replay::numerics::oracle::Finding;
use replay::tensor::DType;
use replay::trial::Trial;
use replay::worker::Limits;
use tempfile::TempDir;

use super::families;
use super::inputs::Random;

const COUNT: usize = 192;

/// In front of the family's source, which multiplies by `FACTOR` somewhere.
const FACTOR: &str = "\
__device__ float corpus_factor;
__device__ int corpus_form;
__device__ float corpus_other() { return corpus_form ? corpus_factor / 3.0f * 3.0f : corpus_factor; }
";

/// A replay of kernel `which` of `family`, which multiplies by `factor` in one of two forms.
fn trial(folder: &Path, (family, which): (&str, i32), form: i32, factor: f32) -> Trial {
    let own = folder.join("src");
    fs::create_dir_all(&own).expect("a folder");
    let public = families::tests_folder().join("engine/public").join(family);
    for entry in public.read_dir().expect("the family") {
        let entry = entry.expect("a file");
        fs::copy(entry.path(), own.join(entry.file_name())).expect("a copy");
    }
    let whole = format!("{FACTOR}#include \"{family}.cu\"\n");
    fs::write(own.join("whole.cu"), whole).expect("a source");
    let harness = "sources = [\"src/whole.cu\"]\ninclude = [\"src\"]\n\
         defines = [\"FACTOR=corpus_other()\"]\n\
         call = \"\"\"cudaMemcpyToSymbol(corpus_factor, &factor, sizeof(float));\n\
         cudaMemcpyToSymbol(corpus_form, &form, sizeof(int));\nrun(which, y, x, n);\"\"\"\n\
         inputs.which = { dtype = \"i32\", shape = [] }\n\
         inputs.form = { dtype = \"i32\", shape = [] }\n\
         inputs.factor = { dtype = \"f32\", shape = [] }\n\
         inputs.x = { dtype = \"f32\", shape = [\"n\"] }\n\
         outputs.y = { dtype = \"f32\", shape = [\"n\"] }\n";
    fs::write(folder.join("replay.toml"), harness).expect("a harness");
    let at = folder.join(format!("{form}-{factor}"));
    fs::create_dir_all(&at).expect("a folder");
    fs::write(at.join("fixture.toml"), "harness = \"../replay.toml\"\n").expect("a fixture");
    let mut random = Random(5);
    let x: Vec<u8> = (0..COUNT).flat_map(|_| (random.bell() as f32).to_le_bytes()).collect();
    let tensors: [NewTensor; 4] = [
        ("which", DType::I32, &[], &which.to_le_bytes()),
        ("form", DType::I32, &[], &form.to_le_bytes()),
        ("factor", DType::F32, &[], &factor.to_le_bytes()),
        ("x", DType::F32, &[COUNT], &x),
    ];
    write_safetensors(&at, &tensors, &[]).expect("a fixture can be written");
    let lab = families::lab(families::cpu(Limits::TIMEOUT, Threads::Lanes));
    families::trial(&lab, &at, folder)
}

#[test]
fn another_form_is_no_other_mathematics_and_another_factor_is() {
    for kernel in [("splats", 2), ("splats", 4), ("convolution", 0), ("training", 3)] {
        let folder = TempDir::new().expect("a temporary folder");
        let base = trial(folder.path(), kernel, 0, 1.0);
        let judge = |form, factor| {
            let got = trial(folder.path(), kernel, form, factor);
            let judgement = judge_trial(&base, &got).expect("the machine can replay");
            let output = judgement.outputs.first();
            let story = &output.unwrap_or_else(|| panic!("{kernel:?}: {judgement:?}")).story;
            (story.verdict(), story.finding())
        };
        let (benign, _) = judge(1, 1.0);
        assert!(benign <= Verdict::Equivalent, "{kernel:?}: {benign:?}");
        assert_eq!(judge(0, 1.01), (Verdict::Diverged, Some(Finding::Wrong)), "{kernel:?}");
    }
}
