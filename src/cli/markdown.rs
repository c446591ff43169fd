//! Renders Markdown for a terminal. Knows the elements in docs/: headings, paragraphs, lists, tables, code, emphasis,
//! links.

use std::fmt::Write;

use anstyle::Style;

const BOLD: Style = Style::new().bold();
const TITLE: Style = Style::new().bold().underline();

/// The narrowest column of a table.
const NARROWEST: usize = 10;

/// Renders `page` for a terminal of `width` columns.
pub fn render_markdown_page(page: &str, width: usize) -> String {
    let mut out = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                let _ = writeln!(out, "    {line}");
            }
        } else if line.starts_with("    ") || line.is_empty() {
            let _ = writeln!(out, "{line}");
        } else if let Some((level, title)) = parse_markdown_heading(line) {
            let style = if level == 1 { TITLE } else { BOLD };
            let _ = writeln!(out, "{style}{}{style:#}", strip_inline_marks(title));
        } else if line.starts_with('|') {
            let mut rows = vec![split_table_cells(line)];
            while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(split_table_cells(line));
            }
            render_markdown_table(&rows, width, &mut out);
        } else {
            let mut text = line.to_owned();
            while let Some(line) = lines.next_if(|line| is_continuation_line(line)) {
                text = format!("{text} {}", line.trim_start());
            }
            render_terminal_paragraph(&text, width, &mut out);
        }
    }
    out
}

/// The level and the text of a heading.
fn parse_markdown_heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    (level > 0).then(|| text.strip_prefix(' ').map(|text| (level, text)))?
}

/// The width of the mark before an item of a list.
fn list_mark_width(line: &str) -> Option<usize> {
    let number = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match &line[number..] {
        rest if number == 0 && rest.starts_with("- ") => Some(2),
        rest if number > 0 && rest.starts_with(". ") => Some(number + 2),
        _ => None,
    }
}

/// Whether `line` goes on with the paragraph or item before it.
fn is_continuation_line(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with(['|', '#']) && !text.starts_with("```") && {
        list_mark_width(line).is_none() && !line.starts_with("    ")
    }
}

fn render_terminal_paragraph(text: &str, width: usize, out: &mut String) {
    let indent = list_mark_width(text).unwrap_or(0);
    for (number, line) in
        wrap_terminal_words(&strip_inline_marks(text), width, indent).into_iter().enumerate()
    {
        let indent = if number == 0 { 0 } else { indent };
        let _ = writeln!(out, "{:indent$}{}", "", line);
    }
}

/// The words of `text` in lines of at most `width`, all but the first of them `indent` less.
fn wrap_terminal_words(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let room = if lines.len() == 1 { width } else { width.saturating_sub(indent) };
        let last = lines.last_mut().expect("there is a line");
        let longer = last.chars().count() + 1 + word.chars().count();
        if last.is_empty() {
            last.push_str(word);
        } else if longer <= room {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// `text` without the marks of links and emphasis; code keeps its own.
fn strip_inline_marks(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            0 => out.push_str(&without_links(&part.replace("**", ""))),
            _ => out.extend(["`", part, "`"]),
        }
    }
    out
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((start, link_text)) = before.rsplit_once('[') else { break };
        let Some((_, remainder)) = after.split_once(')') else { break };
        out.push_str(start);
        out.push_str(link_text);
        rest = remainder;
    }
    out + rest
}

fn split_table_cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| strip_inline_marks(cell.trim())).collect()
}

/// Whether a row separates the head of a table from the rest.
fn is_table_rule(row: &[String]) -> bool {
    row.iter().all(|cell| cell.chars().all(|c| "-: ".contains(c)))
}

/// Columns as wide as they need to be, the widest of them narrowed until the table fits.
fn render_markdown_table(rows: &[Vec<String>], width: usize, out: &mut String) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows.iter().filter(|row| !is_table_rule(row)) {
        for (cell, cell_width) in row.iter().zip(&mut widths) {
            *cell_width = cell.chars().count().max(*cell_width);
        }
    }
    while widths.iter().sum::<usize>() + 2 * columns > width {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else {
            break;
        };
        *widest -= 1;
    }
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| !is_table_rule(row)) {
        let cells: Vec<Vec<String>> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| wrap_terminal_words(cell, *width, 0))
            .collect();
        let style = if number == 0 { BOLD } else { Style::new() };
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let parts = cells.iter().zip(&widths).map(|(cell, width)| {
                format!("{:width$}", cell.get(line).map_or("", String::as_str))
            });
            let text = parts.collect::<Vec<_>>().join("  ");
            let _ = writeln!(out, "  {style}{}{style:#}", text.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::render_markdown_page;

    fn shown(page: &str, width: usize) -> String {
        anstream::adapter::strip_str(&render_markdown_page(page, width)).to_string()
    }

    #[test]
    fn paragraphs_and_lists_are_wrapped_without_marks() {
        let page = "# A title\n\nOne **two** [three](a.md#b) `four|[x](y)`\nfive six.\n\n\
                    - an item of\n  two lines\n- another\n\n12. last\n";
        insta::assert_snapshot!(shown(page, 16), @"
        A title

        One two three
        `four|[x](y)`
        five six.

        - an item of two
          lines
        - another

        12. last
        ");
    }

    #[test]
    fn code_stays_as_it_is() {
        let page = "```toml\na = [\"b\"]   # **c**\n```\n\n    indented   so\n";
        assert_eq!(shown(page, 10), "    a = [\"b\"]   # **c**\n\n    indented   so\n");
    }

    #[test]
    fn the_widest_column_of_a_table_gives_way() {
        let page = "| code | meaning |\n| --- | --- |\n| 0 | nothing diverged, nothing failed |\n\
                    | 125 | untestable |\n";
        insta::assert_snapshot!(shown(page, 30), @"
          code  meaning
          0     nothing diverged,
                nothing failed
          125   untestable
        ");
    }
}
