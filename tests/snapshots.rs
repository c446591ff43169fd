//! Gradient checksums under review: the demonstration's outcomes at every commit, the commands as a
//! user meets them, and the workflow that runs them on a server.

mod ci;
mod comparing;
mod damage;
mod demonstration;
mod project;
mod reviewing;
mod terminal;
mod workflow;
