//! Replays as a JUnit report, which CI servers read: one test case for each fixture.

use std::fmt::Write;

use super::standing::{Standing, reasons, title};
use super::{Entry, Refused};

/// The report on `entries`, and on the fixtures that could not be replayed.
pub fn junit(entries: &[Entry], refused: &[Refused]) -> String {
    let standings: Vec<Standing> = entries.iter().map(Standing::of).collect();
    let count = |is: fn(Standing) -> bool| standings.iter().filter(|s| is(**s)).count();
    let (tests, failures, errors) =
        (entries.len() + refused.len(), count(is_failure), count(is_error) + refused.len());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let _ = writeln!(out, "<testsuites name=\"replay\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"replay\" {counts}>");
    for (entry, standing) in entries.iter().zip(standings) {
        case(&mut out, entry, standing);
    }
    refused.iter().for_each(|refused| refused_case(&mut out, refused));
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn is_failure(standing: Standing) -> bool {
    matches!(standing, Standing::Failed | Standing::Diverged)
}

/// Not about the numbers: nothing could be run or compared.
fn is_error(standing: Standing) -> bool {
    matches!(standing, Standing::Untestable | Standing::Stale)
}

fn case(out: &mut String, entry: &Entry, standing: Standing) {
    let name = escape(&title(entry));
    let _ = write!(out, "    <testcase classname=\"replay\" name=\"{name}\"");
    let element = match standing {
        standing if is_failure(standing) => "failure",
        standing if is_error(standing) => "error",
        _ => {
            out.push_str("/>\n");
            return;
        }
    };
    let reasons = reasons(entry);
    let message = escape(reasons.first().map_or("", String::as_str));
    let kind = standing.name();
    let all = escape(&reasons.join("\n"));
    let _ = writeln!(
        out,
        ">\n      <{element} type=\"{kind}\" message=\"{message}\">{all}</{element}>"
    );
    if !entry.outcome.printed.is_empty() {
        let printed = escape(&entry.outcome.printed);
        let _ = writeln!(out, "      <system-out>{printed}</system-out>");
    }
    out.push_str("    </testcase>\n");
}

fn refused_case(out: &mut String, refused: &Refused) {
    let (name, message) = (escape(&refused.fixture), escape(&refused.message));
    let causes = escape(&refused.causes.join("\n"));
    let _ = writeln!(out, "    <testcase classname=\"replay\" name=\"{name}\">");
    let _ = writeln!(out, "      <error type=\"refused\" message=\"{message}\">{causes}</error>");
    out.push_str("    </testcase>\n");
}

/// Text for XML 1.0, section 2.2: what it has no way to write is left out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let hostile = "a]]><x y=\"z\"> & 'q'\u{1}\u{1b}[31m\n";
        assert_eq!(
            escape(hostile),
            "a]]&gt;&lt;x y=&quot;z&quot;&gt; &amp; &apos;q&apos;[31m&#10;"
        );
    }
}
