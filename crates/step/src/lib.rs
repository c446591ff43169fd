//! The work of `replay step`: a captured step of a model, judged module by module.
//!
//! Each call of a module is a fixture of its own and begins from its captured inputs, so what is found in one is not
//! the consequence of another, unless one holds the other. Between two runs the inputs differ, too: what code makes of
//! their difference is no finding.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod beside;
mod blame;
mod order;
mod reading;

pub use beside::{OrderDifference, compare_orders};
pub use blame::{Blame, find_blames, find_first};
pub use order::{LeftOutModule, STEP_FILE, StepFileError, StepOrder, StepPart};
pub use reading::{
    Direction, PartFinding, PartFindingKind, PartReading, PartState, PassReading, PassVerdict,
    read_part, read_part_beside, read_part_of_runs,
};
