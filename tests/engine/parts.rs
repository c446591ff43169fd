//! Parts of a call: when an output is last written, and what comes before a launch.

use std::sync::LazyLock;

use replay::backend::Mode;
use replay::summary::POISON_A;
use replay::worker::{CallPart, Ending, Run};

use super::project::{Machine, Project, elements};

static PARTS: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.loss]\ndtype = \"f32\"\nshape = []\n";
    let text = "\
        #include <cstdio>\n\
        #include <cuda_runtime.h>\n\
        __global__ void set(float* to, float value) {\n\
          to[blockIdx.x * blockDim.x + threadIdx.x] = value;\n\
        }\n\
        __global__ void add(float* to, const float* x) { atomicAdd(to, x[0]); }\n\
        __global__ void say(const float* x) { if (threadIdx.x == 0) printf(\"said\\n\"); }\n\
        static void case_tensor(const float* x, float* out, float& loss) {\n\
          set<<<2, 2048>>>(out, 9);\n\
          set<<<16, 256>>>(out, 1);\n\
          loss = 1;\n\
          say<<<1, 2>>>(x);\n\
          say<<<1, 2>>>(out);\n\
        }\n\
        static void case_zero(const float* x, float* out, float& loss) {\n\
          set<<<16, 256>>>(out, 1);\n\
          say<<<1, 2>>>(x);\n\
          add<<<1, 1>>>(out, x);\n\
          loss = 2;\n\
          say<<<1, 2>>>(x);\n\
        }\n\
        static void case_host(const float* x, float* out, float& loss) {\n\
          loss = 3;\n\
          set<<<16, 256>>>(out, 1);\n\
          float first;\n\
          cudaMemcpy(&first, out, sizeof first, cudaMemcpyDeviceToHost);\n\
          loss += first;\n\
          say<<<1, 2>>>(x);\n\
          cudaMemcpy(out, x, sizeof first, cudaMemcpyDeviceToDevice);\n\
        }\n\
        static void case_often(const float* x, float* out, float& loss) {\n\
          for (int i = 0; i < 500; ++i) set<<<16, 256>>>(out, i);\n\
        }\n\
        static void case_never(const float* x, float* out, float& loss) {\n\
          say<<<1, 2>>>(x);\n\
        }\n";
    Project::new(text, "x, out, loss", tables, &[0.0; 4096])
});

fn run(case: &str, part: CallPart) -> Run {
    PARTS.run_in(case, &Mode { part, ..Mode::plain(POISON_A) }, Machine::PLAIN)
}

fn last_write(case: &str, output: &str) -> Option<u64> {
    let watched = run(case, CallPart::Watched(output.to_owned()));
    let whole = run(case, CallPart::Whole);
    assert_eq!((&watched.ending, whole.last_write), (&Ending::Completed, None));
    for (output, view) in whole.outputs() {
        assert_eq!(watched.output(&output.name).unwrap().bytes, view.bytes);
    }
    assert_eq!(watched.printed, whole.printed);
    watched.last_write
}

#[test]
fn the_launch_after_which_nobody_writes_an_output_is_known() {
    // Refused: a block has at most 1024 threads. Launches count that were made.
    assert_eq!(last_write("tensor", "out"), Some(1));
    assert_eq!(last_write("tensor", "loss"), Some(1));
    // A sum of zero is written though it changes nothing.
    assert_eq!(last_write("zero", "out"), Some(3));
    assert_eq!(last_write("zero", "loss"), Some(3));
    assert_eq!(last_write("host", "loss"), Some(1));
    assert_eq!(last_write("host", "out"), Some(2));
    assert_eq!(last_write("never", "out"), None);
}

#[test]
fn several_threads_may_write_what_is_watched_at_the_same_time() {
    let machine = Machine { threads: 8, ..Machine::PLAIN };
    let mode = Mode { part: CallPart::Watched("out".to_owned()), ..Mode::plain(POISON_A) };
    let run = PARTS.run_in("often", &mode, machine);
    assert_eq!((run.ending, run.last_write), (Ending::Completed, Some(500)));
}

#[test]
fn a_part_ends_before_its_launch_and_tells_of_its_output() {
    let before = |case: &str, launch, output: &str| {
        let run = run(case, CallPart::Before { launch, output: output.to_owned() });
        assert_eq!(run.ending, Ending::Completed);
        (elements(&run, output, 1)[0], run.printed)
    };
    assert_eq!(before("tensor", 1, "out"), (1.0, String::new()));
    assert_eq!(before("tensor", 2, "loss"), (1.0, "said\n".to_owned()));
    assert_eq!(before("host", 1, "loss"), (4.0, String::new()));
    // Fewer launches than that are all.
    assert_eq!(before("zero", 9, "loss"), (2.0, "said\nsaid\n".to_owned()));
}
