//! The sides that were trusted last, one for each fixture: a search compares many revisions with
//! one, whose noise and shadow are measured once.
//!
//! They hold outputs, and go with the replayer. What was found by them is in the cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::evidence::Side;
use crate::compile::Artifact;
use crate::history::SourceSet;
use crate::replay::{ReplayError, Replayer, Subject};

/// By the hash of the fixture's content: the key of a replay, and what was measured about it.
#[derive(Default)]
pub(crate) struct TrustedSides {
    known: Mutex<HashMap<String, Arc<Mutex<Known>>>>,
}

/// The side that was trusted last, with the key of its replay.
type Known = Option<(String, Arc<Side>)>;

impl Replayer {
    /// Everything about `sources`, measured again only if another side was trusted since, or if
    /// nothing may be remembered.
    ///
    /// A second caller waits for what the first is measuring, so it must not be called by work
    /// that rayon schedules: the first might be handed the second's work while it measures.
    pub(super) fn trusted_side(
        &self,
        subject: &Subject,
        sources: &SourceSet,
        artifact: Artifact,
    ) -> Result<Arc<Side>, ReplayError> {
        if self.settings().fresh {
            return Ok(Arc::new(self.side(subject, sources, artifact)?));
        }
        let key = self.outcome_key(subject, &artifact)?;
        let content = self.content(subject)?.to_owned();
        let slot = {
            let mut known = self.trusted().known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(content).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, side)) = slot.as_ref()
            && *known == key
        {
            return Ok(side.clone());
        }
        // What was trusted before goes before the next takes its memory.
        *slot = None;
        let side = Arc::new(self.side(subject, sources, artifact)?);
        *slot = Some((key, side.clone()));
        Ok(side)
    }
}
