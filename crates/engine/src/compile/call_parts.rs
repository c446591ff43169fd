//! A harness's call, cut so that each statement is compiled with the sources that it names.
//!
//! The statements stay in their order: the first part calls the others, and gives them its variables.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use super::entry_point::EntryPoint;
use super::translation::Translation;
use replay_frontend::{CallStatement, FrontendError, StatementGives, split_call_statements};

/// A part of a call.
pub(super) struct EntryPart {
    /// The numbers of the sources in its translation unit.
    pub sources: BTreeSet<usize>,
    /// What stands behind them.
    pub text: String,
}

impl EntryPart {
    /// All of `entry`, with all sources.
    ///
    /// # Errors
    /// [`FrontendError`] if a statement cannot be translated.
    pub(super) fn whole(
        translated: &Translation,
        entry: &EntryPoint,
    ) -> Result<EntryPart, FrontendError> {
        let sources = (0..translated.source_count()).collect();
        Ok(EntryPart { sources, text: entry.generate_whole()? })
    }
}

/// The parts of the call of `entry`, the one with the entry point first. One part with all sources, if it cannot be cut.
///
/// # Errors
/// [`FrontendError`] if a statement cannot be translated.
pub(super) fn divide_call(
    translated: &Translation,
    entry: &EntryPoint,
) -> Result<Vec<EntryPart>, FrontendError> {
    let Some(division) = Division::find(translated, entry) else {
        return Ok(vec![EntryPart::whole(translated, entry)?]);
    };
    let mut parts = vec![EntryPart { sources: division.groups[0].clone(), text: String::new() }];
    for group in &division.groups[1..] {
        parts.push(EntryPart { sources: group.clone(), text: String::new() });
    }
    let mut part_calls = Vec::new();
    for (number, placed) in division.statements.iter().enumerate() {
        if placed.group == 0 {
            continue;
        }
        let function = format!("replay_call_part_{number}");
        let locals = division.list_locals(number);
        let part = entry.generate_part(&function, &division.statements, number, &locals)?;
        parts[placed.group].text.push_str(&part);
        let _ = writeln!(parts[0].text, "{};", EntryPoint::declare_part(&function));
        part_calls.push((number, call_part(&function, &locals)));
    }
    let main = entry.generate_main(&division.statements, &part_calls)?;
    parts[0].text.push_str(&main);
    Ok(parts)
}

/// The statement to call the part `function` with `locals`.
fn call_part(function: &str, locals: &[&String]) -> String {
    let call = format!("{function}(replay_tensors, replay_sizes, replay_strides, ");
    if locals.is_empty() {
        return format!("{call}nullptr);");
    }
    let pointers: Vec<String> = locals.iter().map(|name| format!("(void*)&{name}")).collect();
    let pointers = pointers.join(", ");
    format!("{{ void* const replay_locals[] = {{{pointers}}}; {call}replay_locals); }}")
}

/// The statements of a harness's set-up and call, each with its place.
pub(super) struct Division {
    /// The sources of each part.
    groups: Vec<BTreeSet<usize>>,
    statements: Vec<PlacedStatement>,
}

/// A statement of a call.
pub(super) struct PlacedStatement {
    /// Whether it is of the set-up.
    pub is_setup: bool,
    pub statement: CallStatement,
    /// The number of its part.
    pub group: usize,
    pub types: VariableTypes,
}

/// What the types of a statement's variables need.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableTypes {
    /// Nothing of the sources.
    Free,
    /// Nothing, but their values do: they are declared in front, and given their values in the statement's part.
    GivenLater,
    /// Some of the sources, so no other part can have them.
    Bound,
}

impl PlacedStatement {
    /// Its bytes that declare its variables for another part; none if it declares none, or if no other part can have them.
    pub(super) fn declaration(&self) -> Option<Range<usize>> {
        let CallStatement { range, gives, assignment, .. } = &self.statement;
        match (self.types, assignment) {
            (VariableTypes::GivenLater, Some(name)) => Some(range.start..name.end),
            (VariableTypes::Bound, _) => None,
            _ => (*gives != StatementGives::Nothing).then(|| range.clone()),
        }
    }

    /// Its bytes without a declaration of variables that are given their values later.
    pub(super) fn action(&self) -> Range<usize> {
        let CallStatement { range, assignment, .. } = &self.statement;
        match (self.types, assignment) {
            (VariableTypes::GivenLater, Some(name)) => name.start..range.end,
            _ => range.clone(),
        }
    }
}

impl Division {
    /// Divides the call of `entry`. None if it cannot be cut, or need not for a source alone.
    fn find(translated: &Translation, entry: &EntryPoint) -> Option<Division> {
        if translated.source_count() < 2 {
            return None;
        }
        let mut statements = Vec::new();
        for (is_setup, text) in entry.texts() {
            for statement in split_call_statements(text)? {
                let types = VariableTypes::Free;
                statements.push(PlacedStatement { is_setup, statement, group: 0, types });
            }
        }
        let mut main = BTreeSet::new();
        let mut needs = Vec::new();
        // Variables whose types need sources.
        let mut bound_variables: BTreeSet<String> = BTreeSet::new();
        for PlacedStatement { statement, types, .. } in &mut statements {
            let needed = translated.list_needed_sources(entry.harness, &statement.words);
            let is_bound = statement.words.iter().any(|word| bound_variables.contains(word));
            let needs_sources = !needed.is_empty() || is_bound;
            match &statement.gives {
                StatementGives::Repeatable if needs_sources => return None,
                StatementGives::Variables(_)
                    if needs_sources && !is_bound && statement.assignment.is_some() =>
                {
                    *types = VariableTypes::GivenLater;
                }
                StatementGives::Variables(variables) if needs_sources => {
                    main.extend(&needed);
                    bound_variables.extend(variables.iter().cloned());
                    *types = VariableTypes::Bound;
                }
                _ if is_bound => main.extend(&needed),
                _ => {}
            }
            needs.push(needed);
        }
        if main.is_empty() {
            main = needs.iter().find(|needed| !needed.is_empty()).cloned().unwrap_or_default();
        }
        if main.is_empty() {
            main.insert(0);
        }
        let mut groups = vec![main];
        for needed in needs.iter().filter(|needed| !needed.is_empty()) {
            join_group(&mut groups, needed.clone());
        }
        for (placed, needed) in statements.iter_mut().zip(&needs) {
            let home = groups.iter().position(|group| !group.is_disjoint(needed));
            placed.group = home.unwrap_or(0);
        }
        Some(Division { groups, statements })
    }

    /// The variables of earlier statements that statement `number` mentions, and those that it gives their values; in
    /// order.
    fn list_locals(&self, number: usize) -> Vec<&String> {
        let words = &self.statements[number].statement.words;
        let gives_values = self.statements[number].types == VariableTypes::GivenLater;
        let earlier = self.statements[..number + usize::from(gives_values)].iter();
        let variables = earlier.flat_map(|placed| match &placed.statement.gives {
            StatementGives::Variables(variables) => variables.as_slice(),
            StatementGives::Nothing | StatementGives::Repeatable => &[],
        });
        let mut locals: Vec<&String> = variables.filter(|name| words.contains(*name)).collect();
        locals.dedup();
        locals
    }
}

/// Adds `group` to `groups`, joined with those that share a source with it.
fn join_group(groups: &mut Vec<BTreeSet<usize>>, mut group: BTreeSet<usize>) {
    let mut place = groups.len();
    for index in (0..groups.len()).rev() {
        if !groups[index].is_disjoint(&group) {
            group.extend(groups.remove(index));
            place = index;
        }
    }
    groups.insert(place.min(groups.len()), group);
}
