//! CUDA C++ as tokens: a lexer, the code certainly dropped by the preprocessor, the outline of a file, its macros, and
//! edits without a change of lines. Pure: text in, text out.

pub(crate) mod edits;
pub(crate) mod lexer;
pub(crate) mod macros;
pub(crate) mod outline;
pub(crate) mod source;

/// One file of a source set, source or header.
#[derive(Clone, Copy, Debug)]
pub struct SourceUnit<'a> {
    /// The path of the file in messages.
    pub path: &'a str,
    /// The text of the file.
    pub text: &'a str,
}

/// `text` as the content of a C string literal.
pub(crate) fn escape_c_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // Octal, because a hexadecimal escape would swallow later digits.
            control if control.is_ascii_control() => {
                out.push_str(&format!("\\{:03o}", control as u32));
            }
            plain_character => out.push(plain_character),
        }
    }
    out
}
