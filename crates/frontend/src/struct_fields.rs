//! The fields of plain structures, for callers that fill them. A structure with a base, a constructor or anything that is
//! not public is none.

use super::SourceUnit;
use super::lexer::{TokenKind, Tokens};
use super::outline::{Item, ItemKind, outline_items};
use super::source::Source;

/// A plain structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainStruct {
    /// Its name without namespaces.
    pub name: String,
    /// Its fields, in order; arrays are left out.
    pub fields: Vec<StructField>,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructField {
    /// The words of its type with one space between them, `const float *`; `__restrict__` left out.
    pub ty: String,
    /// Its name.
    pub name: String,
}

/// The plain structures at namespace scope in `unit`, in order.
pub fn find_plain_structs(unit: &SourceUnit) -> Vec<PlainStruct> {
    let source = Source::new(unit);
    let tokens = source.view(true);
    let items = outline_items(source.text, &tokens);
    let structs = items.iter().filter(|item| item.kind == ItemKind::Type && !item.member);
    structs.filter_map(|item| parse_plain_struct(source.text, &tokens, &items, item)).collect()
}

fn parse_plain_struct(
    text: &str,
    tokens: &Tokens,
    items: &[Item],
    item: &Item,
) -> Option<PlainStruct> {
    let head: Vec<&str> = tokens[item.tokens.clone()]
        .iter()
        .map(|token| token.text(text))
        .take_while(|word| *word != "{")
        .collect();
    let name = match head.as_slice() {
        ["struct", name] => (*name).to_owned(),
        // `typedef struct { ... } Name;`
        ["typedef", "struct"] | ["typedef", "struct", _] => {
            tokens.text_at(text, item.tokens.end.checked_sub(2)?).to_owned()
        }
        _ => return None,
    };
    let hides = |word| tokens.contains_spelling(text, item.tokens.clone(), word);
    if hides("private") || hides("protected") {
        return None;
    }
    let mut fields = Vec::new();
    let inside = |member: &&Item| {
        member.member
            && item.tokens.start < member.tokens.start
            && member.tokens.end <= item.tokens.end
    };
    for member in items.iter().filter(inside) {
        match member.kind {
            ItemKind::Other => fields.extend(parse_fields(text, tokens, member)),
            ItemKind::Function | ItemKind::Prototype if member.name == name => return None,
            // A structure within the structure has members of its own.
            ItemKind::Type => return None,
            ItemKind::Function | ItemKind::Prototype => {}
        }
    }
    (!fields.is_empty()).then_some(PlainStruct { name, fields })
}

/// The fields that `member` declares, `const float *x, *y;`.
fn parse_fields(text: &str, tokens: &Tokens, member: &Item) -> Vec<StructField> {
    let no_field = ["static", "using", "typedef", "friend", "template", "constexpr", "union"];
    let range = member.tokens.start..member.tokens.end.saturating_sub(1);
    if no_field.iter().any(|word| tokens.contains_spelling(text, range.clone(), word)) {
        return Vec::new();
    }
    let mut base_words: Vec<&str> = Vec::new();
    let mut fields = Vec::new();
    for (number, declarator) in tokens.split_parameters(text, range).into_iter().enumerate() {
        let declared: Vec<usize> = declarator
            .take_while(|&index| !["=", "{", ":"].contains(&tokens.text_at(text, index)))
            .collect();
        let Some((&name, before)) = declared.split_last() else { continue };
        let words = before.iter().map(|&index| tokens.text_at(text, index));
        let words = words.filter(|word| !word.starts_with("__restrict") && *word != "struct");
        let mut ty: Vec<&str> = words.collect();
        if number == 0 {
            base_words = ty.iter().copied().take_while(|word| *word != "*").collect();
        } else {
            ty = base_words.iter().copied().chain(ty).collect();
        }
        if tokens[name].kind == TokenKind::Ident && !ty.is_empty() {
            fields.push(StructField { ty: ty.join(" "), name: tokens[name].text(text).to_owned() });
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Vec<String> {
        let structs = find_plain_structs(&SourceUnit { path: "a.h", text });
        let describe = |found: &PlainStruct| {
            let fields = found.fields.iter().map(|field| format!("{} {}", field.ty, field.name));
            format!("{}: {}", found.name, fields.collect::<Vec<_>>().join(", "))
        };
        structs.iter().map(describe).collect()
    }

    #[test]
    fn fields_are_read_with_their_types() {
        let text = "namespace norm {\n\
                    struct Params {\n  const float* __restrict__ x = nullptr; float *y, *rms;\n\
                    int rows, cols; float eps{1e-5f}; int strides[4]; static int count;\n\
                    __host__ __device__ int size() const { return rows * cols; }\n};\n}\n\
                    typedef struct { std::size_t n; double* z; } Sizes;\n";
        assert_eq!(
            described(text),
            [
                "Params: const float * x, float * y, float * rms, int rows, int cols, float eps",
                "Sizes: std :: size_t n, double * z",
            ]
        );
    }

    #[test]
    fn a_structure_that_no_caller_can_fill_is_none() {
        for text in [
            "struct A : B { int n; };",
            "struct A { A(int n); int n; };",
            "class A { int n; };",
            "struct A { private: int n; };",
            "template <class T> struct A { T n; };",
            "struct A { struct B { int m; } b; };",
            "enum A { one };",
            "struct A {};",
        ] {
            assert_eq!(described(text), Vec::<String>::new(), "{text}");
        }
    }
}
