//! Gradient checksums under review: the demonstration's outcomes at every commit, the commands as a
//! user meets them, and the workflow that runs them on a server.

#[path = "common/env.rs"]
mod env;
#[path = "common/repo.rs"]
mod repo;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/terminal.rs"]
mod terminal;

mod snapshots {
    mod ci;
    mod comparing;
    mod damage;
    mod demonstration;
    mod project;
    mod reviewing;
    mod terminal;
    mod workflow;
}
