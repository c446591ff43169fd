//! The last translations of a process. Fixtures of one harness, and the tries of one compilation, share a translation.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::translation::{Translation, TranslationRequest, translate_sources};
use super::{CompileError, KeyHasher};

/// So many are kept: native, shadow and checked, of two revisions.
const MOST_KEPT: usize = 6;

/// The newest first, by [`hash_request`].
#[derive(Default)]
pub(super) struct RecentTranslations {
    kept: Mutex<VecDeque<(String, Arc<Translation>)>>,
    made: AtomicUsize,
}

impl RecentTranslations {
    /// The translation for `request`, made unless it is among the last.
    ///
    /// # Errors
    /// As [`translate_sources`].
    pub(super) fn translate(
        &self,
        request: TranslationRequest<'_>,
    ) -> Result<Arc<Translation>, CompileError> {
        let key = hash_request(&request);
        let known = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|(kept_key, _)| *kept_key == key).map(|(_, kept)| kept.clone())
        };
        if let Some(translation) = known {
            return Ok(translation);
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let translation = Arc::new(translate_sources(request)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((key, translation.clone()));
        kept.truncate(MOST_KEPT);
        Ok(translation)
    }

    /// How many were made.
    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }
}

/// Identifies the translation for `request`. It covers the whole harness: which parts of it the front end reads is no matter
/// of this module.
fn hash_request(request: &TranslationRequest<'_>) -> String {
    let mut hasher = KeyHasher::new("translation");
    hasher.part(request.sources.id);
    hasher.part(format!("{:?}", request.harness));
    hasher.part(format!("{:?} {:?} {:?}", request.scope, request.precision, request.threads));
    for (path, line) in request.refused {
        hasher.part(path);
        hasher.part(format!("{line:?}"));
    }
    hasher.finish()
}
