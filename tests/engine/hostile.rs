//! Code that does what no kernel should: to its own process, to others, to its account. What is told is what
//! the code did, and nobody else suffers.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use replay::backend::{Mode, ReplayError};
use replay::frontend::Precision;
use replay::summary::POISON_A;
use replay::worker::{Ending, Run, WorkerError};

use super::project::{Machine, Project, elements};

const HEAD: &str = "\
#include <cuda_runtime.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static void fill(float* out) {
  float values[2] = {7, 8};
  cudaMemcpy(out, values, sizeof values, cudaMemcpyHostToDevice);
}
static void sleep_long() { for (;;) pause(); }
";

fn project(text: &str) -> Project {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    Project::new(&format!("{HEAD}{text}"), "x, out", tables, &[1.0, 2.0])
}

/// One run of `body`, behind what `before` declares.
fn run_with(before: &str, body: &str, machine: Machine) -> Run {
    let text =
        format!("{before}\nstatic void case_only(const float* x, float* out) {{\n{body}\n}}\n");
    project(&text).runs("only", machine, 1).pop().unwrap()
}

fn run(body: &str) -> Run {
    run_with("", body, Machine::PLAIN)
}

const SECONDS: Machine = Machine { timeout: Duration::from_secs(2), ..Machine::PLAIN };

fn completes(run: &Run) {
    assert_eq!(run.ending, Ending::Completed, "{}", run.printed);
    assert_eq!(elements(run, "out", 2), [7.0, 8.0]);
}

/// Whether a process whose command line holds `mark` is there.
fn lives(mark: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.into_iter().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|word| word == mark)
    })
}

fn mark(name: &str) -> String {
    format!("replay-test-{name}-{}", std::process::id())
}

#[test]
fn what_the_code_does_to_itself_is_its_own() {
    for (body, ending) in [
        ("kill(getpid(), SIGKILL);", Ending::Killed(9)),
        ("raise(SIGKILL);", Ending::Killed(9)),
        ("kill(0, SIGKILL);", Ending::Killed(9)),
        ("raise(SIGUSR1);", Ending::Killed(libc_number("USR1"))),
        ("raise(SIGHUP);", Ending::Killed(1)),
        ("alarm(1); sleep_long();", Ending::Killed(14)),
        ("kill(getpid(), SIGALRM);", Ending::Killed(14)),
        ("signal(SIGSEGV, SIG_DFL); raise(SIGSEGV);", Ending::Killed(11)),
        ("_exit(101);", Ending::Exited(101)),
        ("exit(77);", Ending::Exited(77)),
    ] {
        assert_eq!(run(body).ending, ending, "{body}");
    }
    for (body, what) in [
        ("abort();", "aborted"),
        ("raise(SIGSEGV);", "out-of-bounds access"),
        ("kill(getpid(), SIGTERM);", "aborted"),
        ("if (fork() == 0) { kill(getppid(), SIGTERM); _exit(0); } sleep_long();", "aborted"),
    ] {
        let Ending::Fault(fault) = run(body).ending else { panic!("{body}") };
        assert_eq!(fault.what, what, "{body}");
    }
}

fn libc_number(name: &str) -> i32 {
    let told = Command::new("bash").args(["-c", &format!("kill -l {name}")]).output().unwrap();
    String::from_utf8(told.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn a_replay_that_others_kill_says_nothing_about_the_code() {
    for signal in ["KILL", "TERM", "SEGV", "ABRT", "INT", "USR1"] {
        let name = mark(&format!("victim-{signal}"));
        let text = format!(
            "static void case_only(const float*, float*) {{\n\
             int file = open(\"/tmp/{name}\", O_CREAT | O_WRONLY, 0600);\n\
             dprintf(file, \"%d\\n\", getpid()); sleep_long(); }}\n"
        );
        let project = project(&text);
        let path = format!("/tmp/{name}");
        let killer = std::thread::spawn({
            let path = path.clone();
            move || {
                let process = loop {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    if text.ends_with('\n') {
                        break text.trim().to_owned();
                    }
                    sleep(Duration::from_millis(5));
                };
                let status = Command::new("kill").args([&format!("-{signal}"), &process]).status();
                assert!(status.unwrap().success());
            }
        });
        let error = project.try_run("only", &Mode::plain(POISON_A), Machine::OPEN).unwrap_err();
        killer.join().unwrap();
        fs::remove_file(path).unwrap();
        let ReplayError::Worker(WorkerError::KilledFromOutside { signal: told, .. }) = error else {
            panic!("{signal}: {error:?}");
        };
        assert_eq!(told, libc_number(signal));
    }
}

#[test]
fn the_processes_above_are_out_of_reach() {
    let run = run("int sum = 0;\n\
         int above = getppid();\n\
         int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGSTOP, 0};\n\
         for (int s : signals) {\n\
           sum += kill(above, s) == 0;\n\
           sum += kill(-above, s) == 0;\n\
           sum += kill(-1, s) == 0;\n\
         }\n\
         for (int hops = 0; above > 0 && hops < 30; ++hops) {\n\
           sum += kill(above, SIGTERM) == 0;\n\
           char name[64]; snprintf(name, sizeof name, \"/proc/%d/stat\", above);\n\
           FILE* stat = fopen(name, \"r\"); above = 0;\n\
           if (stat && fscanf(stat, \"%*d (%*[^)]) %*c %d\", &above) != 1) above = 0;\n\
           if (stat) fclose(stat);\n\
         }\n\
         printf(\"%d\\n\", sum);\n\
         fill(out);");
    completes(&run);
    assert_eq!(run.printed, "0\n");
}

#[test]
fn signals_to_its_own_children_arrive() {
    let run = run("int child = fork();\n\
         if (child == 0) sleep_long();\n\
         kill(child, SIGKILL);\n\
         int status; waitpid(child, &status, 0);\n\
         if (WIFSIGNALED(status) && WTERMSIG(status) == 9) fill(out);");
    completes(&run);
}

#[test]
fn an_account_that_the_code_writes_is_not_believed() {
    for body in [
        // Lines to every descriptor.
        "for (int fd = 3; fd < 256; ++fd)\n\
           dprintf(fd, \"{\\\"done\\\":{\\\"launches\\\":0,\\\"inputs_us\\\":1,\\\"call_us\\\":1,\\\"outputs_us\\\":1}}\\n\");\n\
         _exit(0);",
        // The same to all memory that is shared with others.
        "FILE* maps = fopen(\"/proc/self/maps\", \"r\"); char line[512];\n\
         while (fgets(line, sizeof line, maps)) {\n\
           unsigned long begin, end; char access[8];\n\
           if (sscanf(line, \"%lx-%lx %7s\", &begin, &end, access) != 3) continue;\n\
           if (strcmp(access, \"rw-s\") != 0 || end - begin != 4 << 20) continue;\n\
           const char* done = \"{\\\"done\\\":{\\\"launches\\\":0,\\\"inputs_us\\\":1,\\\"call_us\\\":1,\\\"outputs_us\\\":1}}\";\n\
           char* entries = (char*)begin + 4096; unsigned used = *(unsigned*)begin;\n\
           unsigned length = strlen(done);\n\
           memcpy(entries + used, &length, 4); memset(entries + used + 4, 'x', 16);\n\
           memcpy(entries + used + 20, done, length);\n\
           *(unsigned*)begin = used + 20 + length;\n\
         }\n\
         _exit(0);",
    ] {
        assert_eq!(run(body).ending, Ending::Exited(0), "{body}");
    }
    // Garbage over all of the account loses what it said, and nothing else.
    let garbage = "FILE* maps = fopen(\"/proc/self/maps\", \"r\"); char line[512];\n\
         while (fgets(line, sizeof line, maps)) {\n\
           unsigned long begin, end; char access[8];\n\
           if (sscanf(line, \"%lx-%lx %7s\", &begin, &end, access) != 3) continue;\n\
           if (strcmp(access, \"rw-s\") == 0 && end - begin == 4 << 20) memset((void*)begin, 0xff, 4 << 20);\n\
         }\n\
         _exit(3);";
    assert_eq!(run(garbage).ending, Ending::Exited(3));
}

#[test]
fn descriptors_that_the_code_closes_or_fills_are_its_own() {
    completes(&run("for (int fd = 0; fd < 4096; ++fd) close(fd);\nfill(out);"));
    completes(&run(
        "for (int fd = 0; fd < 256; ++fd) { ftruncate(fd, 0); ftruncate(fd, 1L << 40); write(fd, \"?\", 1); }\n\
         fill(out);",
    ));
    let gone = "for (int fd = 0; fd < 256; ++fd) close(fd);\nclose(1); close(2); sleep_long();";
    let begun = Instant::now();
    let run = run_with("", gone, SECONDS);
    assert!(matches!(run.ending, Ending::TimedOut(..)), "{:?}", run.ending);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn two_gigabytes_of_print_take_bounded_memory() {
    let run = run("static char text[1 << 20]; memset(text, 'x', sizeof text);\n\
         for (int i = 0; i < 2048; ++i) write(1, text, sizeof text);\n\
         write(1, \"end\", 3); fill(out);");
    completes(&run);
    assert!(run.printed.starts_with("xxx") && run.printed.ends_with("xend"));
    assert!(run.printed.contains("[2147418115 bytes left out]"), "{}", run.printed.len());
}

#[test]
fn launches_without_end_are_counted_and_failures_among_them_kept() {
    let kernels = "__global__ void k(float* out) { out[0] = 7; out[1] = 8; }\n";
    let run = run_with(
        kernels,
        "for (int i = 0; i < 100000; ++i) k<<<1, 1025 + i % 2>>>(out);\nk<<<1, 1>>>(out);",
        Machine::PLAIN,
    );
    completes(&run);
    assert_eq!(run.launch_count, 100_001);
    assert!(run.launches.iter().filter(|launch| launch.error.is_some()).count() > 4096);
}

#[test]
fn children_of_the_code_end_with_its_replay() {
    for (name, start) in [
        ("fork", ""),
        ("session", "setsid();"),
        ("daemon", "if (fork() != 0) _exit(0); setsid(); if (fork() != 0) _exit(0);"),
        ("deaf", "for (int s = 1; s < 32; ++s) signal(s, SIG_IGN); setsid();"),
    ] {
        let mark = mark(name);
        let body = format!(
            "if (fork() == 0) {{ {start} execlp(\"sh\", \"sh\", \"-c\", \"sleep 1000; :\", \"{mark}\", nullptr); _exit(1); }}\n\
             usleep(200000); printf(\"%d\\n\", 1); fill(out);"
        );
        let begun = Instant::now();
        completes(&run(&body));
        assert!(begun.elapsed() < Duration::from_secs(30), "{name} holds the pipe");
        assert!(!lives(&mark), "{name}");
        // The same where it is loaded, without a template then.
        let loaded = format!(
            "struct Loud {{ Loud() {{ {body} }} static void fill(float*) {{}} float out[2]; }};"
        )
        .replace("fill(out);", "");
        let run = run_with(&format!("{loaded}\nstatic Loud loud;"), "fill(out);", Machine::PLAIN);
        completes(&run);
        assert!(!lives(&mark), "{name}, loaded");
    }
}

#[test]
fn a_child_that_comes_back_from_the_call_tells_nothing() {
    let run = run("fill(out);\nif (fork() != 0) { wait(nullptr); _exit(5); }");
    assert_eq!(run.ending, Ending::Exited(5));
}

#[test]
fn the_time_covers_a_replay_from_its_begin_to_its_end() {
    let call = "fill(out);";
    let hangs = "struct Hang { Hang() { sleep_long(); } } hang;";
    let ends = "struct Hang { ~Hang() { sleep_long(); } } hang;";
    let stubborn = "for (int s = 1; s < 32; ++s) signal(s, SIG_IGN); sleep_long();";
    let stopped = "raise(SIGSTOP); fill(out);";
    std::thread::scope(|scope| {
        for (before, call) in [(hangs, call), (ends, call), ("", stubborn), ("", stopped)] {
            scope.spawn(move || {
                let begun = Instant::now();
                let run = run_with(before, call, SECONDS);
                assert!(matches!(run.ending, Ending::TimedOut(..)), "{:?}", run.ending);
                assert!(begun.elapsed() < Duration::from_secs(20));
            });
        }
    });
}

#[test]
fn what_destructors_do_counts() {
    let run = run_with("struct End { ~End() { _exit(9); } } end_;", "fill(out);", Machine::PLAIN);
    assert_eq!(run.ending, Ending::Exited(9));
}

#[test]
fn an_output_that_the_code_frees_is_its_failure() {
    let Ending::Fault(fault) = run("fill(out); cudaFree(out);").ending else { panic!() };
    assert_eq!(
        format!("{}: {}", fault.what, fault.detail),
        "output is gone: out cannot be read after the call: invalid argument (cudaErrorInvalidValue)"
    );
}

#[test]
fn two_runs_tell_a_fault_in_the_same_words() {
    let kernels = "__global__ void wild(float* out, long by) { out[by * (blockIdx.x + 1) + threadIdx.x] = 1; }\n";
    for (by, detail) in [
        (40 * 1024, "past the end of out (8 bytes)"),
        (-(1_i64 << 38), "no allocation is near"),
        (1_i64 << 50, "an address that no memory can have"),
        (-5000, "before out (8 bytes)"),
    ] {
        let text = format!(
            "{kernels}static void case_only(const float*, float* out) {{ wild<<<64, 256>>>(out, {by}L); }}\n"
        );
        let project = project(&text);
        let mut told: Vec<String> = Vec::new();
        for threads in [1, 2, 7, 2] {
            let runs = project.runs("only", Machine { threads, ..Machine::PLAIN }, 3);
            told.extend(runs.into_iter().map(|run| format!("{:?}", run.ending)));
        }
        assert!(told[0].contains(detail), "{}", told[0]);
        told.dedup();
        assert_eq!(told.len(), 1, "{told:#?}");
    }
}

#[test]
fn host_code_has_as_much_memory_as_the_device_and_the_machine_has_its_own_besides() {
    let text = r"
__global__ void in_turns(float* out, const float* x) {
  __shared__ float s[1024];
  volatile float own[2048];
  own[threadIdx.x] = x[threadIdx.x % 2];
  s[threadIdx.x] = own[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = s[threadIdx.x + 512] + 6;
}
static char* volatile taken[1000];
static bool take(int mebibytes) {
  for (int i = 0; i < mebibytes; ++i) {
    taken[i] = (char*)malloc(1 << 20);
    if (taken[i] == nullptr) return false;
    memset(taken[i], 1, 1 << 20);
  }
  return true;
}
static void case_takes_much(const float* x, float* out) {
  if (take(800)) fill(out);
  else exit(3);
}
static void case_takes_little(const float* x, float* out) {
  float* scratch;
  if (cudaMalloc(&scratch, 150 << 20) == cudaSuccess && take(150)) in_turns<<<64, 1024>>>(out, x);
  cudaFree(scratch);
  if (cudaMalloc(&scratch, 150 << 20) != cudaSuccess || !take(30)) exit(2);
}
";
    let machine = Machine { memory_limit_bytes: 200 << 20, threads: 4, ..Machine::PLAIN };
    let project = project(text);
    let run = project.runs("takes_much", machine, 1).pop().unwrap();
    assert_eq!(run.ending, Ending::Exited(3));
    for run in project.runs("takes_little", machine, 2) {
        completes(&run);
    }
}

#[test]
fn a_static_variable_with_a_destructor_ends_a_checked_replay_in_no_other_way() {
    let text = "#include <vector>\nstatic void case_only(const float* x, float* out) {\n\
                static std::vector<int> sizes;\nsizes.push_back(2);\nfill(out);\n}\n";
    let mode = Mode::plain(POISON_A);
    let run = project(text).run_as(Precision::Checked, "only", &mode, Machine::PLAIN);
    completes(&run);
}
