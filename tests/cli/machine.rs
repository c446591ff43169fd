//! What the machine lacks: a compiler, disk, memory, time. None of it is blamed on a commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use replay::tensor::DType;

use crate::common::env::TestEnv;

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
    hint: install one: `apt install g++`, `dnf install gcc-c++` or `conda install gxx`; or set CXX
    ");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let env = TestEnv::without_cache().with_kernel(KERNEL, CALL);
    fs::write(env.cache_parent(), "a file where the folder should be").unwrap();
    insta::assert_snapshot!(env.replay(&["fixtures/tiny"]).text(), @"
    exit code 128
    --- stderr
    error: cannot make [CACHE] in the cache
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
fn outputs_that_are_larger_than_files_may_be_name_the_limit() {
    // 72 MB of outputs: memory that processes share is a file to this limit.
    let env = large(18_000_000);
    let told = with_files_up_to(40_000, &env, "fixtures/large");
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: cannot make shared memory for the replay
    caused by: File too large (os error 27)
    hint: raise the size that files may have (ulimit -f)
    ");
    let run = env.replay(&["fixtures/large"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("zeros 18000000  NaN 0  Inf 0  unwritten 0"), "{}", run.text());
}

#[test]
fn noise_and_inputs_need_no_file_where_there_is_memory() {
    // 8 MB of outputs, 16 bytes of noise for each of their elements, and twice as large a shadow beside its
    // inputs.
    let told = with_files_up_to(20_000, &large(2_000_000), "diff fixtures/large main~1 main");
    assert!(!told.contains("error"), "{told}");
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
      twice<<<1, 4>>>  call in replay.toml:2

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

#[test]
fn tensors_that_do_not_fit_are_told_of_before_anything_is_compiled() {
    let env = TestEnv::new().with_kernel("#error no compiler sees this\n", CALL);
    let run = env.replay(&["fixtures/tiny", "--memory", "4"]);
    assert_eq!(run.code, Some(128), "{}", run.text());
    assert!(
        run.stderr.contains("of device memory, and a replay may have 4 bytes"),
        "{}",
        run.text()
    );
    assert!(run.stderr.contains("hint: --memory 1G allows as much"), "{}", run.text());
}

/// A quarter of what memory for tensors and the disk of `folder` hold together: two such tensors fit, seven do not.
fn a_quarter_of_the_room(folder: &Path) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let field = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    let memory: u64 = field.trim().trim_end_matches(" kB").parse().unwrap();
    let disk = rustix::fs::statvfs(folder).unwrap();
    (disk.f_bavail * disk.f_frsize + memory * 1024 / 2) / 4
}

#[test]
fn every_comparison_asks_for_its_room_before_anything_is_compiled() {
    let env = TestEnv::isolated().with_kernel("#error no compiler sees this\n", CALL);
    let elements = a_quarter_of_the_room(&env.repo.root()) / 4;
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    let large = format!("{harness}[outputs.z]\ndtype = \"f32\"\nshape = [{elements}]\n");
    fs::write(env.path("replay.toml"), large).unwrap();
    env.repo.commit_file("k.cu", "#error nor this\n", "Another kernel");
    let commands: [&[&str]; 6] = [
        // What depends on the order of blocks is compared, too.
        &["fixtures/tiny", "--rev", "HEAD"],
        &["diff", "fixtures/tiny", "HEAD~", "HEAD"],
        &["log", "fixtures/tiny", "HEAD~..HEAD"],
        &["bisect", "fixtures/tiny", "--good", "HEAD~", "--bad", "HEAD"],
        &["fixtures/tiny", "--rev", "HEAD", "--against", "HEAD~"],
        &["series", "fixtures/tiny", "--rev", "HEAD", "--against", "HEAD~"],
    ];
    for command in commands {
        let run = env.replay(&[command, &["--memory", "64T"]].concat());
        assert_eq!(run.code, Some(128), "{command:?}: {}", run.text());
        let asked = "the tensors of tiny and their noise take";
        assert!(run.stderr.contains(asked), "{command:?}: {}", run.text());
    }
    // What fits gets as far as the compiler.
    let few = format!("{harness}[outputs.z]\ndtype = \"f32\"\nshape = [9]\n");
    fs::write(env.path("replay.toml"), few).unwrap();
    let run = env.replay(&["fixtures/tiny", "--rev", "HEAD", "--memory", "64T"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
}

#[test]
fn paths_that_are_no_text_do_as_any_others() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let env = TestEnv::new().with_kernel(KERNEL, CALL);
    let folder = env.path("fixtures").join(odd);
    fs::rename(env.path("fixtures/tiny"), &folder).unwrap();
    let programs = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(odd);
    fs::create_dir_all(&programs).unwrap();
    let program = programs.join("replay");
    let _ = fs::remove_file(&program);
    fs::hard_link(env!("CARGO_BIN_EXE_replay"), &program).unwrap();
    let mut command = Command::new(&program);
    env.settle(command.arg(&folder));
    let cache = env.repo.root().join("..").join(odd);
    let run = env.finish(command.env("REPLAY_CACHE_DIR", cache));
    assert_eq!(run.code, Some(0), "{}", run.text());
    fs::remove_file(program).unwrap();
}

/// What `script` says that starts the program as `$REPLAY`.
fn shell(env: &TestEnv, script: &str) -> String {
    let mut command = Command::new("bash");
    env.settle(command.args(["-c", script]));
    env.finish(command.env("REPLAY", env!("CARGO_BIN_EXE_replay"))).text()
}

#[test]
fn limits_of_the_shell_are_told_in_their_own_words() {
    let env = TestEnv::isolated().with_kernel(KERNEL, CALL);
    assert_eq!(env.replay(&["fixtures/tiny"]).code, Some(0));
    let told = shell(&env, "ulimit -n 9; exec $REPLAY fixtures/tiny --fresh");
    assert!(told.starts_with("exit code 128\n"), "{told}");
    assert!(told.contains("Too many open files (os error 24)"), "{told}");
    assert!(
        told.contains("hint: raise the number of files that a process may have open (ulimit -n)"),
        "{told}"
    );
    // Who may raise limits is not bound by them.
    let bound = "setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource";
    let bound = if shell(&env, "id -u").contains("\n0\n") { bound } else { "" };
    let told = shell(
        &env,
        &format!("ulimit -v 8000000; exec {bound} $REPLAY fixtures/tiny --fresh --threads 2"),
    );
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: a replay needs an address space of 35328 MiB, and 7812 MiB are allowed: Operation not permitted (os error 1)
    hint: lift the limit (ulimit -v unlimited), or lower --memory
    ");
    let told = shell(&env, "ulimit -s 64; exec $REPLAY fixtures/tiny --fresh");
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: the shell allows 64 KiB of stack
    hint: allow 512 KiB or more: ulimit -s
    ");
    let told = shell(&env, "ulimit -f 20; exec $REPLAY fixtures/tiny --fresh");
    insta::assert_snapshot!(told, @"
    exit code 128
    --- stderr
    error: cannot make shared memory for the replay
    caused by: File too large (os error 27)
    hint: raise the size that files may have (ulimit -f)
    ");
    let told = shell(
        &env,
        "ulimit -v 8000000; exec $REPLAY fixtures/tiny --fresh --threads 2 --memory 256M",
    );
    assert!(told.starts_with("exit code 0\n"), "{told}");
    let later = env.replay(&["fixtures/tiny"]);
    assert_eq!(later.code, Some(0), "nothing of it is remembered: {}", later.text());
}

#[test]
fn two_runs_of_a_wild_write_say_the_same() {
    let wild = KERNEL.replace("y[i] = 2 * x[i]", "y[i + (blockIdx.x + 1) * 9000] = 2 * x[i]");
    let env = TestEnv::new().with_kernel(&wild, "twice<<<64, 256>>>(x, y, 256);");
    let told = |threads| env.replay(&["fixtures/tiny", "--fresh", "--threads", threads]).text();
    insta::assert_snapshot!(told("2"), @"
    exit code 1
    --- stdout
    tiny at the working tree
    CPU, [COMPILER]

    launches
      twice<<<64, 256>>>  call in replay.toml:2

    accesses
      out of bounds: k.cu:2 writes in twice, block (0, 0, 0), thread (0, 0, 0), 4 bytes at byte 36000 of y

    failed: out-of-bounds access in twice, block (0, 0, 0), thread (0, 0, 0): 35984 bytes past the end of y (16 bytes)
    ");
    for threads in ["1", "2", "8", "2"] {
        assert_eq!(told(threads), told("2"));
    }
}

#[test]
fn neither_a_folder_for_temporary_files_nor_shared_memory_is_needed() {
    let env = TestEnv::isolated().with_kernel(KERNEL, CALL);
    assert_eq!(env.replay(&["fixtures/tiny"]).code, Some(0));
    let told = shell(&env, "TMPDIR=/nonexistent exec $REPLAY fixtures/tiny --fresh");
    assert!(told.starts_with("exit code 0\n"), "{told}");
}

#[test]
fn a_gradient_check_that_was_out_of_time_is_made_again() {
    // The float64 shadow alone waits, for as long as there is a file.
    let kernel = "#include <unistd.h>\n\
        __global__ void k(const float* x, float* y, int n)\n\
        { if (threadIdx.x < n) y[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n\
        void run(const float* x, float* y, float* loss, int n)\n\
        {\n\
          if (sizeof(x[0]) + 1 == 9 && access(\"slow\", F_OK) == 0) for (;;) pause();\n\
          k<<<1, n>>>(x, y, n);\n\
          float host[64];\n\
          cudaMemcpy(host, x, n * sizeof(float), cudaMemcpyDeviceToHost);\n\
          *loss = 0.0f;\n\
          for (int i = 0; i < n; i++) *loss += host[i] * host[i];\n\
        }\n";
    let env = TestEnv::with_own_replays().with_kernel(kernel, "");
    env.repo.write(
        "replay.toml",
        "sources = [\"k.cu\"]\ncall = \"run(x, y, &loss, n);\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\ngradient_of = \"x\"\nof = \"loss\"\n\
         [outputs.loss]\ndtype = \"f32\"\nshape = []\n",
    );
    env.repo.write("slow", "");
    let checked = "matches d loss / d x";
    let slow = env.replay(&["fixtures/tiny", "--timeout", "2"]);
    assert!(!slow.stdout.contains(checked), "{}", slow.text());
    fs::remove_file(env.path("slow")).unwrap();
    let again = env.replay(&["fixtures/tiny", "--timeout", "2"]);
    assert!(again.stdout.contains(checked), "{}", again.text());
}
