//! `replay step`: which module of a captured step is not well. The modules here are kernels: a step is an order of
//! fixtures, whatever replays them.

use std::fs;

use replay::tensor::DType;

use crate::common::env::{Run, TestEnv};

const RIGHT: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                     { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";
const CALL: &str = "twice<<<1, n>>>(x, y, n);";
/// What the kernel gives for four zeros, and something else.
const ZEROS: [f32; 4] = [0.0; 4];
const ONES: [f32; 4] = [1.0; 4];

fn part(folder: &str, inside: &str) -> String {
    format!("[[parts]]\nfolder = \"{folder}\"\nmodule = \"{folder}\"\nkind = \"Twice\"\n{inside}\n")
}

/// A call of a module: its folder, what it is given, and what was captured.
type Call<'a> = (&'a str, &'a [f32], &'a [f32]);

/// Writes the fixtures of `calls` into `step`; the first holds the others.
fn write_step(env: &TestEnv, step: &str, calls: &[Call<'_>], left_out: &str) {
    let parts: String = calls
        .iter()
        .enumerate()
        .map(|(place, (folder, ..))| part(folder, if place == 0 { "" } else { "inside = 0" }))
        .collect();
    let left_out = format!(
        "[[left_out]]\nmodule = \"{left_out}\"\nreason = \"it was not called in the step\"\n"
    );
    env.repo.write(
        &format!("{step}/step.toml"),
        format!("model = \"lm\"\nstep = 7\n{parts}{left_out}"),
    );
    for (name, input, output) in calls {
        let folder = env.path(&format!("{step}/{name}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("fixture.toml"), "harness = \"../../../replay.toml\"\n").unwrap();
        let write = |file: &str, tensor: &str, values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let tensors = [(tensor, DType::F32, &[values.len()][..], &bytes[..])];
            replay::fixture::write_file(&folder.join(file), &tensors, &[]).unwrap();
        };
        write("inputs.safetensors", "x", input);
        write("expected.safetensors", "y", output);
    }
}

/// A step `fixtures/s` of a model with a layer in it, each with its captured output.
fn with_step(outputs: [[f32; 4]; 2]) -> TestEnv {
    let env = TestEnv::new().with_kernel(RIGHT, CALL);
    let calls = [("model", &ZEROS[..], &outputs[0][..]), ("layer", &ZEROS[..], &outputs[1][..])];
    write_step(&env, "fixtures/s", &calls, "drop");
    env
}

fn step(env: &TestEnv, words: &str) -> Run {
    let words: Vec<&str> = words.split(' ').collect();
    env.replay(&[&["step"], words.as_slice()].concat())
}

#[test]
fn the_module_whose_captured_output_its_code_does_not_give_is_named_and_what_holds_it_is_not() {
    let env = with_step([ONES, ONES]);
    insta::assert_snapshot!(step(&env, "fixtures/s").text(), @r"
    exit code 1
    --- stdout
    fixtures/s: step 7 of lm, 2 calls of modules, at the working tree

      module   forward          backward
      model    not as captured  -         it holds layer
        layer  not as captured  -         found

    findings
      layer  Twice
        y is not as captured, 8388608 x noise

    left out
      drop  it was not called in the step

    found: layer: y is not as captured, 8388608 x noise

    replay fixtures/s/layer
    replay step fixtures/s --extract layer
    ");
}

#[test]
fn a_step_as_captured_is_well() {
    let env = with_step([ZEROS, ZEROS]);
    insta::assert_snapshot!(step(&env, "fixtures/s").text(), @r"
    exit code 0
    --- stdout
    fixtures/s: step 7 of lm, 2 calls of modules, at the working tree

      module   forward      backward
      model    as captured  -
        layer  as captured  -

    left out
      drop  it was not called in the step

    well: each module gives what was captured as far as it should, and its gradients are those of its forward
    ");
}

#[test]
fn the_module_in_which_two_revisions_part_is_named() {
    let env = with_step([ZEROS, ZEROS]);
    env.repo.commit_file("k.cu", &RIGHT.replace("2 * x[i]", "2 * x[i] + 1"), "Faster");
    insta::assert_snapshot!(step(&env, "fixtures/s --against main~1 --module layer").text(), @r"
    exit code 1
    --- stdout
    fixtures/s: step 7 of lm, 1 call of modules, at the working tree against c66bb0e

      module  forward   backward
      layer   diverged  -         found

    findings
      layer  Twice
        y is wrong, 8388608 x noise

    left out
      drop  it was not called in the step

    found: layer: y is wrong, 8388608 x noise

    replay bisect fixtures/s/layer --good main~1 --bad HEAD
    replay step fixtures/s --extract layer
    ");
    // Another revision may give something else than the captured one.
    let json = step(&env, "fixtures/s --format json --report told.html --report told.json");
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["schema"], "replay-step/1");
    assert_eq!(document["parts"][1]["inside"], 0);
    let page = fs::read_to_string(env.path("told.html")).unwrap();
    assert!(page.contains("layer") && page.contains("it was not called in the step"));
    assert!(env.path("told.json").exists());
}

#[test]
fn the_module_in_which_two_runs_part_is_named_and_what_follows_its_inputs_is_not() {
    let env = TestEnv::new().with_kernel(RIGHT, CALL);
    let [ones, twos, fours]: [&[f32]; 3] = [&[1.0; 4], &[2.0; 4], &[4.0; 4]];
    let [odd, after]: [&[f32]; 2] = [&[3.0; 4], &[6.0; 4]];
    let monday = [("model", ones, twos), ("first", ones, twos), ("last", twos, fours)];
    write_step(&env, "fixtures/monday", &monday, "drop");
    let tuesday = [("model", ones, twos), ("first", ones, odd), ("last", odd, after)];
    write_step(&env, "fixtures/tuesday", &tuesday, "drop");
    let words = "fixtures/tuesday --against-run fixtures/monday";
    insta::assert_snapshot!(step(&env, words).text(), @r"
    exit code 1
    --- stdout
    fixtures/tuesday: step 7 of lm, 3 calls of modules, against step 7 in fixtures/monday, with the noise of the working tree

      module   forward             backward
      model    identical           -
        first  parts               -         found
        last   follows its inputs  -

    findings
      first  Twice
        y parts from that of fixtures/monday, 2097152 x noise; the code gives that of fixtures/monday

    left out
      drop  it was not called in the step

    found: first: y parts from that of fixtures/monday, 2097152 x noise; the code gives that of fixtures/monday

    replay fixtures/tuesday/first
    replay step fixtures/tuesday --extract first
    ");
    let json = step(&env, &format!("{words} --format json --report told.html"));
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["first_forward"], 1);
    assert_eq!(document["against_run"]["fixture"], "fixtures/monday");
    let last = &document["parts"][2];
    assert_eq!(
        (&last["blame"], &last["forward"]),
        (&"follows_inputs".into(), &"follows its inputs".into())
    );
    assert!(last["forward_distance"].as_f64().unwrap() > 8.0);
    let page = fs::read_to_string(env.path("told.html")).unwrap();
    let [findings, tree] = ["<h2>Findings</h2>", "class=\"tree\""].map(|text| page.find(text));
    assert!(findings.unwrap() < tree.unwrap());
    assert!(page.contains("<li class=\"part own\" id=\"part-1\">"));
    assert!(page.contains("<li class=\"part muted\" id=\"part-2\">"));
    // One run beside itself.
    let same = step(&env, "fixtures/monday --against-run fixtures/monday").text();
    assert!(
        same.contains("well: no module differs beyond noise from that of fixtures/monday"),
        "{same}"
    );
}

#[test]
fn what_two_runs_do_not_have_in_common_is_said_and_does_not_fail() {
    let env = TestEnv::new().with_kernel(RIGHT, CALL);
    let [two, three]: [&[f32]; 2] = [&[0.0; 2], &[0.0; 3]];
    let monday = [("model", two, two), ("a", two, two), ("b", two, two), ("drop", two, two)];
    write_step(&env, "fixtures/monday", &monday, "new");
    let tuesday = [("model", three, three), ("b", two, two), ("a", two, two), ("new", two, two)];
    write_step(&env, "fixtures/tuesday", &tuesday, "drop");
    let words = "fixtures/tuesday --against-run fixtures/monday";
    insta::assert_snapshot!(step(&env, words).text(), @r"
    exit code 0
    --- stdout
    fixtures/tuesday: step 7 of lm, 4 calls of modules, against step 7 in fixtures/monday, with the noise of the working tree

      module  forward         backward
      model   not comparable  -
        b     identical       -
        a     identical       -
        new   only here       only here

    left out
      drop  it was not called in the step

    not comparable
      model  y: f32[3] instead of f32[2]

    only here
      new  left out in fixtures/monday: it was not called in the step

    only in fixtures/monday
      drop  left out in fixtures/tuesday: it was not called in the step

    another order
      the calls of fixtures/monday come in another order from b on

    well: no module differs beyond noise from that of fixtures/monday; 2 calls not compared as a whole
    ");
}

#[test]
fn where_the_code_cannot_be_replayed_nothing_is_said_of_the_noise() {
    let env = TestEnv::new().with_kernel("__global__ void twice(", CALL);
    write_step(&env, "fixtures/monday", &[("a", &ONES, &ONES), ("b", &ONES, &ONES)], "drop");
    write_step(&env, "fixtures/tuesday", &[("a", &ONES, &ONES), ("b", &ONES, &ZEROS)], "drop");
    let told = step(&env, "fixtures/tuesday --against-run fixtures/monday");
    assert_eq!(told.code, Some(125));
    assert!(told.stdout.contains("    b     differs, noise unknown  -"), "{}", told.text());
    assert!(told.stdout.contains("a       identical"), "{}", told.text());
}

#[test]
fn a_module_becomes_a_fixture_of_its_own() {
    let env = with_step([ZEROS, ONES]);
    let run = step(&env, "fixtures/s --extract layer");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "fixtures/s-layer\n"));
    let again = env.replay(&["fixtures/s-layer", "--rev", "main"]);
    assert!(again.stdout.contains("y  not as captured"), "{}", again.text());
    insta::assert_snapshot!(step(&env, "fixtures/s --extract layer").text(), @r"
    exit code 128
    --- stderr
    error: fixtures/s-layer exists and is left as it is
    hint: name another folder: -o DIR
    ");
}

#[test]
fn each_fault_of_the_request_is_told() {
    let env = with_step([ZEROS, ZEROS]);
    let told = |words: &str| step(&env, words).text();
    insta::assert_snapshot!(told("fixtures/none"), @r"
    exit code 128
    --- stderr
    error: there is no folder fixtures/none
    hint: name the folder of a step, with step.toml in it
    ");
    insta::assert_snapshot!(told("fixtures/s/layer"), @r"
    exit code 128
    --- stderr
    error: fixtures/s/layer is not a step: it holds no step.toml
    hint: it is a fixture: replay fixtures/s/layer
    ");
    insta::assert_snapshot!(told("fixtures/s --extract later"), @r"
    exit code 128
    --- stderr
    error: the step has no module `later`
    hint: did you mean `layer`?
    ");
    insta::assert_snapshot!(told("fixtures/s --extract drop"), @r"
    exit code 128
    --- stderr
    error: the step has no module `drop`
    hint: it was left out: it was not called in the step
    ");
    insta::assert_snapshot!(told("fixtures/s --module nothing.*"), @r"
    exit code 128
    --- stderr
    error: the step has no module `nothing.*`
    hint: `replay step STEP --format json` names the modules
    ");
    insta::assert_snapshot!(told("fixtures/s --module [x"), @r"
    exit code 128
    --- stderr
    error: `[x` is no pattern of modules: invalid range pattern
    ");
    insta::assert_snapshot!(told("fixtures/s -o there"), @r"
    exit code 128
    --- stderr
    error: the following required arguments were not provided:
      --extract <MODULE>

    Usage: replay step --extract <MODULE> --output-dir <DIR> <STEP>

    For more information, try '--help'.
    ");
    write_step(&env, "fixtures/other", &[("lm", &ZEROS, &ZEROS)], "drop");
    insta::assert_snapshot!(told("fixtures/s --against-run fixtures/other"), @r"
    exit code 128
    --- stderr
    error: fixtures/other has none of the calls of this step
    hint: calls are the same that have the same folder
    ");
    insta::assert_snapshot!(told("fixtures/s --against main --against-run fixtures/other"), @r"
    exit code 128
    --- stderr
    error: the argument '--against <REV>' cannot be used with '--against-run <STEP>'

    Usage: replay step --against <REV> <STEP>

    For more information, try '--help'.
    ");
    fs::remove_dir_all(env.path("fixtures/s/layer")).unwrap();
    insta::assert_snapshot!(told("fixtures/s"), @r"
    exit code 128
    --- stderr
    error: there is no fixture folder fixtures/s/layer
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
    env.repo.write("fixtures/s/step.toml", "model = 3");
    insta::assert_snapshot!(told("fixtures/s"), @r"
    exit code 128
    --- stderr
    error: fixtures/s/step.toml is not the order of a step
    caused by: TOML parse error at line 1, column 9
        |
      1 | model = 3
        |         ^
      invalid type: integer `3`, expected a string
    hint: capture.model writes it; `replay help page step` says what it holds
    ");
}
