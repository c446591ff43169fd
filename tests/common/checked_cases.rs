//! The cases of checked replays, `engine/checked.cases`, as CUDA C++.

/// The cases as they are written.
pub const TEXT: &str = include_str!("../engine/checked.cases");

/// The cases as a source file that has a function `case_NAME(x, out)` for each; every line stays where it is.
pub fn source() -> String {
    TEXT.lines().map(expanded).collect()
}

/// A line of the cases, with what stands for a case made one.
fn expanded(line: &str) -> String {
    let case = |list: &str, zero: bool| {
        let mut words = list.trim_end_matches(')').split(", ");
        let mut word = || words.next().expect("a name, a grid and a block");
        let name = word();
        let grid = word();
        let block = word();
        format!(
            "static void case_{name}(const float* x, float* out) {{ \
             {name}_kernel<<<{grid}, {block}>>>(x, out, scratch(8192, {zero})); }}\n"
        )
    };
    if let Some(list) = line.strip_prefix("RUN(") {
        return case(list, true);
    }
    if let Some(list) = line.strip_prefix("RAW(") {
        return case(list, false);
    }
    match line.strip_prefix("KERNEL(").and_then(|rest| rest.split_once(')')) {
        Some((name, rest)) => {
            format!("__global__ void {name}_kernel(const float* x, float* out, float* s){rest}\n")
        }
        None => format!("{line}\n"),
    }
}
