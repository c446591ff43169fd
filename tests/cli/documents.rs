//! What the documents show, against what the program does.

use std::fs;
use std::path::PathBuf;

use crate::common::env::TestEnv;

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The README of the project and of each demonstration, the pages of docs/, the workflow.
fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    for folder in ["docs", "kernels"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder").flatten() {
            let path = entry.path();
            let page = if path.is_dir() { path.join("README.md") } else { path };
            let is_page = page.extension().is_some_and(|kind| kind == "md" || kind == "yml");
            if is_page && page.is_file() {
                let inside = page.strip_prefix(root()).expect("below the root");
                found.push(inside.display().to_string());
            }
        }
    }
    found
}

/// The words of a line that is a command of the program, up to a comment or the shell's own words.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let rest = line.strip_prefix("replay ")?;
    let ours = rest.split(" #").next()?.split(['>', '|']).next()?;
    let words = ours.split_whitespace().map(|word| word.trim_matches('"').to_owned());
    Some(words.collect())
}

/// The lines of a page that a reader takes for something to type: indented by four, or fenced.
fn code(page: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn every_command_in_the_documents_and_the_workflow_is_understood() {
    let env = TestEnv::new();
    let mut count = 0;
    let mut wrong = Vec::new();
    for document in documents() {
        let page = read(&document);
        let lines = if document.ends_with(".md") { code(&page) } else { page.lines().collect() };
        for mut words in lines.iter().filter_map(|line| command(line)) {
            words.retain(|word| !word.starts_with(['[', '('])); // Parts that may be left out.
            let shown = words.join(" ");
            // Arguments are read from left to right: what stands before `--help` is checked.
            words.push("--help".to_owned());
            let run = env.replay(&words.iter().map(String::as_str).collect::<Vec<_>>());
            if run.code != Some(0) {
                wrong.push(format!("{document}: replay {shown}\n{}", run.stderr));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 20, "only {count} commands were found");
}

/// Whether `shown` is `real`, where `...` alone on a line stands for any number of lines.
fn agrees(shown: &[&str], real: &[&str]) -> bool {
    match shown.split_first() {
        None => real.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=real.len()).any(|skipped| agrees(rest, &real[skipped..]))
        }
        Some((first, rest)) => {
            let same = |real: &str| {
                // Compilers differ between machines; bits do not.
                first == &real || first.starts_with("CPU, ") && real.starts_with("CPU, ")
            };
            real.split_first().is_some_and(|(next, more)| same(next) && agrees(rest, more))
        }
    }
}

/// The transcripts of a page: what is typed, and what is shown.
fn transcripts(page: &str) -> Vec<(Vec<String>, Vec<&str>)> {
    let mut found: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        let indented = line.strip_prefix("    ");
        if let Some(typed) = indented.filter(|line| line.starts_with("$ replay ")) {
            found.push((command(typed).expect("a command"), Vec::new()));
            inside = true;
        } else if inside && (indented.is_some() || line.is_empty()) {
            let (_, shown) = found.last_mut().expect("one has begun");
            shown.push(indented.unwrap_or(line));
        } else {
            inside = false;
        }
    }
    for (_, shown) in &mut found {
        while shown.last().is_some_and(|line| line.is_empty()) {
            shown.pop();
        }
    }
    found
}

/// Holds every transcript of `document` against what the program prints.
fn shows_what_is_printed(document: &str, count: usize) {
    let page = read(document);
    let transcripts = transcripts(&page);
    assert_eq!(transcripts.len(), count, "{document}");
    let env = TestEnv::new().with_folders(&["fixtures", "kernels"]);
    for (typed, shown) in transcripts {
        let run = env.replay(&typed.iter().map(String::as_str).collect::<Vec<_>>());
        let real: Vec<&str> = run.stdout.trim_end().lines().collect();
        assert!(
            agrees(&shown, &real),
            "{document} shows\n{}\nbut `replay {}` prints\n{}",
            shown.join("\n"),
            typed.join(" "),
            run.text()
        );
    }
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    shows_what_is_printed("README.md", 6);
}

#[test]
fn the_stories_of_the_demonstrations_show_what_the_program_prints() {
    shows_what_is_printed("docs/shrink.md", 1);
    shows_what_is_printed("kernels/fused_xent/README.md", 1);
    shows_what_is_printed("kernels/lazy_attention/README.md", 1);
}

#[test]
fn a_transcript_that_differs_in_one_line_is_not_what_is_printed() {
    let real = ["a", "b", "c", "d"];
    assert!(agrees(&["a", "...", "d"], &real));
    assert!(agrees(&["a", "b", "...", "c", "d", "..."], &real));
    assert!(!agrees(&["a", "...", "c"], &real));
    assert!(!agrees(&["a", "x", "c", "d"], &real));
    assert!(!agrees(&["a", "b", "c"], &real));
}

/// The only block of `page` in the language `name`.
fn fenced_block<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("```{name}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_site_has_every_page() {
    let contents = read("ci/site/index.rst");
    let pages = documents().into_iter().filter(|page| page.ends_with(".md"));
    let missing: Vec<String> = pages
        .filter(|page| !contents.contains(&format!("   {}\n", &page[..page.len() - 3])))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_first_five_minutes_go_as_their_page_says() {
    let page = read("docs/getting-started.md");
    let env = TestEnv::new();
    let kernels = fenced_block(&page, "cuda");
    // The page begins in an empty folder.
    fs::remove_dir_all(env.path(".git")).expect("a repository");
    env.repo.write("rmsnorm.cu", kernels);
    let init = ["init", "rmsnorm.cu", "--random", "rows=4,cols=96"];
    let without_repository = env.replay(&init);
    assert!(
        without_repository.stderr.contains("make one with `git init`"),
        "{}",
        without_repository.text()
    );
    let typed = page.find(&format!("replay {}\n", init.join(" "))).expect("the first command");
    assert!(page[..typed].contains("\n    git init "));
    env.repo.git(&["init", "-q", "-b", "main", "--template="]);
    assert_eq!(env.replay(&init).code, Some(0));
    let draft = fs::read_to_string(env.path("replay.toml")).expect("a draft");
    assert!(draft.contains("[inputs.w]\ndtype = \"f32\"\nshape = [\"cols\"]\n"), "{draft}");
    env.repo.commit("Describe the kernels to replay");

    let narrow = kernels.replace("<<<rows, 128>>>", "<<<rows, 64>>>");
    let wrong = narrow.replace("row[i] * r * r * mean", "row[i] * r * mean");
    let mut real = vec![env.replay(&["fixtures/random"])];
    for (sources, subject) in [(&narrow, "Use 64 threads a row"), (&wrong, "Save a multiplication")]
    {
        env.repo.write("rmsnorm.cu", sources);
        real.push(env.replay(&["fixtures/random", "--against", "HEAD"]));
        env.repo.commit(subject);
    }
    let shown = transcripts(&page);
    assert_eq!(shown.len(), real.len());
    for ((typed, shown), run) in shown.iter().zip(&real) {
        let lines: Vec<&str> = run.stdout.trim_end().lines().collect();
        assert!(agrees(shown, &lines), "{typed:?} prints\n{}", run.text());
    }

    env.repo.write("rmsnorm.cu", wrong.replace("1e-5f", "1.0e-5f"));
    env.repo.commit("Write the epsilon out");
    let search = ["bisect", "fixtures/random", "--good", "HEAD~3", "--bad", "HEAD"];
    let found = env.replay(&search).stdout;
    assert!(found.contains("is the first bad commit: Save a multiplication"), "{found}");
}
