//! The diff of a commit in the sources of its kernel: hunks, with changed words marked.

use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};

/// The most lines of a diff.
const LINES: usize = 400;
/// Lines of one change whose words are compared; longer ones are shown whole.
const COMPARED: usize = 60;

/// A unified diff.
pub(super) fn render_source_diff(text: &str) -> Markup {
    let lines: Vec<&str> = text.lines().collect();
    let left_out = lines.len().saturating_sub(LINES);
    html! {
        pre class="diff" { @for block in group_diff_lines(&lines[..lines.len() - left_out]) { (render_diff_block(&block)) } }
        @if left_out > 0 { p class="dim" { "and " (left_out) " lines more" } }
    }
}

/// A block of lines.
enum DiffBlock<'a> {
    /// The lines before, and those in their place.
    Change { old: Vec<&'a str>, new: Vec<&'a str> },
    /// A line of another kind, and its class.
    Line(&'a str, &'static str),
}

fn group_diff_lines<'a>(lines: &[&'a str]) -> Vec<DiffBlock<'a>> {
    let mut blocks = Vec::new();
    for line in lines {
        let class = match line.as_bytes().first() {
            Some(b'+') if !line.starts_with("+++ ") => {
                match blocks.last_mut() {
                    Some(DiffBlock::Change { new, .. }) => new.push(&line[1..]),
                    _ => blocks.push(DiffBlock::Change { old: Vec::new(), new: vec![&line[1..]] }),
                }
                continue;
            }
            Some(b'-') if !line.starts_with("--- ") => {
                match blocks.last_mut() {
                    Some(DiffBlock::Change { old, new }) if new.is_empty() => old.push(&line[1..]),
                    _ => blocks.push(DiffBlock::Change { old: vec![&line[1..]], new: Vec::new() }),
                }
                continue;
            }
            Some(b'@') => "hunk",
            Some(b' ') | None => "same",
            _ => "file",
        };
        blocks.push(DiffBlock::Line(line, class));
    }
    blocks
}

fn render_diff_block(block: &DiffBlock<'_>) -> Markup {
    match block {
        DiffBlock::Line(line, class) => html! { span class=(class) { (line) "\n" } },
        DiffBlock::Change { old, new } if old.len() + new.len() > COMPARED => html! {
            @for line in old { del { "-" (line) "\n" } }
            @for line in new { ins { "+" (line) "\n" } }
        },
        DiffBlock::Change { old, new } => {
            let old: String = old.iter().map(|line| format!("{line}\n")).collect();
            let new: String = new.iter().map(|line| format!("{line}\n")).collect();
            let compared = TextDiff::from_lines(&old, &new);
            let changes = compared.ops().iter().flat_map(|op| compared.iter_inline_changes(op));
            let mut gone = Vec::new();
            let mut come = Vec::new();
            for change in changes {
                let parts: Vec<(bool, String)> = change
                    .iter_strings_lossy()
                    .map(|(is_changed, text)| (is_changed, text.trim_end_matches('\n').to_owned()))
                    .collect();
                // A line on both sides was moved by the lines around it.
                if change.tag() != ChangeTag::Insert {
                    gone.push(parts.clone());
                }
                if change.tag() != ChangeTag::Delete {
                    come.push(parts);
                }
            }
            html! {
                @for line in &gone { del { "-" (mark_changed_words(line)) "\n" } }
                @for line in &come { ins { "+" (mark_changed_words(line)) "\n" } }
            }
        }
    }
}

/// A line, with changed words marked.
fn mark_changed_words(line: &[(bool, String)]) -> Markup {
    html! {
        @for (changed, text) in line { @if *changed { b { (text) } } @else { (text) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_changed_are_marked_and_sources_are_escaped() {
        let text =
            "--- a/k.cu\n+++ b/k.cu\n@@ -1,2 +1,2 @@\n if (a < b)\n-  x = a<1>;\n+  x = a<2>;\n";
        insta::assert_snapshot!(render_source_diff(text).into_string(), @r#"
        <pre class="diff"><span class="file">--- a/k.cu
        </span><span class="file">+++ b/k.cu
        </span><span class="hunk">@@ -1,2 +1,2 @@
        </span><span class="same"> if (a &lt; b)
        </span><del>-  x = a&lt;<b>1</b>&gt;;
        </del><ins>+  x = a&lt;<b>2</b>&gt;;
        </ins></pre>
        "#);
    }
}
