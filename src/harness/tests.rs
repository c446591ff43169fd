use super::*;

const SMALL: &str = r#"
repository = "../history.bundle"
sources = ["./src/loss.cu"]
include = ["include", "."]
defines = ["NDEBUG", "BLOCK=256"]
call = "f(logits, mask, grad_logits, &loss, batch, vocab);"

[inputs.logits]
dtype = "f32"
shape = ["batch", "vocab"]

[inputs.mask]
dtype = "u8"
shape = ["batch"]
optional = true

[outputs.grad_logits]
dtype = "f32"
shape = ["batch", "vocab"]
gradient_of = "logits"

[outputs.loss]
dtype = "f32"
shape = []
"#;

fn parse(text: &str) -> Result<Harness, HarnessError> {
    Harness::parse(text, Path::new("kernels/replay.toml"))
}

/// `SMALL` with one replacement, refused; the message and the hint.
#[track_caller]
fn refused(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "the harness holds {from:?}");
    let error = parse(&SMALL.replacen(from, to, 1)).expect_err("the harness is refused");
    error.hint().map_or(error.to_string(), |hint| format!("{error}\nhint: {hint}"))
}

#[test]
fn a_complete_harness_is_read_in_its_order() {
    let harness = parse(SMALL).unwrap();
    assert_eq!(harness.repository.as_deref(), Some(Path::new("kernels/../history.bundle")));
    assert_eq!(harness.sources, [SourcePath::from("src/loss.cu")]);
    assert_eq!(harness.include, ["include", "."].map(SourcePath::from));
    assert_eq!(harness.inputs.keys().collect::<Vec<_>>(), ["logits", "mask"]);
    assert_eq!(harness.size_names().collect::<Vec<_>>(), ["batch", "vocab"]);
    assert_eq!(harness.outputs["grad_logits"].of.as_deref(), Some("loss"));
    assert_eq!(harness.outputs["loss"].of, None);
    assert!(harness.inputs["mask"].optional);
}

#[test]
fn several_calls_keep_their_order() {
    let harness =
        parse(&SMALL.replace("call = ", "call = [\"g();\", ").replace(");\"\n", ");\"]\n"));
    assert_eq!(harness.unwrap().calls[0].text, "g();");
}

#[test]
fn a_gradient_without_a_loss_is_no_error_but_differentiates_nothing() {
    let text = SMALL.replace("[outputs.loss]\ndtype = \"f32\"", "[outputs.loss]\ndtype = \"i32\"");
    assert_eq!(parse(&text).unwrap().outputs["grad_logits"].of, None);
}

#[test]
fn a_missing_file_is_named() {
    let error = Harness::load(Path::new("no/such/replay.toml")).unwrap_err();
    insta::assert_snapshot!(error, @"failed to read no/such/replay.toml");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn broken_toml_points_at_the_line() {
    let error = parse("sources = [\"a\"\ncall 3").unwrap_err();
    insta::assert_snapshot!(error, @"kernels/replay.toml:2:1 is not valid TOML");
    let source = std::error::Error::source(&error).unwrap().to_string();
    insta::assert_snapshot!(source, @"missing comma between array elements, expected `,`");
    insta::assert_snapshot!(error.spot().unwrap().excerpt(), @"
      |
    2 | call 3
      | ^
    ");
}

#[test]
fn every_error_at_a_place_shows_the_line() {
    let excerpt = |from: &str, to: &str| {
        let error = parse(&SMALL.replacen(from, to, 1)).expect_err("the harness is refused");
        error.spot().expect("a place").excerpt().to_owned()
    };
    let shown = [
        excerpt("sources =", "souces ="),
        excerpt("dtype = \"u8\"", ""),
        excerpt("optional = true", "optional = 1"),
        excerpt("\"f32\"", "\"float32\""),
        excerpt("inputs.mask", "inputs.batch"),
        excerpt("\"logits\"", "\"logit\""),
        excerpt("[\"batch\"]", "[9223372036854775808]"),
    ];
    insta::assert_snapshot!(shown.join("\n"), @r#"
      |
    3 | souces = ["./src/loss.cu"]
      | ^^^^^^
       |
    12 | [inputs.mask]
       |         ^^^^
       |
    15 | optional = 1
       |            ^
      |
    9 | dtype = "float32"
      |         ^^^^^^^^^
       |
    12 | [inputs.batch]
       |         ^^^^^
       |
    17 | [outputs.grad_logits]
       |          ^^^^^^^^^^^
       |
    14 | shape = [9223372036854775808]
       |          ^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_call_knows_where_it_stands() {
    let place = |call: &str| {
        let text = SMALL.replace("\"f(logits, mask, grad_logits, &loss, batch, vocab);\"", call);
        let call = parse(&text).unwrap().calls.pop().unwrap();
        (call.line, call.column, call.written)
    };
    assert_eq!(place("\"f();\""), (6, 9, "call = \"f();\"".to_owned()));
    assert_eq!(place("'''f();'''"), (6, 11, "call = '''f();'''".to_owned()));
    let below = place("\"\"\"\r\nf();\n  g();\n\"\"\"");
    assert_eq!(below, (7, 1, "f();\n  g();\n\"\"\"".to_owned()));
    assert_eq!(place("[\n  \"f();\",\n  \"g();\"]"), (8, 4, "  \"g();\"]".to_owned()));
}

#[test]
fn what_is_no_text_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replay.toml");
    let told = |path: &Path| {
        let error = Harness::load(path).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        [Some(error.to_string()), cause, error.hint()]
            .into_iter()
            .flatten()
            .map(|line| line.replace(&format!("{}/", folder.path().display()), ""))
            .collect::<Vec<_>>()
            .join("\n")
    };
    std::fs::create_dir(&path).unwrap();
    insta::assert_snapshot!(told(&path), @"
    failed to read replay.toml
    it is a folder, not a file
    ");
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\n").unwrap();
    insta::assert_snapshot!(told(&path), @"
    replay.toml is a Git LFS pointer, not the file
    fetch the file: git lfs pull
    ");
    std::fs::write(&path, b"sources = [\n\"\xff\"]").unwrap();
    insta::assert_snapshot!(told(&path), @"
    failed to read replay.toml
    line 2 is not UTF-8
    ");
}

#[test]
fn thousands_of_names_are_read_in_no_time() {
    use std::fmt::Write;
    let mut text = "sources = [".to_owned();
    let mut tensors = String::new();
    let mut sizes = String::new();
    for number in 0..20_000 {
        let _ = write!(text, "\"s{number}.cu\", ");
        let _ = writeln!(tensors, "[inputs.x{number}]\ndtype = \"f32\"\nshape = [\"n{number}\"]");
        let _ = writeln!(sizes, "[outputs.y{number}]\ndtype = \"f32\"\nshape = [\"n{number}\"]");
    }
    text += &format!("]\ncall = \"f();\"\n{tensors}{sizes}");
    let begun = std::time::Instant::now();
    assert_eq!(parse(&text).unwrap().outputs.len(), 20_000);
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn a_name_without_end_is_refused_at_once() {
    let begun = std::time::Instant::now();
    let text = refused("sources =", &format!("{} =", "s".repeat(4 << 20)));
    assert!(text.starts_with("unknown key"));
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn unknown_keys_are_refused_at_every_level() {
    insta::assert_snapshot!(refused("sources =", "souces ="), @"
    unknown key `souces` at kernels/replay.toml:3:1, did you mean `sources`?
    hint: the keys known there are repository, sizes, inputs, outputs, program, roles, sources, include, overlay, defines, undefine, setup, call, tree, preload, env, precision, widen_casts, build, identity
    ");
    insta::assert_snapshot!(refused("optional", "optinal"), @"
    unknown key `inputs.mask.optinal` at kernels/replay.toml:15:1, did you mean `optional`?
    hint: the keys known there are dtype, shape, optional
    ");
    insta::assert_snapshot!(refused("gradient_of", "tolerance"), @"
    unknown key `outputs.grad_logits.tolerance` at kernels/replay.toml:20:1
    hint: the keys known there are dtype, shape, gradient_of, of, upstream, non_finite, init
    ");
}

#[test]
fn missing_keys_are_named() {
    insta::assert_snapshot!(refused("sources = [\"./src/loss.cu\"]", ""), @"missing key `sources` in kernels/replay.toml");
    insta::assert_snapshot!(refused("dtype = \"u8\"", ""), @"missing key `inputs.mask.dtype` in kernels/replay.toml");
    insta::assert_snapshot!(refused("shape = []", ""), @"missing key `outputs.loss.shape` in kernels/replay.toml");
    insta::assert_snapshot!(parse("sources = [\"a\"]\ncall = \"f();\"").unwrap_err(), @"missing key `outputs` in kernels/replay.toml");
    insta::assert_snapshot!(parse("sources = [\"a\"]").unwrap_err(), @"missing key `call` in kernels/replay.toml");
}

#[test]
fn wrong_types_are_named() {
    insta::assert_snapshot!(refused("[\"./src/loss.cu\"]", "\"src/loss.cu\""), @"`sources` at kernels/replay.toml:3:11 must be a list of strings, not a string");
    insta::assert_snapshot!(refused("\"NDEBUG\"", "1"), @"`defines[0]` at kernels/replay.toml:5:12 must be a string, not an integer");
    insta::assert_snapshot!(refused("[\"batch\", \"vocab\"]", "[-1]"), @"`inputs.logits.shape[0]` at kernels/replay.toml:10:10 must be an integer of at least 0, not a negative integer");
    insta::assert_snapshot!(refused("optional = true", "optional = 1"), @"`inputs.mask.optional` at kernels/replay.toml:15:12 must be true or false, not an integer");
    let table = parse("sources = [\"a\"]\ncall = \"f();\"\n[inputs]\nx = 3").unwrap_err();
    insta::assert_snapshot!(table, @"`inputs.x` at kernels/replay.toml:4:5 must be a table, not an integer");
    let call = parse("sources = [\"a\"]\ncall = 1.5").unwrap_err();
    insta::assert_snapshot!(call, @"`call` at kernels/replay.toml:2:8 must be a string or a list of strings, not a float");
}

#[test]
fn empty_values_are_refused() {
    insta::assert_snapshot!(refused("[\"./src/loss.cu\"]", "[]"), @"`sources` at kernels/replay.toml:3:11 is empty");
    insta::assert_snapshot!(refused("\"f(logits, mask, grad_logits, &loss, batch, vocab);\"", "\" \""), @"`call` at kernels/replay.toml:6:8 is empty");
    insta::assert_snapshot!(refused("\"f(logits, mask, grad_logits, &loss, batch, vocab);\"", "[]"), @"`call` at kernels/replay.toml:6:8 is empty");
    insta::assert_snapshot!(refused("\"f(logits, mask, grad_logits, &loss, batch, vocab);\"", "[\"f();\", \"\"]"), @"`call[1]` at kernels/replay.toml:6:17 is empty");
}

#[test]
fn dtypes_of_other_libraries_are_recognised() {
    insta::assert_snapshot!(refused("\"f32\"", "\"float32\""), @"
    unknown dtype `float32` for `logits` at kernels/replay.toml:9:9, did you mean `f32`?
    hint: the dtypes are f64, f32, f16, bf16, f8_e4m3, f8_e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool
    ");
    for (given, meant) in [("torch.bfloat16", "bf16"), ("uint8", "u8"), ("half", "f16")] {
        assert_eq!(meant_dtype(given).as_deref(), Some(meant));
    }
}

#[test]
fn names_that_call_cannot_use_are_refused() {
    insta::assert_snapshot!(refused("inputs.mask", "inputs.\"ma sk\""), @"`ma sk` at kernels/replay.toml:12:9 cannot name a tensor or a size: it is not a C++ identifier");
    insta::assert_snapshot!(refused("\"batch\", \"vocab\"", "\"int\", \"vocab\""), @"`int` at kernels/replay.toml:10:10 cannot name a tensor or a size: it is a word of CUDA C++");
    insta::assert_snapshot!(refused("inputs.mask", "inputs.__mask"), @"`__mask` at kernels/replay.toml:12:9 cannot name a tensor or a size: names that begin with two underscores belong to the compiler");
}

#[test]
fn one_name_for_two_things_is_refused() {
    insta::assert_snapshot!(refused("outputs.loss", "outputs.logits"), @"`logits` at kernels/replay.toml:22:10 names both an input and an output");
    insta::assert_snapshot!(refused("inputs.mask", "inputs.batch"), @"`batch` at kernels/replay.toml:12:9 names both a tensor and a size");
    insta::assert_snapshot!(refused("outputs.loss", "outputs.logits_stride"), @"`logits_stride` at kernels/replay.toml:8:9 names both a tensor or a size and the strides of an input");
}

#[test]
fn an_output_size_that_no_input_has_is_refused() {
    let twice = SMALL.replace("shape = []", "shape = [\"vocabs\"]");
    let error = parse(&twice).unwrap_err();
    insta::assert_snapshot!(error, @"output `loss` at kernels/replay.toml:22:10 has the size `vocabs`, which no input has, did you mean `vocab`?");
    insta::assert_snapshot!(error.hint().unwrap(), @"sizes are taken from the inputs; write a number, add an input that has it, or name it in `sizes`, so that fixture.toml gives it");
}

#[test]
fn an_optional_scalar_is_refused() {
    insta::assert_snapshot!(refused("[\"batch\"]", "[]"), @"input `mask` at kernels/replay.toml:12:9 is a scalar and cannot be optional");
}

#[test]
fn paths_stay_inside_the_repository() {
    insta::assert_snapshot!(refused("./src/loss.cu", "../loss.cu"), @"
    `../loss.cu` in `sources` at kernels/replay.toml:3:12 leads outside with `..`
    hint: paths are relative to the root of the repository and stay inside it
    ");
    insta::assert_snapshot!(refused("\"include\"", "\"/usr/include\"").lines().next().unwrap(), @"`/usr/include` in `include` at kernels/replay.toml:4:12 is an absolute path");
    insta::assert_snapshot!(refused("./src/loss.cu", "").lines().next().unwrap(), @"`` in `sources` at kernels/replay.toml:3:12 is an empty path");
    insta::assert_snapshot!(refused("./src/loss.cu", "./").lines().next().unwrap(), @"`./` in `sources` at kernels/replay.toml:3:12 is the repository itself, not a file");
    insta::assert_snapshot!(refused("./src/loss.cu", "a\\u0000b").lines().next().unwrap(), @r"`a\u{0}b` in `sources` at kernels/replay.toml:3:12 holds a control character");
    insta::assert_snapshot!(refused("./src/loss.cu", "src/*.cu"), @"
    `src/*.cu` in `sources` at kernels/replay.toml:3:12 is a pattern, and patterns are not expanded
    hint: name each file, or the folder they lie in
    ");
    insta::assert_snapshot!(refused("./src/loss.cu", ".git/hooks/pre-commit"), @"
    `.git/hooks/pre-commit` in `sources` at kernels/replay.toml:3:12 lies in git's own folder, which no commit holds
    hint: name files that are committed
    ");
    insta::assert_snapshot!(refused("\".\"", "\"include/\"").lines().next().unwrap(), @"`include/` in `include` at kernels/replay.toml:4:23 is listed twice");
}

#[test]
fn a_define_must_be_a_macro() {
    insta::assert_snapshot!(refused("BLOCK=256", "-DBLOCK"), @"`-DBLOCK` in `defines` at kernels/replay.toml:5:22 is neither NAME nor NAME=VALUE");
}

#[test]
fn gradients_must_fit_what_they_name() {
    insta::assert_snapshot!(refused("\"logits\"", "\"logit\""), @"output `grad_logits` at kernels/replay.toml:17:10: `gradient_of` names `logit`, which is not an input, did you mean `logits`?");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "gradient_of = \"mask\""), @"output `grad_logits` at kernels/replay.toml:17:10: it and `mask` must both be floating point");
    insta::assert_snapshot!(refused("shape = [\"batch\", \"vocab\"]\ngradient_of", "shape = [\"batch\"]\ngradient_of"), @"output `grad_logits` at kernels/replay.toml:17:10: it has another shape than `logits`, whose gradient it is");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "of = \"loss\""), @"output `grad_logits` at kernels/replay.toml:17:10: `of` means nothing without `gradient_of`");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "upstream = \"logits\""), @"output `grad_logits` at kernels/replay.toml:17:10: `upstream` means nothing without `gradient_of`");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "gradient_of = \"logits\"\nof = \"los\""), @"output `grad_logits` at kernels/replay.toml:17:10: `of` names `los`, which is not an output, did you mean `loss`?");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "gradient_of = \"logits\"\nof = \"grad_logits\""), @"output `grad_logits` at kernels/replay.toml:17:10: `of` names `grad_logits`, which cannot be differentiated");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "gradient_of = \"logits\"\nupstream = \"up\""), @"output `grad_logits` at kernels/replay.toml:17:10: `upstream` names `up`, which is not an input");
    insta::assert_snapshot!(refused("gradient_of = \"logits\"", "gradient_of = \"logits\"\nupstream = \"logits\""), @"output `grad_logits` at kernels/replay.toml:17:10: `upstream` names `logits`, which must be floating point and have the shape of `loss`");
}

#[test]
fn an_output_that_is_no_scalar_needs_an_upstream_gradient() {
    let rows = SMALL.replace("shape = []", "shape = [\"batch\"]");
    let with_of =
        rows.replace("gradient_of = \"logits\"", "gradient_of = \"logits\"\nof = \"loss\"");
    insta::assert_snapshot!(parse(&with_of).unwrap_err(), @"output `grad_logits` at kernels/replay.toml:17:10: `loss` is not a scalar, so `upstream` must name an input");
    let unnamed =
        rows.replace("gradient_of = \"logits\"", "gradient_of = \"logits\"\nupstream = \"up\"");
    insta::assert_snapshot!(parse(&unnamed).unwrap_err(), @"output `grad_logits` at kernels/replay.toml:17:10: `upstream` needs `of`, the output it flows into");
    let whole = with_of.replace("of = \"loss\"", "of = \"loss\"\nupstream = \"dloss\"")
        + "[inputs.dloss]\ndtype = \"f32\"\nshape = [\"batch\"]\n";
    assert_eq!(parse(&whole).unwrap().outputs["grad_logits"].upstream.as_deref(), Some("dloss"));
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let page = include_str!("../../docs/harness.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let harness = parse(example).unwrap();
    assert_eq!(harness.size_names().collect::<Vec<_>>(), ["batch", "seq", "vocab"]);
    assert_eq!(harness.outputs["grad_logits"].gradient_of.as_deref(), Some("logits"));
}

/// A harness with these keys of a program.
fn program(keys: &str) -> Result<Harness, HarnessError> {
    let tensors = "[outputs.loss]\ndtype = \"f32\"\nshape = []\n";
    parse(&format!("{keys}\n{tensors}"))
}

#[test]
fn a_program_takes_the_place_of_sources_and_call() {
    let keys = "program = [\"python3\", \"step.py\"]\npreload = [\"numpy\", \"jax.numpy\"]\n\
                tree = [\"src\", \"./pyproject.toml\"]\nenv = { JAX_PLATFORMS = \"cpu\" }\n\
                precision = \"float32\"\nwiden_casts = false\nbuild = [\"make\"]\nidentity = [\"python3\", \"-V\"]";
    let harness = program(keys).unwrap();
    assert!(harness.sources.is_empty() && harness.calls.is_empty());
    assert_eq!(harness.tree(), ["src", "pyproject.toml"].map(SourcePath::from));
    let found = harness.program.unwrap();
    assert_eq!(found.words, ["python3", "step.py"]);
    assert_eq!(found.preload.unwrap(), ["numpy", "jax.numpy"]);
    assert_eq!(found.env["JAX_PLATFORMS"], "cpu");
    assert_eq!((found.precision, found.widen_casts), (DType::F32, false));
    assert_eq!((found.build.unwrap(), found.identity.unwrap().len()), (vec!["make".to_owned()], 2));
    let plain = program("program = [\"./step.sh\"]").unwrap();
    assert_eq!(plain.tree(), [SourcePath::from(".")]);
    let plain = plain.program.unwrap();
    assert_eq!((plain.preload, plain.precision), (None, DType::F64));
    assert!(plain.widen_casts);
}

#[test]
fn a_program_may_be_given_an_optional_scalar() {
    let scalar =
        "program = [\"./step.sh\"]\n[inputs.dloss]\ndtype = \"f32\"\nshape = []\noptional = true\n";
    assert!(program(scalar).unwrap().inputs["dloss"].optional);
}

#[test]
fn keys_of_a_program_that_cannot_be_used_are_refused() {
    let told = |keys: &str| {
        let error = program(keys).expect_err("the harness is refused");
        let at = error.spot().map_or("", |spot| spot.excerpt()).to_owned();
        error.hint().map_or(format!("{error}\n{at}"), |hint| format!("{error}\n{at}\nhint: {hint}"))
    };
    let named = |more: &str| told(&format!("program = [\"./step.sh\"]\n{more}"));
    let all = [
        told("program = []"),
        told("program = [\" \"]"),
        told("program = \"./step.sh\""),
        told("program = [\"a\\u0000\"]"),
        told("tree = [\"src\"]"),
        named("sources = [\"k.cu\"]"),
        named("call = \"f();\""),
        named("tree = []"),
        named("tree = [\"../src\"]"),
        named("preload = [\"a,b\"]"),
        named("env = { REPLAY_TREE = \"x\" }"),
        named("env = { \"A=B\" = \"x\" }"),
        named("env = { A = 1 }"),
        named("precision = \"float16\""),
        named("build = []"),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    `program` at kernels/replay.toml:1:11 is empty
      |
    1 | program = []
      |           ^^
    `program` at kernels/replay.toml:1:11 is empty
      |
    1 | program = [" "]
      |           ^^^^^
    `program` at kernels/replay.toml:1:11 must be a list of strings, not a string
      |
    1 | program = "./step.sh"
      |           ^^^^^^^^^^^
    the text at kernels/replay.toml:1:12 holds a zero byte
      |
    1 | program = ["a\u0000"]
      |            ^^^^^^^^^
    `tree` at kernels/replay.toml:1:1 goes with `program`, which this harness does not have
      |
    1 | tree = ["src"]
      | ^^^^
    hint: name the program that runs a revision: program = ["./step.sh"]
    `sources` at kernels/replay.toml:2:1 is for kernels, and this harness has a `program`
      |
    2 | sources = ["k.cu"]
      | ^^^^^^^
    hint: a harness either compiles `sources` and makes a `call`, or starts a `program` for the files in `tree`
    `call` at kernels/replay.toml:2:1 is for kernels, and this harness has a `program`
      |
    2 | call = "f();"
      | ^^^^
    hint: a harness either compiles `sources` and makes a `call`, or starts a `program` for the files in `tree`
    `tree` at kernels/replay.toml:2:8 is empty
      |
    2 | tree = []
      |        ^^
    `../src` in `tree` at kernels/replay.toml:2:9 leads outside with `..`
      |
    2 | tree = ["../src"]
      |         ^^^^^^^^
    hint: paths are relative to the root of the repository and stay inside it
    `a,b` in `preload` at kernels/replay.toml:2:12 is not a name
      |
    2 | preload = ["a,b"]
      |            ^^^^^
    hint: name modules, one a string: preload = ["numpy", "jax"]
    `REPLAY_TREE` in `env` at kernels/replay.toml:2:9: replay itself sets the variables that begin with REPLAY_
      |
    2 | env = { REPLAY_TREE = "x" }
      |         ^^^^^^^^^^^
    `A=B` in `env` at kernels/replay.toml:2:9: no variable can have this name
      |
    2 | env = { "A=B" = "x" }
      |         ^^^^^
    `env.A` at kernels/replay.toml:2:13 must be a string, not an integer
      |
    2 | env = { A = 1 }
      |             ^
    `precision` at kernels/replay.toml:2:13 is `float16`, not `float64` or `float32`
      |
    2 | precision = "float16"
      |             ^^^^^^^^^
    `build` at kernels/replay.toml:2:9 is empty
      |
    2 | build = []
      |         ^^
    "#);
}

#[test]
fn an_output_begins_as_zeros_or_as_an_input_like_it() {
    let from = "gradient_of = \"logits\"\n";
    let with = |line: &str| parse(&SMALL.replacen(from, &format!("{from}{line}\n"), 1));
    let init = |line: &str| with(line).unwrap().outputs["grad_logits"].init.clone();
    assert_eq!(init(""), None);
    assert_eq!(init("init = 0"), Some(Init::Zero));
    assert_eq!(init("init = \"logits\""), Some(Init::Copy("logits".to_owned())));
    let refused = |line: &str| refused(from, &format!("{from}{line}\n"));
    insta::assert_snapshot!(refused("init = 1"), @"`outputs.grad_logits.init` at kernels/replay.toml:21:8 must be 0 or the name of an input, not an integer");
    insta::assert_snapshot!(refused("init = \"logit\""), @r#"
    `init` of output `grad_logits` at kernels/replay.toml:17:10 names `logit`, which is no input, did you mean `logits`?
    hint: an output begins with zeros, `init = 0`, or as a copy of an input of its dtype and shape, `init = "NAME"`
    "#);
    insta::assert_snapshot!(refused("init = \"mask\""), @r#"
    `init` of output `grad_logits` at kernels/replay.toml:17:10 names `mask`, which is optional
    hint: an output begins with zeros, `init = 0`, or as a copy of an input of its dtype and shape, `init = "NAME"`
    "#);
    let optional = SMALL.replace("optional = true", "");
    let error =
        parse(&optional.replacen(from, &format!("{from}init = \"mask\"\n"), 1)).unwrap_err();
    insta::assert_snapshot!(error, @"`init` of output `grad_logits` at kernels/replay.toml:17:10 names `mask`, which has another dtype or shape");
    let program = "program = [\"./p\"]\n[outputs.x]\ndtype = \"f32\"\nshape = []\ninit = 0\n";
    let error = parse(program).unwrap_err();
    insta::assert_snapshot!(error, @"`init` of output `x` at kernels/replay.toml:2:10 is for kernels, and this harness has a `program`");
}

#[test]
fn what_is_set_up_and_undefined_is_read() {
    let harness =
        parse(&format!("setup = \"create(&handle);\"\nundefine = [\"__CUDACC__\"]\n{SMALL}"));
    let harness = harness.unwrap();
    assert_eq!(harness.setup.unwrap().text, "create(&handle);");
    assert_eq!(harness.undefine, ["__CUDACC__"]);
    let refused = |line: &str| parse(&format!("{line}\n{SMALL}")).unwrap_err();
    insta::assert_snapshot!(refused("undefine = [\"A=1\"]"), @"`A=1` in `undefine` at kernels/replay.toml:1:13 is not the name of a macro");
    insta::assert_snapshot!(refused("setup = \" \""), @"`setup` at kernels/replay.toml:1:9 is empty");
}

#[test]
fn an_overlay_is_a_folder_beside_the_harness() {
    let with = |line: &str| parse(&SMALL.replace("defines =", &format!("{line}\ndefines =")));
    let harness = with("overlay = \"../stand_ins\"").unwrap();
    assert_eq!(harness.overlay.as_deref(), Some(Path::new("kernels/../stand_ins")));
    let refused = |line: &str| {
        let error = with(line).expect_err(line);
        error.hint().map_or(error.to_string(), |hint| format!("{error}\nhint: {hint}"))
    };
    insta::assert_snapshot!(refused("overlay = \"\""), @"
    `` in `overlay` at kernels/replay.toml:5:11 is an empty path
    hint: it is a folder of headers, relative to this file
    ");
    insta::assert_snapshot!(refused("overlay = \"a\\u0000b\""), @r"
    `a\u{0}b` in `overlay` at kernels/replay.toml:5:11 holds a control character
    hint: it is a folder of headers, relative to this file
    ");
    insta::assert_snapshot!(refused("overlay = [\"a\"]"), @"`overlay` at kernels/replay.toml:5:11 must be a string, not a list");
}

#[test]
fn sizes_that_no_input_has_are_named() {
    let sized = |sizes: &str| {
        let text = SMALL.replace("defines =", &format!("sizes = {sizes}\ndefines ="));
        parse(&text.replacen("shape = []", "shape = [\"heads\"]", 1))
    };
    let harness = sized("[\"heads\"]").unwrap();
    assert_eq!(harness.size_names().collect::<Vec<_>>(), ["batch", "vocab", "heads"]);
    let refused = |sizes: &str| sized(sizes).expect_err(sizes).to_string();
    insta::assert_snapshot!(refused("[\"heads\", \"heads\"]"), @"`heads` at kernels/replay.toml:5:19 names both a size and another size");
    insta::assert_snapshot!(refused("[\"heads\", \"logits\"]"), @"`logits` at kernels/replay.toml:9:9 names both a tensor and a size");
    insta::assert_snapshot!(refused("[\"heads\", \"for\"]"), @"`for` at kernels/replay.toml:5:19 cannot name a tensor or a size: it is a word of CUDA C++");
    insta::assert_snapshot!(refused("[\"head\"]"), @"output `loss` at kernels/replay.toml:23:10 has the size `heads`, which no input has, did you mean `head`?");
}

#[test]
fn what_a_harness_changes_of_macros_and_says_before_the_call_is_not_trusted() {
    let with = |line: &str| {
        let text = SMALL.replace("defines =", &format!("{line}\ndefines ="));
        parse(&text).map(|_| ()).map_err(|error| error.to_string())
    };
    insta::assert_snapshot!(with("undefine = [\"A\\n#include </etc/passwd>\"]").unwrap_err(), @r"`A\n#include </etc/passwd>` in `undefine` at kernels/replay.toml:5:13 is not the name of a macro");
    insta::assert_snapshot!(with("undefine = [\"-D\"]").unwrap_err(), @"`-D` in `undefine` at kernels/replay.toml:5:13 is not the name of a macro");
    insta::assert_snapshot!(with("setup = \"  \"").unwrap_err(), @"`setup` at kernels/replay.toml:5:9 is empty");
    insta::assert_snapshot!(with("setup = [\"f();\"]").unwrap_err(), @"`setup` at kernels/replay.toml:5:9 must be a string, not a list");
    assert_eq!(with("setup = \"int a = 0;\""), Ok(()));
}
