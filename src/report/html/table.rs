//! Tables that scroll by themselves where the page is narrow, and that a script may sort.

use maud::{Markup, html};

/// A table with these column names; `rows` are rows of it. A column whose name begins with `#` holds
/// numbers.
pub(super) fn table(label: &str, columns: &[&str], rows: &Markup) -> Markup {
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
