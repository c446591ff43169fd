//! Bundles made by the git command line, whole, partial and damaged.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use crate::common::repo::TestRepo;
use insta::assert_snapshot;
use replay::history::{History, HistoryError, SourceSpec};

fn spec() -> SourceSpec {
    SourceSpec { sources: vec!["loss.cu".into()], ..SourceSpec::default() }
}

fn small_history() -> TestRepo {
    let repo = TestRepo::new();
    repo.commit_file("loss.cu", "one\n", "First");
    repo.git(&["tag", "-a", "v1", "-m", "first"]);
    repo.commit_file("loss.cu", "two\n", "Second");
    repo.git(&["checkout", "-q", "-b", "topic"]);
    repo.commit_file("loss.cu", "three\n", "Third");
    repo
}

/// A bundle of `what`, beside the repository.
fn bundle(repo: &TestRepo, options: &[&str], what: &[&str]) -> PathBuf {
    let path = repo.beside("all.bundle");
    let mut arguments = vec!["bundle", "create", "-q"];
    arguments.extend(options);
    arguments.push(path.to_str().expect("UTF-8"));
    arguments.extend(what);
    repo.git(&arguments);
    path
}

/// The text of an error, with the temporary folder's name taken out.
fn shown<T: std::fmt::Debug>(repo: &TestRepo, result: Result<T, HistoryError>) -> String {
    let error = result.expect_err("an error");
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!("\ncaused by: {cause}");
        source = cause.source();
    }
    if let Some(hint) = error.hint() {
        text += &format!("\nhint: {hint}");
    }
    text.replace(repo.beside("").to_str().expect("UTF-8"), "/tmp/")
}

#[test]
fn a_bundle_reads_like_the_repository_it_was_made_from() {
    let repo = small_history();
    let source = History::open(&repo.root()).unwrap();
    for version in ["--version=2", "--version=3"] {
        let bundled = History::open(&bundle(&repo, &[version], &["--all"])).unwrap();
        assert!(bundled.is_bundle());
        for rev in ["HEAD", "main", "topic", "v1", "topic~2", "refs/heads/main", "v1^{}"] {
            assert_eq!(bundled.resolve(rev).unwrap(), source.resolve(rev).unwrap(), "{rev}");
        }
        assert_eq!(bundled.head().unwrap(), source.head().unwrap());
        assert_eq!(bundled.range("v1..topic").unwrap(), source.range("v1..topic").unwrap());
        let main = source.resolve("main").unwrap();
        let expected = source.source_set(&main, &spec()).unwrap();
        assert_eq!(bundled.source_set(&main, &spec()).unwrap(), expected);
    }
}

#[test]
fn a_bundle_without_head_opens_at_its_branch_or_tag() {
    let repo = small_history();
    let head = |what: &str| {
        History::open(&bundle(&repo, &[], &[what])).unwrap().head().unwrap().id.to_string()
    };
    assert_eq!(head("main"), repo.git(&["rev-parse", "main"]));
    assert_eq!(head("topic"), repo.git(&["rev-parse", "topic"]));
    assert_eq!(head("v1"), repo.git(&["rev-parse", "v1^{}"]));
}

#[test]
fn a_bundle_has_no_working_tree() {
    let repo = small_history();
    let history = History::open(&bundle(&repo, &[], &["--all"])).unwrap();
    assert_snapshot!(shown(&repo, history.working_tree(&spec())), @r"
    `/tmp/all.bundle` has no working tree
    hint: name a revision with --rev
    ");
}

#[test]
fn a_partial_bundle_names_what_it_builds_on() {
    let repo = small_history();
    let path = bundle(&repo, &[], &["v1..topic"]);
    assert_snapshot!(shown(&repo, History::open(&path)), @r"
    bundle `/tmp/all.bundle` builds on commits that it does not hold: bd774652d5e6efe9e07e7ea195a0cd333724b958 First
    hint: make a complete bundle: git bundle create FILE --all
    ");
}

/// A bundle with another header before the same pack.
fn with_header(repo: &TestRepo, header: &str) -> PathBuf {
    let whole = fs::read(bundle(repo, &[], &["main"])).unwrap();
    let pack = whole.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
    let path = repo.beside("other.bundle");
    fs::write(&path, [header.as_bytes(), &whole[pack..]].concat()).unwrap();
    path
}

#[test]
fn a_header_that_makes_no_sense_is_refused_with_its_line() {
    let repo = small_history();
    let id = repo.git(&["rev-parse", "main"]);
    let absent = "1".repeat(40);
    let error = |header: &str| shown(&repo, History::open(&with_header(&repo, header)));
    let first_line = |header: &str| error(header).lines().next().unwrap().to_owned();
    assert_snapshot!(error("# v4 git bundle\n\n"), @"bundle `/tmp/other.bundle` needs version 4, which is not supported");
    assert_snapshot!(error("# v3 git bundle\n@filter=blob:none\n\n"), @"bundle `/tmp/other.bundle` needs capability `filter=blob:none`, which is not supported");
    assert_snapshot!(error("# v2 git bundle\n@object-format=sha1\n\n"), @r"
    corrupt bundle `/tmp/other.bundle`: line 2: a capability in version 2
    hint: copy the bundle again, and check it with: git bundle verify FILE
    ");
    assert_snapshot!(first_line("# v2 git bundle\n\n"), @"corrupt bundle `/tmp/other.bundle`: line 2: it names no reference");
    assert_snapshot!(first_line("# v2 git bundle\n123 refs/heads/main\n\n"), @"corrupt bundle `/tmp/other.bundle`: line 2: no object id of 40 digits");
    assert_snapshot!(first_line(&format!("# v2 git bundle\n{id}\n\n")), @"corrupt bundle `/tmp/other.bundle`: line 2: an id without a reference");
    assert_snapshot!(first_line(&format!("# v2 git bundle\n{id} refs/heads/a..b\n\n")), @"corrupt bundle `/tmp/other.bundle`: `refs/heads/a..b` is no name of a reference");
    assert_snapshot!(first_line(&format!("# v2 git bundle\n{absent} refs/heads/main\n\n")), @"corrupt bundle `/tmp/other.bundle`: `refs/heads/main` is at 1111111111111111111111111111111111111111, which its pack does not hold");
    assert_snapshot!(first_line(&format!("# v2 git bundle\n{id} refs/heads/main\n\nx")), @"corrupt bundle `/tmp/other.bundle`: no pack follows its header");
    assert_snapshot!(first_line("# v2 git bundle\n\u{0}"), @"corrupt bundle `/tmp/other.bundle`: line 2: not UTF-8");
}

#[test]
fn a_name_outside_of_the_references_writes_no_file_there() {
    let repo = small_history();
    let id = repo.git(&["rev-parse", "main"]);
    for name in
        ["../../evil", "refs/../../evil", "/evil", "refs/heads/.lock", "config", "objects/info"]
    {
        let path = with_header(&repo, &format!("# v2 git bundle\n{id} {name}\n\n"));
        let result = History::open_with_cache(&path, &repo.beside("cache"));
        assert!(matches!(result, Err(HistoryError::BundleHeader { .. })), "{name}: {result:?}");
    }
    assert!(!repo.beside("evil").exists() && !repo.beside("cache/evil").exists());
}

#[test]
fn a_truncated_bundle_is_refused_at_any_length() {
    let repo = small_history();
    let whole = fs::read(bundle(&repo, &[], &["--all"])).unwrap();
    let cache = repo.beside("cache");
    let path = repo.beside("cut.bundle");
    let tenths = (1..10).map(|n| whole.len() * n / 10);
    for length in tenths.chain([3, 15, 16, whole.len() - 1]) {
        fs::write(&path, &whole[..length]).unwrap();
        let error = History::open_with_cache(&path, &cache).unwrap_err();
        assert!(
            matches!(error, HistoryError::BundleHeader { .. } | HistoryError::BundlePack { .. }),
            "{length}: {error}"
        );
        assert_eq!(fs::read_dir(cache.join("bundles")).unwrap().count(), 0, "left behind");
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_snapshot!(shown(&repo, History::open(&path)), @r"
    corrupt bundle `/tmp/cut.bundle`: its pack cannot be read
    caused by: missing trailer at the end of the pack
    hint: copy the bundle again, and check it with: git bundle verify FILE
    ");
    fs::write(&path, &whole[..40]).unwrap();
    assert_snapshot!(shown(&repo, History::open(&path)), @r"
    corrupt bundle `/tmp/cut.bundle`: line 2: it ends within its header
    hint: copy the bundle again, and check it with: git bundle verify FILE
    ");
}

#[test]
fn a_flipped_bit_in_the_pack_is_always_found() {
    let repo = small_history();
    let whole = fs::read(bundle(&repo, &[], &["--all"])).unwrap();
    let pack = whole.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
    let path = repo.beside("flipped.bundle");
    for position in 0..whole.len() {
        // A sample: each costs a repository.
        if position % 7 != 0 && position != pack {
            continue;
        }
        let mut flipped = whole.clone();
        flipped[position] ^= 1 << (position % 8);
        fs::write(&path, flipped).unwrap();
        let result = History::open(&path);
        assert!(position < pack || result.is_err(), "byte {position} of the pack");
    }
}

#[test]
fn a_cached_bundle_is_unpacked_once_and_again_when_damaged() {
    let repo = small_history();
    let path = bundle(&repo, &[], &["--all"]);
    let cache = repo.beside("cache");
    let head = History::open_with_cache(&path, &cache).unwrap().head().unwrap();
    let home = fs::read_dir(cache.join("bundles")).unwrap().next().unwrap().unwrap().path();
    let made = || fs::metadata(home.join("manifest")).unwrap().modified().unwrap();
    let first = made();
    assert_eq!(History::open_with_cache(&path, &cache).unwrap().head().unwrap(), head);
    assert_eq!(made(), first);

    let pack =
        fs::read_dir(home.join("repo.git/objects/pack")).unwrap().next().unwrap().unwrap().path();
    let damage: [&dyn Fn(); 4] = [
        &|| fs::remove_file(home.join("manifest")).unwrap(),
        &|| fs::remove_file(home.join("repo.git/HEAD")).unwrap(),
        &|| fs::write(home.join("repo.git/config"), "[core]\nbare = false\n").unwrap(),
        &|| {
            fs::remove_file(&pack).unwrap();
            fs::write(&pack, "damaged").unwrap();
        },
    ];
    for damage in damage {
        damage();
        assert_eq!(History::open_with_cache(&path, &cache).unwrap().head().unwrap(), head);
        assert_eq!(fs::read_dir(cache.join("bundles")).unwrap().count(), 1, "left behind");
    }
}

#[test]
fn all_references_of_a_bundle_are_unpacked_to_one_file() {
    let repo = small_history();
    let head = repo.git(&["rev-parse", "HEAD"]);
    repo.git(&["tag", "-a", "-m", "An annotated one", "noted", "HEAD~1"]);
    for number in 0..20 {
        repo.git(&["update-ref", &format!("refs/heads/deep/{number}"), "HEAD"]);
    }
    let path = bundle(&repo, &[], &["--all"]);
    let cache = repo.beside("cache");
    let history = History::open_with_cache(&path, &cache).unwrap();
    assert_eq!(history.resolve("deep/7").unwrap().id.to_string(), head);
    assert_eq!(history.resolve("noted").unwrap(), history.resolve("HEAD~1").unwrap());
    let home = fs::read_dir(cache.join("bundles")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(home.join("repo.git/refs/heads")).unwrap().count(), 0);
}

#[test]
fn a_cached_bundle_in_the_place_of_another_is_not_believed() {
    let one = small_history();
    let other = small_history();
    other.commit_file("more.txt", "more", "One more");
    let paths = [&one, &other].map(|repo| bundle(repo, &[], &["--all"]));
    let cache = one.beside("cache");
    let head =
        |path: &Path| History::open_with_cache(path, &cache).unwrap().head().unwrap().subject;
    assert_eq!(head(&paths[0]), "Third");
    let place = || fs::read_dir(cache.join("bundles")).unwrap().next().unwrap().unwrap().path();
    let first = place();
    let aside = one.beside("aside");
    fs::rename(&first, &aside).unwrap();
    assert_eq!(head(&paths[1]), "One more");
    let second = place();
    fs::remove_dir_all(&second).unwrap();
    fs::rename(&aside, &second).unwrap();
    assert_eq!(head(&paths[1]), "One more");
}

#[test]
fn many_may_open_one_bundle_at_once() {
    let repo = small_history();
    let path = bundle(&repo, &[], &["--all"]);
    let cache = repo.beside("cache");
    let heads: Vec<String> = std::thread::scope(|scope| {
        let open = || History::open_with_cache(&path, &cache).unwrap().head().unwrap().subject;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(heads.iter().all(|subject| subject == "Third"));
    assert_eq!(fs::read_dir(cache.join("bundles")).unwrap().count(), 1);
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let repo = small_history();
    let path = bundle(&repo, &[], &["--all"]);
    fs::write(repo.beside("cache"), "a file").unwrap();
    let result = History::open_with_cache(&path, &repo.beside("cache"));
    assert_snapshot!(shown(&repo, result), @r"
    failed to create `/tmp/cache/bundles`
    caused by: Not a directory (os error 20)
    ");
}
