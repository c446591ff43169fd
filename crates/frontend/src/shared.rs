//! Shared memory: declarations become references into the memory of the running block.

use std::ops::Range;

use super::edits::Edits;
use super::host::{HostContext, HostScope};
use super::lexer::{Token, TokenKind, Tokens};
use super::macros::Macro;
use super::shared_names::{ScopedName, capture_shared_names, rewrite_global_operands};
use super::{FrontendError, Precision, shadow};

/// Rewrites every `__shared__` declaration, in the file and in its macros, or adds it to `refusals`.
pub(super) fn rewrite_shared_memory(
    context: &HostContext,
    edits: &mut Edits,
    refusals: &mut Vec<FrontendError>,
) {
    for (tokens, within) in context.token_lists() {
        let rewriter = SharedRewriter { context, tokens, within };
        let mut shared_names = Vec::new();
        let mut rewritten_end = 0;
        // The ends of the blocks around a token.
        let mut block_ends: Vec<usize> = Vec::new();
        for index in 0..tokens.len() {
            while block_ends.last().is_some_and(|&end| end <= index) {
                block_ends.pop();
            }
            if rewriter.is_spelled_at(index, "{") {
                block_ends.push(tokens.skip_group(index).map_or(tokens.len(), |end| end - 1));
            }
            if index < rewritten_end
                || !rewriter.is_spelled_at(index, "__shared__")
                || rewriter.marks_parameter(index)
            {
                continue;
            }
            let declaration = match rewriter.rewrite(index, edits) {
                Ok(declaration) => declaration,
                Err(refusal) => {
                    refusals.push(refusal);
                    // What is left of the declaration would be refused again, word by word.
                    let mut rest = index + 1..tokens.len();
                    rewritten_end = rest
                        .find(|&later| rewriter.is_spelled_at(later, ";"))
                        .unwrap_or(tokens.len());
                    continue;
                }
            };
            rewritten_end = declaration.end;
            let block_end = block_ends.last().copied().unwrap_or(tokens.len());
            shared_names.extend(rewriter.scoped_names(&declaration, block_end));
        }
        capture_shared_names(context.source.text, tokens, &shared_names, edits);
    }
    rewrite_global_operands(context, edits);
}

/// The list of tokens around a declaration.
struct SharedRewriter<'c> {
    context: &'c HostContext<'c, 'c>,
    tokens: &'c Tokens,
    /// The macro whose body the tokens are.
    within: Option<&'c Macro<'c>>,
}

/// The parts of a declaration, as indices of tokens.
struct SharedDeclaration {
    start: usize,
    /// The semicolon, or the end of a macro's body.
    end: usize,
    /// The specifiers outside of the type.
    dropped: Vec<Range<usize>>,
    is_extern: bool,
    /// The alignment, as written.
    alignment: Option<String>,
    declarators: Vec<SharedDeclarator>,
}

/// One declared name.
struct SharedDeclarator {
    name: usize,
    tokens: Range<usize>,
}

impl SharedRewriter<'_> {
    fn text(&self) -> &str {
        self.context.source.text
    }

    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text(), token_index, spelling)
    }

    fn error(&self, token_index: usize, why: &'static str) -> FrontendError {
        let source = self.context.source;
        let line = source.line(self.tokens[token_index].start);
        FrontendError::SharedMemory { why, path: source.path.to_owned(), line }
    }

    /// Whether the `__shared__` at `token_index` belongs to a parameter: the headers make it nothing.
    fn marks_parameter(&self, token_index: usize) -> bool {
        let start = self.start(token_index);
        start > 0 && (self.is_spelled_at(start - 1, "(") || self.is_spelled_at(start - 1, ","))
    }

    /// Rewrites the declaration around the `__shared__` at `token_index`, and returns its parts.
    fn rewrite(
        &self,
        token_index: usize,
        edits: &mut Edits,
    ) -> Result<SharedDeclaration, FrontendError> {
        let start = self.start(token_index);
        let declaration = self.parse(start, token_index)?;
        let place = self.tokens[token_index].start;
        let in_function = self.within.is_some()
            || self.context.place == HostScope::Body
            || self.context.function(place).is_some();
        if in_function {
            self.write_references(&declaration, edits)?;
        } else if declaration.is_extern {
            self.dynamic_global(&declaration, edits)?;
        } else {
            return Err(self.error(token_index, "it is declared outside of a function"));
        }
        Ok(declaration)
    }

    /// The first token of the declaration around the `__shared__` at `token_index`.
    fn start(&self, token_index: usize) -> usize {
        let mut start = token_index;
        while let Some(index_before) = start.checked_sub(1) {
            let token = self.tokens[index_before];
            let ends = match token.kind {
                TokenKind::Directive => true,
                TokenKind::Punct => {
                    matches!(token.text(self.text()), ";" | "{" | "}" | ":" | "(" | ",")
                }
                _ => false,
            };
            if ends {
                break;
            }
            if token.is_spelled(self.text(), ")") {
                let Some(specifier) = self.attribute_before(index_before) else { break };
                start = specifier;
            } else {
                start = index_before;
            }
        }
        start
    }

    /// The `alignas` or `__align__` whose arguments close at `close_bracket`.
    fn attribute_before(&self, close_bracket: usize) -> Option<usize> {
        let open_bracket = (0..close_bracket)
            .rev()
            .find(|&candidate| self.tokens.skip_group(candidate) == Some(close_bracket + 1))?;
        let name = open_bracket.checked_sub(1)?;
        let aligns = ["alignas", "__align__", "__attribute__"];
        aligns.iter().any(|&word| self.is_spelled_at(name, word)).then_some(name)
    }

    fn parse(&self, start: usize, token_index: usize) -> Result<SharedDeclaration, FrontendError> {
        let end =
            self.end(start).ok_or_else(|| self.error(token_index, "its end cannot be found"))?;
        let mut declaration = SharedDeclaration {
            start,
            end,
            dropped: Vec::new(),
            is_extern: false,
            alignment: None,
            declarators: Vec::new(),
        };
        let mut index = start;
        while index < end {
            index = self.specifier(index, &mut declaration);
        }
        self.declarators(&mut declaration)?;
        Ok(declaration)
    }

    /// The semicolon of the declaration from `start`.
    fn end(&self, start: usize) -> Option<usize> {
        let mut index = start;
        while index < self.tokens.len() {
            if self.is_spelled_at(index, ";") {
                return Some(index);
            }
            if self.is_spelled_at(index, ")") || self.is_spelled_at(index, "}") {
                return None;
            }
            index = self.tokens.skip_group(index).unwrap_or(index + 1);
        }
        self.within.map(|_| self.tokens.len())
    }

    /// Notes the specifier at `index`, if there is one, and returns the index after it.
    fn specifier(&self, index: usize, declaration: &mut SharedDeclaration) -> usize {
        let word = self.tokens[index].text(self.text());
        let mut specifier_end = index + 1;
        match word {
            "alignas" | "__align__" | "__attribute__" => {
                specifier_end = self.tokens.skip_group(specifier_end).unwrap_or(specifier_end);
                let aligned = (index..specifier_end)
                    .find(|&token_index| self.is_spelled_at(token_index, "aligned"));
                let name = if word == "__attribute__" { aligned } else { Some(index) };
                if let Some(alignment) = name.and_then(|name| self.argument(name + 1)) {
                    declaration.alignment = Some(alignment);
                }
            }
            "extern" => declaration.is_extern = true,
            "__shared__" | "static" | "inline" | "__device__" | "thread_local" => {}
            _ => return self.tokens.skip_group(index).unwrap_or(specifier_end),
        }
        declaration.dropped.push(index..specifier_end);
        specifier_end
    }

    /// The text in the parentheses from `open_bracket`.
    fn argument(&self, open_bracket: usize) -> Option<String> {
        let group_end = self.tokens.skip_group(open_bracket)?;
        let inner = &self.tokens[open_bracket + 1..group_end - 1];
        let (first, last) = inner.first().zip(inner.last())?;
        Some(self.copied(first.start..last.end))
    }

    /// Splits the declarators at their commas and finds the names.
    fn declarators(&self, declaration: &mut SharedDeclaration) -> Result<(), FrontendError> {
        let mut index = declaration.start;
        let mut declarator_start = declaration.start;
        while index <= declaration.end {
            if index == declaration.end || self.is_spelled_at(index, ",") {
                let name = self.name(declaration, declarator_start..index)?;
                declaration
                    .declarators
                    .push(SharedDeclarator { name, tokens: declarator_start..index });
                declarator_start = index + 1;
            }
            index = self.tokens.skip_group_or_angles(self.text(), index).unwrap_or(index + 1);
        }
        Ok(())
    }

    /// The name of the declarator among `range`: the last identifier before its dimensions, or the one in `(*name)`.
    fn name(
        &self,
        declaration: &SharedDeclaration,
        range: Range<usize>,
    ) -> Result<usize, FrontendError> {
        let mut name = None;
        let mut is_named = false;
        let mut index = range.start;
        while index < range.end {
            if let Some(dropped) =
                declaration.dropped.iter().find(|dropped_range| dropped_range.contains(&index))
            {
                index = dropped.end;
                continue;
            }
            let token = self.tokens[index];
            match token.text(self.text()) {
                "=" => return Err(self.error(index, "it has an initialiser")),
                "[" => is_named = true,
                "{" if name.is_some() && (is_named || !self.tags_type(index)) => {
                    return Err(self.error(index, "it has an initialiser"));
                }
                "(" if self.is_spelled_at(index + 1, "*") || self.is_spelled_at(index + 1, "&") => {
                    name = Some(index + 2);
                    is_named = true;
                }
                "<" => {
                    let angles_end = self.tokens.skip_angles(self.text(), index);
                    index = angles_end.unwrap_or(index + 1);
                    continue;
                }
                _ if token.kind == TokenKind::Ident && !is_named => name = Some(index),
                _ => {}
            }
            index = self.tokens.skip_group(index).unwrap_or(index + 1);
        }
        let token_index = range.start.min(self.tokens.len() - 1);
        name.ok_or_else(|| self.error(token_index, "it declares no name"))
    }

    /// Whether the brace at `open_brace` holds the members of a `struct`, `union`, `class` or `enum`.
    fn tags_type(&self, open_brace: usize) -> bool {
        let tags = ["struct", "union", "class", "enum"];
        (open_brace.saturating_sub(2)..open_brace)
            .any(|token_index| tags.iter().any(|&tag| self.is_spelled_at(token_index, tag)))
    }

    /// The text of `bytes` for a repetition.
    fn copied(&self, bytes: Range<usize>) -> String {
        self.repeated(&self.text()[bytes])
    }

    /// `words` of the source on one line, for a repetition.
    fn repeated(&self, words: &str) -> String {
        let text = words.replace("\\\n", " ").replace("\\\r\n", " ");
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.context.precision {
            Precision::Native | Precision::Checked => line,
            Precision::Shadow => shadow::widen_text(&line),
        }
    }

    fn drop_specifiers(&self, declaration: &SharedDeclaration, edits: &mut Edits) {
        for token in declaration.dropped.iter().flat_map(|range| &self.tokens[range.clone()]) {
            // A space stays, since the tokens around may not touch.
            edits.remove(self.text(), token.start..token.end);
        }
    }

    /// The common type of all declarators, without specifiers.
    fn base_type(&self, declaration: &SharedDeclaration) -> String {
        let first = &declaration.declarators[0];
        let words = (declaration.start..first.name)
            .filter(|index| !declaration.dropped.iter().any(|range| range.contains(index)))
            .map(|index| self.tokens[index]);
        let mut out = String::new();
        let mut end = None;
        for token in words {
            if end.is_some_and(|end| end < token.start) {
                out.push(' ');
            }
            out.push_str(token.text(self.text()));
            end = Some(token.end);
        }
        self.repeated(&out)
    }

    /// `extern __shared__ T name[];` at namespace scope.
    fn dynamic_global(
        &self,
        declaration: &SharedDeclaration,
        edits: &mut Edits,
    ) -> Result<(), FrontendError> {
        let base = self.base_type(declaration);
        let [declarator] = &declaration.declarators[..] else {
            return Err(self.error(declaration.start, "it declares several names"));
        };
        let (open_bracket, close_bracket) = self.unsized_bound(declarator)?;
        if close_bracket + 1 != declarator.tokens.end {
            return Err(self.error(declaration.start, "it has several dimensions"));
        }
        self.drop_specifiers(declaration, edits);
        self.erase(declaration.start..declarator.name, edits);
        let declaration_code = format!("static const ::replay_rt::dynamic_shared_array<{base}> ");
        edits.insert(self.tokens[declarator.name].start, declaration_code);
        self.erase(open_bracket..close_bracket + 1, edits);
        Ok(())
    }

    /// The tokens of the `[]` after a dynamic array's name.
    fn unsized_bound(
        &self,
        declarator: &SharedDeclarator,
    ) -> Result<(usize, usize), FrontendError> {
        let open_bracket = declarator.name + 1;
        if self.is_spelled_at(open_bracket, "[") && self.is_spelled_at(open_bracket + 1, "]") {
            Ok((open_bracket, open_bracket + 1))
        } else {
            Err(self.error(declarator.name, "dynamic shared memory must be an array []"))
        }
    }

    fn erase(&self, range: Range<usize>, edits: &mut Edits) {
        for token in &self.tokens[range] {
            edits.remove(self.text(), token.start..token.end);
        }
    }

    /// The names of `declaration` with the tokens of their scope, up to `block_end`.
    fn scoped_names(
        &self,
        declaration: &SharedDeclaration,
        block_end: usize,
    ) -> Vec<ScopedName<'_>> {
        let scope = declaration.end..block_end;
        let names = declaration.declarators.iter().map(|declarator| self.tokens[declarator.name]);
        names
            .map(|name| ScopedName { name: name.text(self.text()), scope: scope.clone() })
            .collect()
    }

    /// `__shared__ T a[N], b;` or `extern __shared__ T name[];` in a function: a type for each name, and
    /// a reference of this type into the block's memory.
    fn write_references(
        &self,
        declaration: &SharedDeclaration,
        edits: &mut Edits,
    ) -> Result<(), FrontendError> {
        self.drop_specifiers(declaration, edits);
        edits.insert(self.tokens[declaration.start].start, "typedef ");
        let alignment = declaration.alignment.as_deref().unwrap_or("0");
        let mut references = String::new();
        for declarator in &declaration.declarators {
            let token: Token = self.tokens[declarator.name];
            let word = token.text(self.text());
            let is_parameter = self.within.is_some_and(|defined| defined.is_parameter(word));
            let (stem, name) = if is_parameter {
                (format!("replay_shared_##{word}##"), format!("#{word}"))
            } else {
                (format!("replay_shared_{word}"), format!("\"{word}\""))
            };
            edits.replace(token.start..token.end, format!("{stem}_t"));
            if declaration.is_extern {
                self.unsized_bound(declarator)?;
                references.push_str(&format!(
                    " {stem}_t& {word} = ::replay_rt::dynamic_shared<{stem}_t>();"
                ));
            } else {
                references.push_str(&format!(
                    " static ::replay_rt::shared_slot {stem}_slot; {stem}_t& {word} = \
                     {stem}_slot.template get<{stem}_t>({alignment}, {name});"
                ));
            }
        }
        match self.tokens.get(declaration.end) {
            Some(semicolon) => edits.insert(semicolon.end, references),
            // A macro without the last semicolon: its user writes one.
            None => {
                let references = references.trim_end_matches(';');
                edits.insert(self.tokens[declaration.end - 1].end, format!(";{references}"));
            }
        }
        Ok(())
    }
}
