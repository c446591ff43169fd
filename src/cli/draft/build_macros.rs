//! The macros that a project's build gives its sources. Pure: text in, macros out.

use super::shape_search::is_word_character;

/// The value of a macro whose value the build computes.
const USUAL_VALUE: &str = "64";

/// A macro of `-DNAME` or `-DNAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildMacro {
    pub name: String,
    pub value: Option<String>,
    /// Whether nothing tells the value.
    pub is_guessed: bool,
}

impl BuildMacro {
    /// As a harness and a compiler name it.
    pub fn definition(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }

    /// The name, and the number that it stands for, if it does for one.
    pub fn number(&self) -> Option<(&str, usize)> {
        Some((&self.name, self.value.as_ref()?.parse().ok()?))
    }
}

/// The macros that stand for a number in `text`, a source.
pub fn find_number_macros(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define")?.split("//").next()?.split_whitespace();
        let name = words.next().filter(|name| name.chars().all(is_word_character))?;
        let value = words.next().filter(|_| words.next().is_none())?;
        Some((name, value.trim_matches(['(', ')']).parse().ok()?))
    })
}

/// The macros that `text`, a script of a build, defines, each once.
pub fn find_build_macros(text: &str) -> Vec<BuildMacro> {
    let mut macros: Vec<BuildMacro> = Vec::new();
    for (place, _) in text.match_indices("-D") {
        let is_option = text[..place].ends_with(['"', '\'', ' ', '(']);
        let rest = &text[place + 2..];
        let name_length = rest.find(|c: char| !is_word_character(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(name_length);
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !is_option || !is_name || macros.iter().any(|known| known.name == name) {
            continue;
        }
        let written = rest.strip_prefix('=').map(|rest| {
            let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ')');
            &rest[..rest.find(is_end).unwrap_or(rest.len())]
        });
        let is_guessed =
            written.is_some_and(|value| value.is_empty() || !value.chars().all(is_word_character));
        let value = if is_guessed { Some(USUAL_VALUE) } else { written };
        macros.push(BuildMacro {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            is_guessed,
        });
    }
    macros
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_that_stand_for_numbers_are_found_with_them() {
        let text = "#define WIDTH 64 // heads\n#define ROWS (32)\n#define TWICE(x) 2 * x\n\
                    #define GUARD\n#define NAME other\nint define = 3;\n";
        let found: Vec<(&str, usize)> = find_number_macros(text).collect();
        assert_eq!(found, [("WIDTH", 64), ("ROWS", 32)]);
        let macros = find_build_macros("'-D_N_=64', '-DFAST', '-DTYPE=float'");
        let numbers: Vec<(&str, usize)> = macros.iter().filter_map(BuildMacro::number).collect();
        assert_eq!(numbers, [("_N_", 64)]);
    }

    #[test]
    fn builds_define_macros_with_and_without_values() {
        let text = "flags = ['-O3', \"-DWITH_CUDA\", '-DWIDTH=128', f\"-D_N_={HEAD_SIZE}\", \"-DWITH_CUDA\"]\n\
                    set(CMAKE_CUDA_FLAGS \"${CMAKE_CUDA_FLAGS} -DUSE_FAST -DSIZE=${SIZE}\")\n\
                    x = 3-Depth; '--DNO', '-D', '-D4'\n";
        let told: Vec<(String, bool)> = find_build_macros(text)
            .iter()
            .map(|known| (known.definition(), known.is_guessed))
            .collect();
        let told: Vec<(&str, bool)> = told.iter().map(|(text, is)| (text.as_str(), *is)).collect();
        assert_eq!(
            told,
            [
                ("WITH_CUDA", false),
                ("WIDTH=128", false),
                ("_N_=64", true),
                ("USE_FAST", false),
                ("SIZE=64", true)
            ]
        );
    }
}
