//! The one process that this program starts itself. It forks a keeper on request, which takes a tenth
//! of the time of starting the program anew.
//!
//! It runs no replayed code, and ends last: when the socket to the program that started it is closed,
//! however that program ended, it ends everything below.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::OwnedFd;

use super::{GOING, KeeperAnswer, keeper, socket};
use replay_base::process::tree::{self, Deaths};
use replay_base::process::{self, Pid};

/// The request for a keeper; its end of a socket comes with it.
pub(super) const KEEPER: &[u8] = b"keeper";

/// Forks keepers until the other end of the standard input is closed. Returns the exit status.
pub(super) fn serve_zygote() -> i32 {
    let parent = rustix::stdio::stdin();
    // SAFETY: a file that is too large is an error then, not the end of a process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // If orphans cannot be adopted, those whose parents were killed are left behind.
    let _ = tree::take_root();
    let Ok(mut deaths) = Deaths::watch() else { return 1 };
    let mut keepers: Vec<Pid> = Vec::new();
    while let Ok((has_request, died)) = deaths.wait(parent, None) {
        if died {
            // A keeper that was killed leaves those that it kept.
            for dead in tree::end_all_but(&keepers, GOING) {
                keepers.retain(|&keeper| keeper != dead);
            }
        }
        if has_request {
            // Where the descriptor could not be received the program finds its other end closed.
            let Ok(received) = socket::receive_message(&parent) else { continue };
            let Some((_, files)) = received else { break };
            let Ok([socket]) = <[OwnedFd; 1]>::try_from(files) else { continue };
            match process::fork_process() {
                Ok(Some(keeper)) => keepers.push(keeper),
                Ok(None) => {
                    drop(deaths);
                    // The keeper has a socket of its own; the processes that it starts need no
                    // input.
                    let nothing = File::open("/dev/null");
                    if nothing.is_ok_and(|nothing| rustix::stdio::dup2_stdin(&nothing).is_ok()) {
                        keeper::serve_replays(socket)
                    }
                    return 1;
                }
                Err(error) => {
                    let error = error.raw_os_error().unwrap_or_default();
                    let doing = "start a process".to_owned();
                    keeper::send_keeper_answer(&socket, &KeeperAnswer::Failed { doing, error });
                }
            }
        }
    }
    tree::end_all_but(&[], GOING);
    0
}
