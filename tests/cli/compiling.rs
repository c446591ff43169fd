//! What is compiled once, what is compiled again, and what of a compiler is left when it is over.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use replay::tensor::DType;

use crate::common::env::{Run, TestEnv, harness};

const CALL: &str = "twice<<<1, n>>>(x, y, n);";

/// A kernel that multiplies by `factor`, behind the lines of `head`.
fn kernel(head: &str, factor: &str) -> String {
    format!(
        "{head}__global__ void twice(const float* x, float* y, int n)\n\
         {{ int i = threadIdx.x; if (i < n) y[i] = {factor} * x[i]; }}\n"
    )
}

/// The line that shows the checksum of `y`.
fn checksum(run: &Run) -> String {
    assert_eq!(run.code, Some(0), "{}", run.text());
    let line = run.stdout.lines().find(|line| line.trim_start().starts_with("y "));
    line.expect("an output").to_owned()
}

/// A script in `folder` that can be run.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn real_compiler() -> String {
    std::env::var("CXX").unwrap_or("g++".to_owned())
}

#[test]
fn two_harnesses_that_differ_in_their_sources_alone_share_no_artifact() {
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    for (name, factor) in [("s1", "2"), ("s2", "3")] {
        env.repo.write(&format!("k/{name}.cu"), kernel("", factor));
        let harness = format!(
            "sources = [\"k/{name}.cu\"]\ninclude = [\"k\"]\ncall = {CALL:?}\n\
             [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
             [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n"
        );
        env.repo.write(&format!("{name}/replay.toml"), harness);
        let fixture = env.path(&format!("fixtures/{name}"));
        fs::create_dir_all(&fixture).unwrap();
        for entry in fs::read_dir(env.path("fixtures/tiny")).unwrap().flatten() {
            fs::copy(entry.path(), fixture.join(entry.file_name())).unwrap();
        }
        let text = format!("harness = \"../../{name}/replay.toml\"\n");
        fs::write(fixture.join("fixture.toml"), text).unwrap();
    }
    let [one, two] = ["fixtures/s1", "fixtures/s2"].map(|name| checksum(&env.replay(&[name])));
    assert_ne!(one, two);
}

#[test]
fn sources_of_one_harness_have_kernels_of_their_own_under_one_name() {
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let source = |run: &str, statement: &str| {
        format!(
            "namespace {{ template <int N> __global__ void fill(float* y) {{ {statement} }} }}\n\
             static __global__ void mark(float* y) {{ y[0] = 1; }}\n\
             void {run}(float* y) {{ mark<<<1, 1>>>(y); fill<2><<<1, 1>>>(y); }}\n"
        )
    };
    env.repo.write("s/a.cu", source("first", "y[threadIdx.x] = N;"));
    env.repo.write("s/b.cu", source("second", "__trap();"));
    let harness = "sources = [\"s/a.cu\", \"s/b.cu\"]\ncall = \"first(y); second(y);\"\n\
                   [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    env.repo.write("s/replay.toml", harness);
    env.repo.write("fixtures/tiny/fixture.toml", "harness = \"../../s/replay.toml\"\n");
    let text = env.replay(&["fixtures/tiny"]).text();
    let fault = "in (anonymous namespace)::fill<2>, block (0, 0, 0), thread (0, 0, 0): \
                 __trap() was called at s/b.cu:1";
    assert!(text.contains(fault), "{text}");
}

#[test]
fn a_kernel_that_does_not_compile_does_no_harm_where_no_call_reaches_it() {
    let others = "template <class T> __global__ void next(T* x) { x[0] = unknown(x[0]); }\n\
                  template __global__ void next<float>(float*);\n\
                  void launch_next(float* x) { next<<<1, 1>>>(x); }\n";
    let env = TestEnv::isolated().with_kernel(&kernel(others, "2"), CALL);
    let alone = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let checked = ["fixtures/tiny", "--check", "always"];
    assert_eq!(checksum(&env.replay(&checked)), checksum(&alone.replay(&checked)));
}

#[test]
fn a_kernel_that_code_of_another_kind_needs_is_compiled_with_the_rest() {
    let others = "__global__ void other(float* x);\n#include \"table.tpp\"\n\
                  __global__ void other(float* x) { x[0] = 1; }\n";
    let env = TestEnv::isolated().with_kernel(&kernel(others, "2"), CALL);
    env.repo.write("src/table.tpp", "static void (*table[])(float*) = {other};\n");
    env.repo.write("replay.toml", harness(&format!("include = [\"src\"]\ncall = {CALL:?}")));
    checksum(&env.replay(&["fixtures/tiny"]));
}

#[test]
fn a_function_marked_forceinline_may_be_an_argument() {
    let reductions = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n\
        namespace cg = cooperative_groups;\n\
        __device__ __forceinline__ float larger(float a, float b) { return a > b ? a : b; }\n\
        template <class F> __device__ float fold(const float* x, int n, F f) {\n\
          float all = x[0];\n\
          for (int i = 1; i < n; i++) all = f(all, x[i]);\n\
          return all;\n\
        }\n\
        __global__ void reduce(const float* x, float* y, int n) {\n\
          cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());\n\
          float of_warp = cg::reduce(warp, x[threadIdx.x % n], larger);\n\
          if (threadIdx.x < n) y[threadIdx.x] = of_warp + fold(x, n, larger);\n\
        }\n";
    let env = TestEnv::isolated().with_kernel(reductions, "reduce<<<1, 32>>>(x, y, n);");
    checksum(&env.replay(&["fixtures/tiny", "--check", "always"]));
}

#[test]
fn a_function_that_nobody_names_is_found_by_the_types_of_its_arguments() {
    let kernels = "#include <algorithm>\n\
                   __global__ void set(float* y, float x) { y[0] = x; }\n\
                   struct Row { float* y; float x; };\n\
                   void swap(Row& a, Row& b) { set<<<1, 1>>>(a.y, a.x); set<<<1, 1>>>(b.y, b.x); }\n\
                   static void fill(float* y) {\n\
                       Row rows[] = {{y, 1}, {y + 1, 2}, {y + 2, 3}, {y + 3, 4}};\n\
                       std::reverse(rows, rows + 4);\n\
                   }\n";
    let env = TestEnv::isolated().with_kernel(kernels, "fill(y);");
    let run = env.replay(&["fixtures/tiny"]);
    assert!(run.stdout.contains("  set<<<1, 1>>>"), "{}", run.text());
    checksum(&run);
}

#[test]
fn headers_are_sought_in_the_order_of_the_include_folders() {
    let env = TestEnv::new().with_kernel(&kernel("#include <factor.h>\n", "FACTOR"), CALL);
    env.repo.write("a/factor.h", "#define FACTOR 2\n");
    env.repo.write("z/factor.h", "#define FACTOR 3\n");
    let with = |include: &str| {
        env.repo.write("replay.toml", harness(&format!("include = {include}\ncall = {CALL:?}")));
        checksum(&env.replay(&["fixtures/tiny", "--check", "off"]))
    };
    let two = with("[\"a\"]");
    assert_eq!(with("[\"a\", \"z\"]"), two);
    assert_ne!(with("[\"z\", \"a\"]"), two);
}

#[test]
fn a_header_outside_of_the_repository_that_changed_is_another_artifact() {
    let env = TestEnv::isolated();
    let header = env.repo.beside("factor.h");
    let include = format!("#include \"{}\"\n", header.display());
    let env = env.with_kernel(&kernel(&include, "FACTOR"), CALL);
    let with = |factor: &str| {
        fs::write(&header, format!("#define FACTOR {factor}\n")).unwrap();
        checksum(&env.replay(&["fixtures/tiny", "--check", "off", "--sandbox=off"]))
    };
    let two = with("2");
    let three = with("3");
    let again = with("2");
    assert_ne!(two, three);
    assert_eq!(two, again);
    assert_eq!(env.cached("artifacts").len(), 2, "what came back is not compiled again");
}

#[test]
fn variables_that_name_folders_of_headers_are_not_passed_on() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("factor_outside.h"), "#define FACTOR 2\n").unwrap();
    let env =
        TestEnv::isolated().with_kernel(&kernel("#include <factor_outside.h>\n", "FACTOR"), CALL);
    let mut command = env.command(&["fixtures/tiny"]);
    let told = env.finish(command.env("CPATH", outside.path()));
    assert_eq!(told.code, Some(125), "{}", told.text());
    let hint = told.stdout.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
    insta::assert_snapshot!(hint, @r#"hint: name the folder of the header in `include` of the harness, or in `system_include` where it lies outside of the repository, or write it into CXX as in `CXX="g++ -isystem DIR"`: CPATH is not passed on; the whole log: [CACHE]/refusals/[KEY]"#);
    let mut command = env.command(&["fixtures/tiny"]);
    let named = format!("{} -isystem '{}'", real_compiler(), outside.path().display());
    checksum(&env.finish(command.env("CXX", named)));
}

#[test]
fn a_header_that_was_missing_is_looked_for_again() {
    let outside = tempfile::tempdir().unwrap();
    let env = TestEnv::isolated().with_kernel(&kernel("#include <late.h>\n", "FACTOR"), CALL);
    let named = format!("{} -isystem '{}'", real_compiler(), outside.path().display());
    let replay = || env.finish(env.command(&["fixtures/tiny"]).env("CXX", &named));
    assert_eq!(replay().code, Some(125));
    fs::write(outside.path().join("late.h"), "#define FACTOR 2\n").unwrap();
    checksum(&replay());
}

#[test]
fn what_does_not_compile_is_remembered_while_what_it_reads_stays() {
    let outside = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let words = format!("echo \"$@\" >> '{}'\nexec {} \"$@\"", log.display(), real_compiler());
    let compiler = script(outside.path(), "cxx", &words);
    let header = outside.path().join("factor.h");
    fs::write(&header, "#define FACTOR unknown\n").unwrap();
    let include = format!("#include \"{}\"\n", header.display());
    let env = TestEnv::isolated().with_kernel(&kernel(&include, "FACTOR"), CALL);
    let replay =
        || env.finish(env.command(&["fixtures/tiny", "--sandbox=off"]).env("CXX", &compiler));
    let compiled = || fs::read_to_string(&log).unwrap().matches("-c unit.cpp").count();
    let first = replay();
    assert_eq!((first.code, compiled()), (Some(125), 1), "{}", first.text());
    assert_eq!(replay().text(), first.text());
    assert_eq!(compiled(), 1);
    fs::write(&header, "#define FACTOR 2\n").unwrap();
    checksum(&replay());
}

#[test]
fn an_artifact_in_the_place_of_another_is_found_out() {
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let two = checksum(&env.replay(&["fixtures/tiny", "--check", "off"]));
    env.repo.write("k.cu", kernel("", "3"));
    let three = checksum(&env.replay(&["fixtures/tiny", "--check", "off"]));
    let [one, other] = env.cached("artifacts").try_into().unwrap();
    let bytes = fs::read(&one).unwrap();
    fs::copy(&other, &one).unwrap();
    fs::write(&other, bytes).unwrap();
    assert_eq!(checksum(&env.replay(&["fixtures/tiny", "--fresh", "--check", "off"])), three);
    env.repo.write("k.cu", kernel("", "2"));
    assert_eq!(checksum(&env.replay(&["fixtures/tiny", "--fresh", "--check", "off"])), two);
}

#[test]
fn an_artifact_depends_neither_on_the_time_nor_on_the_place() {
    let text = kernel(
        "#include <stdio.h>\nconst char* when = __DATE__ __TIME__ __TIMESTAMP__ __FILE__;\n\
         const int count = __COUNTER__;\n",
        "(when[0] + count)",
    );
    let artifacts = || {
        let env = TestEnv::isolated().with_kernel(&text, CALL);
        checksum(&env.replay(&["fixtures/tiny", "--check", "always"]));
        let entry = |path: PathBuf| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap());
        let mut all: Vec<_> = env.cached("artifacts").into_iter().map(entry).collect();
        all.sort();
        all
    };
    let first = artifacts();
    assert_eq!(first.len(), 2, "a plain one and a checked one");
    sleep(Duration::from_millis(1100));
    assert!(artifacts() == first, "the same keys and the same bytes");
}

#[test]
fn bytes_that_are_no_utf_8_reach_the_compiler_as_they_are() {
    let head = b"// na\xefve: \xa9\nstatic const char* const text = \"\xe9\";\n".to_vec();
    let env = TestEnv::isolated().with_kernel("", CALL);
    let text = [head, kernel("", "(float)(unsigned char)text[0]").into_bytes()].concat();
    fs::write(env.path("k.cu"), &text).unwrap();
    let latin = checksum(&env.replay(&["fixtures/tiny"]));
    env.repo.write("k.cu", kernel("", "233"));
    assert_eq!(checksum(&env.replay(&["fixtures/tiny"])), latin);
    let broken = [text, b"int \xe9 = unknown;\n".to_vec()].concat();
    fs::write(env.path("k.cu"), broken).unwrap();
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    assert!(run.stdout.contains("k.cu:5:"), "the line is the user's: {}", run.text());
}

#[test]
fn a_cache_may_lie_at_any_path() {
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let place = env.repo.beside("with space, 'quote'\nnew line: $HOME #%\\ ä");
    for _ in 0..2 {
        let mut command = env.command(&["fixtures/tiny"]);
        checksum(&env.finish(command.env("REPLAY_CACHE_DIR", &place)));
    }
}

#[test]
fn a_compiler_named_by_a_relative_path_with_spaces_is_found() {
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let words = format!("exec {} \"$@\"", real_compiler());
    script(&env.path(""), "my compiler", &words);
    let mut command = env.command(&["fixtures/tiny"]);
    checksum(&env.finish(command.env("CXX", "'./my compiler' -pipe")));
}

#[test]
fn a_compiler_that_cannot_be_used_is_named() {
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let with = |cxx: &str| env.finish(env.command(&["fixtures/tiny"]).env("CXX", cxx)).text();
    insta::assert_snapshot!(with("no-such-compiler -v"), @"
    exit code 128
    --- stderr
    error: cannot run the C++ compiler `no-such-compiler -v`
    caused by: No such file or directory (os error 2)
    hint: CXX must name g++ or clang++, or a command that behaves like one
    ");
    insta::assert_snapshot!(with("false"), @"
    exit code 128
    --- stderr
    error: `false --version` failed: it says nothing
    hint: CXX must name g++ or clang++, or a command that behaves like one
    ");
    insta::assert_snapshot!(with("g++ 'open"), @"
    exit code 128
    --- stderr
    error: `g++ 'open` is no command: a quote is not closed
    hint: CXX must name g++ or clang++, or a command that behaves like one
    ");
    let odd = std::ffi::OsStr::from_bytes(b"g\xff++");
    let told = env.finish(env.command(&["fixtures/tiny"]).env("CXX", odd)).text();
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: CXX is no text: g\u{fffd}++
    hint: name the compiler by a path that is UTF-8, such as a link to it
    ");
}

#[test]
fn code_that_keeps_the_compiler_waiting_is_given_up_and_not_remembered() {
    let outside = tempfile::tempdir().unwrap();
    let pipe = outside.path().join("endless.h");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let env = TestEnv::isolated().with_kernel(&kernel("#include <endless.h>\n", "2"), CALL);
    let named = format!("{} -isystem '{}'", real_compiler(), outside.path().display());
    let words = ["fixtures/tiny", "--timeout", "0.4"];
    let told = env.finish(env.command(&words).env("CXX", &named));
    assert_eq!(told.code, Some(125), "{}", told.text());
    let place = outside.path().display().to_string();
    let told = told.stdout.replace(&place, "[OUTSIDE]").replace(&real_compiler(), "[CXX]");
    insta::assert_snapshot!(told, @"
    tiny at the working tree
    CPU, [COMPILER]

    untestable: the C++ compiler `[CXX] -isystem [OUTSIDE]` was still at work after 2 s
    hint: it may take five times as long as a replay: raise --timeout if this machine is slow
    ");
    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, "").unwrap();
    checksum(&env.finish(env.command(&["fixtures/tiny"]).env("CXX", &named)));
}

#[test]
fn what_the_harness_says_of_gradients_is_part_of_what_is_remembered() {
    let text = "__global__ void product(const float* x, const float* w, float* loss, float* g, int n)\n\
                { for (int i = 0; i < n; i++) { *loss += x[i] * w[i]; g[i] = w[i]; } }\n";
    let env = TestEnv::isolated().with_kernel(text, CALL);
    let harness = |input: &str| {
        format!(
            "sources = [\"k.cu\"]\ncall = \"float* d; cudaMalloc(&d, sizeof *d); cudaMemset(d, 0, sizeof *d); product<<<1, 1>>>(x, w, d, g, n); cudaMemcpy(&loss, d, sizeof *d, cudaMemcpyDeviceToHost);\"\n\
             [inputs]\nx = {{dtype = \"f32\", shape = [\"n\"]}}\nw = {{dtype = \"f32\", shape = [\"n\"]}}\n\
             [outputs]\nloss = {{dtype = \"f32\", shape = []}}\n\
             g = {{dtype = \"f32\", shape = [\"n\"], gradient_of = \"{input}\"}}\n"
        )
    };
    let bytes =
        |values: [f32; 4]| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>();
    let x = bytes([1.0, 2.0, 3.0, 4.0]);
    let w = bytes([5.0, 7.0, 9.0, 2.0]);
    env.write_fixture("pair", &[("x", DType::F32, &[4], &x), ("w", DType::F32, &[4], &w)]);
    let gradcheck = |input: &str| {
        env.repo.write("replay.toml", harness(input));
        env.replay(&["gradcheck", "fixtures/pair"])
    };
    let right = gradcheck("x");
    assert_eq!(right.code, Some(0), "{}", right.text());
    let wrong = gradcheck("w");
    assert_eq!(wrong.code, Some(1), "{}", wrong.text());
}

/// Whether a process with `word` among its arguments runs.
fn runs(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let text = fs::read(process.path().join("cmdline")).unwrap_or_default();
        text.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

/// Waits until `done`, at most `patience`.
fn wait_until(patience: Duration, done: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > patience {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn whatever_ends_a_run_nothing_of_the_compiler_outlives_it() {
    let outside = tempfile::tempdir().unwrap();
    // As cc1plus does, but in a group and a session of its own, and with a temporary file.
    let seconds = format!("86{}", std::process::id());
    let words = format!(
        "case \"$*\" in *unit.cpp*) ;; *) exec {} \"$@\" ;; esac\n\
         echo > \"$TMPDIR/leftover\"; setsid sleep {seconds} & sleep {seconds}; wait",
        real_compiler()
    );
    let compiler = script(outside.path(), "cxx", &words);
    for name in ["-INT", "-TERM", "-KILL"] {
        let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
        let mut command = env.command(&["fixtures/tiny"]);
        command.env("CXX", &compiler).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        assert!(wait_until(Duration::from_secs(30), || runs(&seconds)), "{name}");
        // Both are there.
        sleep(Duration::from_millis(100));
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        child.wait().unwrap();
        let left = |folder: &str| fs::read_dir(env.cache().join(folder)).unwrap().count();
        let gone = wait_until(Duration::from_secs(1), || !runs(&seconds) && left("tmp") == 0);
        assert!(gone, "{name}: processes {}, files {}", runs(&seconds), left("tmp"));
    }
}

#[test]
fn a_compiler_works_within_bounds_of_memory_and_of_files() {
    let outside = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let limits = format!("(ulimit -v; ulimit -f) >> '{}'", log.display());
    let words = format!("{limits}\nexec {} \"$@\"", real_compiler());
    let compiler = script(outside.path(), "cxx", &words);
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    checksum(&env.finish(env.command(&["fixtures/tiny", "--sandbox=off"]).env("CXX", &compiler)));
    // 8 GiB of memory in KiB; 4 GiB of a file in blocks of 512 bytes, or of 1024.
    for line in fs::read_to_string(log).unwrap().lines() {
        assert!(line.parse::<u64>().unwrap() <= 8 << 20, "{line}");
    }
}

#[test]
fn what_a_compiler_leaves_running_ends_with_it() {
    let outside = tempfile::tempdir().unwrap();
    let seconds = format!("87{}", std::process::id());
    let words = format!("setsid sleep {seconds} &\nexec {} \"$@\"", real_compiler());
    let compiler = script(outside.path(), "cxx", &words);
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    checksum(&env.finish(env.command(&["fixtures/tiny"]).env("CXX", &compiler)));
    assert!(!runs(&seconds));
}

#[test]
fn what_a_compiler_says_without_an_end_is_bounded() {
    let outside = tempfile::tempdir().unwrap();
    let words = format!(
        "case \"$*\" in *unit.cpp*) ;; *) exec {} \"$@\" ;; esac\n\
         echo 'k.cu:1:1: error: no' >&2; head -c 300000000 /dev/zero | tr '\\0' x >&2; exit 1",
        real_compiler()
    );
    let compiler = script(outside.path(), "cxx", &words);
    let env = TestEnv::isolated().with_kernel(&kernel("", "2"), CALL);
    let told = env.finish(env.command(&["fixtures/tiny"]).env("CXX", &compiler));
    assert_eq!(told.code, Some(125), "{}", told.text());
    assert!(
        told.stdout.contains("the sources do not compile: k.cu:1:1: error: no"),
        "{}",
        told.text()
    );
    for log in env.cached("refusals") {
        let size = log.metadata().unwrap().len();
        assert!(size < 2 << 20, "{size} bytes");
    }
}

#[test]
fn sources_of_a_later_standard_compile_if_the_harness_names_it() {
    let kernel = "#include <type_traits>\n\
        template <class T> __global__ void twice(const T* x, std::type_identity_t<T>* y) {\n\
          y[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x];\n}\n\
        void call(const float* x, float* y) { twice<<<1, 4>>>(x, y); }\n";
    let env = TestEnv::new().with_kernel(kernel, "call(x, y)");
    let run = env.replay(&["fixtures/tiny"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 125
    --- stdout
    tiny at the working tree
    CPU, [COMPILER]

    untestable: the sources do not compile: k.cu:2:54: error: 'std::type_identity_t' has not been declared
    hint: if the sources are of C++20 or later, say `standard = \"c++20\"` in the harness; the whole log: [CACHE]/refusals/[KEY]
    ");
    for standard in ["c++20", "c++23"] {
        env.repo.write(
            "replay.toml",
            harness(&format!("standard = \"{standard}\"\ncall = \"call(x, y)\"")),
        );
        let run = env.replay(&["fixtures/tiny", "--check", "always"]);
        assert_eq!(run.code, Some(0), "{}", run.text());
        assert!(run.stdout.contains("twice<float><<<1, 4>>>"), "{}", run.stdout);
    }
}
