//! `--report FILE` and `--format html`: pages beside what is printed.

use std::fs;

use crate::common::env::TestEnv;

const KERNEL: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      {\n    int i = threadIdx.x;\n    if (i < n) y[i] = 2 * x[i];\n}\n";

/// A subject that would be markup.
const HOSTILE: &str = "Break <script>alert(1)</script> it";

/// Three commits in `env` after `base`: a README, a defect with a hostile subject, a comment.
fn history(env: TestEnv) -> TestEnv {
    let env = env.with_kernel(KERNEL, "twice<<<1, n>>>(x, y, n);");
    env.repo.git(&["tag", "base"]);
    let defect = KERNEL.replace("2 * x[i]", "2.01f * x[i]");
    env.repo.commit_file("README", "twice\n", "Say what it does");
    env.repo.commit_file("k.cu", &defect, HOSTILE);
    env.repo.commit_file("k.cu", &format!("// Twice.\n{defect}"), "Comment on it");
    env
}

#[test]
fn a_page_tells_what_is_printed_with_the_history_and_pictures() {
    let env = history(TestEnv::new());
    let page = env.path("page.html");
    let search = ["bisect", "fixtures/tiny", "--good", "base", "--bad", "HEAD"];
    let comparison = ["fixtures/tiny", "--against", "base", "--culprit"];
    let range = ["log", "fixtures/tiny", "base..HEAD"];
    let sides = ["diff", "fixtures/tiny", "base", "HEAD"];
    for (arguments, code, graph) in [
        (&search[..], 0, "Graph of 4 commits"),
        (&comparison, 1, "Graph of 4 commits"),
        (&range, 0, "Graph of 3 commits"),
        (&sides, 1, ""),
    ] {
        let printed = env.replay(arguments);
        let run = env.replay(&[arguments, &["--report", "page.html"]].concat());
        assert_eq!((run.code, &run.stdout), (Some(code), &printed.stdout), "{}", run.text());
        let text = fs::read_to_string(&page).expect("a page");
        assert!(text.starts_with("<!DOCTYPE html>"), "{arguments:?}");
        assert!(text.contains(graph) && !text.contains(HOSTILE), "{arguments:?}");
        // Where y lies off, how far, before against after, the error of both sides.
        assert_eq!(text.matches("<figure>").count(), 4, "{arguments:?}: {text}");
        assert!(text.contains("Map of y, 1 row by 4 columns: 4 cells"), "{text}");
        let again = env.replay(&[arguments, &["--format", "html"]].concat());
        assert_eq!(again.code, Some(code));
        // A search says what it found in the cache.
        if ["log", "diff"].contains(&arguments[0]) {
            let values = |page: &str| page.split_once("<footer").expect("the run").0.to_owned();
            let again = values(&again.stdout);
            let text = values(&text);
            assert_eq!(again, text, "a page is made of values alone: {arguments:?}");
        }
        fs::remove_file(&page).expect("a page");
    }
}

#[test]
fn a_graph_says_what_was_tested_and_what_changes_no_kernel_and_marks_the_culprit() {
    // What others have left in the cache would be told as such.
    let env = history(TestEnv::with_own_replays());
    let search = ["bisect", "fixtures/tiny", "--good", "base", "--bad", "HEAD", "--jobs", "1"];
    let page = env.replay(&[&search[..], &["--format", "html"]].concat()).stdout;
    let titles = page.split("<title>").skip(2).map(|rest| {
        let (text, _) = rest.split_once("</title>").expect("its end");
        text.split_once(' ').map_or(text, |(_, text)| text).to_owned() + "\n"
    });
    // Those of charts follow.
    let titles: String = titles.take(4).collect();
    insta::assert_snapshot!(titles, @"
    A kernel: identical
    Say what it does: changes no source of the kernel
    Break &lt;script&gt;alert(1)&lt;/script&gt; it: diverged: y (wrong)
    Comment on it: diverged: y (wrong)
    ");
    let culprit = page.split_once(" culprit\" transform").expect("it is marked").1;
    let (_, title) = culprit.split_once("<title>").expect("its title");
    assert!(title.contains("Break &lt;script&gt;"), "{title}");
    assert!(page.contains("-    if (i &lt; n) y[i] = <b>2</b> * x[i];"), "{page}");
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_is_replayed() {
    let env = TestEnv::new();
    let run = env.replay(&["no/fixture", "--report", "page.pdf"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: the ending of page.pdf names no format of a report
    hint: the endings are .html, .json, .md, .xml
    ");
    let run = env.replay(&["bisect", "x", "--good", "a", "--bad", "b", "--report", "no/page.html"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: there is no folder no for the report
    hint: make it, or name another file with --report
    ");
}
