//! A fixture, with results that are computed from it once.

use std::sync::{Arc, OnceLock};

use crate::backend::ReplayError;
use crate::cache::{Cache, Kind};
use crate::fixture::Fixture;

/// The fixture that source sets are tried on.
pub struct Subject {
    /// The fixture.
    pub fixture: Arc<Fixture>,
    declaration: blake3::Hash,
    content: OnceLock<String>,
}

impl Subject {
    /// Wraps a fixture that was loaded.
    pub fn new(fixture: Fixture) -> Subject {
        let harness = &fixture.harness;
        let calls: Vec<&str> = harness.calls.iter().map(|call| call.text.as_str()).collect();
        let calls = (calls, harness.setup.as_ref().map(|setup| &setup.text));
        let said = (calls, &harness.inputs, &harness.outputs, &fixture.sizes);
        let declaration = blake3::hash(format!("{said:?}").as_bytes());
        Subject { fixture: Arc::new(fixture), declaration, content: OnceLock::new() }
    }

    /// Identifies the subject by its tensors and by its harness's declarations.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn identity(&self, cache: &Cache) -> Result<String, ReplayError> {
        Ok(format!("{} {}", self.content(cache)?, self.declaration.to_hex()))
    }

    /// The hash of the fixture's content, remembered for as long as its files do not change.
    ///
    /// # Errors
    /// [`ReplayError`] if the fixture or the cache cannot be read.
    pub fn content(&self, cache: &Cache) -> Result<&str, ReplayError> {
        if let Some(content) = self.content.get() {
            return Ok(content);
        }
        let states = self.fixture.stat_identity();
        let identity = format!("content, {}\n{states}", env!("CARGO_PKG_VERSION"));
        let identity = blake3::hash(identity.as_bytes()).to_hex();
        let known = cache.read(Kind::Fact, &identity);
        let known = known.and_then(|bytes| String::from_utf8(bytes).ok());
        let content = match known {
            Some(content) => content,
            None => {
                let content = self.fixture.content_hash()?.to_hex().to_string();
                cache.write(Kind::Fact, &identity, content.as_bytes())?;
                content
            }
        };
        Ok(self.content.get_or_init(|| content))
    }
}
