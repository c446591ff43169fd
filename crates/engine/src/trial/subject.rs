//! A fixture, with results computed from it once.

use std::sync::{Arc, OnceLock};

use crate::backend::ReplayError;
use replay_base::cache::{Cache, CacheKind};
use replay_fixture::fixture::Fixture;

/// The fixture of trials.
pub struct Subject {
    pub fixture: Arc<Fixture>,
    declaration: blake3::Hash,
    hashes: OnceLock<Hashes>,
}

/// The identity of a fixture's tensors.
struct Hashes {
    /// Of the inputs.
    content: String,
    /// Of its outputs.
    outputs: String,
}

impl Subject {
    /// Wraps a loaded fixture.
    pub fn new(fixture: Fixture) -> Subject {
        let harness = &fixture.harness;
        let calls: Vec<&str> = harness.calls.iter().map(|call| call.text.as_str()).collect();
        let calls = (calls, harness.setup.as_ref().map(|setup| &setup.text));
        let declared_parts = (calls, &harness.inputs, &harness.outputs, &fixture.sizes);
        let declaration = blake3::hash(format!("{declared_parts:?}").as_bytes());
        Subject { fixture: Arc::new(fixture), declaration, hashes: OnceLock::new() }
    }

    /// Identifies the subject by its tensors and by its harness's declarations.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn identity(&self, cache: &Cache) -> Result<String, ReplayError> {
        let Hashes { content, outputs } = self.hashes(cache)?;
        Ok(format!("{content} {outputs} {}", self.declaration.to_hex()))
    }

    /// The hash of the fixture's content: its inputs.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn content(&self, cache: &Cache) -> Result<&str, ReplayError> {
        Ok(&self.hashes(cache)?.content)
    }

    /// The hashes of its tensors, remembered for as long as its files do not change.
    fn hashes(&self, cache: &Cache) -> Result<&Hashes, ReplayError> {
        if let Some(hashes) = self.hashes.get() {
            return Ok(hashes);
        }
        let states = self.fixture.stat_identity();
        let identity = format!("content and outputs, {}\n{states}", env!("CARGO_PKG_VERSION"));
        let identity = blake3::hash(identity.as_bytes()).to_hex();
        let cached_bytes = cache.read(CacheKind::Fact, &identity);
        let cached_hashes = cached_bytes.and_then(|bytes| {
            let (content, outputs) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
            Some(Hashes { content: content.to_owned(), outputs: outputs.to_owned() })
        });
        let hashes = match cached_hashes {
            Some(hashes) => hashes,
            None => {
                let content = self.fixture.content_hash()?.to_hex().to_string();
                let outputs = self.fixture.outputs_hash().to_hex().to_string();
                cache.write(
                    CacheKind::Fact,
                    &identity,
                    format!("{content} {outputs}").as_bytes(),
                )?;
                Hashes { content, outputs }
            }
        };
        Ok(self.hashes.get_or_init(|| hashes))
    }
}
