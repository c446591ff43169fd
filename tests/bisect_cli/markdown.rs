//! The answer as a comment on a pull request.

use crate::bisect_cli::{RIGHT, WRONG, history};
use crate::common::env::{Run, TestEnv};

fn masked(run: &Run, ids: &[String]) -> String {
    let text = crate::bisect_cli::masked(&run.stdout, ids);
    // Ids of blobs depend on the kernel's text alone, and say nothing here.
    let lines = text.lines().filter(|line| !line.starts_with("index "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_culprit_comes_with_its_outputs_and_its_diff_folded() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, WRONG, WRONG]);
    let words = "bisect fixtures/tiny --good main~3 --bad main --jobs 1 --format markdown";
    let run = env.replay(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(masked(&run, &ids), @"
    <!-- replay bisect -->
    ## replay bisect: [C2] is the first bad commit: c2

    | fixture | output | verdict | checksum | distance | beyond noise | worst element |
    | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | diverged | 92be64be → a89dbd09 | rel. 0.25 | 4 of 4 | &#91;2&#93;: 6 → 7.5 |

    - tiny: y is wrong, everywhere
    - [C1], its parent, was tested: identical

    <details><summary>what [C2] changed</summary>

    ```diff
    diff --git a/k.cu b/k.cu
    --- a/k.cu
    +++ b/k.cu
    @@ -1,5 +1,5 @@
     #include <stdio.h>
     #include <stdlib.h>
    -__global__ void k(const float* x, float* y) { int i = threadIdx.x; y[i] = x[i] * 2.0f; }
    +__global__ void k(const float* x, float* y) { int i = threadIdx.x; y[i] = x[i] * 2.5f; }
     void run(const float* x, float* y, int n) {  k<<<1, n>>>(x, y); }
    -// 1
    +// 2
    ```

    </details>

    tiny, good [C0], bad [C3]

    [RUN]
    ");
}

#[test]
fn a_refusal_is_quoted() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT]);
    let words = "bisect fixtures/tiny --good main~1 --bad main --format markdown";
    let run = env.replay(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run, &ids), @r"
    <!-- replay bisect -->
    ## replay bisect: refused

    ```text
    refused: [C1] was said to be bad: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race
    ```

    tiny, good [C0], bad [C1]

    [RUN]
    ");
}
