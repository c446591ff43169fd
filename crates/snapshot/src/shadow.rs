//! The float64 shadow of an output in a snapshot: its text, and the words for a change. Pure.

use serde::Serialize;

use super::OutputSnapshot;
use super::number::format_snapshot_number;
use replay_base::summary::Number;
use replay_numerics::imprint::{Imprint, ShadowMove, position_unit};

/// The shadow of an output that changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ShadowChanged {
    /// Whether it changed by more than rounding in float64 explains.
    pub changed: bool,
    /// Whether it moved by more than one unit roundoff of the output's dtype: the mathematics is another
    /// one.
    pub moved: bool,
    /// How far elements moved, relative to their own magnitude or that of their row.
    #[serde(with = "Number")]
    pub relative: f64,
    /// Whether rounding in float64 may move it by more than itself: a tie.
    #[serde(skip)]
    pub(super) tied: bool,
}

impl ShadowChanged {
    /// The change of the shadow from `old` to `got`, if both are known.
    pub(super) fn between(old: &OutputSnapshot, got: &OutputSnapshot) -> Option<ShadowChanged> {
        let before = old.shadow.as_ref()?;
        let now = got.shadow.as_ref()?;
        let (changed, moved, moved_units) = match before.compare(now, old.dtype) {
            ShadowMove::Same => (false, false, 0.0),
            ShadowMove::Changed(moved_units) => (true, false, moved_units),
            ShadowMove::Moved(moved_units) => (true, true, moved_units),
        };
        let unit = position_unit(old.dtype);
        let tied = before.rounding.max(now.rounding) * unit > 1.0;
        Some(ShadowChanged { changed, moved, relative: moved_units * unit, tied })
    }

    /// Its meaning for an output within noise, or beyond it.
    pub(super) fn note(&self, within: bool) -> String {
        let change = format_shadow_share(self.relative);
        match (within, self.moved, self.changed) {
            (true, true, _) => {
                format!(
                    "hidden by rounding on this fixture: the float64 shadow moves by about {change}"
                )
            }
            (true, false, true) => {
                format!(
                    "the float64 shadow changed by about {change}, less than the output can hold"
                )
            }
            (true, false, false) => "the float64 shadow is the same".to_owned(),
            (false, true, _) => "the float64 shadow moves too".to_owned(),
            (false, false, _) => "the float64 shadow did not move".to_owned(),
        }
    }
}

/// A share in percent, or in the notation of small numbers.
fn format_shadow_share(relative: f64) -> String {
    match relative {
        1e-4.. => format!("{} %", format_snapshot_number(100.0 * relative, 2)),
        _ => format!("rel. {}", format_snapshot_number(relative, 2)),
    }
}

/// The lines of the shadow of the output `name`.
pub(super) fn render_imprint_lines(imprint: &Imprint, name: &str) -> [String; 3] {
    let signed = format_imprint_words(&imprint.signed);
    let weighted = format_imprint_words(&imprint.weighted);
    let rounding = format_snapshot_number(imprint.rounding, 2);
    let seal = seal_imprint([name, &rounding, &signed, &weighted]);
    [
        format!("rounding {rounding}, seal {seal}"),
        format!("signed {signed}"),
        format!("weighted {weighted}"),
    ]
}

fn format_imprint_words(words: &[u32]) -> String {
    words.iter().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(" ")
}

/// Eight digits over the parts: nobody takes a shadow from another output, or raises its rounding, by
/// mistake.
fn seal_imprint(parts: [&str; 4]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..8].to_owned()
}

/// The numbers in the first line of a shadow: its rounding, and the seal.
pub(super) fn parse_head(text: &str) -> Option<(f64, String)> {
    let (rounding, seal) = text.strip_prefix("rounding ")?.split_once(", seal ")?;
    let rounding: f64 = rounding.parse().ok()?;
    (rounding >= 0.0).then(|| (rounding, seal.to_owned()))
}

/// The words in one of the other lines.
pub(super) fn parse_imprint_words<const N: usize>(text: &str) -> Option<[u32; N]> {
    let mut words = Vec::new();
    for digits in text.split(' ') {
        if digits.len() != 8 {
            return None;
        }
        words.push(u32::from_str_radix(digits, 16).ok()?);
    }
    words.try_into().ok()
}
