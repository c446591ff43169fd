//! What others wrote (names, subjects, messages, what kernels print) is words, whatever it holds.

use std::fs;

use crate::common::env::TestEnv;

/// Clears the screen, hides what follows, sets a title, turns the text around; and a line end.
const HOSTILE: &str = "\u{1b}[2J\u{1b}[8m\u{1b}]0;owned\u{7}\u{202e}\u{200b}\u{9b}1m`@all|<b>";

/// With a fixture, a subject, a printf and an identifier that are hostile; the kernel fails.
fn project() -> (TestEnv, String) {
    let kernel = "#include <stdio.h>\n\
                  __global__ void k(const float* x, float* y, int n)\n{\n\
                  if (threadIdx.x == 0) printf(\"\\033[2J\\033[8mdone\\007\\n<!-- replay -->\\n\");\n\
                  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] / 0.0f;\n}\n";
    let env = TestEnv::new().with_kernel(kernel, "k<<<1, 32>>>(x, y, n);");
    env.repo.commit(&format!("Subject {HOSTILE}"));
    let name = format!("a\n{HOSTILE}").replace('/', "");
    fs::rename(env.path("fixtures/tiny"), env.path("fixtures").join(&name)).expect("a folder");
    let path = format!("fixtures/{name}");
    (env, path)
}

/// Our own colours, taken away.
fn without_colours(text: &str) -> String {
    let mut text = text.to_owned();
    for code in ["0", "1", "2", "4", "31", "32", "33", "36"] {
        text = text.replace(&format!("\u{1b}[{code}m"), "");
    }
    text
}

fn assert_harmless(text: &str) {
    let shown = without_colours(text);
    let harmful =
        |c: char| (c.is_control() && c != '\n' && c != '\t') || "\u{202e}\u{200b}".contains(c);
    assert!(!shown.contains(harmful), "{shown:?}");
}

#[test]
fn a_terminal_is_given_words_and_our_own_colours() {
    let (env, path) = project();
    let rev = env.repo.git(&["rev-parse", "HEAD"]);
    let commands: [&[&str]; 5] = [
        &[&path, "--rev", rev.trim()],
        &["diff", &path, "HEAD", "HEAD"],
        &["inspect", &path],
        &["log", &path, "HEAD~1..HEAD"],
        &["bisect", &path, "--good", "HEAD~1", "--bad", "HEAD"],
    ];
    for arguments in commands {
        let mut command = env.command(arguments);
        let output = command.env("CLICOLOR_FORCE", "1").output().expect("the program runs");
        for text in [&output.stdout, &output.stderr] {
            assert_harmless(&String::from_utf8_lossy(text));
        }
        let all = [output.stdout, output.stderr].concat();
        assert!(!all.is_empty(), "{arguments:?}");
    }
    let missing = format!("{path}-none");
    let mut command = env.command(&[&missing]);
    let output = command.env("CLICOLOR_FORCE", "1").output().expect("the program runs");
    assert_harmless(&String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_message_of_the_compiler_is_words() {
    let (env, path) = project();
    let kernel = format!("#error {HOSTILE}\n");
    env.repo.write("k.cu", &kernel);
    let mut command = env.command(&[&path]);
    let output = command.env("CLICOLOR_FORCE", "1").output().expect("the program runs");
    assert_eq!(output.status.code(), Some(125));
    assert_harmless(&String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_comment_and_a_report_for_servers_are_theirs_alone() {
    let (env, path) = project();
    let markdown = env.replay(&[&path, "--rev", "HEAD", "--format", "markdown"]).stdout;
    assert_harmless(&markdown);
    assert_eq!(markdown.matches("<!--").count(), 1, "{markdown}");
    assert!(!markdown.contains("@all") && !markdown.contains("<b>"), "{markdown}");
    let junit = env.replay(&[&path, "--rev", "HEAD", "--format", "junit"]).stdout;
    assert_harmless(&junit);
    quick_junit::Report::deserialize_from_str(&junit).expect("a report");
    let json = env.replay(&[&path, "--rev", "HEAD", "--format", "json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(document["replays"][0]["fixture"], path["fixtures/".len()..]);
}
