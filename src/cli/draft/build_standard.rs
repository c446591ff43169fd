//! The standard of C++ that a project's build gives its sources. Pure: text in, standard out.

use std::path::Path;

use ::replay::harness::CppStandard;
use serde_json::Value;

/// The latest standard that `text`, a `setup.py` or a `CMakeLists.txt`, names; none if it names no later one than the
/// default.
pub fn find_build_standard(text: &str) -> Option<CppStandard> {
    /// A year stands behind each of these.
    const WORDS: [&str; 9] = [
        "std=c++",
        "std=gnu++",
        "std:c++",
        "std c++",
        "CUDA_STANDARD ",
        "CXX_STANDARD ",
        "cuda_std_",
        "cxx_std_",
        "CXX_STANDARD=",
    ];
    let mut latest = CppStandard::default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for word in WORDS {
            let years = line.match_indices(word).map(|(place, _)| &line[place + word.len()..]);
            for standard in years.filter_map(parse_year) {
                latest = later_standard(latest, standard);
            }
        }
    }
    (latest != CppStandard::default()).then_some(latest)
}

/// The standard in the command for `source` in `text`, a `compile_commands.json`; none if it has no such command.
pub fn find_command_standard(text: &str, source: &Path) -> Option<CppStandard> {
    let commands: Vec<Value> = serde_json::from_str(text).ok()?;
    let command = commands.iter().find(|command| {
        command["file"]
            .as_str()
            .is_some_and(|file| source.ends_with(file) || Path::new(file).ends_with(source))
    })?;
    let words = match (&command["command"], &command["arguments"]) {
        (Value::String(words), _) => words.clone(),
        (_, Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        _ => return None,
    };
    Some(find_build_standard(&words).unwrap_or_default())
}

/// The standard of the year at the beginning of `text`.
fn parse_year(text: &str) -> Option<CppStandard> {
    match text.trim_start().get(..2)? {
        "17" | "1z" => Some(CppStandard::Cpp17),
        "20" | "2a" => Some(CppStandard::Cpp20),
        "23" | "2b" => Some(CppStandard::Cpp23),
        _ => None,
    }
}

fn later_standard(one: CppStandard, other: CppStandard) -> CppStandard {
    let place = |standard| CppStandard::ALL.iter().position(|known| *known == standard);
    if place(other) > place(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_name_their_standard_in_many_words() {
        let found = |text: &str| find_build_standard(text).map(CppStandard::name);
        assert_eq!(found("extra_compile_args={'nvcc': ['-O3', '-std=c++20']}"), Some("c++20"));
        assert_eq!(
            found("set(CMAKE_CUDA_STANDARD 20)\nset(CMAKE_CUDA_STANDARD_REQUIRED ON)"),
            Some("c++20")
        );
        assert_eq!(
            found("target_compile_features(k PUBLIC cxx_std_17 cuda_std_20)"),
            Some("c++20")
        );
        assert_eq!(found("add_compile_options(-std=gnu++2b)"), Some("c++23"));
        assert_eq!(found("'-std=c++17', '/std:c++20'"), Some("c++20"));
        assert_eq!(found("# -std=c++20\nargs = ['-std=c++17']"), None);
        assert_eq!(found("set(CMAKE_CXX_STANDARD 14)"), None);
        assert_eq!(found("std=c++"), None);
    }

    #[test]
    fn a_compilation_database_names_the_standard_of_each_source() {
        let text = r#"[{"directory": "/b", "file": "/b/src/a.cu", "command": "nvcc -std=c++20 -c a.cu"},
                       {"directory": "/b", "file": "src/b.cu", "arguments": ["nvcc", "--std", "c++17"]}]"#;
        let found =
            |source: &str| find_command_standard(text, Path::new(source)).map(CppStandard::name);
        assert_eq!(found("src/a.cu"), Some("c++20"));
        assert_eq!(found("src/b.cu"), Some("c++17"));
        assert_eq!(
            (found("src/c.cu"), find_command_standard("{", Path::new("a.cu"))),
            (None, None)
        );
    }
}
