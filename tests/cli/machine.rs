//! What the machine lacks: a compiler, disk, memory, time. None of it is blamed on a commit.

use std::fs;
use std::process::Command;

use replay::tensor::DType;

use crate::env::TestEnv;

const KERNEL: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";
const CALL: &str = "twice<<<1, n>>>(x, y, n);";

#[test]
fn without_a_compiler_the_error_says_what_to_install() {
    let env = TestEnv::isolated().with_kernel(KERNEL, CALL);
    let mut command = env.command(&["fixtures/tiny"]);
    command.env_remove("CXX").env("PATH", "/nonexistent");
    insta::assert_snapshot!(env.finish(&mut command).text(), @"
    exit code 128
    --- stderr
    error: no C++ compiler: neither g++ nor clang++ is in PATH
    hint: install g++ (Debian: apt install g++) or set CXX
    ");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let env = TestEnv::isolated().with_kernel(KERNEL, CALL);
    fs::write(env.cache(), "a file where the folder should be").unwrap();
    insta::assert_snapshot!(env.replay(&["fixtures/tiny"]).text(), @"
    exit code 128
    --- stderr
    error: cannot make [CACHE]/artifacts in the cache
    caused by: Not a directory (os error 20)
    hint: set REPLAY_CACHE_DIR to a folder that can be written
    ");
}

#[test]
fn a_full_disk_is_not_the_fault_of_the_revision() {
    let kernel = KERNEL.replace("2 * x[i]", "table[0] * x[i]");
    let kernel = format!("__device__ float table[100000] = {{2}};\n{kernel}");
    let env = TestEnv::isolated().with_kernel(&kernel, CALL);
    // No file may grow beyond 200 KiB: the headers fit, an object with the table does not.
    let script = format!(
        "trap '' XFSZ; ulimit -f 200; exec {:?} fixtures/tiny",
        env!("CARGO_BIN_EXE_replay")
    );
    let mut command = Command::new("bash");
    env.settle(command.args(["-c", &script]));
    let full = env.finish(&mut command);
    assert_eq!(full.code, Some(128), "{}", full.text());
    assert!(full.stderr.contains("File too large"), "{}", full.text());
    assert!(full.stderr.contains("hint: "), "{}", full.text());
    let later = env.replay(&["fixtures/tiny"]);
    assert_eq!(later.code, Some(0), "nothing of it is remembered: {}", later.text());
}

/// Twice each of `count` zeros, and the same by addition, on a fixture of that size.
fn large(count: usize) -> TestEnv {
    let kernel = "__global__ void twice(const float* x, float* y, int n)\n\
                  { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";
    let env = TestEnv::new().with_kernel(kernel, "twice<<<(n + 255) / 256, 256>>>(x, y, n);");
    env.write_fixture("large", &[("x", DType::F32, &[count], &vec![0; 4 * count])]);
    env.repo.commit_file("k.cu", &kernel.replace("2 * x[i]", "x[i] + x[i]"), "Add instead");
    env
}

/// What is said where no file may grow beyond `kib` KiB.
fn with_files_up_to(kib: usize, env: &TestEnv, words: &str) -> String {
    let program = env!("CARGO_BIN_EXE_replay");
    let script = format!("trap '' XFSZ; ulimit -f {kib}; exec {program:?} {words} --fresh");
    let mut command = Command::new("bash");
    env.settle(command.args(["-c", &script]));
    env.finish(&mut command).text()
}

#[test]
fn outputs_that_find_no_room_name_the_folder_that_has_none() {
    // 72 MB of outputs, which do not stay in memory.
    let env = large(18_000_000);
    let told = with_files_up_to(40_000, &env, "fixtures/large");
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: cannot reserve 72003584 bytes for temporary numbers in [CACHE]/tmp
    caused by: File too large (os error 27)
    hint: there is no room for it: free disk space, or set REPLAY_CACHE_DIR to a folder with more
    ");
    let run = env.replay(&["fixtures/large"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("zeros 18000000  NaN 0  Inf 0  unwritten 0"), "{}", run.text());
}

#[test]
fn noise_that_finds_no_room_names_the_folder_that_has_none() {
    // 36 MB of outputs, and 16 bytes of noise for each of their elements, which do not stay on the heap.
    let told = with_files_up_to(100_000, &large(9_000_000), "diff fixtures/large main~1 main");
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: cannot reserve 144000000 bytes for temporary numbers in [CACHE]/tmp
    caused by: File too large (os error 27)
    hint: there is no room for it: free disk space, or set REPLAY_CACHE_DIR to a folder with more
    ");
}

#[test]
fn an_entry_that_was_tampered_with_is_found_and_rebuilt() {
    let env = TestEnv::isolated().with_kernel(KERNEL, CALL);
    let first = env.replay(&["fixtures/tiny"]);
    assert_eq!(first.code, Some(0), "{}", first.text());
    for kind in ["artifacts", "outcomes", "facts"] {
        for entry in env.cached(kind) {
            let mut bytes = fs::read(&entry).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&entry, bytes).unwrap();
        }
    }
    let second = env.replay(&["fixtures/tiny"]);
    assert_eq!(second.text(), first.text());
}

#[test]
fn a_kernel_that_never_ends_is_a_timeout() {
    let endless = "__global__ void twice(const float* x, float* y, int n)\n\
                   { volatile int on = 1; while (on) {} y[0] = x[0]; }\n";
    let env = TestEnv::new().with_kernel(endless, CALL);
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--timeout", "0.5"]).text(), @"
    exit code 1
    --- stdout
    tiny at the working tree
    CPU, [COMPILER]

    launches
      twice<<<1, 4>>>  call in replay.toml:1

    failed: timeout: still running in twice after 0.5 s
    ");
}

#[test]
fn memory_beyond_the_limit_is_refused_to_the_code_alone() {
    let greedy = "#include <stdlib.h>\n#include <string.h>\n\
                  static void take() { for (;;) memset(malloc(1 << 24), 1, 1 << 24); }\n";
    let kernel = format!("{greedy}{KERNEL}");
    let env = TestEnv::new().with_kernel(&kernel, &format!("take(); {CALL}"));
    let run = env.replay(&["fixtures/tiny", "--memory", "256M"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    assert!(run.last_line().starts_with("failed: "), "{}", run.text());
}
