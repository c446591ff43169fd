//! A report that is kept names what it comes from: command line, version, machine, date, fixture, revisions.

use std::fs;
use std::fs::File;

use crate::common::env::TestEnv;

const KERNEL: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

/// Two commits that give the same; the second is `HEAD`. Their abbreviations.
fn history() -> (TestEnv, [String; 2]) {
    let env = TestEnv::new().with_kernel(KERNEL, "twice<<<1, n>>>(x, y, n);");
    env.repo.git(&["tag", "base"]);
    env.repo.commit_file("k.cu", &format!("// Twice.\n{KERNEL}"), "Comment on it");
    let short = |rev: &str| env.repo.git(&["rev-parse", "--short", rev]).trim().to_owned();
    let revisions = [short("base"), short("HEAD")];
    (env, revisions)
}

/// Whether `text` holds a date such as 2024-02-29T23:59:59Z.
fn has_date(text: &str) -> bool {
    let digits = |part: &str, number: usize| {
        part.len() == number && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.match_indices('T').any(|(at, _)| {
        let day = text.get(at.saturating_sub(10)..at).unwrap_or_default();
        let time = text.get(at + 1..at + 10).unwrap_or_default();
        day.split('-').map(str::len).eq([4, 2, 2])
            && digits(&day.replace('-', ""), 8)
            && time.ends_with('Z')
            && digits(&time.replace([':', 'Z'], ""), 6)
    })
}

fn assert_names_its_run(text: &str, what: &str, parts: &[&str]) {
    let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
    let plain = text.replace("&#95;", "_").replace("&#126;", "~").replace("&#39;", "'");
    for part in [parts, &[env!("CARGO_PKG_VERSION"), &machine, "tiny"]].concat() {
        assert!(plain.contains(part), "{what} lacks {part}: {text}");
    }
    assert!(has_date(text), "{what} has no date: {text}");
}

#[test]
fn a_kept_report_of_any_format_names_both_revisions_fixture_command_version_machine_and_date() {
    let (env, [before, after]) = history();
    let both = [before.as_str(), after.as_str()];
    let ends = ["--good", "base", "--bad", "HEAD", "--on", "bits"];
    let commands: [(&[&str], &[&str], &[&str]); 5] = [
        (
            &["fixtures/tiny", "--rev", "HEAD", "--against", "base"],
            &both,
            &["html", "json", "md", "xml"],
        ),
        (&["diff", "fixtures/tiny", "base", "HEAD"], &both, &["html", "json"]),
        (&["log", "fixtures/tiny", "base..HEAD"], &[&after], &["html", "json"]),
        (&[&["bisect", "fixtures/tiny"], &ends[..]].concat(), &both, &["html", "json", "md"]),
        (&["series", "fixtures/tiny", "--rev", "HEAD"], &[&after], &["html", "json"]),
    ];
    for (words, revisions, endings) in commands {
        for ending in endings {
            let name = format!("kept.{ending}");
            env.replay(&[words, &["--report", &name]].concat());
            let text = fs::read_to_string(env.path(&name)).expect("a report");
            let command = format!("replay {} --report {name}", words.join(" "));
            assert_names_its_run(
                &text,
                &format!("{command}: {name}"),
                &[revisions, &[&command]].concat(),
            );
        }
    }
}

#[test]
fn a_report_of_a_search_in_json_has_the_lines_that_are_printed() {
    let (env, _) = history();
    let words = ["bisect", "fixtures/tiny", "--good", "base", "--bad", "HEAD", "--jobs", "1"];
    let printed = env.replay(&[&words[..], &["--format", "json"]].concat()).stdout;
    env.replay(&[&words[..], &["--report", "kept.json"]].concat());
    let kept = fs::read_to_string(env.path("kept.json")).expect("a report");
    // The first line has the words of the command.
    let events = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(events(&kept), events(&printed));
    assert!(kept.lines().count() > 3 && kept.contains(r#""event":"concluded""#), "{kept}");
}

#[test]
fn a_text_that_is_written_to_a_file_begins_with_its_run_and_one_for_a_reader_does_not() {
    let (env, [before, after]) = history();
    let words = ["bisect", "fixtures/tiny", "--good", "base", "--bad", "HEAD"];
    let file = File::create(env.path("kept.txt")).expect("a file");
    env.command(&words).stdout(file).output().expect("the program runs");
    let text = fs::read_to_string(env.path("kept.txt")).expect("a text");
    let read = env.replay(&words).stdout;
    let head = text.strip_suffix(&read).unwrap_or_else(|| panic!("{text} ends with {read}"));
    assert_names_its_run(
        head,
        "the head",
        &[&before, &after, &format!("replay {}", words.join(" "))],
    );
    assert!(!has_date(&read), "{read}");
}
