//! `replay shrink`: the smallest fixture with a finding, and every reason for none.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use replay::tensor::DType;

use crate::common::env::{Run, TestEnv};

const RIGHT: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                     { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";
const CALL: &str = "twice<<<1, n>>>(x, y, n);";

/// Its third element is wrong, at the second commit.
fn with_wrong_element() -> TestEnv {
    let env = TestEnv::new().with_kernel(RIGHT, CALL);
    env.repo.commit_file("k.cu", &RIGHT.replace("2 * x[i]", "(i == 2 ? 3 : 2) * x[i]"), "Faster");
    env
}

fn shrink(env: &TestEnv, words: &str) -> Run {
    let words: Vec<&str> = words.split(' ').collect();
    env.replay(&[&["shrink"], words.as_slice()].concat())
}

#[test]
fn a_demonstration_is_cut_to_three_elements_that_show_the_same() {
    let env = TestEnv::new().with_demonstration();
    let run = shrink(&env, "fixtures/step0 --rev 61b3d97 --against 37707d4");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let written = fs::read_to_string(env.path("fixtures/step0-small/fixture.toml")).unwrap();
    let undated: Vec<&str> = written.lines().filter(|line| !line.starts_with("date")).collect();
    insta::assert_snapshot!(undated.join("\n"), @r#"
    harness = "../../kernels/lm_loss/replay.toml"
    description = "A step of a model of characters: 34 items, 32 of 256 positions masked."

    [provenance]
    step = 0
    seed = 2192
    model = "synthetic, half-trained"
    command = "cargo run --example generate_step0"
    cut_from = "step0"
    cut_content = "89a25e586c1e5bfb356245ab03edb0b7b8e1212b966415dd9719c0291094ebac"
    cut = { batch = "1 of 8, slice 5", seq = "1 of 32, slice 7", vocab = "3 of 34, slices 21-23", logits = "zeros", targets = "zeros", mask = "left out" }
    finding = "grad_logits is wrong, 1864135 x noise at 61b3d97 against 37707d4"
    "#);
    let again = env.replay(&["fixtures/step0-small", "--rev", "61b3d97", "--against", "37707d4"]);
    assert!(again.stdout.ends_with("diverged: grad_logits (wrong)\n"), "{}", again.text());
    assert_eq!(env.replay(&["fixtures/step0-small", "--rev", "37707d4"]).code, Some(0));
}

#[test]
fn the_needed_slices_and_the_lengths_that_were_tried_are_told() {
    let env = with_wrong_element();
    let run = shrink(&env, "fixtures/tiny --against main~1 --rev main -o small");
    insta::assert_snapshot!(run.text(), @"
    exit code 0
    --- stdout
    tiny at 3d7125c Faster
    against c66bb0e A kernel

    finding
      before  y is wrong, 2097152 x noise
      after   y is wrong, 2097152 x noise

    sizes
      n  4 -> 3  at least 3 are needed
                 tried: 1, 2 not

    values
      x  ones
         the defect needs another number than 0; at [2] is enough
         tried: -1, 0.00097656, 1024 too; 0 not

    cut: 80 B -> 76 B, 13 tries

    replay small --rev main --against main~1
    replay small --rev main --snapshot && replay accept
    ");
    let words =
        "fixtures/tiny --against main~1 --rev main -o again --format json --report told.json";
    let json = shrink(&env, words);
    assert_eq!(json.code, Some(0));
    for text in [json.stdout, fs::read_to_string(env.path("told.json")).unwrap()] {
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["sizes"][0]["after"], 3);
        assert_eq!(document["written"]["folder"], "again");
    }
}

/// A kernel with labels, one of which is ignored.
const IGNORING: &str = "__global__ void loss(const float* x, const int* t, float* y, int n, int ignored)\n\
                        { int i = threadIdx.x; if (i < n) y[i] = t[i] == ignored ? 0 : x[i] + t[i]; }\n";

#[test]
fn the_values_that_the_defect_needs_are_told_with_those_that_were_tried() {
    let env = TestEnv::new().with_kernel(IGNORING, "loss<<<1, n>>>(x, t, y, n, ignored);");
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    let inputs = "[inputs.t]\ndtype = \"i32\"\nshape = [\"n\"]\n\
                  [inputs.ignored]\ndtype = \"i32\"\nshape = []\n[inputs.x]";
    fs::write(env.path("replay.toml"), harness.replace("[inputs.x]", inputs)).unwrap();
    let numbers: Vec<u8> = [0.5f32, 2.0, -1.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    let labels: Vec<u8> = [3i32, -100, 7].iter().flat_map(|t| t.to_le_bytes()).collect();
    let tensors = [
        ("x", DType::F32, &[3][..], &numbers[..]),
        ("t", DType::I32, &[3], &labels),
        ("ignored", DType::I32, &[], &(-100i32).to_le_bytes()),
    ];
    env.write_fixture("tiny", &tensors);
    let counted = IGNORING.replace("t[i] == ignored ? 0 : x[i] + t[i]", "x[i] + t[i]");
    env.repo.commit_file("k.cu", &counted, "Count all");
    insta::assert_snapshot!(shrink(&env, "fixtures/tiny --rev main --against main~1").text(), @"
    exit code 0
    --- stdout
    tiny at b501f3c Count all
    against 9a0c299 A kernel

    finding
      before  y is wrong, 1.28e7 x noise
      after   y is wrong, 1.31e7 x noise

    sizes
      n  3 -> 1  one is enough: slice 1
                 tried: 2 too

    values
      t  the defect needs -100, the value of ignored
         tried: -101, -99, -1, 0, 1 not; another one there and in ignored too
      x  zeros

    cut: 220 B -> 204 B, 11 tries

    replay fixtures/tiny-small --rev main --against main~1
    replay fixtures/tiny-small --rev main --snapshot && replay accept
    ");
    let json =
        shrink(&env, "fixtures/tiny --against main~1 --rev main -o fixtures/again --format json");
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    insta::assert_snapshot!(document["needs"], @r#"[{"equal_to":"ignored","input":"t","places":[[0]],"text":"the defect needs -100, the value of ignored; tried: -101, -99, -1, 0, 1 not; another one there and in ignored too","tried":[{"answer":"gone","value":-101.0},{"answer":"gone","value":-99.0},{"answer":"gone","value":-1.0},{"answer":"gone","value":0.0},{"answer":"gone","value":1.0}]}]"#);
    // Whatever is beyond 50 is clipped.
    let clipped = IGNORING.replace("x[i] + t[i]", "fminf(x[i], 50.0f) + t[i]");
    env.repo.commit_file("k.cu", &clipped, "Clip");
    let numbers: Vec<u8> = [0.5f32, 64.0, -1.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    let labels = [0; 12];
    let x = ("x", DType::F32, &[3][..], &numbers[..]);
    env.write_fixture("large", &[x, ("t", DType::I32, &[3], &labels), tensors[2]]);
    let words = "fixtures/large --rev main --against main~2";
    insta::assert_snapshot!(shrink(&env, words).text(), @"
    exit code 0
    --- stdout
    large at c512c6b Clip
    against 9a0c299 A kernel

    finding
      before  y is wrong, 1223339 x noise
      after   y is wrong, 1223339 x noise

    sizes
      n  3 -> 1  one is enough: slice 1
                 tried: 2 too

    values
      ignored  the defect needs another number than 0
               tried: -101, -99, -1, 1 too; 0 not
      x        the defect needs more than 49.351
               tried: 50.981, 52.664, 56.2, 65536 too; -64, 0, 0.0625, 1, 8, 22.627, 38.055, 49.351 not; 50.159 weaker

    cut: 220 B -> 204 B, 23 tries

    replay fixtures/large-small --rev main --against main~2
    replay fixtures/large-small --rev main --snapshot && replay accept
    ");
}

#[test]
fn a_defect_that_every_cut_loses_keeps_its_sizes_and_gets_simple_values() {
    let env = TestEnv::new().with_kernel(RIGHT, CALL);
    let kernel = RIGHT.replace("2 * x[i]", "(n == 4 ? 3 : 2) * x[i]");
    env.repo.commit_file("k.cu", &kernel, "For four");
    let run = shrink(&env, "fixtures/tiny --rev main --against main~1");
    insta::assert_snapshot!(run.text(), @"
    exit code 0
    --- stdout
    tiny at 2f1d203 For four
    against c66bb0e A kernel

    finding
      before  y is wrong, 2097152 x noise
      after   y is wrong, 2097152 x noise

    sizes
      n  4 -> 4  all are needed
                 tried: 1-3 not

    values
      x  ones
         the defect needs another number than 0; at [3] is enough
         tried: -1, 0.00097656, 1024 too; 0 not

    simplified: no slice can be left out; values are simpler, 14 tries

    replay fixtures/tiny-small --rev main --against main~1
    replay fixtures/tiny-small --rev main --snapshot && replay accept
    ");
}

#[test]
fn without_a_smaller_fixture_nothing_is_written() {
    let env = with_wrong_element();
    let refused = |words: &str| {
        let run = shrink(&env, words);
        assert!(!env.path("fixtures/tiny-small").exists() && !env.path("small").exists());
        run.text()
    };
    insta::assert_snapshot!(refused("fixtures/tiny --rev main~1 --against main~1"), @"
    exit code 1
    --- stdout
    tiny at c66bb0e A kernel
    against c66bb0e A kernel

    not cut: the replay shows no finding beside the trusted revision
    ");
    insta::assert_snapshot!(refused("fixtures/tiny --rev main~1"), @"
    exit code 1
    --- stdout
    tiny at c66bb0e A kernel

    not cut: the replay shows no finding by itself
    hint: --against REV keeps what differs from a trusted revision
    ");
    env.write_fixture("none", &[("x", DType::F32, &[0], &[])]);
    insta::assert_snapshot!(refused("fixtures/none --rev main --against main~1 -o small"), @"
    exit code 125
    --- stdout
    none at 3d7125c Faster
    against c66bb0e A kernel

    untestable: the trusted revision fails: launch error
    ");
    insta::assert_snapshot!(refused("fixtures/tiny --rev main --against main~1 --max-tries 1"), @"
    exit code 1
    --- stdout
    tiny at 3d7125c Faster
    against c66bb0e A kernel

    not cut: y is wrong, 2097152 x noise; the tries ran out, and no smaller fixture of 1 try shows it
    hint: --max-tries N allows more
    ");
    // All four are needed.
    let kernel = RIGHT.replace("2 * x[i]", "(n == 4 ? 3 : 2) * x[i]");
    env.repo.commit_file("k.cu", &kernel, "For four");
    let ones: Vec<u8> = [1f32; 4].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("tiny", &[("x", DType::F32, &[4], &ones)]);
    insta::assert_snapshot!(refused("fixtures/tiny --rev main --against main~2 --max-tries 4"), @"
    exit code 1
    --- stdout
    tiny at 5cebc53 For four
    against c66bb0e A kernel

    not cut: y is wrong, 2097152 x noise; the tries ran out, and no smaller fixture of 4 tries shows it
    hint: --max-tries N allows more
    ");
    env.repo.commit_file("k.cu", &RIGHT.replace("2 * x[i]", "3 * x[i]"), "Thrice");
    env.write_fixture("one", &[("x", DType::F32, &[1], &ones[..4])]);
    insta::assert_snapshot!(refused("fixtures/one --rev main --against main~3 -o small"), @"
    exit code 1
    --- stdout
    one at 5b30ef8 Thrice
    against c66bb0e A kernel

    not cut: y is wrong, 2097152 x noise; every smaller fixture loses it, in 1 try
    ");
    env.repo.commit_file("k.cu", "__global__ void twice(", "Break");
    insta::assert_snapshot!(refused("fixtures/tiny --rev main --against main~4"), @"
    exit code 125
    --- stdout
    tiny at fb576be Break
    against c66bb0e A kernel

    untestable: the sources cannot be translated
    ");
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_is_replayed() {
    let env = with_wrong_element();
    fs::create_dir(env.path("taken")).unwrap();
    let refused = |words: &str| {
        let run = shrink(&env, words);
        assert_eq!(run.code, Some(128));
        run.stderr
    };
    insta::assert_snapshot!(refused("fixtures/tiny -o taken"), @"
    error: taken exists and is left as it is
    hint: name another folder: -o DIR
    ");
    insta::assert_snapshot!(refused("fixtures/tiny --output z"), @"
    error: replay.toml has no output `z`
    hint: the outputs are y
    ");
    insta::assert_snapshot!(refused("fixtures/tiny --max-tries 0"), @"
    error: invalid value '0' for '--max-tries <N>': must be at least 1

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused("fixtures/tiny --max-tries many"), @"
    error: invalid value 'many' for '--max-tries <N>': not a whole number of at least 1

    For more information, try '--help'.
    ");
    fs::write(env.path("file"), "").unwrap();
    insta::assert_snapshot!(refused("fixtures/tiny -o file/small"), @"
    error: cannot make the folder file/small
    caused by: not a directory
    hint: name another folder: -o DIR
    ");
    insta::assert_snapshot!(refused("fixtures/absent"), @"
    error: there is no fixture folder fixtures/absent
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
}

#[test]
fn a_wrong_access_to_memory_is_cut_to_what_it_needs() {
    let beside = RIGHT.replace("2 * x[i]", "2 * x[n > 2 && i == n - 1 ? n : i]");
    let env = TestEnv::new().with_kernel(&beside, CALL);
    let numbers: Vec<u8> = (0u8..8).map(f32::from).flat_map(f32::to_le_bytes).collect();
    env.write_fixture("eight", &[("x", DType::F32, &[8], &numbers)]);
    insta::assert_snapshot!(shrink(&env, "fixtures/eight -o beside").text(), @"
    exit code 0
    --- stdout
    eight at the working tree

    finding
      before  the replay fails: depends on unwritten memory
      after   the replay fails: depends on unwritten memory

    sizes
      n  8 -> 3  at least 3 are needed
                 tried: 4-6 too; 1, 2 not

    values
      x  zeros

    cut: 96 B -> 76 B, 11 tries

    replay beside
    replay beside --snapshot && replay accept
    ");
    let racing = "__global__ void twice(const float* x, float* y, int n) {\n\
                  __shared__ float last;\n\
                  int i = threadIdx.x;\n\
                  last = x[i];\n\
                  __syncthreads();\n\
                  y[i] = last;\n\
                  }\n";
    env.repo.commit_file("k.cu", racing, "Share the last one");
    insta::assert_snapshot!(shrink(&env, "fixtures/eight -o racing --backend cpu").text(), @"
    exit code 0
    --- stdout
    eight at the working tree

    finding
      before  y depends on the order of blocks and threads
      after   y depends on the order of blocks and threads

    sizes
      n  8 -> 2  more than one is needed
                 tried: 3-5 too; 1 not

    values
      x  zero at 1 element
         the defect needs another number than 1 at [0]
         tried: -1, 0.001 too; 1 not
         the defect needs another number than 0 at [1]
         tried: -1, 0.00097656, 1024 too; 0 not

    cut: 96 B -> 72 B, 17 tries

    replay racing --backend cpu
    replay racing --backend cpu --snapshot && replay accept
    ");
    let unread = racing.replace("y[i] = last", "y[i] = 2 * x[i]");
    env.repo.commit_file("k.cu", &unread, "Keep the last one");
    insta::assert_snapshot!(shrink(&env, "fixtures/eight -o unread").text(), @"
    exit code 0
    --- stdout
    eight at the working tree

    finding
      before  race on shared memory last
      after   race on shared memory last

    sizes
      n  8 -> 2  more than one is needed
                 tried: 3-5 too; 1 not

    values
      x  zero at 1 element
         the defect needs another number than 1 at [0]
         tried: -1, 0.001 too; 1 not
         the defect needs another number than 0 at [1]
         tried: -1, 0.00097656, 1024 too; 0 not

    cut: 96 B -> 72 B, 17 tries

    replay unread
    replay unread --snapshot && replay accept
    ");
}

/// Whether `child` has a handler for SIGTERM: from its first finding on.
fn notes_interruptions(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    caught >> (libc::SIGTERM - 1) & 1 == 1
}

/// The end of `child`, which must come long before the time of a replay is over.
fn await_end(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("the interruption did not end it");
        }
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interruption_writes_what_was_found_though_a_replay_hangs() {
    let env = TestEnv::new().with_kernel(RIGHT, CALL);
    let hanging = RIGHT
        .replace("2 * x[i]", "(i == 2 ? 3 : 2) * x[i]")
        .replace("{ int i", "{ volatile bool hangs = n > 3 && n < 8; while (hangs) {}\n int i");
    env.repo.commit_file("k.cu", &hanging, "Hang on four to seven elements");
    let ones: Vec<u8> = [1f32; 8].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("eight", &[("x", DType::F32, &[8], &ones)]);
    let words = ["shrink", "fixtures/eight", "--against", "main~1", "--timeout", "600"];
    let mut command = env.command(&words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !notes_interruptions(&child) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before a finding");
        sleep(Duration::from_millis(20));
    }
    // The tries with four elements and more follow at once.
    sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "no replay hangs");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    assert_eq!(await_end(&mut child).signal(), Some(libc::SIGINT));
    let small = env.replay(&["fixtures/eight-small", "--against", "main~1"]);
    assert!(small.stdout.ends_with("diverged: y (wrong)\n"), "{}", small.text());
    let written = fs::read_to_string(env.path("fixtures/eight-small/fixture.toml")).unwrap();
    assert!(written.contains("cut = { n = \"3 of 8\" }"), "{written}");
}
