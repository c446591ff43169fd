//! Gradient checksums under review: the demonstration's outcomes at every commit, and the commands
//! as a user meets them.

#[path = "common/env.rs"]
mod env;
#[path = "common/repo.rs"]
mod repo;

mod snapshots {
    mod commands;
    mod demonstration;
}
