//! A terminal for a program, and the user at it.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A program at a terminal.
pub struct Terminal {
    user: File,
    child: Child,
    shown: String,
    /// The place in it from which the next text is searched.
    from: usize,
}

impl Terminal {
    /// Starts `command` with a terminal of its own.
    pub fn start(command: &mut Command) -> Terminal {
        // SAFETY: posix_openpt gives a new file descriptor, or -1, which is caught.
        let user = unsafe {
            let user = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
            assert!(user >= 0, "a terminal");
            File::from_raw_fd(user)
        };
        let mut name = [0; 128];
        // SAFETY: the descriptor is a terminal's; ptsname_r writes a string that ends in 0 and fits.
        let path = unsafe {
            let fd = user.as_raw_fd();
            assert_eq!((libc::grantpt(fd), libc::unlockpt(fd)), (0, 0));
            assert_eq!(libc::ptsname_r(fd, name.as_mut_ptr(), name.len()), 0);
            CStr::from_ptr(name.as_ptr())
        };
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let open = || OpenOptions::new().read(true).write(true).open(&path).expect("a terminal");
        command.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        // SAFETY: between fork and exec only system calls are made, which are safe there.
        let child = unsafe {
            command.pre_exec(|| {
                // A session of its own, whose terminal is that of standard input.
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
            command.spawn().expect("the program runs")
        };
        // The command keeps the program's ends of the terminal open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Terminal { user, child, shown: String::new(), from: 0 }
    }

    /// Waits until `text` is shown, after what was waited for before.
    pub fn expect(&mut self, text: &str) {
        loop {
            if let Some(at) = self.shown[self.from..].find(text) {
                self.from += at + text.len();
                return;
            }
            let mut bytes = [0; 4096];
            match self.user.read(&mut bytes) {
                Ok(count) if count > 0 => {
                    self.shown += &String::from_utf8_lossy(&bytes[..count]);
                }
                _ => panic!("the program ended without `{text}`: {}", self.shown),
            }
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).expect("the terminal listens");
    }

    /// Waits for the end of the program.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.user.read(&mut bytes) {
            self.shown += &String::from_utf8_lossy(&bytes[..count]);
        }
        (self.child.wait().expect("the program ends"), self.shown)
    }

    /// Closes the terminal, as where its window is closed or a connection ends.
    pub fn die(mut self) -> ExitStatus {
        drop(self.user);
        self.child.wait().expect("the program ends")
    }
}
