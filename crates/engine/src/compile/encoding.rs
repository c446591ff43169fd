//! Decodes the bytes of a source to text for the front end, and encodes them again. The compiler's
//! input differs from the source only by the front end's edits.

use std::borrow::Cow;

/// Stands for bytes beyond ASCII in texts other than UTF-8: byte 0x80 + n is the character `FIRST + n`, of Unicode's
/// private use area.
const FIRST: u32 = 0xf780;

/// A source as text.
pub(super) struct Decoded<'b> {
    /// The text; its lines are the source's.
    pub text: Cow<'b, str>,
    /// Whether each byte beyond ASCII has become a character.
    by_bytes: bool,
}

/// The text of `bytes`: as UTF-8, or if it is none, byte by byte.
pub(super) fn decode_source(bytes: &[u8]) -> Decoded<'_> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Decoded { text: text.into(), by_bytes: false };
    }
    // A mark of the byte order stays one, for the front end to drop it.
    let mark = "\u{feff}".as_bytes();
    let (start, unmarked_bytes) = match bytes.strip_prefix(mark) {
        Some(unmarked_bytes) => ("\u{feff}", unmarked_bytes),
        None => ("", bytes),
    };
    let characters = unmarked_bytes.iter().map(|&byte| match byte {
        0x80.. => char::from_u32(FIRST + u32::from(byte - 0x80)).unwrap_or(char::from(byte)),
        _ => char::from(byte),
    });
    let text: String = start.chars().chain(characters).collect();
    Decoded { text: text.into(), by_bytes: true }
}

impl Decoded<'_> {
    /// The bytes of `edited`, an edited form of the text.
    pub(super) fn encode(&self, edited: String) -> Vec<u8> {
        if !self.by_bytes {
            return edited.into_bytes();
        }
        let mut bytes = Vec::with_capacity(edited.len());
        for character in edited.chars() {
            match u32::from(character).checked_sub(FIRST) {
                Some(byte @ 0..0x80) => bytes.push(0x80 + byte as u8),
                _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_come_back_as_they_were() {
        let all: Vec<u8> = (0..=255).collect();
        let cases: [&[u8]; 5] = [
            b"",
            "// naïve \u{f7e9}".as_bytes(),
            b"// na\xefve\n",
            &all,
            b"\xef\xbb\xbf// \xe9\n\xc3\xa9",
        ];
        for bytes in cases {
            let decoded = decode_source(bytes);
            let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(lines(decoded.text.as_bytes()), lines(bytes));
            assert_eq!(decoded.encode(decoded.text.to_string()), bytes);
        }
        assert!(decode_source(cases[4]).text.starts_with('\u{feff}'));
    }

    #[test]
    fn what_is_added_to_a_source_stays_utf_8() {
        let decoded = decode_source(b"\xe9");
        let edited = format!("#line 1 \"ä.cu\"\n{}", decoded.text);
        assert_eq!(
            decoded.encode(edited),
            [b"#line 1 \"\xc3\xa4.cu\"\n".as_slice(), b"\xe9"].concat()
        );
    }
}
