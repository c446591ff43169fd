//! What compilers say of a launch whose arguments fit no kernel, in the words of the sources.

use replay_history::SourceSet;

use replay_frontend::{SourceUnit, find_launched_name};

/// The launched kernel in these words, until its name is known.
const KERNEL: &str = "the kernel";
/// The refusal of `replay/launch.h` where no instance of a template fits.
const NO_INSTANCE: &str = "no instance takes the arguments in the launch of the kernel";

/// The error in line number `error_number` of `log`, if it is about the arguments of a launch.
pub(super) fn reword_launch_error(log: &str, error_number: usize) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let (place, message) = lines.get(error_number)?.split_once(": error: ")?;
    let later_lines = &lines[error_number + 1..];
    let told_lines = later_lines.iter().take_while(|line| !line.contains(": error: "));
    if message.contains(NO_INSTANCE) {
        // g++ tells before the error which line leads to it, clang++ behind it.
        let leads = |line: &&&str| is_leading(line);
        let earlier_lines = lines[..error_number].iter().rev().take_while(leads);
        let leading_place =
            earlier_lines.chain(told_lines.filter(leads)).find_map(|line| place_in_sources(line));
        return Some(format!("{}: error: {NO_INSTANCE}", leading_place.unwrap_or(place)));
    }
    let (taken, given) = if message.contains("'replay_rt::configured<") {
        told_lines
            .clone()
            .find_map(|line| read_counts(line.split_once("candidate expects ")?.1, " provided"))?
    } else if later_lines.iter().any(|line| line.starts_with("headers/replay/launch.h:")) {
        read_counts(message.split_once(" arguments to function call, expected ")?.1, "")?
    } else {
        return None;
    };
    let uses = told_lines.filter(|line| line.contains("note: in expansion of macro"));
    let place = uses.last().and_then(|line| place_in_sources(line)).unwrap_or(place);
    let amount = if given < taken { "few" } else { "many" };
    Some(format!(
        "{place}: error: too {amount} arguments in the launch of {KERNEL}: {given}, and it takes {taken}"
    ))
}

/// `error`, an error about a launch, with the name of the kernel that `sources` launch there.
pub(super) fn name_launched_kernel(error: &str, sources: &SourceSet) -> Option<String> {
    let (place, message) = error.split_once(": error: ")?;
    let before_name = message.find(&format!(" in the launch of {KERNEL}"))?;
    let mut parts = place.split(':');
    let (path, line) = (parts.next()?, parts.next()?.parse().ok()?);
    let file = sources.files.iter().find(|file| file.path == path)?;
    let text = String::from_utf8_lossy(&file.content);
    let name = find_launched_name(&SourceUnit { path, text: &text }, line)?;
    let (before, launch) = message.split_at(before_name);
    Some(format!("{place}: error: {before}{}", launch.replacen(KERNEL, &format!("`{name}`"), 1)))
}

/// Whether `line` of a log tells what leads to an error.
fn is_leading(line: &str) -> bool {
    ["required from", "In instantiation of", "requested here"]
        .iter()
        .any(|words| line.contains(words))
}

/// `a.cu:7:91` at the start of `line`, if a file of the sources or the harness's call is there.
fn place_in_sources(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("tree/");
    let end = line.match_indices(':').nth(2)?.0;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let has_numbers = line[..end].split(':').skip(1).all(is_number);
    (has_numbers && !line.starts_with("headers/") && !line.starts_with('/')).then(|| &line[..end])
}

/// 3 and 2 of `3 arguments, 2 provided` or of `3, have 2`.
fn read_counts(counts: &str, end: &str) -> Option<(usize, usize)> {
    let (taken, given) = counts.trim().strip_suffix(end)?.split_once(", ")?;
    let number = |words: &str| words.split(' ').find_map(|word| word.parse().ok());
    Some((number(taken)?, number(given)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::error::first_error;
    use replay_history::{SourceFile, SourceRole};

    #[test]
    fn a_launch_with_another_number_of_arguments_is_told_as_that_by_each_compiler() {
        let of_gcc = "a.cu: In function 'void go(const float*)':\n\
            a.cu:7:91: error: no matching function for call to 'replay_rt::configured<const float*, int>::run(const float*&)'\n\
            headers/replay/launch.h:111:8: note: candidate: 'void replay_rt::configured<P>::run(P ...) [with P = {const float*, int}]'\n\
            headers/replay/launch.h:111:8: note:   candidate expects 2 arguments, 1 provided\n\
            a.cu:9:1: error: another\n";
        let of_gcc_in_a_macro = "a.cu:6:166: error: no matching function for call to 'replay_rt::configured<int>::replay_run(int&, int&)'\n\
            a.cu:7:39: note: in expansion of macro 'L'\n\
            a.cu:8:2: note: in expansion of macro 'OUTER'\n\
            headers/replay/launch.h:109:8: note:   candidate expects 1 argument, 2 provided\n";
        let of_clang = "a.cu:7:95: error: too few arguments to function call, expected 3, have 2\n\
            void go() { run(x,y); }\n\
            headers/replay/launch.h:111:8: note: 'run' declared here\n";
        for (log, told) in [
            (
                of_gcc,
                "a.cu:7:91: error: too few arguments in the launch of the kernel: 1, and it takes 2",
            ),
            (
                of_gcc_in_a_macro,
                "a.cu:8:2: error: too many arguments in the launch of the kernel: 2, and it takes 1",
            ),
            (
                of_clang,
                "a.cu:7:95: error: too few arguments in the launch of the kernel: 2, and it takes 3",
            ),
        ] {
            assert_eq!(first_error(log), told);
        }
        let of_another_call = of_clang.replace("headers/replay/launch.h", "a.cu");
        assert_eq!(first_error(&of_another_call), of_another_call.lines().next().unwrap());
    }

    #[test]
    fn a_launch_that_fits_no_instance_is_told_at_its_place_by_each_compiler() {
        let told = format!("a.cu:7:19: error: {NO_INSTANCE}");
        let of_gcc = format!(
            "a.cu: In function 'f':\na.cu:1:1: warning: w\n\
             headers/replay/launch.h: In instantiation of 'void run(A ...)':\n\
             a.cu:7:19:   required from here\n\
             headers/replay/launch.h:306:48: error: static assertion failed: {NO_INSTANCE}\n\
             b.cu:7:12: error: another\n"
        );
        let of_clang = format!(
            "headers/replay/launch.h:306:7: error: static_assert failed due to requirement 'value' \"{NO_INSTANCE}\"\n\
             headers/replay/launch.h:300:7: note: in instantiation of function template specialization 'f' requested here\n\
             tree/a.cu:7:19: note: in instantiation of function template specialization 'run' requested here\n"
        );
        for log in [of_gcc, of_clang] {
            assert_eq!(first_error(&log), told, "{log}");
        }
        let nowhere = format!("headers/replay/launch.h:306:48: error: {NO_INSTANCE}\n");
        assert_eq!(first_error(&nowhere), nowhere.trim());
    }

    #[test]
    fn a_launch_error_names_the_kernel_of_its_line() {
        let content = (*b"void f() {\n  k<2><<<1, 2>>>(x);\n}\n").into();
        let path = "a.cu".to_owned();
        let file = SourceFile { path, content, role: SourceRole::Source };
        let sources =
            SourceSet { files: vec![file], tree: Vec::new(), submodules: Vec::new(), id: [0; 32] };
        let named = |error: &str| name_launched_kernel(error, &sources);
        let error = format!("a.cu:2:9: error: {NO_INSTANCE}");
        assert_eq!(
            named(&error).as_deref(),
            Some("a.cu:2:9: error: no instance takes the arguments in the launch of `k<2>`")
        );
        for unnamed in [error.replace(":2:", ":1:"), error.replace("a.cu", "call in replay.toml")] {
            assert_eq!(named(&unnamed), None, "{unnamed}");
        }
        assert_eq!(named("a.cu:2:9: error: expected ';'"), None);
    }
}
