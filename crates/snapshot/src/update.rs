//! Which snapshots a run may write: `REPLAY_UPDATE` takes the words of insta's `INSTA_UPDATE`.

use std::str::FromStr;

/// How snapshots are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotUpdate {
    /// As `new`; as `no` in CI.
    #[default]
    Auto,
    /// Accept differences without review.
    Always,
    /// Make differences pending.
    New,
    /// Accept new snapshots; make differences pending.
    Unseen,
    /// Write nothing.
    No,
    /// Write everything, even equal snapshots.
    Force,
}

/// The kind of file to write, and whether over an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Nothing,
    /// A pending snapshot.
    Pending {
        /// Whether an older pending one is replaced.
        over: bool,
    },
    /// An accepted snapshot.
    Accepted {
        /// Whether an older accepted one is replaced.
        over: bool,
    },
}

impl SnapshotUpdate {
    /// The file to write for an outcome other than its accepted snapshot. `has_accepted` tells whether there is one. In
    /// CI nothing is overwritten.
    pub fn write(self, has_accepted: bool, ci: bool) -> Write {
        let over = !ci;
        match self {
            SnapshotUpdate::No => Write::Nothing,
            SnapshotUpdate::Auto if ci => Write::Nothing,
            SnapshotUpdate::Auto | SnapshotUpdate::New => Write::Pending { over },
            SnapshotUpdate::Unseen if has_accepted => Write::Pending { over },
            SnapshotUpdate::Unseen | SnapshotUpdate::Always | SnapshotUpdate::Force => {
                Write::Accepted { over }
            }
        }
    }

    /// Whether to make snapshots where there are none at all.
    pub fn asks_for_new(self) -> bool {
        matches!(
            self,
            SnapshotUpdate::Always
                | SnapshotUpdate::New
                | SnapshotUpdate::Unseen
                | SnapshotUpdate::Force
        )
    }
}

impl FromStr for SnapshotUpdate {
    type Err = String;

    fn from_str(text: &str) -> Result<SnapshotUpdate, String> {
        Ok(match text {
            "" | "auto" => SnapshotUpdate::Auto,
            "always" | "1" => SnapshotUpdate::Always,
            "new" => SnapshotUpdate::New,
            "unseen" => SnapshotUpdate::Unseen,
            "no" => SnapshotUpdate::No,
            "force" => SnapshotUpdate::Force,
            _ => {
                return Err(format!("`{text}` is none of auto, always, new, unseen, no and force"));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_mean_what_they_mean_to_insta() {
        let table = [
            ("auto", Write::Pending { over: true }, Write::Pending { over: true }),
            ("always", Write::Accepted { over: true }, Write::Accepted { over: true }),
            ("new", Write::Pending { over: true }, Write::Pending { over: true }),
            ("unseen", Write::Pending { over: true }, Write::Accepted { over: true }),
            ("no", Write::Nothing, Write::Nothing),
            ("force", Write::Accepted { over: true }, Write::Accepted { over: true }),
        ];
        for (word, seen, unseen) in table {
            let update: SnapshotUpdate = word.parse().expect("a word of insta's");
            assert_eq!((update.write(true, false), update.write(false, false)), (seen, unseen));
        }
        assert!("never".parse::<SnapshotUpdate>().is_err());
    }

    #[test]
    fn in_ci_nothing_is_written_over() {
        for word in ["auto", "always", "new", "unseen", "no", "force"] {
            let update: SnapshotUpdate = word.parse().expect("a word of insta's");
            for seen in [true, false] {
                match update.write(seen, true) {
                    Write::Nothing => {}
                    Write::Pending { over } | Write::Accepted { over } => assert!(!over, "{word}"),
                }
            }
        }
        assert_eq!(SnapshotUpdate::Auto.write(false, true), Write::Nothing);
    }
}
