//! Tables with a scroll bar of their own on narrow pages, sortable by a script.

use maud::{Markup, html};

/// A table with these column names; `rows` are rows of it. A column whose name begins with `#` holds
/// numbers.
pub(super) fn render_table(label: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) {
            table class="sortable" {
                thead {
                    tr {
                        @for column in columns {
                            @match column.strip_prefix('#') {
                                Some(name) => th scope="col" class="number" { (name) },
                                None => th scope="col" { (column) },
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// A card with a table of fixtures by commits: `rows` are rows of a commit and a cell for each fixture.
pub(super) fn fixtures_by_commits(title: &str, fixtures: &[&str], rows: &Markup) -> Markup {
    html! {
        section class="card" {
            h2 { (title) }
            div class="scroll" tabindex="0" role="region" aria-label="fixtures by commits" {
                table class="matrix" {
                    thead {
                        tr {
                            th scope="col" { "commit" }
                            @for fixture in fixtures { th scope="col" { (fixture) } }
                        }
                    }
                    tbody { (rows) }
                }
            }
        }
    }
}
