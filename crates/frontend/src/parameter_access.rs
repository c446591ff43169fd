//! Whether a function reads or writes what a parameter leads to: a pointer, a tensor or an accessor. Follows local
//! pointers, and arguments into functions of the same file, down to the `const` of a kernel's parameters.

use std::ops::Range;

use super::body_tokens::BodyTokens;
use super::lexer::{TokenKind, Tokens};
use super::parameter_reader::{FunctionBody, ParameterReader};
use super::signatures::Parameter;
use super::tensor_bodies::is_element_member;

/// What a function does with the elements of a parameter, as far as its tokens tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterAccess {
    /// Nothing tells.
    #[default]
    Unknown,
    /// It reads them, and writes none.
    Read,
    /// It writes some.
    Written,
}

/// A pointer in a variable of its own may lead to another one, and so on.
const MOST_VARIABLES: usize = 4;
/// The type of a cast has no more tokens.
const MOST_CAST_TOKENS: usize = 32;

/// What each of `bodies` does with each of its parameters, by number.
pub(super) fn find_parameter_accesses(
    text: &str,
    tokens: &Tokens,
    bodies: &[FunctionBody],
) -> Vec<Vec<ParameterAccess>> {
    let body_tokens = BodyTokens { text, tokens };
    ParameterReader::new(body_tokens, bodies, AccessReader::read_parameter).find_all()
}

type AccessReader<'t> = ParameterReader<'t, ParameterAccess>;

impl AccessReader<'_> {
    fn read_parameter(
        &mut self,
        function: &FunctionBody,
        parameter: &Parameter,
    ) -> ParameterAccess {
        let Parameter { ty, name, .. } = parameter;
        let leads_to_elements = ty.contains('*') || ty.contains("Tensor");
        if name.is_empty() || !leads_to_elements {
            return ParameterAccess::Unknown;
        }
        if has_constant_elements(ty) {
            return ParameterAccess::Read;
        }
        self.read_variable(function.body.clone(), name, MOST_VARIABLES)
    }

    /// What the tokens of `body` do with the variable `name`: a write tells more than a place without an answer, and that
    /// more than reads.
    fn read_variable(
        &mut self,
        body: Range<usize>,
        name: &str,
        variables_left: usize,
    ) -> ParameterAccess {
        let mut is_read = false;
        let mut has_unknown_place = false;
        for index in body.clone() {
            if !self.body_tokens.is_variable(index, name) {
                continue;
            }
            match self.read_place(body.clone(), index, variables_left) {
                Some(ParameterAccess::Written) => return ParameterAccess::Written,
                Some(ParameterAccess::Read) => is_read = true,
                Some(ParameterAccess::Unknown) => has_unknown_place = true,
                None => {}
            }
        }
        if is_read && !has_unknown_place { ParameterAccess::Read } else { ParameterAccess::Unknown }
    }

    /// What happens with the elements behind the variable at `index`; none where nothing does.
    fn read_place(
        &mut self,
        body: Range<usize>,
        index: usize,
        variables_left: usize,
    ) -> Option<ParameterAccess> {
        let mut pointer = index..index + 1;
        if self.is_spelled(index + 1, ".") || self.is_spelled(index + 1, "->") {
            let member = self.body_tokens.tokens.text_at(self.body_tokens.text, index + 2);
            if member.ends_with('_') && self.is_spelled(index + 3, "(") {
                return Some(ParameterAccess::Written);
            }
            if !is_element_member(member) {
                return None;
            }
            pointer.end = self.skip_call(index + 3)?;
        }
        if self.body_tokens.is_dereferenced(index) {
            return Some(self.read_element(index - 1..pointer.end));
        }
        if self.is_spelled(pointer.end, "[") {
            return self.read_subscript(index, pointer.end);
        }
        if self.body_tokens.is_compared_for_equality(index) || self.is_rebound(&pointer) {
            return None;
        }
        self.read_pointer(body, pointer, variables_left)
    }

    /// What happens with the element of the variable at `index` whose subscripts begin at `subscript`.
    fn read_subscript(&mut self, index: usize, mut subscript: usize) -> Option<ParameterAccess> {
        while self.is_spelled(subscript, "[") {
            subscript = self.body_tokens.tokens.skip_group(subscript)?;
        }
        let mut element = index..subscript;
        while self.is_in_own_parentheses(&element) {
            element = element.start - 1..element.end + 1;
        }
        if self.takes_address(element.start) {
            return self.read_argument(element.start - 1).or(Some(ParameterAccess::Unknown));
        }
        if self.may_be_changed_by_callee(&element) {
            return Some(ParameterAccess::Unknown);
        }
        Some(self.read_element(element))
    }

    /// Whether the `element` stands alone in parentheses that are no call's.
    fn is_in_own_parentheses(&self, element: &Range<usize>) -> bool {
        let Some(open) = element.start.checked_sub(1) else { return false };
        let is_call = open.checked_sub(1).is_some_and(|before| {
            let token = self.body_tokens.tokens[before];
            token.kind == TokenKind::Ident
                || [">", ")", "]"].contains(&token.text(self.body_tokens.text))
        });
        self.is_spelled(open, "(") && self.is_spelled(element.end, ")") && !is_call
    }

    /// Whether the `element` is an argument for a reference.
    fn may_be_changed_by_callee(&self, element: &Range<usize>) -> bool {
        let Some(argument) = self.body_tokens.enclosing_argument(element.start) else {
            return false;
        };
        let callees = self.functions_named(argument.callee);
        let mut parameters = callees.filter_map(|callee| callee.parameters.get(argument.number));
        argument.tokens == *element
            && parameters
                .any(|parameter| parameter.ty.contains('&') && !parameter.ty.starts_with("const "))
    }

    /// Whether a `&` before the operand at `index` takes its address: a binary one stands behind an operand.
    fn takes_address(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(2) else { return false };
        self.is_spelled(index - 1, "&")
            && ["(", ",", "=", "return"].iter().any(|start| self.is_spelled(before, start))
    }

    /// What an operator beside the `element` does with it.
    fn read_element(&self, element: Range<usize>) -> ParameterAccess {
        let is_step = |first: usize| {
            ["+", "-"]
                .iter()
                .any(|sign| self.is_spelled(first, sign) && self.is_spelled(first + 1, sign))
        };
        let equals = element.end + self.count_operator(element.end);
        let is_assigned = self.is_spelled(equals, "=") && !self.is_spelled(equals + 1, "=");
        let is_stepped = is_step(element.end) || element.start.checked_sub(2).is_some_and(is_step);
        if is_assigned || is_stepped { ParameterAccess::Written } else { ParameterAccess::Read }
    }

    /// The tokens of the operator at `index` that an `=` may follow.
    fn count_operator(&self, index: usize) -> usize {
        let is_shift = ["<", ">"]
            .iter()
            .any(|half| self.is_spelled(index, half) && self.is_spelled(index + 1, half));
        let operators = ["+", "-", "*", "/", "%", "&", "|", "^"];
        if is_shift {
            2
        } else {
            usize::from(operators.iter().any(|operator| self.is_spelled(index, operator)))
        }
    }

    /// Whether the variable that is the `pointer` gets another value, and no element does.
    fn is_rebound(&self, pointer: &Range<usize>) -> bool {
        pointer.len() == 1
            && self.is_spelled(pointer.end, "=")
            && !self.is_spelled(pointer.end + 1, "=")
    }

    /// What happens with the elements behind the expression `pointer`: an argument, or the value of another variable.
    fn read_pointer(
        &mut self,
        body: Range<usize>,
        pointer: Range<usize>,
        variables_left: usize,
    ) -> Option<ParameterAccess> {
        if let Some(variable) = self.find_assigned_variable(&pointer) {
            let Some(variables_left) = variables_left.checked_sub(1) else {
                return Some(ParameterAccess::Unknown);
            };
            if self.declares_constant_elements(variable) {
                return Some(ParameterAccess::Read);
            }
            let name = self.body_tokens.tokens[variable].text(self.body_tokens.text).to_owned();
            let rest = pointer.end..body.end;
            return Some(self.read_variable(rest, &name, variables_left));
        }
        self.read_argument(pointer.start)
    }

    /// What the call does in whose arguments the pointer at `index` stands; casts around it are passed over.
    fn read_argument(&mut self, index: usize) -> Option<ParameterAccess> {
        let mut start = index;
        loop {
            let Some(argument) = self.body_tokens.enclosing_argument(start) else {
                return Some(ParameterAccess::Unknown);
            };
            if let Some(cast) = self.find_cast(argument.tokens.start) {
                start = cast;
                continue;
            }
            let callee = argument.callee;
            return match (callee, argument.number) {
                ("if" | "while" | "for" | "switch" | "", _) => None,
                ("__ldg" | "__ldcs" | "__ldca" | "__ldcg", _) => Some(ParameterAccess::Read),
                (copy, 0) if copy.starts_with("cudaMem") || copy.starts_with("atomic") => {
                    Some(ParameterAccess::Written)
                }
                (copy, 1) if copy.starts_with("cudaMemcpy") => Some(ParameterAccess::Read),
                _ if is_macro_name(callee) && self.functions_named(callee).next().is_none() => None,
                _ => Some(self.find_in_callee(callee, argument.number)),
            };
        }
    }

    /// The first token of a cast whose operand begins at `operand`.
    fn find_cast(&self, operand: usize) -> Option<usize> {
        let open = operand.checked_sub(1).filter(|&open| self.is_spelled(open, "("))?;
        let angle = open.checked_sub(1).filter(|&angle| self.is_spelled(angle, ">"))?;
        let words = (angle.saturating_sub(MOST_CAST_TOKENS)..angle).rev();
        words.into_iter().find(|&word| {
            ["reinterpret_cast", "static_cast", "const_cast"]
                .iter()
                .any(|cast| self.is_spelled(word, cast))
                && self.body_tokens.tokens.skip_angles(self.body_tokens.text, word + 1)
                    == Some(open)
        })
    }

    /// The variable that gets the value of the expression `pointer`, perhaps with an offset, behind a cast.
    fn find_assigned_variable(&self, pointer: &Range<usize>) -> Option<usize> {
        let mut start = pointer.start;
        while let Some(cast) = self.find_cast(start).or_else(|| self.find_plain_cast(start)) {
            start = cast;
        }
        let equals = start.checked_sub(1).filter(|&equals| self.is_spelled(equals, "="))?;
        let variable = equals.checked_sub(1)?;
        let is_variable = self.body_tokens.tokens[variable].kind == TokenKind::Ident;
        is_variable.then_some(variable)
    }

    /// The `(` of `(float*)` in front of `operand`.
    fn find_plain_cast(&self, operand: usize) -> Option<usize> {
        let close = operand.checked_sub(1).filter(|&close| self.is_spelled(close, ")"))?;
        let ends_pointer = close.checked_sub(1).is_some_and(|last| self.is_spelled(last, "*"));
        self.body_tokens.tokens.group_start(close).filter(|_| ends_pointer)
    }

    /// Whether the variable at `index` is declared as a pointer to constant elements.
    fn declares_constant_elements(&self, index: usize) -> bool {
        let words = (0..index).rev().take_while(|&word| {
            ![";", "{", "}", "(", ","].iter().any(|end| self.is_spelled(word, end))
        });
        let mut words: Vec<&str> =
            words.map(|word| self.body_tokens.tokens[word].text(self.body_tokens.text)).collect();
        words.reverse();
        has_constant_elements(&words.join(" "))
    }

    /// The end of the call whose template arguments or parenthesis stands at `index`.
    fn skip_call(&self, index: usize) -> Option<usize> {
        let BodyTokens { text, tokens } = self.body_tokens;
        let open =
            if self.is_spelled(index, "<") { tokens.skip_angles(text, index)? } else { index };
        if self.is_spelled(open, "(") { tokens.skip_group(open) } else { None }
    }

    fn is_spelled(&self, index: usize, spelling: &str) -> bool {
        self.body_tokens.is_spelled(index, spelling)
    }
}

/// Whether `word` is spelled as macros are: of checks, mostly.
fn is_macro_name(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_numeric() || c == '_')
}

/// Whether `ty` leads to constant elements: `const float *`, or an accessor of such.
fn has_constant_elements(ty: &str) -> bool {
    match ty.split_once('*') {
        Some((pointee, _)) => pointee.split(' ').any(|word| word == "const"),
        None => ty.contains("Accessor") && ty.contains("< const "),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::{SourceUnit, find_function_signatures, scan_symbols};
    use super::*;

    /// The parameters of which `text` tells something.
    fn accesses(text: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text };
        let functions = find_function_signatures(&unit, &scan_symbols(&[unit]));
        let lines = functions.iter().flat_map(|function| {
            let known = function
                .parameters
                .iter()
                .filter(|parameter| parameter.access != ParameterAccess::Unknown);
            known.map(|parameter| {
                format!("{} {} {:?}\n", function.name, parameter.name, parameter.access)
            })
        });
        lines.collect()
    }

    #[test]
    fn a_launcher_without_const_has_that_of_its_kernel() {
        let text = "template <typename F> __global__ void k(const F* __restrict__ const _w, F* const _y) {\n\
                    F* const y = _y + 3; y[threadIdx.x] = _w[threadIdx.x]; }\n\
                    void launch(float* w, float* y, float* z) { dim3 n(4); k<float><<<n, 32>>>(w, y); other(z); }\n\
                    void outer(float* w, float* y) { launch(w + 1, (float*)y, y); }\n";
        assert_snapshot!(accesses(text), @"
        k _w Read
        k _y Written
        launch w Read
        launch y Written
        outer w Read
        outer y Written
        ");
    }

    #[test]
    fn operators_tell_writes_from_reads() {
        let text = "__global__ void k(float* a, float* b, float* c, float* d, int* e, float* f, float* g, int* h) {\n\
                    int i = threadIdx.x; if (a[i] == 1 && a != nullptr) b[i] += __ldg(c + i) * *d;\n\
                    atomicAdd(&(f[i]), max(c[0], a[i])); ++e[i]; swap(g[i]); h[i] <<= 1; }\n\
                    __device__ void swap(float& x) { x = 1; }\n\
                    __global__ void clear(float* a, float* b, float* c, float* d) {\n\
                    *a = 1; float* p = b; float* q = p; q[0] = 2; const float* r = c; if (d) unknown(d); }\n\
                    void copy(float* to, float* from) { cudaMemcpy(to, from, 4, cudaMemcpyDeviceToDevice); }\n\
                    void again(float* x) { again(x); }\n";
        assert_snapshot!(accesses(text), @"
        k a Read
        k b Written
        k c Read
        k d Read
        k e Written
        k f Written
        k h Written
        clear a Written
        clear b Written
        clear c Read
        copy to Written
        copy from Read
        ");
    }

    #[test]
    fn a_tensor_is_written_through_its_pointer_or_accessor() {
        let text = "__global__ void k(const float* x, float* y) { y[0] = x[0]; }\n\
                    template <typename T> __global__ void a(at::PackedTensorAccessor32<T, 2> y, const at::PackedTensorAccessor32<const T, 2> x) {\n\
                    y[0][1] = x[0][1]; }\n\
                    void forward(at::Tensor x, at::Tensor y, torch::Tensor z, torch::Tensor w) {\n\
                    CHECK_INPUT(x); TORCH_CHECK(y.size(0) == x.size(0));\n\
                    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), \"k\", ([&] {\n\
                    k<<<1, 1>>>(x.data_ptr<float>(), reinterpret_cast<float*>(y.data_ptr<scalar_t>())); }));\n\
                    z.zero_(); float* p = w.data<float>(); k<<<1, 1>>>(p, p); }\n\
                    void with(const at::Tensor& x, at::Tensor& y) {\n\
                    a<float><<<1, 1>>>(y.packed_accessor32<float, 2>(), x.packed_accessor32<const float, 2>()); }\n";
        assert_snapshot!(accesses(text), @"
        k x Read
        k y Written
        a y Written
        a x Read
        forward x Read
        forward y Written
        forward z Written
        forward w Written
        with x Read
        with y Written
        ");
    }
}
