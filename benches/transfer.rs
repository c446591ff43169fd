//! A large fixture from its file to a GPU, against a plain copy of as many bytes out of pinned
//! memory: `cargo bench --bench transfer [GB]`; 8 GB unless it says otherwise.
//!
//! Fails where there is no GPU. The fixture lies in the folder for temporary files.

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use replay::backend::{Backend, CpuBackend, Cuda, Host, Mode};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::cuda::SearchPath;
use replay::fixture::Fixture;
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{SourceSpec, source_set_from_dir};
use replay::runtime::gpu::pinned_copy_seconds;
use replay::summary::POISON_A;
use replay::trial::{Lab, Subject};
use replay::worker::{Limits, OutputTransfer};

/// Tensors that the bytes are spread over.
const TENSORS: usize = 4;
const REPETITIONS: usize = 3;

/// Reads every element; an output of the size of one input, which stays on the device.
const SOURCE: &str = "__global__ void add(const float* a, const float* b, const float* c,\n\
    const float* d, float* out, long long n) {\n\
    long long i = blockIdx.x * 256ll + threadIdx.x;\n\
    if (i < n) out[i] = a[i] + b[i] + c[i] + d[i];\n}\n";

const HARNESS: &str = "sources = [\"kernel.cu\"]\n\
    call = \"add<<<((long long)n + 255) / 256, 256>>>(a, b, c, d, out, n);\"\n";

fn main() -> Result<(), Box<dyn Error>> {
    let gigabytes: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(8.0);
    let elements = (gigabytes * 1e9 / 4.0 / TENSORS as f64) as usize;
    let bytes = elements * 4 * TENSORS;
    let folder = tempfile::tempdir()?;
    let cache = Cache::open(&folder.path().join("cache"))?;
    let cuda = cuda(&cache)?;
    write(folder.path(), elements)?;
    let fixture = Fixture::load(&folder.path().join("fixture"))?;
    let spec = SourceSpec {
        sources: fixture.harness.sources.clone(),
        include: Vec::new(),
        ..SourceSpec::default()
    };
    let sources = Arc::new(source_set_from_dir(folder.path(), &spec)?);
    let subject = Arc::new(Subject::new(fixture));
    let variant = cuda.prepare(&subject.fixture, &sources, Precision::Native, &|| ())?;

    println!("{:.2} GB of inputs, {:.2} GB of output", bytes as f64 / 1e9, elements as f64 * 4e-9);
    println!(
        "| pinned copy | inputs to the device | kernel | outputs | data path / (pinned + kernel) | child process |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for _ in 0..REPETITIONS {
        let pinned = pinned_copy_seconds(0, bytes)?;
        let begun = Instant::now();
        let mode = Mode { outputs: OutputTransfer::Summaries, ..Mode::plain(POISON_A) };
        let run = variant.run(&mode)?;
        let wall = begun.elapsed().as_secs_f64();
        let [inputs, call, outputs] =
            [run.inputs_time, run.call, run.outputs_time].map(|time| time.as_secs_f64());
        let ratio = (inputs + call + outputs) / (pinned + call);
        println!(
            "| {pinned:.3} s | {inputs:.3} s | {call:.4} s | {outputs:.4} s | {ratio:.2} | {wall:.2} s |"
        );
    }
    println!("\n| whole replay, hashing the fixture | again |\n| --- | --- |");
    let lab = Lab::new(Arc::new(cuda.clone()), cache, true);
    let whole = || -> Result<f64, Box<dyn Error>> {
        let begun = Instant::now();
        lab.trial(&subject, &sources).outcome()?;
        Ok(begun.elapsed().as_secs_f64())
    };
    println!("| {:.2} s | {:.2} s |", whole()?, whole()?);
    Ok(())
}

/// The first GPU.
fn cuda(cache: &Cache) -> Result<Cuda, Box<dyn Error>> {
    let folders = |name: &str| -> Vec<PathBuf> {
        std::env::split_paths(&std::env::var_os(name).unwrap_or_default()).collect()
    };
    let search = SearchPath {
        libraries: folders("LD_LIBRARY_PATH"),
        roots: folders("CUDA_HOME"),
        python: Some("python3".to_owned()),
    };
    let carried = std::env::var_os("REPLAY_TEST_PROGRAM").map(PathBuf::from);
    let program = carried.unwrap_or_else(|| env!("CARGO_BIN_EXE_replay").into());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let keeper = Keeper::new(Path::new(env!("CARGO_BIN_EXE_replay")));
    let host = Host::new(program, Limits::default(), threads, cache.temporary());
    let cpu = CpuBackend::new(Toolchain::new(Compiler::find(None, &keeper)?, cache), host);
    Ok(Cuda::new(cpu, Some(0), None, &search, cache)?)
}

/// Sources, harness and a fixture of `TENSORS` tensors.
fn write(folder: &Path, elements: usize) -> Result<(), Box<dyn Error>> {
    std::fs::write(folder.join("kernel.cu"), SOURCE)?;
    let mut harness = HARNESS.to_owned();
    let names = &["a", "b", "c", "d"][..TENSORS];
    for name in names {
        harness += &format!("[inputs.{name}]\ndtype = \"f32\"\nshape = [\"n\"]\n");
    }
    harness += "[outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    std::fs::write(folder.join("replay.toml"), harness)?;
    let dir = folder.join("fixture");
    std::fs::create_dir(&dir)?;
    std::fs::write(dir.join("fixture.toml"), "harness = \"../replay.toml\"\n")?;
    let size = elements * 4;
    let entry = |(number, name): (usize, &&str)| {
        let begin = number * size;
        let end = (number + 1) * size;
        format!(
            "\"{name}\":{{\"dtype\":\"F32\",\"shape\":[{elements}],\"data_offsets\":[{begin},{end}]}}"
        )
    };
    let entries: Vec<String> = names.iter().enumerate().map(entry).collect();
    let mut header = format!("{{{}}}", entries.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = BufWriter::new(std::fs::File::create(dir.join("inputs.safetensors"))?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut state = 1u32;
    let mut block: Vec<u8> = Vec::with_capacity(4 << 20);
    let mut left = elements * TENSORS;
    while left > 0 {
        block.clear();
        for _ in 0..left.min(1 << 20) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            block.extend_from_slice(&((state >> 8) as f32 * 1e-7).to_le_bytes());
        }
        left -= left.min(1 << 20);
        file.write_all(&block)?;
    }
    file.flush()?;
    Ok(())
}
