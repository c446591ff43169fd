//! Process-wide options of libgit2, set once before the first repository is opened.
//!
//! The only unsafe code of this module's folder: these options are plain globals in C.

#![allow(unsafe_code)]

use std::sync::Once;

use git2::{ConfigLevel, opts};

/// Makes libgit2 read repositories alone: no user or system configuration, no ownership check.
pub(super) fn configure_libgit2() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for level in
            [ConfigLevel::System, ConfigLevel::Global, ConfigLevel::XDG, ConfigLevel::ProgramData]
        {
            // The user's configuration of git must not change replays. Failing to clear a path leaves git's own
            // behaviour: the result is of no consequence.
            // SAFETY: `Once` serialises this against every other call made by this crate, and no
            // repository has been opened yet.
            let _ = unsafe { opts::set_search_path(level, "") };
        }
        // The check protects users from hooks and commands in a foreign repository's
        // configuration. Nothing here runs any of them; with it, reading a repository on a
        // shared disk or in a container would fail.
        // SAFETY: as above.
        let _ = unsafe { opts::set_verify_owner_validation(false) };
        // Git trusts the checksums of zlib and of its packs, too: hashing each of 100,000 commits and trees again
        // takes longer than reading them. Sources are hashed on reading, see `GitTree`.
        opts::strict_hash_verification(false);
        // A history is walked once; anything needed again is remembered in a smaller form.
        opts::enable_caching(false);
    });
}
