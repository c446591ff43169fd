//! The shapes of kernels that training code has, on one thread: each against a serial loop of the same mathematics.

use std::fs;
use std::path::Path;
use std::process::Command;

use replay::compile::Compiler;
use replay::fixture;
use replay::tensor::DType;

use super::{Result, compile_serial, cpu, run};

/// A kernel of `shapes.cu`; its place in [`SHAPES`] is its number there.
struct Shape {
    name: &'static str,
    sizes: [Size; 2],
}

struct Size {
    rows: usize,
    columns: usize,
    repetitions: usize,
    /// The most processor time of the engine, as a multiple of the serial loop's.
    bound: f64,
}

const fn size(rows: usize, columns: usize, repetitions: usize, bound: f64) -> Size {
    Size { rows, columns, repetitions, bound }
}

/// The first size of each is 4 sequences of 64 positions and 128 channels, or a vocabulary of 1024; the second is
/// a real one.
const SHAPES: [Shape; 7] = [
    Shape {
        name: "column sums, shuffles and atomics",
        sizes: [size(256, 128, 10, 3600.0), size(8192, 768, 10, 30.0)],
    },
    Shape {
        name: "global norm on a full grid",
        sizes: [size(256, 128, 10, 2700.0), size(8192, 768, 10, 20.0)],
    },
    Shape {
        name: "layer norm, cooperative groups",
        sizes: [size(256, 128, 20, 27.0), size(8192, 768, 3, 8.0)],
    },
    Shape {
        name: "residual and layer norm, shuffles",
        sizes: [size(256, 128, 20, 22.0), size(8192, 768, 3, 6.0)],
    },
    Shape {
        name: "classifier, shuffles",
        sizes: [size(256, 1024, 10, 16.0), size(512, 32_768, 1, 3.0)],
    },
    Shape {
        name: "softmax, shuffles",
        sizes: [size(256, 1024, 10, 15.0), size(512, 32_768, 1, 2.0)],
    },
    Shape {
        name: "softmax, trees in shared memory",
        sizes: [size(256, 1024, 10, 2.5), size(512, 32_768, 1, 1.3)],
    },
];

/// Results of the engine and the loop differ by no more than rounding, relative to their magnitude: a serial sum of
/// millions of floats has few digits.
const TOLERANCE: f64 = 1e-2;

/// Whether all stay within their bounds.
pub(super) fn all_within(compiler: Compiler) -> Result<bool> {
    println!("shapes of kernels against a serial loop: {}, one thread", compiler.version());
    println!(
        "{:34} {:>6} {:>8} {:>12} {:>12} {:>8} {:>8}",
        "shape", "rows", "columns", "serial us", "engine us", "ratio", "bound"
    );
    let folder = tempfile::tempdir()?;
    lay_out_project(folder.path())?;
    let serial = compile_serial(folder.path(), &compiler, "shapes.cpp")?;
    let cpu = cpu(compiler, 1)?;
    let mut all_within = true;
    for (number, shape) in SHAPES.iter().enumerate() {
        for size in &shape.sizes {
            let (serial_us, expected) = serial_us(&serial, number, size)?;
            let dir = folder.path().join(format!("shape-{number}-{}", size.rows));
            write_fixture(&dir, number, size)?;
            let run = run(&cpu, folder.path(), &dir)?;
            let output = |name| run.output(name).ok_or_else(|| format!("{:?}", run.ending));
            let engine_us = output("cpu_us")?.get_f64(0);
            let got = output("magnitude")?.get_f64(0);
            if (got - expected).abs() > TOLERANCE * expected {
                return Err(format!("{}: {got} instead of {expected}", shape.name).into());
            }
            let ratio = engine_us / serial_us;
            let mark = if ratio <= size.bound { "" } else { "  beyond" };
            all_within &= ratio <= size.bound;
            println!(
                "{:34} {:>6} {:>8} {serial_us:>12.1} {engine_us:>12.1} {ratio:>8.1} {:>8}{mark}",
                shape.name, size.rows, size.columns, size.bound
            );
        }
    }
    Ok(all_within)
}

/// The kernels, with a clock, and a harness that times the call.
fn lay_out_project(folder: &Path) -> Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/engine");
    fs::create_dir(folder.join("src"))?;
    fs::copy(from.join("shapes.cu"), folder.join("src/shapes.cu"))?;
    fs::copy(from.join("clock.h"), folder.join("src/clock.cu"))?;
    fs::write(
        folder.join("replay.toml"),
        r#"
sources = ["src/shapes.cu", "src/clock.cu"]
call = """
time_us = best_us(repetitions, cpu_us, [&] { run_shape(shape, out, in, rows, columns); });
std::vector<float> results((size_t)rows * columns);
cudaMemcpy(results.data(), out, results.size() * sizeof(float), cudaMemcpyDeviceToHost);
magnitude = 0;
for (float x : results) magnitude += x == x ? fabs(x) : 0;
"""
[inputs.in]
dtype = "f32"
shape = ["rows", "columns"]
[inputs.shape]
dtype = "i32"
shape = []
[inputs.repetitions]
dtype = "i32"
shape = []
[outputs.time_us]
dtype = "f64"
shape = []
[outputs.cpu_us]
dtype = "f64"
shape = []
[outputs.magnitude]
dtype = "f64"
shape = []
[outputs.out]
dtype = "f32"
shape = ["rows", "columns"]
"#,
    )?;
    Ok(())
}

/// Processor time, and the sum of the magnitudes of the results.
fn serial_us(program: &Path, number: usize, size: &Size) -> Result<(f64, f64)> {
    let Size { rows, columns, repetitions, .. } = *size;
    // Loops are over sooner than kernels.
    let arguments = [number, rows, columns, repetitions.max(10)].map(|number| number.to_string());
    let output = Command::new(program).args(arguments).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().skip(1).map(str::parse);
    let mut next = || numbers.next().ok_or("the serial loop printed no times");
    Ok((next()??, next()??))
}

/// The same numbers as in `shapes.cpp`.
fn write_fixture(dir: &Path, number: usize, size: &Size) -> Result<()> {
    fs::create_dir(dir)?;
    fs::write(dir.join("fixture.toml"), "harness = \"../replay.toml\"\n")?;
    let Size { rows, columns, repetitions, .. } = *size;
    let value = |i: usize| (i as u32).wrapping_mul(2_654_435_761) % 4096;
    let values: Vec<u8> =
        (0..rows * columns).flat_map(|i| (value(i) as f32 / 256.0 - 8.0).to_le_bytes()).collect();
    fixture::write_safetensors(
        dir,
        &[
            ("in", DType::F32, &[rows, columns], &values),
            ("shape", DType::I32, &[], &(number as i32).to_le_bytes()),
            ("repetitions", DType::I32, &[], &(repetitions as i32).to_le_bytes()),
        ],
        &[],
    )?;
    Ok(())
}
