//! Advice for code that the walls of the sandbox may have made fail.

/// What the system's messages say of `EACCES` and `EPERM`.
const REFUSALS: [&str; 2] = ["Permission denied", "Operation not permitted"];

/// Advice for code that failed behind walls and left the words `text`; none if nothing was refused.
pub(crate) fn explain_refusal(text: &str) -> Option<&'static str> {
    let is_refused = REFUSALS.iter().any(|words| text.contains(words));
    is_refused.then_some(
        "the sandbox keeps replayed code from most files and from all connections: see `replay help sandbox`",
    )
}
