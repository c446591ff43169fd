//! Trials: one source set on one fixture, and all that is measured of it.
//!
//! A [`Trial`] compiles, runs and measures when it is asked, each thing once, and remembers by content
//! what the next process may ask for too. A [`Lab`] is what trials share: a backend, the cache, room
//! for numbers. Compares nothing; that is the business of `judge`.

mod both;
mod lab;
mod measurement;
mod once;
mod order;
mod outcome;
mod plain;
mod subject;
mod trial;
mod unsteady;

pub(crate) use self::both::both;
pub use self::lab::Lab;
pub use self::measurement::{Measurement, Nondeterminism, OutputNoise};
pub(crate) use self::measurement::{ORDERS, room};
pub use self::order::OrderDependence;
pub use self::outcome::{Failure, Outcome, OutputRecord, Slices, Status};
pub use self::subject::Subject;
pub use self::trial::Trial;
pub(crate) use self::trial::digest;
