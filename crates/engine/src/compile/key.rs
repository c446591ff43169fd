//! Keys of compilations: different hashes for different lists of parts.

/// A key in the making.
pub(super) struct KeyHasher(blake3::Hasher);

impl KeyHasher {
    /// A hasher for keys of `purpose`. They never equal keys of anything else.
    pub(super) fn new(purpose: &str) -> KeyHasher {
        let mut hasher = KeyHasher(blake3::Hasher::new());
        hasher.part(purpose);
        hasher
    }

    /// Adds one part.
    pub(super) fn part(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Adds a list, end included.
    pub(super) fn list(&mut self, parts: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        let mut count = 0u64;
        for part in parts {
            self.part(part);
            count += 1;
        }
        self.0.update(&count.to_le_bytes());
    }

    /// The key.
    pub(super) fn finish(&self) -> String {
        self.0.finalize().to_hex()[..40].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_moves_from_one_list_to_the_next_changes_the_key() {
        let key = |one: &[&str], other: &[&str]| {
            let mut hasher = KeyHasher::new("test");
            hasher.list(one);
            hasher.list(other);
            hasher.finish()
        };
        assert_ne!(key(&["a", "b"], &[]), key(&["a"], &["b"]));
        assert_ne!(key(&["ab"], &[]), key(&["a", "b"], &[]));
        assert_ne!(key(&[], &["a"]), key(&["a"], &[]));
    }
}
