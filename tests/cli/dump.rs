//! `--dump DIR`: the values of a replay as files of tensors.

use std::fs;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use crate::common::env::TestEnv;

const KERNEL: &str = "\
__global__ void third(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] / 3.0f;
}
";

fn project() -> TestEnv {
    TestEnv::with_own_replays().with_kernel(KERNEL, "third<<<1, n>>>(x, y, n);")
}

/// The elements of `y` in the file at `path`, and their dtype.
fn elements(path: &Path) -> (Dtype, Vec<f64>) {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tensors = SafeTensors::deserialize(&bytes).expect("tensors");
    let y = tensors.tensor("y").expect("an output");
    assert_eq!(y.shape(), [4]);
    let numbers = match y.dtype() {
        Dtype::F32 => {
            let (floats, _) = y.data().as_chunks::<4>();
            floats.iter().map(|&bytes| f32::from_le_bytes(bytes).into()).collect()
        }
        _ => {
            let (floats, _) = y.data().as_chunks::<8>();
            floats.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
        }
    };
    (y.dtype(), numbers)
}

#[test]
fn a_dump_holds_outputs_twin_and_noise_of_each_revision_under_its_name() {
    let env = project();
    let run = env.replay(&["fixtures/tiny", "--dump", "values"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.stderr, @"dumped values/tiny/working-tree.cpu");
    let file = |name: &str| env.path(&format!("values/tiny/working-tree.cpu/{name}.safetensors"));
    let (dtype, outputs) = elements(&file("outputs"));
    assert_eq!((dtype, outputs[0]), (Dtype::F32, f64::from(1.0f32 / 3.0)));
    let (dtype, twin) = elements(&file("twin"));
    assert_eq!((dtype, twin[0]), (Dtype::F64, 1.0 / 3.0));
    let (dtype, noise) = elements(&file("noise"));
    assert_eq!(dtype, Dtype::F32);
    for ((output, twin), noise) in outputs.iter().zip(&twin).zip(&noise) {
        assert!((output - twin).abs() <= *noise && *noise < 1e-6, "{output} {twin} {noise}");
    }

    env.repo.commit_file("k.cu", &KERNEL.replace("3.0f", "4.0f"), "Another divisor");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~1..HEAD", "--dump", "both"]);
    let commits = ["HEAD~1", "HEAD"].map(|rev| env.repo.git(&["rev-parse", "--short=7", rev]));
    let first_elements = commits.map(|commit| {
        let file = format!("both/tiny/{}.cpu/outputs.safetensors", commit.trim());
        elements(&env.path(&file)).1[0]
    });
    assert_eq!(first_elements, [f64::from(1.0f32 / 3.0), 0.25], "{}", run.text());
}

#[test]
fn a_dump_replaces_no_file() {
    let env = project();
    assert_eq!(env.replay(&["fixtures/tiny", "--dump", "values"]).code, Some(0));
    let run = env.replay(&["fixtures/tiny", "--dump", "values"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: values/tiny/working-tree.cpu/outputs.safetensors is there already, and a dump replaces no file
    hint: remove it, or name another folder with --dump
    ");
}

#[test]
fn a_dump_says_what_there_is_none_of() {
    let env = project();
    let narrow = format!("__device__ char left[5 - sizeof(float)];\n{KERNEL}");
    env.repo.write("k.cu", &narrow);
    let run = env.replay(&["fixtures/tiny", "--dump", "values"]).without_compilers_words();
    insta::assert_snapshot!(run.stderr, @"dumped values/tiny/working-tree.cpu; no twin: the float64 shadow does not compile: k.cu:1: error: [MESSAGE]");
    assert!(!env.path("values/tiny/working-tree.cpu/twin.safetensors").exists());
    env.repo.write("k.cu", KERNEL.replace("int i = threadIdx.x;", "int i = 0; asm(\"trap;\");"));
    let run = env.replay(&["fixtures/tiny", "--dump", "faulty"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.stderr, @"no dump in faulty/tiny/working-tree.cpu: the replay has no outputs");
    assert!(!env.path("faulty").exists());
}
