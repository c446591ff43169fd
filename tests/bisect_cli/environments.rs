//! Searches along environments, and comparisons of two of them.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::isolated;
use crate::common::env::TestEnv;

/// A kernel that is wrong from the third value of a macro on, does not compile at the fifth, and is wrong otherwise at the sixth.
const BY_STEP: &str = "
#if STEP == 5
#error no such step
#endif
__global__ void k(const float* x, float* y) {
    int i = threadIdx.x;
    y[i] = x[i] * (STEP >= 3 ? 2.5f : 2.0f);
}
void run(const float* x, float* y, int n) { k<<<1, n>>>(x, y); }
";
const STEPS: &str =
    "\n[axes.step]\ndefine = \"STEP\"\nvalues = [\"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]\n";

/// A project with `axes` in its harness.
fn with_axes(env: TestEnv, kernel: &str, axes: &str) -> TestEnv {
    let env = env.with_kernel(kernel, "run(x, y, n);");
    let harness = std::fs::read_to_string(env.path("replay.toml")).expect("a harness");
    env.repo.write("replay.toml", format!("{harness}{axes}"));
    env.repo.commit("Name the axes");
    env
}

#[test]
fn a_search_along_a_macro_names_the_first_bad_value() {
    let env = with_axes(isolated(), BY_STEP, STEPS);
    let words = ["bisect", "fixtures/tiny", "--over", "step", "--good", "1", "--bad", "4"];
    let run = env.replay(&words);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.stdout, @r#"
    step 3 is the first bad one: in the working tree
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
        100 % of bits differ, rel. 0.25, 4 elements beyond noise
        worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
        error against the trusted shadow: 0 -> 0.25
        everywhere
      step 2, the one before it, was tested: identical

    -STEP=2
    +STEP=3
    "#);
    let again = env.replay(&[&words[..], &["--format", "json", "--rev", "HEAD"]].concat());
    let lines: Vec<serde_json::Value> =
        again.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["axis"]["name"], "step", "{}", again.text());
    assert!(lines[0]["axis"]["place"].as_str().unwrap().starts_with("at "));
    let last = lines.last().unwrap();
    assert_eq!(last["culprit"]["commit"]["short"], "step 3");
    assert_eq!(last["culprit"]["diff"], "-STEP=2\n+STEP=3\n");
    for format in ["markdown", "html"] {
        let page = env.replay(&[&words[..], &["--format", format]].concat());
        assert!(page.code == Some(0) && page.stdout.contains("step 3"), "{}", page.text());
    }
    let back =
        env.replay(&["bisect", "fixtures/tiny", "--over", "step", "--good", "4", "--bad", "1"]);
    assert!(back.stdout.starts_with("step 3 repairs y: in the working tree"), "{}", back.text());
}

#[test]
fn a_value_that_does_not_compile_is_untestable_and_an_end_of_it_is_refused() {
    let env = with_axes(isolated(), BY_STEP, STEPS);
    let found =
        env.replay(&["bisect", "fixtures/tiny", "--over", "step", "--good", "2", "--bad", "6"]);
    assert!(found.stdout.starts_with("step 3 is the first bad one"), "{}", found.text());
    let diff = env.replay(&["diff", "fixtures/tiny", "--with", "step=1,5"]);
    assert_eq!(diff.code, Some(125), "{}", diff.text());
    let refused =
        env.replay(&["bisect", "fixtures/tiny", "--over", "step", "--old", "1", "--new", "5"]);
    assert_eq!(refused.code, Some(1), "{}", refused.text());
}

#[test]
fn a_comparison_of_two_environments_has_the_words_of_one_of_two_revisions() {
    let env = with_axes(TestEnv::new(), BY_STEP, STEPS);
    let diff = env.replay(&["diff", "fixtures/tiny", "--with", "step=2,3", "--rev", "HEAD"]);
    let heading = diff.stdout.replace(&env.repo.git(&["rev-parse", "--short", "HEAD"]), "[HEAD]");
    assert_eq!(diff.code, Some(1), "{}", diff.text());
    insta::assert_snapshot!(heading, @r#"
    tiny at step 2 at [HEAD] Name the axes
    tiny at step 3 at [HEAD] Name the axes

    outputs
      y  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.25)
         100 % of bits differ, rel. 0.25, 4 elements beyond noise
         worst at [2]: 6 -> 7.5, 1572864 x noise, 3145728 ulp
         error against the trusted shadow: 0 -> 0.25
         everywhere

    diverged: y (wrong)
    "#);
    let same = env.replay(&["diff", "fixtures/tiny", "--with", "step=1,2"]);
    assert_eq!(same.code, Some(0), "{}", same.text());
    assert!(same.stdout.contains("tiny at step 1 in the working tree"), "{}", same.text());
}

#[test]
fn compilers_do_not_matter_on_the_reference_machine() {
    let env = with_axes(
        TestEnv::new(),
        "__global__ void k(const float* x, float* y) { int i = threadIdx.x; y[i] = expf(x[i]) * 0.1f + x[i] / 3.0f; }\n\
         void run(const float* x, float* y, int n) { k<<<1, n>>>(x, y); }\n",
        "\n[axes]\ncxx = [\"./first-g++\", \"./second-g++\", \"./absent-g++\"]\n",
    );
    let path = ["g++", "clang++"].into_iter().find_map(find_in_path).expect("a C++ compiler");
    for name in ["first-g++", "second-g++"] {
        symlink(&path, env.path(name)).expect("a link");
    }
    let diff = env.replay(&["diff", "fixtures/tiny", "--with", "cxx=./first-g++,./second-g++"]);
    assert!(diff.code == Some(0) && diff.stdout.contains("identical"), "{}", diff.text());
    let words = ["--over", "cxx", "--old", "./first-g++", "--new", "./second-g++"];
    let search = env.replay(&[&["bisect", "fixtures/tiny"], &words[..]].concat());
    assert_eq!(search.code, Some(1), "{}", search.text());
    assert!(
        search.stdout.contains("shows nothing to search for")
            || search.stdout.contains("identical"),
        "{}",
        search.text()
    );
    let absent = env.replay(&["diff", "fixtures/tiny", "--with", "cxx=./first-g++,./absent-g++"]);
    assert_eq!(absent.code, Some(125), "{}", absent.text());
    assert!(absent.stderr.contains("cannot run the C++ compiler"), "{}", absent.text());
}

/// The file of a program in PATH.
fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[test]
fn what_names_no_axis_or_no_value_is_refused_with_those_that_are_there() {
    let env = with_axes(TestEnv::new(), BY_STEP, STEPS);
    let told = |words: &[&str]| env.replay(&[&["bisect", "fixtures/tiny"], words].concat()).text();
    let messages = [
        told(&["--over", "stop", "--good", "1", "--bad", "2"]),
        told(&["--over", "step", "--good", "1", "--bad", "9"]),
        told(&["--over", "step", "--good", "1", "--bad", "1"]),
        told(&["--over", "step", "--good", "1", "2", "--bad", "3"]),
        env.replay(&["diff", "fixtures/tiny", "--with", "step=1,9"]).text(),
    ];
    insta::assert_snapshot!(messages.join("\n").replace(&env.path("").display().to_string(), "[ROOT]/"), @r#"
    exit code 128
    --- stderr
    error: replay.toml has no axis `stop`, did you mean `step`?
    hint: an axis is a line below [axes] there, such as cxx = ["g++", "clang++"]: `replay help environments`

    exit code 128
    --- stderr
    error: `9` is no value of the axis `step`
    hint: it has 1, 2, 3, 4, 5, 6

    exit code 128
    --- stderr
    error: both ends are step 1
    hint: it has 1, 2, 3, 4, 5, 6

    exit code 128
    --- stderr
    error: --over takes one value at each end
    hint: `--over step --good A --bad B`, or --old and --new without a claim

    exit code 128
    --- stderr
    error: `9` is no value of the axis `step`
    hint: it has 1, 2, 3, 4, 5, 6
    "#);
}

#[test]
fn an_axis_of_nvrtc_changes_nothing_on_the_cpu_and_is_told_by_doctor() {
    let axes = "\n[axes]\nnvrtc = [\"./absent\", \"12.9\"]\n\
                [axes.fast_math]\nnvrtc_option = \"--use_fast_math\"\nvalues = [\"off\", \"on\"]\n";
    let env = with_axes(TestEnv::new(), BY_STEP, axes);
    let messages = [
        env.replay(&["diff", "fixtures/tiny", "--with", "fast_math=off,on"]).text(),
        env.replay(&["diff", "fixtures/tiny", "--with", "nvrtc=./absent,12.9"]).text(),
        env.replay(&[
            "bisect",
            "fixtures/tiny",
            "--over",
            "nvrtc",
            "--old",
            "12.9",
            "--new",
            "./absent",
        ])
        .text(),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    exit code 128
    --- stderr
    error: the axis `fast_math` changes nothing on the CPU
    hint: NVRTC compiles kernels for GPUs: add --backend cuda

    exit code 128
    --- stderr
    error: the axis `nvrtc` changes nothing on the CPU
    hint: NVRTC compiles kernels for GPUs: add --backend cuda

    exit code 128
    --- stderr
    error: the axis `nvrtc` changes nothing on the CPU
    hint: NVRTC compiles kernels for GPUs: add --backend cuda
    "#);
    let doctor = env.replay(&["doctor"]);
    assert!(
        doctor.stdout.contains("none    axis          nvrtc: no libnvrtc: looked in ././absent, "),
        "{}",
        doctor.text()
    );
}
