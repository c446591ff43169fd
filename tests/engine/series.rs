//! Several replays of one artifact, which come from one template: each is as alone as the first.

use std::time::Duration;

use replay::worker::{Ending, Run};

use super::project::{Machine, Project, elements};

/// Four runs of one trial of the only case of `text`.
fn runs(text: &str, machine: Machine) -> Vec<Run> {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let text = format!(
        "#include <cstdio>\n#include <unistd.h>\n\
         __global__ void put_kernel(float* to, float a, float b) {{ to[0] = a, to[1] = b; }}\n\
         static void put(float* to, float a, float b) {{ put_kernel<<<1, 1>>>(to, a, b); }}\n\
         static float get(const float* from) {{\n\
           float first;\n\
           cudaMemcpy(&first, from, sizeof first, cudaMemcpyDeviceToHost);\n\
           return first;\n\
         }}\n{text}"
    );
    Project::new(&text, "x, out", tables, &[1.0, 2.0]).runs("only", machine, 4)
}

fn first_outputs(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| elements(run, "out", 1)[0]).collect()
}

#[test]
fn what_one_replay_leaves_behind_no_other_sees() {
    let text = "\
        static int calls = 0;\n\
        static float* kept = nullptr;\n\
        __device__ int launches = 0;\n\
        __global__ void count(float* out) { out[0] = ++launches; out[1] = 0; }\n\
        static void case_only(const float* x, float* out) {\n\
          count<<<1, 1>>>(out);\n\
          put(out, get(out) + 10 * ++calls + (kept ? 100 : 0), 0);\n\
          cudaMalloc(&kept, 64);\n\
          put(const_cast<float*>(x), 7, 7);\n\
        }\n";
    let runs = runs(text, Machine::PLAIN);
    assert_eq!(first_outputs(&runs), [11.0; 4]);
    let processes = "static void case_only(const float* x, float* out) {\n\
                     put(out, getpid() % 1000000, get(x)); }\n";
    let mut processes = first_outputs(&self::runs(processes, Machine::PLAIN));
    processes.dedup();
    assert_eq!(processes.len(), 4);
}

#[test]
fn what_initialisers_print_every_replay_prints() {
    let body = "static void case_only(const float*, float* out) {\n\
                put(out, 1, 1); printf(\"called\\n\"); }\n";
    for (print, expected) in [
        ("printf(\"loaded\\n\")", "loaded\ncalled\n"),
        ("fputs(\"loaded\\n\", stderr)", "loaded\ncalled\n"),
    ] {
        let runs = runs(&format!("static int loaded = {print};\n{body}"), Machine::PLAIN);
        for run in runs {
            assert_eq!((run.ending, run.printed.as_str()), (Ending::Completed, expected));
        }
    }
}

#[test]
fn initialisers_that_start_threads_or_end_the_process_do_so_in_every_replay() {
    let body = "static void case_only(const float* x, float* out) { put(out, 1, 1); }\n";
    let exit = format!("struct Loud {{ Loud() {{ _exit(5); }} }} loud;\n{body}");
    for run in runs(&exit, Machine::PLAIN) {
        assert_eq!(run.ending, Ending::Exited(5));
    }
    let threads = "\
        #include <pthread.h>\n\
        static volatile int beats = 0;\n\
        static void* beat(void*) { for (;;) { beats = beats + 1; usleep(1000); } }\n\
        static pthread_t heart;\n\
        static int started = pthread_create(&heart, nullptr, beat, nullptr);\n\
        static void case_only(const float* x, float* out) {\n\
          int before = beats;\n\
          while (beats == before) usleep(1000);\n\
          put(out, 1, 1);\n\
        }\n";
    assert_eq!(first_outputs(&runs(threads, Machine::PLAIN)), [1.0; 4]);
}

#[test]
fn a_replay_that_hangs_or_crashes_ends_alone() {
    let hang = "static void case_only(const float*, float*) { for (;;) usleep(1000); }\n";
    let second = Machine { timeout: Duration::from_secs(1), ..Machine::PLAIN };
    for run in runs(hang, second) {
        assert!(matches!(run.ending, Ending::TimedOut(..)), "{:?}", run.ending);
    }
    let crash = "static void case_only(const float*, float* out) { *(volatile int*)8 = 1; }\n";
    for run in runs(crash, Machine::PLAIN) {
        let Ending::Fault(fault) = run.ending else { panic!("{:?}", run.ending) };
        assert_eq!(fault.what, "out-of-bounds access");
    }
    let exit = "static void case_only(const float*, float*) { printf(\"bye\"); _Exit(3); }\n";
    for run in runs(exit, Machine::PLAIN) {
        assert_eq!(run.ending, Ending::Exited(3));
    }
}

#[test]
fn what_a_replay_writes_to_a_large_input_no_other_sees() {
    // Such inputs lie in memory once. The last byte does not end a page.
    const COUNT: usize = (4 << 20) / 4 + 3;
    let text = "__global__ void turn(float* x, float* out, int count) {\n\
           int i = blockIdx.x * 256 + threadIdx.x;\n\
           if (i < count) { out[i] = x[i]; x[i] = -1; }\n\
           if (i == count) x[i] = 7;\n\
         }\n\
         static void case_only(const float* x, float* out, long count) {\n\
           turn<<<count / 256 + 1, 256>>>(const_cast<float*>(x), out, count);\n\
         }\n";
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let x: Vec<f32> = (0..COUNT).map(|index| index as f32).collect();
    let runs = Project::new(text, "x, out, n", tables, &x).runs("only", Machine::PLAIN, 3);
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    for run in runs {
        assert!(run.output("out").is_some_and(|out| out.bytes == bytes), "{:?}", run.ending);
        let size = bytes.len();
        assert_eq!(run.overruns, [format!("x has {size} bytes, byte {size} was written")]);
    }
}
