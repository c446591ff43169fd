//! `replay blame` and `replay shrink` of the demonstrations on a GPU, beside the CPU.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::gpu_lab::{program, root, shared_cache};

/// A demonstration and the revisions of its finding.
struct Story {
    fixture: &'static str,
    culprit: &'static str,
    good: &'static str,
    bad: &'static str,
}

const CHARACTERS: Story =
    Story { fixture: "step0", culprit: "61b3d97", good: "37707d4", bad: "61b3d97" };
const ATTENTION: Story =
    Story { fixture: "lazy_attention", culprit: "6850518", good: "3aa8181", bad: "5025e30" };
const CROSS_ENTROPY: Story =
    Story { fixture: "fused_xent", culprit: "aaf0207", good: "c1d01eb", bad: "4d19332" };

/// Runs a command on a demonstration, in `folder`.
fn replay(folder: &Path, words: &[&str], backend: &str) -> Output {
    let mut command = Command::new(program());
    command.args(words).args(["--backend", backend, "--format", "json"]);
    command.current_dir(folder).env("REPLAY_CACHE_DIR", shared_cache().root());
    command.stdin(Stdio::null()).output().expect("the program runs")
}

fn fixture_path(story: &Story) -> String {
    root().join("fixtures").join(story.fixture).display().to_string()
}

/// The last document that a command wrote.
fn last_document(output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last_line = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last_line).or_else(|_| serde_json::from_str(&stdout)).unwrap_or_else(
        |error| panic!("{error}: {stdout}{}", String::from_utf8_lossy(&output.stderr)),
    )
}

/// The answer of `replay blame`.
struct Blamed {
    /// The names of the hunks of each set that carries the defect.
    carriers: Vec<BTreeSet<String>>,
    way_back: String,
    /// The whole answer, for what goes wrong.
    text: String,
}

fn blame(story: &Story, backend: &str) -> Blamed {
    let folder = TempDir::new().expect("a folder");
    let output = replay(folder.path(), &["blame", &fixture_path(story), story.culprit], backend);
    let document = last_document(&output);
    let text =
        format!("{} on {backend}: {:#}", story.fixture, document["culprit"]["hunks"]["text"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let hunks = &document["culprit"]["hunks"];
    let name = |number: &Value| {
        let number = number.as_u64().expect("a number") as usize;
        hunks["hunks"][number]["name"].as_str().expect("a name").to_owned()
    };
    let mut carriers = Vec::new();
    for carrier in hunks["carriers"].as_array().expect("a list") {
        assert_eq!(carrier["minimal"], true, "{text}");
        carriers.push(carrier["hunks"].as_array().expect("a list").iter().map(name).collect());
    }
    let way_back = hunks["way_back"]["result"].as_str().expect("a word").to_owned();
    Blamed { carriers, way_back, text }
}

/// The way back gives the good bits on the CPU; one of `ways_back_on_gpu` is said of it on a GPU.
fn assert_same_hunks_on_both(story: &Story, ways_back_on_gpu: &[&str]) {
    let [on_cpu, on_gpu] = ["cpu", "cuda"].map(|backend| blame(story, backend));
    println!("{}", on_gpu.text);
    assert_eq!(on_gpu.carriers, on_cpu.carriers, "{}", on_gpu.text);
    assert_eq!(on_cpu.way_back, "good_bits", "{}", on_cpu.text);
    assert!(ways_back_on_gpu.contains(&on_gpu.way_back.as_str()), "{}", on_gpu.text);
}

#[test]
#[ignore = "needs a GPU"]
fn the_hunks_behind_a_wrong_attention_are_the_same_on_a_gpu() {
    // Its `dtau` is a sum of atomics, in another order each time: the same bits are a chance.
    assert_same_hunks_on_both(&ATTENTION, &["good", "good_bits"]);
}

#[test]
#[ignore = "needs a GPU"]
fn the_hunks_behind_an_imprecise_cross_entropy_are_the_same_on_a_gpu() {
    assert_same_hunks_on_both(&CROSS_ENTROPY, &["good_bits"]);
}

/// One of its two hunks alone reads beside its shared memory. The CPU finds that; a device may give values.
#[test]
#[ignore = "needs a GPU"]
fn reversing_the_hunks_behind_a_wrong_gradient_gives_the_good_bits_on_a_gpu() {
    let [on_cpu, on_gpu] = ["cpu", "cuda"].map(|backend| blame(&CHARACTERS, backend));
    println!("{}", on_gpu.text);
    let named_on_cpu: BTreeSet<String> = on_cpu.carriers.into_iter().flatten().collect();
    let named_on_gpu: BTreeSet<String> = on_gpu.carriers.into_iter().flatten().collect();
    let kernel = "src/loss.cu:57-105";
    assert!(
        named_on_gpu.contains(kernel) && named_on_gpu.is_subset(&named_on_cpu),
        "{}",
        on_gpu.text
    );
    if named_on_gpu == named_on_cpu {
        assert_eq!(on_gpu.way_back, "good_bits", "{}", on_gpu.text);
    }
}

/// The smallest fixture with the finding of `story` on a GPU shows it there again, and is less than a fifth of the whole.
fn shrink(story: &Story) -> Value {
    let folder = TempDir::new().expect("a folder");
    let fixture = fixture_path(story);
    let revisions = ["--rev", story.bad, "--against", story.good];
    let words = [&["shrink", fixture.as_str(), "-o", "small"], &revisions[..]].concat();
    let output = replay(folder.path(), &words, "cuda");
    let document = last_document(&output);
    println!("{} on cuda: {}", story.fixture, document["text"]);
    assert_eq!(output.status.code(), Some(0), "{document:#}");
    assert_eq!(document["kept"]["output"], document["finding"]["output"]);
    let [whole, cut] = [&document["bytes"], &document["written"]["bytes"]];
    assert!(cut.as_u64().unwrap() * 5 < whole.as_u64().unwrap(), "{document:#}");
    let again = replay(folder.path(), &[&["small"], &revisions[..]].concat(), "cuda");
    assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stdout));
    document
}

#[test]
#[ignore = "needs a GPU"]
fn a_wrong_gradient_is_cut_to_three_elements_on_a_gpu() {
    let document = shrink(&CHARACTERS);
    let lengths = [0, 1, 2].map(|size| &document["sizes"][size]["after"]);
    assert_eq!(lengths, [1, 1, 3], "{document:#}");
}

#[test]
#[ignore = "needs a GPU"]
fn a_wrong_attention_is_cut_to_more_than_one_head_on_a_gpu() {
    let document = shrink(&ATTENTION);
    let heads = document["sizes"].as_array().unwrap().iter().find(|size| size["name"] == "heads");
    assert!(heads.is_some_and(|heads| heads["after"].as_u64() > Some(1)), "{document:#}");
}

#[test]
#[ignore = "needs a GPU"]
fn an_imprecise_cross_entropy_is_cut_on_a_gpu() {
    let document = shrink(&CROSS_ENTROPY);
    assert!(document["finding"]["text"].as_str().unwrap().contains("imprecise"), "{document:#}");
}
