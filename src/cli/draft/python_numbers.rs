//! The integers that Python passes to functions: as literals in calls, and as defaults of parameters. Pure: texts of Python in,
//! numbers by name out.

use std::collections::BTreeMap;

use super::shape_search::is_word_character;

/// A default below it chooses a mode; larger ones may be sizes that are better varied.
const MODES: usize = 8;

/// What Python passes for parameters, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonNumbers {
    /// In calls.
    called: BTreeMap<String, usize>,
    /// By default.
    defaults: BTreeMap<String, usize>,
}

impl PythonNumbers {
    /// Those that functions of Python in `texts` have as defaults.
    pub fn from_defaults(texts: &[String]) -> PythonNumbers {
        let mut numbers = PythonNumbers::default();
        for text in texts {
            for (place, _) in text.match_indices('=') {
                if let Some((name, number)) = read_default(text, place)
                    && number < MODES
                {
                    numbers.defaults.entry(name.to_owned()).or_insert(number);
                }
            }
        }
        numbers
    }

    /// Adds those that `texts` pass for `parameters` of the function that Python calls `name`: those of the call with the most.
    pub fn add_calls(&mut self, texts: &[String], name: &str, parameters: &[&str]) {
        let mut most: Vec<(&str, usize)> = Vec::new();
        for text in texts {
            for (place, _) in text.match_indices(name) {
                let arguments = list_call_arguments(text, place, name);
                let numbers: Vec<(&str, usize)> = arguments
                    .iter()
                    .enumerate()
                    .filter_map(|(place, argument)| match argument.split_once('=') {
                        Some((keyword, value)) => Some((keyword.trim(), read_integer(value)?)),
                        None => Some((*parameters.get(place)?, read_integer(argument)?)),
                    })
                    .filter(|(parameter, _)| parameters.contains(parameter))
                    .collect();
                if numbers.len() > most.len() {
                    most = numbers;
                }
            }
        }
        for (parameter, number) in most {
            self.called.entry(parameter.to_owned()).or_insert(number);
        }
    }

    /// What Python passes for the parameter `name`.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.called.get(name).or_else(|| self.defaults.get(name)).copied()
    }
}

/// The parameter with the integer that it has by default, where the `=` at `place` of `text` says so: `blank: int = 0`.
fn read_default(text: &str, place: usize) -> Option<(&str, usize)> {
    let value = text[place + 1..].trim_start();
    let digits = value.find(|c: char| !c.is_ascii_digit())?;
    let number = value[..digits].parse().ok()?;
    let ends = value[digits..].trim_start().starts_with([',', ')']);
    let mut front = text[..place].trim_end();
    if let Some(typed) = front.strip_suffix("int") {
        front = typed.trim_end().strip_suffix(':')?.trim_end();
    }
    let begin = front.rfind(|c| !is_word_character(c)).map_or(0, |before| before + 1);
    let begins = front[..begin].trim_end().ends_with([',', '(']);
    (ends && begins && begin < front.len()).then(|| (&front[begin..], number))
}

/// The arguments of the call of `name` at `place` of `text`; none where that is no call.
fn list_call_arguments<'t>(text: &'t str, place: usize, name: &str) -> Vec<&'t str> {
    let front = &text[..place];
    let is_longer_name = front.ends_with(is_word_character);
    let is_definition = front.trim_end().ends_with("def");
    let Some(list) = text[place + name.len()..].strip_prefix('(') else { return Vec::new() };
    if is_longer_name || is_definition {
        return Vec::new();
    }
    let mut arguments = Vec::new();
    let mut depth = 0;
    let mut begin = 0;
    for (end, sign) in list.char_indices() {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                arguments.push(list[begin..end].trim());
                return arguments;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(list[begin..end].trim());
                begin = end + 1;
            }
            _ => {}
        }
    }
    Vec::new()
}

fn read_integer(text: &str) -> Option<usize> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers for parameters of `fused_act`, as `name=number`.
    fn find_numbers(text: &str) -> Vec<String> {
        let texts = [text.to_owned()];
        let mut numbers = PythonNumbers::from_defaults(&texts);
        numbers.add_calls(&texts, "fused_act", &["x", "bias", "act", "grad", "alpha"]);
        let names = ["x", "bias", "act", "grad", "alpha", "blank"];
        let found = names.iter().filter_map(|name| Some(format!("{name}={}", numbers.find(name)?)));
        found.collect()
    }

    #[test]
    fn the_call_with_the_most_literals_tells_the_numbers_of_parameters() {
        let calls = "y = ext.fused_act(x, empty, mode, 0, slope)\n\
                     z = ext.fused_act(\n    g.contiguous(), f(1, 2), 3, 1, ctx.slope\n)\n\
                     w = ext.fused_act(x, b, 1, 0, slope)";
        assert_eq!(find_numbers(calls), ["act=3", "grad=1"]);
        assert_eq!(find_numbers("ext.fused_act(x, b, act=3, alpha=0.5)"), ["act=3"]);
    }

    #[test]
    fn other_names_definitions_and_open_brackets_are_no_calls() {
        assert_eq!(find_numbers("unfused_act(x, b, 3)"), [""; 0]);
        assert_eq!(find_numbers("def fused_act(x, b, 3)"), [""; 0]);
        assert_eq!(find_numbers("fused_act = 3\nfused_act(x, b, 3"), [""; 0]);
    }

    #[test]
    fn defaults_of_parameters_are_modes_where_they_are_small() {
        let definition = "def loss(x, bias=768, blank: int = 0, act=2):";
        assert_eq!(find_numbers(definition), ["act=2", "blank=0"]);
        assert_eq!(find_numbers("def f(x, blank=0.5, grad=-1, act=n):\n    alpha = 3\n"), [""; 0]);
        assert_eq!(find_numbers("def f(é=1, act=1"), [""; 0]);
    }
}
