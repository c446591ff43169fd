//! What the replays of a trial opened of a program's tree, remembered beside the outcome.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::Trial;
use super::build::Shadow;
use crate::backend::{ReplayError, Variant};
use replay_base::cache::CacheKind;

/// The name of opened files in keys of the cache.
const OPENED: &str = "opened files";

impl Trial {
    /// The files of a program's tree opened by the replays behind this trial's results, as far as there are results; none
    /// where that is not known, as of compiled kernels.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn opened(&self) -> Result<Option<BTreeSet<String>>, ReplayError> {
        self.outcome()?;
        let Some(variant) = self.variant()? else { return Ok(None) };
        self.collect_opened(variant)
    }

    /// Remembers what `variant` opened for the outcome.
    pub(super) fn note_opened(&self, variant: &dyn Variant) -> Result<(), ReplayError> {
        self.collect_opened(variant).map(drop)
    }

    fn collect_opened(
        &self,
        variant: &dyn Variant,
    ) -> Result<Option<BTreeSet<String>>, ReplayError> {
        let Some(by_native) = variant.opened() else { return Ok(None) };
        let key = self.key_of(OPENED)?;
        let known: Option<BTreeSet<String>> = self.lab.recall(CacheKind::Judgement, &key);
        if known.is_none() && self.is_recalled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut opened = known.clone().unwrap_or_default();
        opened.extend(by_native);
        if let Some(Shadow::Present(shadow)) = self.shadow.peek() {
            let Some(by_shadow) = shadow.opened() else { return Ok(None) };
            opened.extend(by_shadow);
        }
        if known.as_ref() != Some(&opened) {
            self.lab.keep(CacheKind::Judgement, &key, &opened)?;
        }
        Ok(Some(opened))
    }
}
