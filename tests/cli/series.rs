//! A run as a series of steps: the shipped one, and steps that do not fit together.

use std::fs;

use replay::tensor::DType;
use serde_json::Value;

use crate::common::env::TestEnv;
use crate::common::schema;

/// An environment with the shipped run.
fn shipped() -> TestEnv {
    TestEnv::new().with_folders(&["fixtures/run", "kernels/lm_loss"])
}

/// The findings in `text`.
fn findings(text: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != "findings").skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).map(str::trim).collect();
    lines.join("\n")
}

#[test]
fn the_shipped_run_is_read_without_a_kernel() {
    let env = shipped();
    let run = env.replay(&["series", "fixtures/run"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 0
    --- stdout
    20 steps, step0 to step19, as captured

    findings
      unusual  gradients are clipped at every step, which removes 23 % of a norm of 0.519 (medians; at most 66 %), and whether the gradient matches its loss, a capture does not tell: --rev REV does

    loss                                   first, last; median, least to most
      loss          █▅▆▆▅▃▃▄▄▂▃▄▂▁▁▁▁▁▁▁   4, 2.99; 3.22, 2.88 to 4

    learning rate                          first, last; median, least to most
      lr            ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅   0.02 at every step

    clipping: gradients are multiplied by  first, last; median, least to most
      factor        ▁▃▃▄▄▇▆██▆▇▆█▇▇▇▅▆▄▅   0.341, 0.716; 0.77, 0.341 to 0.943

    gradient norm                          first, last; median, least to most
      all           █▄▄▃▃▁▁▁▁▁▁▂▁▁▁▁▃▂▃▂   1.17, 0.559; 0.519, 0.424 to 1.17
        embed       █▄▃▃▃▁▁▁▁▁▁▂▁▁▁▁▃▂▂▁   0.642, 0.248; 0.249, 0.204 to 0.642
        layers      █▅▅▃▄▁▁▁▁▁▂▂▁▁▂▁▂▁▃▂   0.815, 0.371; 0.34, 0.257 to 0.815
          layers.0  █▅▆▄▅▃▂▁▁▂▂▃▁▁▂▂▃▃▄▃   0.46, 0.238; 0.224, 0.136 to 0.46
          layers.1  █▄▄▄▃▁▁▂▁▁▂▂▁▁▂▁▃▁▁▁   0.538, 0.174; 0.179, 0.128 to 0.538
          layers.2  █▅█▄▅▂▁▁▁▂▂▂▁▃▂▂▂▁▄▃   0.403, 0.226; 0.178, 0.124 to 0.403
        head        █▅▄▂▂▁▃▁▁▃▁▁▁▂▁▁▃▂▄▃   0.551, 0.336; 0.331, 0.262 to 0.551
        logits      █▇▅▆▅▃▃▄▃▂▄▄▂▁▁▁▂▂▁▂   0.172, 0.161; 0.163, 0.158 to 0.172

    update-to-weight ratio                 first, last; median, least to most
      embed         █▇▆▄▄▃▃▃▃▂▂▂▁▁▁▁▁▁▁▁   0.0282, 0.0145; 0.0169, 0.0145 to 0.0282
      layers.0      █▇▅▄▃▄▃▃▂▂▂▂▂▁▁▁▁▁▁▁   0.0818, 0.0261; 0.036, 0.0261 to 0.0818
      layers.1      █▇▅▅▄▃▂▂▂▁▁▂▂▁▁▁▁▁▁▁   0.0844, 0.035; 0.042, 0.035 to 0.0844
      layers.2      █▇▅▄▃▃▃▃▂▂▂▂▂▂▂▂▁▁▁▁   0.086, 0.0262; 0.0374, 0.0262 to 0.086
      head          █▆▄▄▃▃▃▃▃▃▃▃▃▂▂▂▂▁▁▁   0.0423, 0.0272; 0.0316, 0.0272 to 0.0423

    Adam's step / learning rate            first, last; median, least to most
      embed         ▁██▇▆▆▆▆▆▆▅▅▅▅▅▅▅▅▅▅   0, 0.366; 0.41, 0 to 0.718
      layers.0      ▁█▇▆▅▅▅▅▅▄▄▄▄▄▄▄▄▃▃▃   0, 0.353; 0.451, 0 to 1
      layers.1      ▁█▇▆▆▅▅▅▅▅▄▄▄▅▄▅▄▄▄▄   0, 0.487; 0.504, 0 to 1
      layers.2      ▁█▇▆▅▅▅▅▄▄▄▄▄▄▄▄▄▄▄▄   0, 0.393; 0.466, 0 to 1
      head          ▁██▇▇▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆   0, 0.673; 0.717, 0 to 1

    data
      targets are the tokens shifted by one at 20 of 20 steps

    captured: nothing is wrong, 1 thing to look at
    ");
    // The threshold of the user wins over the captured one.
    let run = env.replay(&["series", "fixtures/run", "--clip", "10"]);
    assert_eq!(findings(&run.stdout), "");
    assert_eq!(run.code, Some(0));
}

#[test]
fn the_culprit_shows_from_the_first_step() {
    let env = shipped();
    let at = |revision: &str, more: &[&str]| {
        let first = ["series", "fixtures/run/step0", "fixtures/run/step19", "--rev", revision];
        env.replay(&[&first, more].concat())
    };
    let culprit = at("61b3d97", &["--against", "37707d4"]);
    assert_eq!(culprit.code, Some(1), "{}", culprit.text());
    insta::assert_snapshot!(findings(&culprit.stdout), @"
    wrong    grad_logits does not match its loss at both steps: worst rel. 0.36 (noise 3.1e-9)
    wrong    grad_logits parts from 37707d4 beyond noise at both steps: rel. 0.2 at step 0, 0.22 at step 19, at most 0.22; wrong, not imprecise
    unusual  gradients are clipped at both steps, which removes 47 % of a norm of 0.867 (medians; at most 66 %), and the gradient does not match its loss: mend that first
    ");
    let good = at("534c0b0", &[]);
    insta::assert_snapshot!(findings(&good.stdout), @"
    unusual  gradients are clipped at both steps, which removes 47 % of a norm of 0.867 (medians; at most 66 %), and the gradient matches its loss: it is large, not wrong
    note     grad_logits is not as captured at both steps: rel. 0.19 at step 0, 0.21 at step 19, at most 0.21
    ");
    // What is known is neither replayed nor compared again.
    let again = at("61b3d97", &["--against", "37707d4", "-v"]);
    assert_eq!(again.stdout, culprit.stdout);
    for work in [" run ", " compile ", " compare ", " gradcheck ", " measure "] {
        assert!(!again.stderr.contains(work), "{work}: {}", again.stderr);
    }
}

#[test]
fn the_document_keeps_to_its_schema_and_the_table_has_a_line_for_each_step() {
    let env = shipped();
    let steps = ["series", "fixtures/run/step0", "fixtures/run/step1"];
    let json = |more: &[&str]| -> Value {
        let run = env.replay(&[&steps, more, &["--format", "json"]].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.text()))
    };
    for more in [&[][..], &["--rev", "61b3d97", "--against", "37707d4"], &["fixtures/none"]] {
        let document = json(more);
        assert_eq!(schema::problems(&document), [""; 0], "{more:?}");
        assert_eq!(document["steps"].as_array().map(Vec::len), Some(2));
    }
    let mut wrong = json(&[]);
    wrong["steps"][0]["surprise"] = Value::Bool(true);
    wrong["findings"][0]["severity"] = Value::from("bad");
    assert_eq!(schema::problems(&wrong).len(), 2);
    let table = env.replay(&[&steps[..], &["--format", "csv"]].concat()).stdout;
    let lines: Vec<Vec<String>> = table.lines().map(cells).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let column = |name: &str| lines[0].iter().position(|cell| *cell == name).expect("a column");
    assert_eq!(lines[2][column("fixture")], "step1");
    assert_eq!(lines[2][column("step")], "1");
    assert!(lines[1][column("gradient_norm:layers.0")].parse::<f64>().unwrap() > 0.0);
    let command = "replay series fixtures/run/step0 fixtures/run/step1 --format csv";
    assert_eq!(lines[2][column("run:command")], command);
    assert_eq!(lines[1].last(), lines[2].last());
    assert_eq!(lines[0].last().map(String::as_str), Some("run:date"));
}

/// The cells of a line of comma-separated values.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("a line has a cell").push(letter),
        }
    }
    cells
}

/// Steps of the harness at the root, with vectors of these lengths.
fn steps(env: &TestEnv, steps: &[(&str, usize)]) {
    for (name, length) in steps {
        let bytes: Vec<u8> = (0..*length).flat_map(|at| (at as f32).to_le_bytes()).collect();
        env.write_fixture(name, &[("x", DType::F32, &[*length], &bytes)]);
    }
}

fn tiny() -> TestEnv {
    let kernel =
        "void f(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = x[i]; }";
    TestEnv::new().with_kernel(kernel, "f(x, y, n);")
}

#[test]
fn a_step_that_is_broken_is_named_and_the_others_go_on() {
    let env = tiny();
    fs::remove_dir_all(env.path("fixtures/tiny")).unwrap();
    steps(&env, &[("s9", 4), ("s10", 7), ("s11", 4)]);
    fs::write(env.path("fixtures/s11/inputs.safetensors"), "no tensors").unwrap();
    fs::create_dir(env.path("fixtures/s12")).unwrap();
    insta::assert_snapshot!(env.replay(&["series", "fixtures"]).text(), @"
    exit code 128
    --- stdout
    2 steps, s9 to s10, as captured

    no tensor is known to be a loss, a gradient or a parameter: [roles] in the harness says so

    captured: nothing is wrong or unusual; 1 step not read
    --- stderr
    skipped fixtures/s12: it holds no fixture.toml
    error: the header of fixtures/s11/inputs.safetensors claims to have 8030883942550761326 bytes, more than the format allows
    hint: is it a safetensors file at all?
    ");
    insta::assert_snapshot!(env.replay(&["series", "fixtures/s12"]).text(), @"
    exit code 128
    --- stderr
    error: fixtures/s12 is not a fixture: it holds no fixture.toml
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
    insta::assert_snapshot!(env.replay(&["series", "fixtures/*"]).text(), @"
    exit code 128
    --- stderr
    error: there is no fixture folder fixtures/*
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
    insta::assert_snapshot!(env.replay(&["series", "fixtures/s9", "--clip", "0"]).text(), @"
    exit code 128
    --- stderr
    error: invalid value '0' for '--clip <NORM>': must be more than 0

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(env.replay(&["series"]).text(), @"
    exit code 128
    --- stderr
    error: the following required arguments were not provided:
      <FIXTURE>...

    Usage: replay series <FIXTURE>...

    For more information, try '--help'.
    ");
}

#[test]
fn steps_of_different_harnesses_are_no_series() {
    let env = tiny();
    steps(&env, &[("s1", 4), ("s2", 4)]);
    let other = fs::read_to_string(env.path("replay.toml")).unwrap();
    fs::write(env.path("other.toml"), format!("# Another.\n{other}")).unwrap();
    fs::write(env.path("copy.toml"), &other).unwrap();
    let names = |harness: &str| {
        let text = format!("harness = \"../../{harness}\"\n");
        fs::write(env.path("fixtures/s2/fixture.toml"), text).unwrap();
        env.replay(&["series", "fixtures/s1", "fixtures/s2"])
    };
    insta::assert_snapshot!(names("other.toml").text(), @"
    exit code 128
    --- stderr
    error: fixtures/s1 and fixtures/s2 are steps of different harnesses: replay.toml and other.toml
    hint: a series is of one function: name the steps of one harness
    ");
    assert_eq!(names("copy.toml").code, Some(0));
}

#[test]
fn the_provenance_orders_steps_and_tells_what_is_left_out() {
    let env = tiny();
    let run = [("e", 1), ("d", 2), ("c", 3), ("b", 5), ("a", 6), ("f", 7), ("g", 7), ("h", 8)];
    for (name, number) in run {
        steps(&env, &[(name, 4)]);
        let text = format!("harness = \"../../replay.toml\"\n[provenance]\nstep = {number}\n");
        fs::write(env.path(&format!("fixtures/{name}/fixture.toml")), text).unwrap();
    }
    fs::remove_dir_all(env.path("fixtures/tiny")).unwrap();
    insta::assert_snapshot!(env.replay(&["series", "fixtures", "fixtures/a"]).text(), @"
    exit code 0
    --- stdout
    8 steps, e to h, as captured

    findings
      note     1 step is left out: 4
      note     there are several steps with the same number: 7

    no tensor is known to be a loss, a gradient or a parameter: [roles] in the harness says so

    captured: nothing is wrong or unusual
    ");
}

#[test]
fn a_revision_that_fails_or_does_not_build_is_a_finding() {
    let env = tiny();
    steps(&env, &[("s1", 4), ("s2", 5)]);
    fs::remove_dir_all(env.path("fixtures/tiny")).unwrap();
    env.repo.write("k.cu", "#include <stdlib.h>\nvoid f(const float*, float*, int) { exit(3); }");
    env.repo.commit("Fail");
    env.repo.write("k.cu", "this does not compile");
    env.repo.commit("Break");
    let at = |revision: &str| env.replay(&["series", "fixtures", "--rev", revision]);
    let failed = at("HEAD~1");
    let broken = at("HEAD");
    insta::assert_snapshot!(findings(&failed.stdout), @"wrong    the replay fails at both steps: exit: the code called exit(3) before the call returned");
    // What the compiler says is its own.
    let told = findings(&broken.stdout);
    let told = told.split(": k.cu").next().unwrap_or_default();
    insta::assert_snapshot!(told, @"note     the revision cannot be replayed at both steps: the sources do not compile");
    assert_eq!((failed.code, broken.code), (Some(1), Some(125)));
}

#[test]
fn a_folder_with_a_run_is_replayed_as_one_heading_with_a_line_for_what_is_not_well() {
    let env = shipped();
    for step in 2..20 {
        fs::remove_dir_all(env.path(&format!("fixtures/run/step{step}"))).unwrap();
    }
    insta::assert_snapshot!(env.replay(&["fixtures", "--rev", "61b3d97"]).text(), @"
    exit code 1
    --- stdout
    run at 61b3d97 on cpu: 2 steps: 2 diverged
      grad_logits does not match d loss / d logits: 8 directional derivatives, worst rel. 0.36 (noise 3.1e-9), at [3, 2, 24] 0.00854439 instead of 0.0037243, at both steps
      loss, grad_logits are as captured, at both steps
      hint: `replay series` shows the run, --full each step whole
    ");
    let named = env.replay(&["fixtures/run/step0", "fixtures/run/step1", "--rev", "61b3d97"]);
    assert!(named.stdout.starts_with("step0 at 61b3d97 on cpu: diverged: "), "{}", named.text());
    let full = env.replay(&["fixtures/run", "--rev", "61b3d97", "--full"]);
    assert_eq!(full.stdout.matches("\noutputs\n").count(), 2, "{}", full.text());
}
