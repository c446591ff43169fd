//! `replay bisect` and `replay log` as a user runs them, on the demonstration and on histories of
//! a kernel of one line.

mod accuracy;
mod answers;
mod beside;
mod both;
mod directions;
mod elsewhere;
mod ends;
mod environments;
mod faults;
mod git;
mod hunks;
mod log;
mod markdown;
mod moved;
mod orders;
mod races;
mod recorded;
mod shapes;

use crate::common::env::{Run, TestEnv};

/// How the kernels of these histories are called.
const CALL: &str = "run(x, y, n);";

/// A kernel that multiplies by `factor` after `host` code ran; `note` tells variants apart.
fn kernel(factor: &str, host: &str, note: &str) -> String {
    format!(
        "#include <stdio.h>\n#include <stdlib.h>\n\
         __global__ void k(const float* x, float* y) {{ int i = threadIdx.x; y[i] = {factor}; }}\n\
         void run(const float* x, float* y, int n) {{ {host} k<<<1, n>>>(x, y); }}\n// {note}\n"
    )
}

/// A history of one commit for each (factor, host code), subjects `c0`, `c1` and so on.
fn history(env: TestEnv, versions: &[(&str, &str)]) -> (TestEnv, Vec<String>) {
    let text = |(number, (factor, host)): (usize, &(&str, &str))| {
        kernel(factor, host, &number.to_string())
    };
    committed(env, CALL, &versions.iter().enumerate().map(text).collect::<Vec<_>>())
}

/// A history of one commit for each version of a kernel that is called by `call`.
fn committed(env: TestEnv, call: &str, versions: &[String]) -> (TestEnv, Vec<String>) {
    let env = env.with_kernel(&versions[0], call);
    let mut ids = vec![env.repo.git(&["rev-parse", "HEAD"])];
    for (number, text) in versions.iter().enumerate().skip(1) {
        ids.push(env.repo.commit_file("k.cu", text, &format!("c{number}")));
    }
    (env, ids)
}

/// `text` with numbers in place of short ids.
fn masked(text: &str, ids: &[String]) -> String {
    let mut text = text.to_owned();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&id[..7], &format!("[C{number}]"));
    }
    text
}

/// What a search prints, without the diff of the commit.
fn without_diff(text: &str, ids: &[String]) -> String {
    let text = masked(text, ids);
    text.split("\n\ndiff --git").next().unwrap_or_default().to_owned()
}

/// A search on the fixture of these histories.
fn search(env: &TestEnv, words: &str) -> Run {
    let words: Vec<&str> = words.split(' ').collect();
    env.replay(&[&["bisect", "fixtures/tiny"], words.as_slice()].concat())
}

/// With an empty cache.
fn isolated() -> TestEnv {
    TestEnv::isolated()
}

/// What every commit that is right computes.
const RIGHT: (&str, &str) = ("x[i] * 2.0f", "");
/// The same values but for rounding, which shows at 3.
const DIVIDED: (&str, &str) = ("x[i] / 7.0f", "");
const MULTIPLIED: (&str, &str) = ("x[i] * (1.0f / 7.0f)", "");
const WRONG: (&str, &str) = ("x[i] * 2.5f", "");
const BROKEN: (&str, &str) = ("y(x)", "");
