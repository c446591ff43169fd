//! The files of a tree that a replay opened, as the kernel tells without privileges: each folder is watched by inotify
//! while the replay runs.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Room for the events of one read.
const EVENT_BYTES: usize = 16 << 10;

/// The watch over a tree during one replay.
pub(super) struct TreeWatch {
    inotify: OwnedFd,
    /// The paths of the watched folders below the tree.
    folders: HashMap<i32, PathBuf>,
}

impl TreeWatch {
    /// Watches `folders`, paths below `root` that include the empty one; none where the system does not watch them all.
    pub(super) fn begin<'f>(
        root: &Path,
        folders: impl Iterator<Item = &'f Path>,
    ) -> Option<TreeWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let mut watched = HashMap::new();
        for folder in folders {
            let flags = WatchFlags::OPEN | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
            let watch = inotify::add_watch(&inotify, root.join(folder), flags).ok()?;
            watched.insert(watch, folder.to_owned());
        }
        // An event of its own shows at the end that this file system tells of any.
        File::open(root).ok()?;
        Some(TreeWatch { inotify, folders: watched })
    }

    /// The files opened so far, as paths below the tree; none where events were lost.
    pub(super) fn finish(self) -> Option<BTreeSet<String>> {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut opened = BTreeSet::new();
        let mut is_told = false;
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return is_told.then_some(opened),
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            if !event.events().contains(ReadFlags::OPEN) {
                // The queue is full, or a folder went.
                return None;
            }
            if event.events().contains(ReadFlags::ISDIR) {
                is_told = true;
                continue;
            }
            let name = event.file_name()?.to_str().ok()?;
            opened.insert(self.folders.get(&event.wd())?.join(name).to_str()?.to_owned());
        }
    }
}

/// The files that the replays of one variant opened.
#[derive(Debug)]
pub struct OpenedFiles {
    /// None where it is not known of one of them.
    paths: Mutex<Option<BTreeSet<String>>>,
}

impl Default for OpenedFiles {
    fn default() -> OpenedFiles {
        OpenedFiles { paths: Mutex::new(Some(BTreeSet::new())) }
    }
}

impl OpenedFiles {
    /// Adds those of one more replay, if they are known.
    pub(super) fn add(&self, opened: Option<BTreeSet<String>>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        *paths = paths.take().zip(opened).map(|(mut paths, opened)| {
            paths.extend(opened);
            paths
        });
    }

    /// Their paths below the tree; none where they are not known of every replay.
    pub fn paths(&self) -> Option<BTreeSet<String>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    /// The files opened while `act` worked on a tree.
    fn opened_by(act: impl FnOnce(&Path)) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("package/deep")).unwrap();
        for path in ["main", "package/read", "package/deep/read", "package/unread"] {
            fs::write(root.path().join(path), "text").unwrap();
        }
        let script = root.path().join("script");
        fs::copy("/bin/true", &script).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("deep/read", root.path().join("package/link")).unwrap();
        let folders = ["", "package", "package/deep"];
        let watch = TreeWatch::begin(root.path(), folders.iter().map(Path::new)).unwrap();
        act(root.path());
        watch.finish().map(|paths| paths.into_iter().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn files_that_were_opened_are_told_from_those_that_were_looked_at() {
        assert_eq!(opened_by(|_| ()).unwrap(), "");
        let read = opened_by(|root| {
            fs::metadata(root.join("package/unread")).unwrap();
            fs::read_dir(root.join("package")).unwrap().for_each(drop);
            assert!(fs::read(root.join("package/missing")).is_err());
            fs::read(root.join("main")).unwrap();
            fs::read(root.join("package/read")).unwrap();
        });
        assert_eq!(read.unwrap(), "main package/read");
        let linked = opened_by(|root| drop(fs::read(root.join("package/link")).unwrap()));
        assert_eq!(linked.unwrap(), "package/deep/read", "the file behind a symlink");
        let executed = opened_by(|root| {
            assert!(Command::new(root.join("script")).status().unwrap().success());
        });
        assert_eq!(executed.unwrap(), "script", "by another process");
    }

    #[test]
    fn a_lost_event_leaves_all_files_open() {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        if limit > 1 << 17 {
            return;
        }
        let flooded = opened_by(|root| {
            for _ in 0..=limit / 2 {
                // Equal events in a row are one.
                File::open(root.join("main")).unwrap();
                File::open(root.join("package/read")).unwrap();
            }
        });
        assert_eq!(flooded, None);
        let gone = opened_by(|root| fs::remove_dir_all(root.join("package/deep")).unwrap());
        assert_eq!(gone, None, "a folder that went");
        let missing = TreeWatch::begin(Path::new("/nowhere"), [""].iter().map(Path::new));
        assert!(missing.is_none());
    }

    #[test]
    fn one_replay_without_word_leaves_all_files_open() {
        let opened = OpenedFiles::default();
        opened.add(Some(BTreeSet::from(["a".to_owned()])));
        opened.add(Some(BTreeSet::from(["b".to_owned()])));
        assert_eq!(opened.paths().unwrap().len(), 2);
        opened.add(None);
        opened.add(Some(BTreeSet::new()));
        assert_eq!(opened.paths(), None);
    }
}
