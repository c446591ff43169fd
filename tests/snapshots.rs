//! Gradient checksums under review: the demonstration's outcomes at every commit, and the
//! commands as a user meets them.

mod ci;
mod comparing;
mod damage;
mod demonstration;
mod project;
mod reviewing;
mod terminal;
