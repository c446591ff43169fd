//! Functions that do not compile in the float64 shadow. They end the replay where they are called, in place of their
//! bodies.

use super::conditions;
use super::edits::Edits;
use super::guards;
use super::outline::{ItemKind, outline_items};
use super::reachability::find_enclosing_name;
use super::source::Source;
use super::{Obstacle, SourceUnit};

/// A line of the sources that the compiler refuses in the float64 shadow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLine {
    /// 1-based.
    pub line: usize,
    /// The compiler's reason; empty where nothing is run, as in a search for further refusals.
    pub reason: String,
}

/// `unit` with traps for `refused`, and what each of them stands for: the functions around these lines end the
/// replay, and assertions outside of functions are left out. None if a line is neither.
pub fn trap_refused_lines(
    unit: &SourceUnit,
    refused: &[&RefusedLine],
) -> Option<(String, Vec<Obstacle>)> {
    let source = Source::new(unit);
    let text = source.text;
    let tokens = source.view(true);
    let items = outline_items(text, &tokens);
    let mut edits = Edits::default();
    let mut obstacles: Vec<Obstacle> = Vec::new();
    let mut trapped = Vec::new();
    for refused_line in refused {
        let line_of = |index: usize| source.line(tokens[index].start);
        let function = items.iter().rev().find(|item| {
            item.kind == ItemKind::Function
                && line_of(item.tokens.start) <= refused_line.line
                && refused_line.line <= line_of(item.tokens.end - 1)
        });
        let mut obstacle = Obstacle {
            line: refused_line.line,
            what: refused_line.reason.clone(),
            within: None,
            guarded: true,
        };
        if let Some(function) = function {
            let open_brace = tokens[function.body.start];
            let close_brace = tokens[function.body.end - 1];
            if trapped.contains(&open_brace.start) {
                continue;
            }
            trapped.push(open_brace.start);
            let body = open_brace.end..close_brace.start;
            if conditions::count_open_conditionals(&source, body.clone()) != Some(0) {
                return None;
            }
            obstacle.within = Some(function.name.clone());
            let told = match refused_line.reason.as_str() {
                "" => String::new(),
                _ => guards::obstacle_statement(&source, &obstacle),
            };
            let statement = format!("{told} __builtin_trap();");
            edits.insert(open_brace.end, statement);
            edits.remove(text, body);
        } else {
            let assertion = (0..tokens.len()).find(|&index| {
                tokens.is_spelled_at(text, index, "static_assert")
                    && line_of(index) <= refused_line.line
                    && tokens
                        .skip_group(index + 1)
                        .is_some_and(|end| refused_line.line <= line_of(end - 1))
            })?;
            let end = tokens.skip_group(assertion + 1)?;
            edits.remove(text, tokens[assertion].start..tokens[end - 1].end);
            obstacle.guarded = false;
            obstacle.within = find_enclosing_name(text, &tokens, &items, tokens[assertion].start);
        }
        obstacles.push(obstacle);
    }
    Some((edits.apply(text), obstacles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_does_not_compile_ends_the_replay_and_an_assertion_outside_counts_for_its_class()
     {
        let text = "int a;\n__device__ int f(float x) {\n  static_assert(sizeof(x) == 4);\n  return 1;\n}\n\
                    struct S {\n  static_assert(kBytes == 2, \"\");\n};\n";
        let unit = SourceUnit { path: "a.cu", text };
        let refused = |line| RefusedLine { line, reason: "no".to_owned() };
        let (made, obstacles) = trap_refused_lines(&unit, &[&refused(3), &refused(7)]).unwrap();
        insta::assert_snapshot!(made, @r#"
        int a;
        __device__ int f(float x) {::replay_rt::no_shadow("no", "a.cu", 3); __builtin_trap();


        }
        struct S {
          ;
        };
        "#);
        let found = obstacles.iter().map(|obstacle| (obstacle.within.as_deref(), obstacle.guarded));
        assert_eq!(found.collect::<Vec<_>>(), [(Some("f"), true), (Some("S"), false)]);
        assert!(trap_refused_lines(&unit, &[&refused(1)]).is_none());
    }
}
