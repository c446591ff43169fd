//! Results as pages: one self-contained file each, without network or JavaScript.
//!
//! A page is made of the same values as the other formats. Foreign text (names, subjects, paths, the prints of
//! kernels) is escaped by the template library, and made harmless for eyes in [`shell::render_page`].

mod chart;
mod compare;
mod diff;
mod findings;
mod gradients;
mod history;
mod launches;
mod log;
mod outputs;
mod replay;
mod search;
mod series;
mod shell;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub use compare::{Compared, diff_html};
pub use gradients::{GradcheckEntry, gradcheck_html};
pub use log::log_html;
pub use replay::render_replay_html;
pub use search::{bisect_html, both_html};
pub use series::series_html;
pub use step::render_step_html;
