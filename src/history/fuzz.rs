//! The properties that must hold for any bytes of a bundle.

use std::path::Path;

use super::bundle_header::Header;
use crate::fuzz::told;

/// A header that is accepted names references, ends within the bytes, and is read again as the same
/// header after it is written.
pub fn bundle_header(mut bytes: &[u8]) {
    let (path, all) = (Path::new("history.bundle"), bytes.len() as u64);
    let header = match Header::read(path, &mut bytes) {
        Ok(header) => header,
        Err(error) => return told(&error, error.hint()),
    };
    assert!(!header.references.is_empty());
    assert_eq!(header.size_bytes, all - bytes.len() as u64);
    let mut written = "# v2 git bundle\n".to_owned();
    for (id, name) in &header.references {
        written.push_str(&format!("{id} {name}\n"));
    }
    written.push('\n');
    let again = Header::read(path, &mut written.as_bytes());
    assert_eq!(again.map(|again| again.references).ok(), Some(header.references));
}
