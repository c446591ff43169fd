//! Pages as documents: well formed, self-contained, harmless whatever others wrote.

use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::*;
use crate::judge::{Judgement, LaunchChange, OutputJudgement, Verdict};
use crate::numerics::compare::{Agreement, Comparison, Worst};
use crate::numerics::noise::NoiseSummary;
use crate::report::{Entry, Refused, Revision, made_up};
use crate::runtime::report::LaunchRecord;
use crate::tensor::{DType, Dim};
use crate::trial::Status;

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
    let (mut seen, mut open) = (Seen::default(), Vec::new());
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}: {plain}")) {
            Event::Start(tag) => {
                let name = String::from_utf8(tag.name().as_ref().to_vec()).expect("a name");
                note(&tag, &name, &mut seen);
                match VOID.contains(&name.as_str()) {
                    true => reader.config_mut().check_end_names = false,
                    false => open.push(name),
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
            "aria-label" => described = !value.is_empty(),
            _ => {}
        }
    }
    assert!(name != "svg" || described, "a picture without words");
}

/// An output that diverged.
pub(super) fn diverged(name: &str) -> OutputJudgement {
    let dim = |name: &str, size| Dim { name: Some(name.to_owned()), size };
    let worst = Worst { index: 7, base: 1.0, got: 2.0, noise: 0.1, ratio: 10.0, ulps: 8_388_608.0 };
    OutputJudgement {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: vec![dim("row", 16), dim("column", 32)],
        verdict: Verdict::Diverged,
        comparison: Comparison {
            verdict: Agreement::Diverged,
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
        finding: None,
        base_accuracy: None,
        got_accuracy: None,
        shadow: None,
        drift: None,
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
    let outcome = made_up(Status::Completed).outcome;
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

fn refused() -> Refused {
    Refused {
        fixture: HOSTILE.to_owned(),
        message: HOSTILE.to_owned(),
        causes: vec![HOSTILE.to_owned()],
        hint: Some(HOSTILE.to_owned()),
    }
}

/// A page on two fixtures, with hostile text wherever text may stand.
fn hostile_entries() -> Vec<Entry> {
    let judged = judgement(vec![diverged(HOSTILE), diverged("b")]);
    let mut entry = made_up(Status::Completed);
    entry.fixture = HOSTILE.to_owned();
    entry.revision = Some(revision());
    entry.outcome = judged.got.clone();
    entry.judgement = Some(judged);
    vec![entry, made_up(Status::Completed)]
}

#[test]
fn what_others_wrote_is_text_and_nothing_else_on_every_page() {
    let refused = [refused()];
    let compared = Compared {
        fixture: HOSTILE.to_owned(),
        base: Some(revision()),
        got: None,
        judgement: judgement(vec![diverged(HOSTILE)]),
        accesses: None,
    };
    let checked = Checked {
        fixture: HOSTILE.to_owned(),
        revision: Some(revision()),
        outcome: judgement(Vec::new()).got,
        gradients: Vec::new(),
    };
    let pages = [
        html(&hostile_entries(), &refused),
        html(&[], &refused),
        html(&hostile_entries()[..1], &[]),
        diff_html(&[compared], &refused),
        gradcheck_html(&[checked], &refused),
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
fn a_page_begins_with_the_verdict_in_one_sentence() {
    let page = html(&hostile_entries()[..1], &[]);
    let (_, rest) = page.split_once("<h1>").expect("a heading");
    let (heading, _) = rest.split_once("</h1>").expect("its end");
    insta::assert_snapshot!(heading, @r#"<span class="sign" aria-hidden="true">✕</span><span>diverged: &lt;/title&gt;&lt;/style&gt;&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;' onload=x &lt;!--[31m&amp;amp;, b</span>"#);
    let before =
        page.split_once("<main>").expect("a body").1.split_once("<h1>").expect("a heading").0;
    assert!(!before.contains("<table"), "nothing stands before it");
}

#[test]
fn a_table_of_fixtures_leads_to_each_of_them() {
    let seen = read(&html(&hostile_entries(), &[]));
    assert!(seen.links.is_superset(&["f0", "f1"].map(str::to_owned).into()), "{:?}", seen.links);
}
