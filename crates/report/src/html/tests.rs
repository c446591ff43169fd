//! Pages as documents: well formed, self-contained, harmless whatever others wrote.

use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::*;
use crate::{RefusedFixture, ReportEntry, Revision, RunRecord, create_sample_entry};
use replay_base::tensor::{DType, Dim, TensorView};
use replay_bisect::{Knowledge, LineageCommit};
use replay_engine::judge::{
    Accesses, Judgement, LaunchChange, OutputJudgement, OutputPicture, Story, TrustedReplay,
    Verdict,
};
use replay_engine::trial::{CheckedReplay as Checking, Status};
use replay_history::{Commit, CommitId};
use replay_numerics::compare::{Agreement, Comparison, WorstElement};
use replay_numerics::noise::{NoiseRef, NoiseSummary};
use replay_numerics::picture::{Picture, Scene};
use replay_runtime::report::LaunchRecord;
use replay_search::TestAnswer;

/// A name that is markup, ends attributes and comments, hides itself and turns the text around it.
pub(super) const HOSTILE: &str = "</title></style></script><script>alert(1)</script>\"' onload=x <!--\u{202e}\u{1b}[31m&amp;\u{9b}";

/// Elements of HTML that are never closed.
const VOID: [&str; 3] = ["meta", "input", "br"];

/// What a page holds that others can refer to, and what it refers to.
#[derive(Default)]
pub(super) struct Seen {
    pub ids: BTreeSet<String>,
    pub links: BTreeSet<String>,
    pub elements: Vec<String>,
}

/// Reads a part of a page.
pub(super) fn read_part(part: &str) -> Seen {
    let page =
        format!("<!DOCTYPE html><html lang=\"en\"><style></style><script></script>{part}</html>");
    read(&page)
}

/// A commit of a lineage whose name is hostile.
pub(super) fn kin(parents: &[usize], knowledge: Knowledge) -> LineageCommit {
    let commit = Commit {
        id: made_up_commit(knowledge as u8),
        short: "0000000".to_owned(),
        subject: HOSTILE.to_owned(),
        author_name: HOSTILE.to_owned(),
        time_s: 0,
        parents: Vec::new(),
    };
    let answer = Some(TestAnswer::Bad);
    let diff = format!("-{HOSTILE}\n+{HOSTILE}\n");
    LineageCommit { commit, parents: parents.to_vec(), knowledge, answer, seen: None, diff }
}

/// A picture of `row` by `column`, every cell of which is another than the one beside it.
pub(super) fn picture(name: &str, columns: usize) -> OutputPicture {
    let shape = [columns, columns];
    let old: Vec<f32> = (0..columns * columns).map(|at| 1.0 + at as f32).collect();
    let off = |(at, value): (usize, &f32)| match at % 5 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => value * 2.0,
        3 => value * (1.0 + 50.0 * f32::EPSILON),
        _ => *value,
    };
    let new: Vec<f32> = old.iter().enumerate().map(off).collect();
    let bytes = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let old = bytes(&old);
    let new = bytes(&new);
    let view = |bytes| TensorView { dtype: DType::F32, shape: &shape, bytes };
    let noise = NoiseRef { base: None, got: None };
    let base = Some((view(&old), noise));
    let scene = Scene { got: view(&new), again: None, base, oracle: Some(view(&old)) };
    OutputPicture { name: name.to_owned(), picture: Picture::draw(&scene) }
}

/// Reads a page as XML would have it.
///
/// # Panics
/// Where it is not well formed, fetches something, or has a picture without words.
pub(super) fn read(page: &str) -> Seen {
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{}", &page[..80]);
    let plain = page.replacen("<!DOCTYPE html>", "", 1);
    // Raw text, to which XML has other rules.
    let plain = ["style", "script"].iter().fold(plain, |text, name| {
        let (before, rest) = text.split_once(&format!("<{name}>")).expect("it has one");
        let (inside, after) = rest.split_once(&format!("</{name}>")).expect("it is closed");
        assert!(!inside.contains("http") && !inside.contains("@import"), "{name}");
        format!("{before}{after}")
    });
    let mut reader = Reader::from_str(&plain);
    let mut seen = Seen::default();
    let mut open = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}: {plain}")) {
            Event::Start(tag) => {
                let name = String::from_utf8(tag.name().as_ref().to_vec()).expect("a name");
                note(&tag, &name, &mut seen);
                if VOID.contains(&name.as_str()) {
                    reader.config_mut().check_end_names = false
                } else {
                    open.push(name)
                }
            }
            Event::End(tag) => {
                let name = String::from_utf8(tag.name().as_ref().to_vec()).expect("a name");
                assert_eq!(open.pop(), Some(name));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for link in &seen.links {
        assert!(seen.ids.contains(link), "#{link} is nowhere: {:?}", seen.ids);
    }
    seen
}

/// Takes note of an element.
/// An id that no commit has, told from others by `number`.
fn made_up_commit(number: u8) -> CommitId {
    format!("{number:02x}").repeat(20).parse().expect("40 digits")
}

fn note(tag: &BytesStart<'_>, name: &str, seen: &mut Seen) {
    seen.elements.push(name.to_owned());
    let mut described = false;
    for attribute in tag.attributes() {
        let attribute = attribute.unwrap_or_else(|error| panic!("{error} in {name}"));
        let key = String::from_utf8(attribute.key.as_ref().to_vec()).expect("a name");
        let value = String::from_utf8(attribute.value.to_vec()).expect("text");
        assert!(!key.starts_with("on"), "{key}={value}");
        assert!(
            !["src", "srcset", "action", "xlink:href"].contains(&key.as_str()),
            "{key}={value}"
        );
        match key.as_str() {
            "id" => assert!(seen.ids.insert(value), "two elements have one id"),
            "href" => {
                let place = value.strip_prefix('#').unwrap_or_else(|| panic!("a link to {value}"));
                seen.links.insert(place.to_owned());
            }
            "aria-label" | "aria-hidden" => described = !value.is_empty(),
            _ => {}
        }
    }
    assert!(name != "svg" || described, "a picture without words");
}

/// An output that diverged.
pub(super) fn diverged(name: &str) -> OutputJudgement {
    let dim = |name: &str, size| Dim { name: Some(name.to_owned()), size };
    let worst =
        WorstElement { index: 7, base: 1.0, got: 2.0, noise: 0.1, ratio: 10.0, ulps: 8_388_608.0 };
    OutputJudgement {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: vec![dim("row", 16), dim("column", 32)],
        unwritten: 0,
        story: Story::BeyondNoise { order_dependent: false },
        comparison: Comparison {
            agreement: Agreement::Diverged,
            count: 512,
            differing: 40,
            beyond: 32,
            undecided: 0,
            nan_mismatch: 0,
            inf_mismatch: 0,
            relative_l2: 0.5,
            max_abs: 1.0,
            worst: Some(worst),
        },
        base_noise: NoiseSummary::default(),
        got_noise: NoiseSummary::default(),
        base_accuracy: None,
        got_accuracy: None,
        by_oracle: false,
        shadow: None,
        without_shadow: None,
        location: None,
        place: Some("row 3".to_owned()),
        zero_slices: Vec::new(),
        map: None,
        nondeterminism: None,
        probes: Vec::new(),
        order: None,
    }
}

/// Two sides, of which these outputs diverged.
pub(super) fn judgement(outputs: Vec<OutputJudgement>) -> Judgement {
    let launch = |block| LaunchRecord {
        kernel: HOSTILE.to_owned(),
        grid: [1, 1, 1],
        block: [block, 1, 1],
        shared_bytes: 0,
        site: "k.cu:7".to_owned(),
        error: None,
    };
    let outcome = create_sample_entry(Status::Completed).outcome;
    let mut got = outcome.clone();
    got.launches = vec![launch(2)];
    got.printed = format!("{HOSTILE}\nline 2\n");
    let launches = vec![LaunchChange { before: Some(launch(1)), after: Some(launch(2)) }];
    let verdict = Verdict::Diverged;
    Judgement { verdict, outputs, launches, base: outcome, got, without_shadow: None }
}

fn revision() -> Revision {
    let text = HOSTILE.to_owned();
    Revision { id: "0".repeat(40), short: "0000000".to_owned(), subject: text }
}

fn refused() -> RefusedFixture {
    RefusedFixture {
        fixture: HOSTILE.to_owned(),
        message: HOSTILE.to_owned(),
        causes: vec![HOSTILE.to_owned()],
        hint: Some(HOSTILE.to_owned()),
    }
}

/// A page on two fixtures, with hostile text wherever text may stand.
fn hostile_entries() -> Vec<ReportEntry> {
    let judged = judgement(vec![diverged(HOSTILE), diverged("b")]);
    let mut entry = create_sample_entry(Status::Completed);
    entry.fixture = HOSTILE.to_owned();
    entry.revision = Some(revision());
    entry.outcome = judged.got.clone();
    entry.judgement = Some(judged);
    vec![entry, create_sample_entry(Status::Completed)]
}

#[test]
fn what_others_wrote_is_text_and_nothing_else_on_every_page() {
    let refused = [refused()];
    let compared = Compared {
        fixture: HOSTILE.to_owned(),
        base: Some(revision()),
        got: None,
        judgement: judgement(vec![diverged(HOSTILE)]),
        pictures: vec![picture(HOSTILE, 48)],
        accesses: None,
    };
    let checked = GradcheckEntry {
        fixture: HOSTILE.to_owned(),
        revision: Some(revision()),
        outcome: judgement(Vec::new()).got,
        gradients: Vec::new(),
        pictures: Vec::new(),
    };
    let pages = [
        render_replay_html(&hostile_entries(), &refused, &RunRecord::default()),
        render_replay_html(&[], &refused, &RunRecord::default()),
        render_replay_html(&hostile_entries()[..1], &[], &RunRecord::default()),
        diff_html(&[compared], &hostile_entries()[..1], &refused, &RunRecord::default()),
        gradcheck_html(&[checked], &refused, &RunRecord::default()),
    ];
    for page in pages {
        let seen = read(&page);
        assert_eq!(seen.elements.iter().filter(|name| *name == "script").count(), 0);
        assert_eq!(page.matches("<script>").count(), 1, "the page's own");
        assert!(page.contains("alert(1)"), "it is told all the same");
        assert!(!page.contains(['\u{202e}', '\u{1b}', '\u{9b}']));
    }
}

#[test]
fn a_replay_that_is_not_checked_in_full_has_no_green_tick() {
    let page = |entry: &ReportEntry| {
        render_replay_html(std::slice::from_ref(entry), &[], &RunRecord::default())
    };
    let mut entry = create_sample_entry(Status::Completed);
    assert!(body(&page(&entry)).contains("✓"));
    let reason = "the call takes 900 ms, more than 100 ms".to_owned();
    entry.accesses = Some(Accesses::new(Checking::Not { reason }, TrustedReplay::Absent));
    let told = page(&entry);
    assert!(told.contains("not checked") && !body(&told).contains("✓"), "{told}");
}

/// The page behind its styles.
fn body(page: &str) -> &str {
    page.split_once("<body>").expect("a body").1
}

#[test]
fn a_page_begins_with_the_verdict_in_one_sentence() {
    let page = render_replay_html(&hostile_entries()[..1], &[], &RunRecord::default());
    let (_, rest) = page.split_once("<h1>").expect("a heading");
    let (heading, _) = rest.split_once("</h1>").expect("its end");
    insta::assert_snapshot!(heading, @r#"<span class="sign" aria-hidden="true">✕</span><span>diverged: &lt;/title&gt;&lt;/style&gt;&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;' onload=x &lt;!--[31m&amp;amp;, b</span>"#);
    let before =
        page.split_once("<main>").expect("a body").1.split_once("<h1>").expect("a heading").0;
    assert!(!before.contains("<table"), "nothing stands before it");
}

#[test]
fn a_table_of_fixtures_leads_to_each_of_them() {
    let seen = read(&render_replay_html(&hostile_entries(), &[], &RunRecord::default()));
    assert!(seen.links.is_superset(&["f0", "f1"].map(str::to_owned).into()), "{:?}", seen.links);
}

#[test]
fn every_picture_has_axes_with_units_a_legend_and_words() {
    let mut entries = hostile_entries();
    entries[0].pictures = vec![picture(HOSTILE, 48)];
    let page = render_replay_html(&entries, &[], &RunRecord::default());
    let seen = read(&page);
    let of = |name: &str| seen.elements.iter().filter(|element| *element == name).count();
    assert_eq!((of("figure"), of("figcaption")), (4, 4));
    for words in [
        "units in the last place)",
        "elements (log scale)",
        "column (index)",
        ">row<",
        "before (value",
        "after (value)",
        "NaN",
        "Inf",
        "where noise ends",
        "role=\"img\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_page_of_200_outputs_stays_below_5_mb() {
    let names: Vec<String> = (0..200).map(|number| format!("output {number}")).collect();
    let mut entry = hostile_entries().remove(0);
    entry.judgement = Some(judgement(names.iter().map(|name| diverged(name)).collect()));
    let one = picture("", 96).picture;
    entry.pictures =
        names.into_iter().map(|name| OutputPicture { name, picture: one.clone() }).collect();
    let page = render_replay_html(&[entry], &[], &RunRecord::default());
    // ci/test-pages shows it to a browser.
    if let Some(folder) = std::env::var_os("REPLAY_PAGES") {
        let path = std::path::Path::new(&folder).join("outputs.html");
        std::fs::write(path, &page).expect("a folder");
    }
    assert!(page.len() < 5 << 20, "{} bytes", page.len());
    assert!(page.len() > 1 << 20, "{} bytes: are the pictures there?", page.len());
}
