//! Another root of the file system for a program: the files of a container image, and in it what of this machine the
//! program sees. It takes a user namespace and a mount namespace, and no privilege.
//!
//! Nothing of an image is changed: its entries are bound to a file system of their own in memory, which has the places
//! for everything else.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::process::{chdir, getegid, geteuid, pivot_root};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::walls::{DEVICES, give_up_privileges};

/// Where the files of this machine lie until the new root is complete.
const OLD_ROOT: &str = "/.replay-old-root";
/// The file system in memory holds folders and empty files alone.
const OWN_FILES: &std::ffi::CStr = c"mode=755,size=16m";
/// What the kernel shows of itself.
const KERNEL_FOLDERS: [&str; 2] = ["/proc", "/sys"];
/// What shells and scripts take for there, and where it leads.
const LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// The root of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The folder with the files of the image.
    image: PathBuf,
    /// What of this machine lies in it.
    binds: Vec<Bind>,
}

/// A file or folder of this machine in a root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bind {
    source: PathBuf,
    /// Its path in the root.
    target: PathBuf,
    is_writable: bool,
}

/// Why a root cannot be entered.
#[derive(Debug)]
pub(crate) struct RootRefusal {
    doing: String,
    source: io::Error,
}

impl fmt::Display for RootRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.doing, self.source)
    }
}

/// What is bound at a path of a root, and below it.
#[derive(Default)]
struct Place<'b> {
    bind: Option<&'b Bind>,
    below: BTreeMap<OsString, Place<'b>>,
}

impl Root {
    /// A root with the files in `image`, and with the kernel's own files and devices that hold nothing.
    pub fn of_image(image: &Path) -> Root {
        let mut root = Root { image: image.to_owned(), binds: Vec::new() };
        for path in KERNEL_FOLDERS.into_iter().chain(DEVICES) {
            root.show(Path::new(path), true);
        }
        root
    }

    /// Shows the file or folder `path` of this machine at the same path in the root; nothing if it is not there.
    pub fn show(&mut self, path: &Path, is_writable: bool) {
        let Ok(source) = path.canonicalize() else { return };
        // Who asks for the working directory gets its real path.
        if source != path {
            self.add(Bind { source: source.clone(), target: source.clone(), is_writable });
        }
        self.add(Bind { source, target: path.to_owned(), is_writable });
    }

    /// Shows the file or folder `source` of this machine at `target`, to be read.
    pub fn show_at(&mut self, source: &Path, target: &Path) {
        let Ok(source) = source.canonicalize() else { return };
        self.add(Bind { source, target: target.to_owned(), is_writable: false });
    }

    fn add(&mut self, bind: Bind) {
        self.binds.retain(|known| known.target != bind.target);
        self.binds.push(bind);
    }

    /// This root as words of a command line, [`Root::from_words`] reads them.
    pub(crate) fn to_words(&self) -> Vec<OsString> {
        let mut words = vec![self.image.clone().into_os_string()];
        for Bind { source, target, is_writable } in &self.binds {
            words.push(if *is_writable { "write".into() } else { "read".into() });
            words.extend([source, target].map(|path| path.clone().into_os_string()));
        }
        words
    }

    /// The root of `words`, all of them; none if they describe none.
    pub(crate) fn from_words(words: Vec<OsString>) -> Option<Root> {
        let (image, binds) = words.split_first()?;
        let binds = binds.chunks(3).map(|words| {
            let [manner, source, target] = words else { return None };
            let is_writable = match manner.to_str()? {
                "write" => true,
                "read" => false,
                _ => return None,
            };
            Some(Bind { source: source.into(), target: target.into(), is_writable })
        });
        Some(Root { image: image.into(), binds: binds.collect::<Option<_>>()? })
    }

    /// Makes it the root of this process and of all below it, with the working directory that this process has. The
    /// process must have one thread. What root may do beyond its own files is given up.
    pub(crate) fn enter(&self) -> Result<(), RootRefusal> {
        let folder = std::env::current_dir().map_err(refusal("find the working directory"))?;
        let image = self.image.canonicalize().map_err(refused_path("find", &self.image))?;
        enter_namespaces()?;
        self.take_root(&image)?;
        chdir(&folder).map_err(refused_path("enter", &folder))?;
        give_up_privileges().map_err(refusal("give up privileges"))
    }

    /// Mounts the file system in memory, fills it, and lets go of the files of this machine.
    fn take_root(&self, image: &Path) -> Result<(), RootRefusal> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(refusal("make mounts of its own"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        // The image's own folder is there for sure. It can be seen again once the old root has a place of its own.
        mount("tmpfs", image, "tmpfs", flags, OWN_FILES).map_err(refusal("mount a tmpfs"))?;
        let old_root = image.join(&OLD_ROOT[1..]);
        fs::create_dir(&old_root).map_err(refusal("make a folder in a tmpfs"))?;
        pivot_root(image, &old_root).map_err(refusal("change the root"))?;
        chdir("/").map_err(refusal("enter the root"))?;
        let image_path = in_old_root(image);
        let image_root = File::open(&image_path).map_err(refused_path("open", image))?;
        let mut places = Place::default();
        for bind in &self.binds {
            places.insert(bind);
        }
        fill_folder(&places, &image_root, Path::new("/"))?;
        for (link, target) in LINKS {
            // Most images have them.
            let _ = symlink(target, link);
        }
        unmount(OLD_ROOT, UnmountFlags::DETACH).map_err(refusal("let go of the old root"))?;
        fs::remove_dir(OLD_ROOT).map_err(refusal("remove the place of the old root"))?;
        forbid_writing_to_mount(Path::new("/"), 0).map_err(refusal("close the root"))
    }
}

impl<'b> Place<'b> {
    fn insert(&mut self, bind: &'b Bind) {
        let mut place = self;
        for component in bind.target.components() {
            if let Component::Normal(name) = component {
                place = place.below.entry(name.to_owned()).or_default();
            }
        }
        place.bind = Some(bind);
    }

    /// Binds what belongs here, at `path`, and what lies in the bound folder.
    fn bind_all(&self, bind: &Bind, path: &Path) -> Result<(), RootRefusal> {
        bind_path(&in_old_root(&bind.source), path, bind.is_writable)?;
        self.bind_below(path)
    }

    /// Binds what lies below `path`, a bound folder that has the places for it.
    fn bind_below(&self, path: &Path) -> Result<(), RootRefusal> {
        for (name, place) in &self.below {
            let path = path.join(name);
            match place.bind {
                Some(bind) => place.bind_all(bind, &path)?,
                None => place.bind_below(&path)?,
            }
        }
        Ok(())
    }
}

/// Gets this process a user namespace, in which its user is who he was, and a mount namespace.
fn enter_namespaces() -> Result<(), RootRefusal> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    // SAFETY: this process has one thread, and no descriptor is unshared.
    unsafe { unshare_unsafe(flags) }.map_err(refusal("make a user namespace"))?;
    let files = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in files {
        fs::write(file, text).map_err(refused_path("write", Path::new(file)))?;
    }
    Ok(())
}

/// Fills the folder `path` of the new root, in memory, as `place` says, and with what `image` has there.
fn fill_folder(place: &Place<'_>, image: &File, path: &Path) -> Result<(), RootRefusal> {
    if let Some(folder) = open_in_image(image, path, OFlags::DIRECTORY) {
        let folder_path = descriptor_path(&folder);
        let entries = fs::read_dir(&folder_path).map_err(refused_path("read", path))?;
        for entry in entries.flatten().filter(|entry| !place.below.contains_key(&entry.file_name()))
        {
            show_entry(&entry, &path.join(entry.file_name()))?;
        }
    }
    for (name, below) in &place.below {
        let path = path.join(name);
        match below.bind {
            Some(bind) => {
                let is_folder = in_old_root(&bind.source).is_dir();
                make_place(&path, is_folder)?;
                below.bind_all(bind, &path)?;
            }
            None => {
                make_place(&path, true)?;
                fill_folder(below, image, &path)?;
            }
        }
    }
    Ok(())
}

/// Shows the image's `entry` at `path`. Devices, pipes and sockets are left out.
fn show_entry(entry: &fs::DirEntry, path: &Path) -> Result<(), RootRefusal> {
    let Ok(kind) = entry.file_type() else { return Ok(()) };
    if kind.is_symlink() {
        let target = fs::read_link(entry.path()).map_err(refused_path("read", path))?;
        return symlink(target, path).map_err(refused_path("make", path));
    }
    if !kind.is_dir() && !kind.is_file() {
        return Ok(());
    }
    make_place(path, kind.is_dir())?;
    bind_path(&entry.path(), path, false)
}

/// Makes an empty folder or file at `path`, in memory.
fn make_place(path: &Path, is_folder: bool) -> Result<(), RootRefusal> {
    let made = if is_folder { fs::create_dir(path) } else { File::create(path).map(drop) };
    made.map_err(refused_path("make", path))
}

fn bind_path(source: &Path, path: &Path, is_writable: bool) -> Result<(), RootRefusal> {
    mount_bind_recursive(source, path).map_err(refused_path("mount", path))?;
    if is_writable {
        return Ok(());
    }
    forbid_writing_to_mount(path, libc::AT_RECURSIVE).map_err(refused_path("close", path))
}

/// `path` of `image`, with its links followed within it; none if it is not there.
fn open_in_image(image: &File, path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    openat2(image.as_fd(), path, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()
}

/// Whether the image in the folder `image` has a file at `path` that may be executed.
pub fn has_executable(image: &Path, path: &Path) -> bool {
    let Ok(root) = File::open(image) else { return false };
    open_in_image(&root, path, OFlags::empty()).is_some_and(|file| {
        let state = rustix::fs::fstat(file);
        state.is_ok_and(|state| {
            rustix::fs::FileType::from_raw_mode(state.st_mode).is_file()
                && state.st_mode & 0o111 != 0
        })
    })
}

/// The path of an open file of this machine, as long as the old root is there.
fn descriptor_path(file: &OwnedFd) -> PathBuf {
    in_old_root(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// The absolute `path` of this machine, seen from the new root.
fn in_old_root(path: &Path) -> PathBuf {
    Path::new(OLD_ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

/// The argument of `mount_setattr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    cleared: u64,
    propagation: u64,
    namespace: u64,
}

/// Makes the mount at `path` read-only, and with `AT_RECURSIVE` in `flags` those below it.
fn forbid_writing_to_mount(path: &Path, flags: libc::c_int) -> io::Result<()> {
    const READ_ONLY: u64 = 1;
    const NO_SETUID: u64 = 2;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes =
        MountAttributes { set: READ_ONLY | NO_SETUID, cleared: 0, propagation: 0, namespace: 0 };
    // SAFETY: path and attributes live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn refusal<E: Into<io::Error>>(doing: &str) -> impl FnOnce(E) -> RootRefusal {
    move |source| RootRefusal { doing: doing.to_owned(), source: source.into() }
}

fn refused_path<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> RootRefusal {
    let doing = format!("{doing} {}", path.display());
    move |source| RootRefusal { doing, source: source.into() }
}
