//! The trees of programs: files of a revision, laid out read-only in the cache, once for each content. The harness may
//! have a build command for them.
//!
//! A tree lies beside a manifest of the state of each of its files and folders. A changed tree is laid out anew.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::error::{PrintedTail, last_line};
use super::opened::TreeWatch;
use super::project::{self, HarnessProgram, is_lacking};
use super::{ProgramError, Runner};
use replay_base::cache::{TREES, make_removable};
use replay_base::foreign::{Finished, ProgramEnd};
use replay_base::process::tree::End;
use replay_history::{FileKind, SourceSet, TreeFile, TreeReader};

/// The files of a tree, in its folder.
const FILES: &str = "tree";
const MANIFEST: &str = "manifest";
/// Paths in a note on missing files.
const NAMED: usize = 3;
/// Nothing may be written to a tree.
const READ_ONLY: u32 = 0o222;

/// A tree in the cache.
#[derive(Clone, Debug)]
pub(super) struct ProgramTree {
    home: PathBuf,
    entries: Arc<[ProgramTreeEntry]>,
}

/// A file or folder below a tree, or the tree's folder itself.
#[derive(Debug)]
struct ProgramTreeEntry {
    /// Its path below the tree.
    path: PathBuf,
    state: ProgramTreeState,
}

/// The state of a file, or of the names in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProgramTreeState {
    mode: u32,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ProgramTreeState {
    fn is_folder(&self) -> bool {
        rustix::fs::FileType::from_raw_mode(self.mode).is_dir()
    }
}

impl ProgramTree {
    /// The folder with the files.
    pub(super) fn path(&self) -> PathBuf {
        self.home.join(FILES)
    }

    /// A path with another state than in the manifest.
    pub(super) fn changed(&self) -> Option<String> {
        if self.is_whole().unwrap_or(false) {
            return None;
        }
        // An unreadable path shows as a missing one.
        let now = list_tree_entries(&self.path())
            .map(|now| format_tree_manifest(&now))
            .unwrap_or_default();
        let then = format_tree_manifest(&self.entries);
        let lines_before: std::collections::HashSet<&str> = then.lines().collect();
        let lines_now: std::collections::HashSet<&str> = now.lines().collect();
        // A new file changes its folder too: the file says more.
        let changed_lines = now.lines().filter(|line| !lines_before.contains(line));
        let mut changed_paths: Vec<String> = changed_lines
            .chain(then.lines().filter(|line| !lines_now.contains(line)))
            .map(|line| line.split_once('\t').map_or("", |(path, _)| path).to_owned())
            .collect();
        changed_paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        changed_paths.into_iter().next()
    }

    /// A watch over what is opened of it; none where the system allows none.
    pub(super) fn watch(&self) -> Option<TreeWatch> {
        let folders = self.entries.iter().filter(|entry| entry.state.is_folder());
        TreeWatch::begin(&self.path(), folders.map(|entry| entry.path.as_path()))
    }

    /// Whether everything is in its known state. A folder's state changes with the names in it.
    fn is_whole(&self) -> io::Result<bool> {
        let root = File::open(self.path())?;
        for entry in &*self.entries {
            if entry.state_below(&root)? != entry.state {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Forgets the tree: the next request lays it out again.
    pub(super) fn discard(&self) {
        // A manifest beyond removal shows as changed.
        let _ = fs::remove_file(self.home.join(MANIFEST));
    }
}

impl Runner {
    /// The tree of `sources`, with the build of `project` if it has one.
    pub(super) fn tree(
        &self,
        project: &HarnessProgram,
        sources: &SourceSet,
    ) -> Result<ProgramTree, ProgramError> {
        let source_id = format_tree_id(&sources.id);
        let key = match &project.spec.build {
            None => source_id,
            Some(_) => {
                let built = format!("built {source_id} {}", project.identity);
                blake3::hash(built.as_bytes()).to_hex().to_string()
            }
        };
        let home = self.shelf().join(&key);
        // One at a time: others wait for the same tree.
        let mut open_trees = self.trees.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(tree) = open_trees.get(&key).filter(|tree| tree.home.join(MANIFEST).exists()) {
            return Ok(tree.clone());
        }
        let tree = match recall_tree(&home) {
            Some(tree) => tree,
            None => self.lay_out(project, sources, &home)?,
        };
        open_trees.insert(key, tree.clone());
        Ok(tree)
    }

    /// The folder of all trees.
    pub(super) fn shelf(&self) -> PathBuf {
        self.cache.root().join(TREES)
    }

    fn lay_out(
        &self,
        project: &HarnessProgram,
        sources: &SourceSet,
        home: &Path,
    ) -> Result<ProgramTree, ProgramError> {
        let _span = tracing::info_span!("lay out", message = %home.display());
        let work =
            self.cache.scratch().map_err(|error| tree_layout_error(io::Error::other(error)))?;
        let fresh = work.path().join("new");
        let tree = fresh.join(FILES);
        fs::create_dir_all(&tree).map_err(tree_layout_error)?;
        let mut reader = TreeReader::default();
        for file in &sources.tree {
            let content = reader.read(file).map_err(ProgramError::Tree)?;
            write_tree_file(&tree, file, &content).map_err(tree_layout_error)?;
        }
        self.build(project, sources, &tree, work.path())?;
        forbid_tree_writing(&tree).map_err(tree_layout_error)?;
        let entries = list_tree_entries(&tree).map_err(tree_layout_error)?;
        fs::write(fresh.join(MANIFEST), format_tree_manifest(&entries))
            .map_err(tree_layout_error)?;
        fs::create_dir_all(self.shelf()).map_err(tree_layout_error)?;
        install_tree(&fresh, home, work.path()).map_err(tree_layout_error)?;
        recall_tree(home)
            .ok_or_else(|| tree_layout_error(io::Error::other("somebody else changes it")))
    }

    /// Builds the tree in `folder`, if the harness says how.
    fn build(
        &self,
        project: &HarnessProgram,
        sources: &SourceSet,
        folder: &Path,
        work: &Path,
    ) -> Result<(), ProgramError> {
        let Some(words) = project.build_words(folder) else { return Ok(()) };
        let command = project.spec.build.iter().flatten().map(String::as_str).collect::<Vec<_>>();
        let command = command.join(" ");
        let _span = tracing::info_span!("build", message = command);
        let temporary = work.join("tmp");
        fs::create_dir(&temporary).map_err(super::error::program_system_error("make a folder"))?;
        let build_variables = [
            ("TMPDIR".into(), temporary.clone().into_os_string()),
            ("REPLAY_TREE".into(), folder.as_os_str().to_owned()),
        ];
        let mut program = project.command(words?, &build_variables, Some(&temporary));
        program.folder = Some(folder.to_owned());
        if let Some(walls) = &mut program.walls {
            walls.writable.push(folder.to_owned());
        }
        if let Some(root) = &mut program.root {
            root.show(folder, true);
        }
        let finished = project::run_program(&self.keeper, &self.build_bounds(), program)?;
        if finished.success() {
            return Ok(());
        }
        Err(build_error(command, &finished, describe_missing_files(sources)))
    }
}

fn tree_layout_error(source: io::Error) -> ProgramError {
    ProgramError::System { doing: "lay out the revision's tree", source }
}

fn build_error(command: String, finished: &Finished, lacks: Option<String>) -> ProgramError {
    let stdout = String::from_utf8_lossy(&finished.stdout);
    let stderr = String::from_utf8_lossy(&finished.stderr);
    let program_output = if stderr.trim().is_empty() { stdout } else { stderr };
    let message_line = last_line(&program_output);
    let source = PrintedTail::last(&program_output);
    let how = match finished.ending {
        ProgramEnd::TimedOut => "does not end in time".to_owned(),
        ProgramEnd::TookMemory(excess) => excess.to_string(),
        ProgramEnd::Ended(end) if is_lacking(end) => {
            let source = PrintedTail::beside(message_line.as_deref(), &program_output);
            let message = message_line.unwrap_or_else(|| format!("`{command}` cannot be run"));
            return ProgramError::Environment { message, source, hint: lacks };
        }
        ProgramEnd::Ended(End::Exited(code)) => format!("fails with exit status {code}"),
        ProgramEnd::Ended(End::Killed(signal)) => format!("was ended by signal {signal}"),
    };
    ProgramError::Build { command, how, source, hint: lacks }
}

/// The files of a checkout missing from `sources`, in words: submodules, and files of Git LFS.
pub(super) fn describe_missing_files(sources: &SourceSet) -> Option<String> {
    let submodules = sources.tree.iter().filter(|file| file.kind == FileKind::Submodule);
    let parts = [
        list_missing_files("the files of the submodule", submodules.collect()),
        list_missing_files(
            "the file that Git LFS keeps elsewhere at",
            sources.tree.iter().filter(|file| file.is_pointer()).collect(),
        ),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!(
            "the revision's tree, which is laid out of git's objects, lacks {}",
            parts.join(", and ")
        )
    })
}

fn list_missing_files(description: &str, files: Vec<&TreeFile>) -> Option<String> {
    let paths: Vec<String> =
        files.iter().take(NAMED).map(|file| format!("`{}`", file.path)).collect();
    let more_text = match files.len().saturating_sub(NAMED) {
        0 => String::new(),
        more_count => format!(" and {more_count} more like it"),
    };
    (!paths.is_empty()).then(|| format!("{description} {}{more_text}", paths.join(", ")))
}

/// Puts one file of a revision with `content` below `tree`.
fn write_tree_file(tree: &Path, file: &TreeFile, content: &[u8]) -> io::Result<()> {
    // Paths of a revision lead neither up nor through links: those are put as they are.
    let path = tree.join(&file.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match file.kind {
        FileKind::Plain => fs::write(&path, content),
        FileKind::Executable => {
            fs::write(&path, content)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))
        }
        FileKind::Link => {
            let target = std::ffi::OsString::from(String::from_utf8_lossy(content).as_ref());
            symlink(target, &path)
        }
        FileKind::Submodule => fs::create_dir_all(&path),
    }
}

/// Takes the permission to write from everything below `folder`, and from itself.
fn forbid_tree_writing(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forbid_tree_writing(&entry.path())?;
        } else if kind.is_file() {
            forbid_writing(&entry.path())?;
        }
    }
    forbid_writing(folder)
}

fn forbid_writing(path: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    fs::set_permissions(path, Permissions::from_mode(mode & 0o777 & !READ_ONLY))
}

/// Puts the tree at `fresh` in the place `home`. A damaged tree there goes.
fn install_tree(fresh: &Path, home: &Path, work: &Path) -> io::Result<()> {
    if fs::rename(fresh, home).is_ok() || recall_tree(home).is_some() {
        return Ok(());
    }
    // The folder of work in progress takes it along when it goes.
    fs::rename(home, work.join("old"))?;
    make_removable(&work.join("old"));
    fs::rename(fresh, home)
}

/// The tree at `home`, if it is as it was laid out.
fn recall_tree(home: &Path) -> Option<ProgramTree> {
    let then = fs::read_to_string(home.join(MANIFEST)).ok()?;
    let entries = list_tree_entries(&home.join(FILES)).ok()?;
    if format_tree_manifest(&entries) != then {
        return None;
    }
    // `cache gc` goes by the time.
    let _ = File::open(home).and_then(|folder| folder.set_modified(SystemTime::now()));
    Some(ProgramTree { home: home.to_owned(), entries: entries.into() })
}

/// A line for each of `entries`, with its state.
fn format_tree_manifest(entries: &[ProgramTreeEntry]) -> String {
    let mut text = String::new();
    for ProgramTreeEntry { path, state } in entries {
        let ProgramTreeState { mode, inode, bytes, modified, changed } = state;
        let _ = writeln!(
            text,
            "{}\t{mode:o} {inode} {bytes} {}.{:09} {}.{:09}",
            path.to_string_lossy().escape_debug(),
            modified.0,
            modified.1,
            changed.0,
            changed.1
        );
    }
    text
}

/// Everything below `root` and itself, each folder before its entries.
fn list_tree_entries(root: &Path) -> io::Result<Vec<ProgramTreeEntry>> {
    let mut entries = Vec::new();
    collect_tree_entries(root, PathBuf::new(), &mut entries)?;
    Ok(entries)
}

fn collect_tree_entries(
    root: &Path,
    path: PathBuf,
    entries: &mut Vec<ProgramTreeEntry>,
) -> io::Result<()> {
    let full_path = root.join(&path);
    let metadata = fs::symlink_metadata(&full_path)?;
    let state = ProgramTreeState {
        mode: metadata.mode(),
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    entries.push(ProgramTreeEntry { path: path.clone(), state });
    if !metadata.is_dir() {
        return Ok(());
    }
    let mut names = fs::read_dir(&full_path)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    names.into_iter().try_for_each(|name| collect_tree_entries(root, path.join(name), entries))
}

impl ProgramTreeEntry {
    /// Its state now, below the folder `root`.
    fn state_below(&self, root: &File) -> io::Result<ProgramTreeState> {
        let metadata = if self.path.as_os_str().is_empty() {
            rustix::fs::fstat(root)?
        } else {
            rustix::fs::statat(root, &self.path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?
        };
        Ok(ProgramTreeState {
            mode: metadata.st_mode,
            inode: metadata.st_ino,
            bytes: metadata.st_size as u64,
            modified: (metadata.st_mtime, metadata.st_mtime_nsec as i64),
            changed: (metadata.st_ctime, metadata.st_ctime_nsec as i64),
        })
    }
}

fn format_tree_id(id: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*id).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree in which `change` was made after it was laid out, and the path that shows it.
    fn changed_by(change: impl Fn(&Path)) -> Option<String> {
        let home = tempfile::tempdir().unwrap();
        let files = home.path().join(FILES);
        fs::create_dir_all(files.join("folder/empty")).unwrap();
        fs::write(files.join("folder/file"), "text").unwrap();
        symlink("file", files.join("folder/link")).unwrap();
        let entries = list_tree_entries(&files).unwrap();
        fs::write(home.path().join(MANIFEST), format_tree_manifest(&entries)).unwrap();
        let tree = recall_tree(home.path()).expect("nobody changed it");
        assert_eq!(tree.changed(), None);
        // States tell times apart that lie this far apart.
        std::thread::sleep(std::time::Duration::from_millis(20));
        change(&files);
        let changed = tree.changed();
        assert_eq!(recall_tree(home.path()).is_none(), changed.is_some());
        changed
    }

    #[test]
    fn every_change_of_a_tree_is_seen_and_named() {
        let named = |change: &dyn Fn(&Path)| changed_by(change).unwrap_or_default();
        assert_eq!(named(&|_| ()), "");
        let file = |root: &Path| root.join("folder/file");
        assert_eq!(named(&|root| fs::write(file(root), "other").unwrap()), "folder/file");
        assert_eq!(named(&|root| fs::write(file(root), "TEXT").unwrap()), "folder/file");
        assert_eq!(
            named(&|root| forbid_writing(&file(root)).unwrap()),
            "folder/file",
            "its mode alone"
        );
        assert_eq!(named(&|root| fs::remove_file(file(root)).unwrap()), "folder/file");
        assert_eq!(
            named(&|root| fs::write(root.join("folder/empty/new"), "").unwrap()),
            "folder/empty/new"
        );
        assert_eq!(
            named(&|root| fs::remove_dir_all(root).unwrap()),
            "folder/empty",
            "the longest path of what is missing"
        );
        let come_and_gone = |root: &Path| {
            fs::write(root.join("folder/empty/new"), "").unwrap();
            fs::remove_file(root.join("folder/empty/new")).unwrap();
        };
        assert_eq!(named(&come_and_gone), "folder/empty");
        let replaced = |root: &Path| {
            fs::remove_file(root.join("folder/link")).unwrap();
            symlink("file", root.join("folder/link")).unwrap();
        };
        assert_eq!(named(&replaced), "folder/link");
        let mended = |root: &Path| {
            // Its content and time are what they were.
            let modified = fs::metadata(file(root)).unwrap().modified().unwrap();
            fs::write(file(root), "TEXT").unwrap();
            let opened = File::options().write(true).open(file(root)).unwrap();
            opened.set_modified(modified).unwrap();
        };
        assert_eq!(named(&mended), "folder/file");
    }
}
