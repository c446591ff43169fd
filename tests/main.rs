//! Every integration test, in one program: it is linked once. `cargo test --test integration cli::`
//! runs a part. What counts its own heap is a program of its own, `verdict_memory.rs`.

mod common {
    pub mod checked_cases;
    pub mod compiled;
    pub mod env;
    pub mod gpu_lab;
    pub mod repo;
    pub mod schema;
    pub mod speaker;
    pub mod terminal;
}

mod architecture;
mod backends;
mod bisect_cli;
mod bisect_git;
mod capture_header;
mod cli;
mod corpus;
mod engine;
mod frontend;
mod gpu;
mod gpu_failures;
mod gpu_math;
mod gpu_summary;
mod history;
mod history_bundle;
mod history_keys;
mod lazy_attention_truth;
mod programs;
mod shim;
mod slurm;
mod snapshots;
