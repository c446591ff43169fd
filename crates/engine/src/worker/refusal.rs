//! Advice for code that the walls of the sandbox may have made fail.

use replay_base::process::tracer::RefusedCall;

/// What the system's messages say of `EACCES` and `EPERM`.
const REFUSALS: [&str; 2] = ["Permission denied", "Operation not permitted"];

/// Whether the words `text` of code that failed say that something was refused.
pub(crate) fn tells_of_refusal(text: &str) -> bool {
    REFUSALS.iter().any(|words| text.contains(words))
}

/// Advice for code that failed behind walls; they refused it `calls`, as far as that is known.
pub(crate) fn advise_on_refused_calls(calls: &[RefusedCall]) -> String {
    let home = std::env::home_dir().unwrap_or_default();
    let calls: Vec<String> = calls.iter().map(|call| call.display(&home).to_string()).collect();
    let reached = match calls.as_slice() {
        [] => String::new(),
        calls => format!("reached outside: {}; ", calls.join(", ")),
    };
    format!(
        "{reached}the sandbox keeps replayed code from most files and from all connections: see `replay help sandbox`"
    )
}

#[cfg(test)]
mod tests {
    use replay_base::process::tracer::CallTarget;

    use super::*;

    #[test]
    fn what_code_reached_for_comes_before_the_advice() {
        let call = |call: &str, target: &str| {
            let target = CallTarget::Named(target.to_owned());
            RefusedCall { call: call.to_owned(), target }
        };
        let calls = [call("socket", "AF_INET"), call("kill", "1")];
        let advice = advise_on_refused_calls(&calls);
        let without_calls = advise_on_refused_calls(&[]);
        assert_eq!(advice, format!("reached outside: socket(AF_INET), kill(1); {without_calls}"));
    }
}
