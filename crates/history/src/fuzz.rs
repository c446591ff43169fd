//! The properties that must hold for any bytes of a bundle.

use std::path::Path;

use super::bundle_header::BundleHeader;
use replay_base::fuzz::check_error_text;

/// A header that is accepted names references, ends within the bytes, and is read again as the same
/// header after it is written.
pub fn bundle_header(mut bytes: &[u8]) {
    let path = Path::new("history.bundle");
    let total_bytes = bytes.len() as u64;
    let header = match BundleHeader::read(path, &mut bytes) {
        Ok(header) => header,
        Err(error) => return check_error_text(&error, error.hint()),
    };
    assert!(!header.references.is_empty());
    assert_eq!(header.size_bytes, total_bytes - bytes.len() as u64);
    let mut rewritten_header = "# v2 git bundle\n".to_owned();
    for (id, name) in &header.references {
        rewritten_header.push_str(&format!("{id} {name}\n"));
    }
    rewritten_header.push('\n');
    let reread_header = BundleHeader::read(path, &mut rewritten_header.as_bytes());
    assert_eq!(reread_header.map(|again| again.references).ok(), Some(header.references));
}
