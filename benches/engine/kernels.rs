//! Kernels as other people write them (`kernels.cu`, listed in `kernels.txt`), on one thread: each against a serial loop of
//! the same mathematics in `kernels_serial.cpp`, at a small size and at a real one. The last ten were written by
//! somebody who had not seen the front end.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use replay::compile::Compiler;
use replay::fixture;
use replay::frontend::{
    KernelForm, Precision, SourceUnit, ThreadForm, Threads, scan_symbols, translate_for_host,
};
use replay::tensor::DType;

use super::{Result, cpu, run};

/// A row of the table.
struct Kernel {
    name: String,
    inputs: Vec<Input>,
    /// How many elements each output has, and whether they are integers.
    outputs: Vec<(String, bool)>,
    /// Rows and columns of the small size and of the real one.
    sizes: [(usize, usize); 2],
    is_late: bool,
}

struct Input {
    /// How many elements, as a formula of `R` and `C`.
    count: String,
    numbers: Numbers,
}

enum Numbers {
    /// Around 0, with a standard deviation of about 1.
    Normal,
    /// Between 0 and 1.
    Unit,
    /// Integers below the value of a formula.
    Below(String),
}

/// The result of one kernel.
struct Measured {
    /// Processor time of the engine as a multiple of the loop's, at both sizes.
    ratios: [f64; 2],
    /// Of the engine at the small size.
    small_us: f64,
    is_loop: bool,
    is_late: bool,
}

/// Runs of each; sums of outputs grow with them, the same on both sides.
const REPETITIONS: [usize; 2] = [10, 3];
/// The median of the ratios at real sizes may be this.
const MEDIAN_BOUND: f64 = 6.0;
/// Results differ by no more than this from those of the loop, relative to their root mean square.
const TOLERANCE: f64 = 2e-2;
/// So many elements in 10,000 may differ by more: decisions on the edge.
const ODD_ELEMENTS: usize = 10;

/// Whether the median stays within its bound.
pub(super) fn all_within(compiler: Compiler) -> Result<bool> {
    println!(
        "kernels as people write them against a serial loop: {}, one thread",
        compiler.version()
    );
    println!(
        "{:34} {:>12} {:>10} {:>12} {:>10} {:>8}",
        "kernel", "small us", "ratio", "real us", "ratio", "form"
    );
    let folder = tempfile::tempdir()?;
    let table = parse_table()?;
    let loops = kernels_in_loops()?;
    let serial = compile_serial(folder.path(), &compiler, &table)?;
    let cpu = cpu(compiler, 1)?;
    fs::create_dir(folder.path().join("src"))?;
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/engine");
    fs::copy(from.join("kernels.cu"), folder.path().join("src/kernels.cu"))?;
    fs::copy(from.join("clock.h"), folder.path().join("src/clock.cu"))?;
    let mut results = Vec::new();
    for kernel in &table {
        let mut times = [[0.0; 2]; 2];
        for (index, &(rows, columns)) in kernel.sizes.iter().enumerate() {
            let dir = folder.path().join(format!("{}-{index}", kernel.name));
            let count = |formula: &str| evaluate(formula, rows, columns);
            write_project(folder.path(), &dir, kernel, (rows, columns), REPETITIONS[index])?;
            let serial_us = run_serial(&serial, &dir, kernel, (rows, columns), REPETITIONS[index])?;
            let run = run(&cpu, folder.path(), &dir)?;
            let output = |name: &str| {
                run.output(name).ok_or_else(|| format!("{}: {:?}", kernel.name, run.ending))
            };
            times[index] = [serial_us, output("cpu_us")?.get_f64(0)];
            for (number, (formula, is_integer)) in kernel.outputs.iter().enumerate() {
                let expected = fs::read(dir.join(format!("out{number}.bin")))?;
                let got = output(&format!("out{number}"))?;
                let got: Vec<f64> = (0..count(formula)?).map(|at| got.get_f64(at)).collect();
                compare(&kernel.name, number, &expected, &got, *is_integer)?;
            }
            fs::remove_dir_all(&dir)?;
        }
        let [[small_serial, small], [real_serial, real]] = times;
        let result = Measured {
            ratios: [small / small_serial, real / real_serial],
            small_us: small,
            is_loop: loops.contains(&kernel.name),
            is_late: kernel.is_late,
        };
        println!(
            "{:34} {small:>12.1} {:>10.1} {real:>12.1} {:>10.2} {:>8}",
            kernel.name,
            result.ratios[0],
            result.ratios[1],
            if result.is_loop { "loop" } else { "stacks" }
        );
        results.push(result);
    }
    summarise("all", &results.iter().collect::<Vec<_>>());
    summarise("the last ten", &results.iter().filter(|result| result.is_late).collect::<Vec<_>>());
    let median = median(results.iter().map(|result| result.ratios[1]).collect());
    Ok(median <= MEDIAN_BOUND)
}

fn summarise(which: &str, results: &[&Measured]) {
    let real: Vec<f64> = results.iter().map(|result| result.ratios[1]).collect();
    let share = |count: usize| 100.0 * count as f64 / results.len() as f64;
    let below = real.iter().filter(|&&ratio| ratio < 4.0).count();
    let loops = results.iter().filter(|result| result.is_loop).count();
    let worst = real.iter().copied().fold(0.0, f64::max);
    let small: Vec<f64> = results.iter().map(|result| result.ratios[0]).collect();
    let short =
        results.iter().filter(|result| result.ratios[0] < 50.0 || result.small_us < 1e3).count();
    println!(
        "{which}: median {:.2} (goal 1.5), below 4: {:.0} % (goal 90), worst {worst:.1} (goal 15), loops {:.0} % (goal \
         70); small sizes: median {:.1}, below 50 or 1 ms: {:.0} %",
        median(real.clone()),
        share(below),
        share(loops),
        median(small),
        share(short)
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

fn parse_table() -> Result<Vec<Kernel>> {
    let text = include_str!("kernels.txt");
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, inputs, outputs, small, real, group] = fields[..] else {
            return Err(format!("not a row: {line}").into());
        };
        let size = |text: &str| -> Result<(usize, usize)> {
            let (rows, columns) = text.split_once('x').ok_or("not ROWSxCOLUMNS")?;
            Ok((rows.parse()?, columns.parse()?))
        };
        let input = |text: &str| {
            let (count, kind) = text.split_once(':').ok_or("not COUNT:KIND")?;
            let numbers = match kind {
                "f" => Numbers::Normal,
                "u" => Numbers::Unit,
                _ => Numbers::Below(kind.trim_start_matches("i:").to_owned()),
            };
            Ok(Input { count: count.to_owned(), numbers })
        };
        let output = |text: &str| {
            let mut parts = text.split(':');
            let count = parts.next().unwrap_or_default().to_owned();
            (count, parts.next() == Some("i"))
        };
        Ok(Kernel {
            name: name.to_owned(),
            inputs: inputs.split_whitespace().map(input).collect::<Result<_>>()?,
            outputs: outputs.split_whitespace().map(output).collect(),
            sizes: [size(small)?, size(real)?],
            is_late: group == "last ten",
        })
    })
    .collect()
}

/// The rows whose kernels all run a block by one call: the kernels that a row's function names.
fn kernels_in_loops() -> Result<BTreeSet<String>> {
    let text = include_str!("kernels.cu");
    let unit = SourceUnit { path: "kernels.cu", text };
    let made =
        translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Lanes)?;
    let lines: Vec<&str> = made.text.lines().collect();
    let is_loop = |form: &KernelForm| match form.threads {
        ThreadForm::Block { .. } => true,
        ThreadForm::Stacks { .. } => false,
        // References as parameters, for one, leave such a kernel as it is.
        ThreadForm::InTurn => {
            let head = lines[form.line..].iter().take_while(|line| !line.trim_end().ends_with(';'));
            head.into_iter().any(|line| line.contains("threads_in_turn"))
        }
    };
    let forms = made.kernel_forms.iter();
    let others: BTreeSet<&str> =
        forms.filter(|form| !is_loop(form)).map(|form| form.kernel.as_str()).collect();
    let mut loops = BTreeSet::new();
    for function in text.split("extern \"C\" void ").skip(1) {
        let end = function.find("\n}").unwrap_or(function.len());
        let mut words = function[..end].split(|c: char| !c.is_alphanumeric() && c != '_');
        let name = words.next().unwrap_or_default();
        if !words.any(|word| others.contains(word)) {
            loops.insert(name.to_owned());
        }
    }
    Ok(loops)
}

/// The value of `formula`: a product of numbers, `R` and `C`, with divisions from left to right.
fn evaluate(formula: &str, rows: usize, columns: usize) -> Result<usize> {
    let mut value = 1;
    let mut divides = false;
    for part in formula.split_inclusive(['*', '/']) {
        let word = part.trim_end_matches(['*', '/']);
        let number = match word {
            "R" => rows,
            "C" => columns,
            _ => word.parse()?,
        };
        value = if divides { value / number } else { value * number };
        divides = part.ends_with('/');
    }
    Ok(value)
}

/// The harness and the fixture of `kernel` in `dir`, with its inputs as files for the loop beside them.
fn write_project(
    folder: &Path,
    dir: &Path,
    kernel: &Kernel,
    (rows, columns): (usize, usize),
    repetitions: usize,
) -> Result<()> {
    fs::create_dir(dir)?;
    let harness = format!("{}-{rows}.toml", kernel.name);
    fs::write(dir.join("fixture.toml"), format!("harness = \"../{harness}\"\n"))?;
    let pointers = |count: usize, kind: &str, ty: &str| {
        (0..count).map(|k| format!("({ty})({kind}{k})")).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "sources = [\"src/kernels.cu\", \"src/clock.cu\"]\ncall = \"\"\"\nconst float* in[] = {{{}}};\n\
         float* out[] = {{{}}};\nbest_us({repetitions}, cpu_us, [&] {{ {}(in, out, {rows}, {columns}); }});\n\"\"\"\n\
         [outputs.cpu_us]\ndtype = \"f64\"\nshape = []\n",
        pointers(kernel.inputs.len(), "in", "const float*"),
        pointers(kernel.outputs.len(), "out", "float*"),
        kernel.name
    );
    let mut tensors = Vec::new();
    let mut state = 1u64;
    for (number, input) in kernel.inputs.iter().enumerate() {
        let count = evaluate(&input.count, rows, columns)?;
        let (dtype, bytes) = match &input.numbers {
            Numbers::Below(formula) => {
                let below = evaluate(formula, rows, columns)? as f64;
                let value = |_| (random_number(&mut state) * below) as i32;
                (DType::I32, (0..count).map(value).flat_map(i32::to_le_bytes).collect::<Vec<u8>>())
            }
            numbers => {
                let is_unit = matches!(numbers, Numbers::Unit);
                let value = |_| random_float(&mut state, is_unit);
                (DType::F32, (0..count).map(value).flat_map(f32::to_le_bytes).collect())
            }
        };
        fs::write(dir.join(format!("in{number}.bin")), &bytes)?;
        let name = if dtype == DType::I32 { "i32" } else { "f32" };
        let _ = write!(text, "[inputs.in{number}]\ndtype = \"{name}\"\nshape = [{count}]\n");
        tensors.push((format!("in{number}"), dtype, [count], bytes));
    }
    for (number, (formula, is_integer)) in kernel.outputs.iter().enumerate() {
        let count = evaluate(formula, rows, columns)?;
        let name = if *is_integer { "i32" } else { "f32" };
        let _ = write!(
            text,
            "[outputs.out{number}]\ndtype = \"{name}\"\nshape = [{count}]\ninit = 0\n"
        );
    }
    fs::write(folder.join(harness), text)?;
    let views: Vec<fixture::NewTensor> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (name.as_str(), *dtype, &shape[..], &bytes[..]))
        .collect();
    fixture::write_safetensors(dir, &views, &[])?;
    Ok(())
}

/// Between 0 and 1.
fn random_number(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f64 / f64::from(1 << 24)
}

fn random_float(state: &mut u64, is_unit: bool) -> f32 {
    let sum: f64 = (0..4).map(|_| random_number(state)).sum();
    if is_unit { ((sum + 1e-3) / 4.01) as f32 } else { ((sum - 2.0) * 1.7) as f32 }
}

/// The program of all loops: it reads inputs and writes outputs as files.
fn compile_serial(
    folder: &Path,
    compiler: &Compiler,
    table: &[Kernel],
) -> Result<std::path::PathBuf> {
    let mut text = String::from(
        "#include \"kernels_serial.cpp\"\n#include \"clock.h\"\n#include <cstdio>\n#include <cstdlib>\n#include <string>\n\
         typedef void loop(const float* const*, float* const*, int, int);\n\
         static std::vector<float> in[16], out[16];\n\
         int main(int count, char** words) {\n\
         std::string name = words[1], folder = words[2];\n\
         int rows = atoi(words[3]), columns = atoi(words[4]), repetitions = atoi(words[5]), inputs = atoi(words[6]);\n\
         const float* from[16]; float* to[16];\n\
         for (int k = 7; k < count; k++) {\n\
         const bool reads = k < 7 + inputs; const int number = reads ? k - 7 : k - 7 - inputs;\n\
         std::vector<float>& values = reads ? in[number] : out[number];\n\
         values.resize(atol(words[k]));\n\
         if (!reads) { to[number] = values.data(); continue; }\n\
         from[number] = values.data();\n\
         FILE* file = fopen((folder + \"/in\" + std::to_string(number) + \".bin\").c_str(), \"rb\");\n\
         if (!file || fread(values.data(), 4, values.size(), file) != values.size()) return 1;\n\
         fclose(file); }\n\
         loop* run = nullptr;\n",
    );
    for kernel in table {
        let _ = writeln!(text, "if (name == \"{0}\") run = serial_{0};", kernel.name);
    }
    text += "double cpu_us;\nbest_us(repetitions, cpu_us, [&] { run(from, to, rows, columns); });\n\
             printf(\"%.3f\\n\", cpu_us);\n\
             for (int k = 0; 7 + inputs + k < count; k++) {\n\
             FILE* file = fopen((folder + \"/out\" + std::to_string(k) + \".bin\").c_str(), \"wb\");\n\
             fwrite(out[k].data(), 4, out[k].size(), file); fclose(file); }\n}\n";
    let source = folder.join("kernels_main.cpp");
    fs::write(&source, text)?;
    super::compile_serial(folder, compiler, &source)
}

/// Processor time of the loop of `kernel`.
fn run_serial(
    program: &Path,
    dir: &Path,
    kernel: &Kernel,
    (rows, columns): (usize, usize),
    repetitions: usize,
) -> Result<f64> {
    let mut command = Command::new(program);
    command.arg(&kernel.name).arg(dir);
    command
        .args([rows, columns, repetitions, kernel.inputs.len()].map(|number| number.to_string()));
    let formulas = kernel.inputs.iter().map(|input| &input.count);
    for formula in formulas.chain(kernel.outputs.iter().map(|(formula, _)| formula)) {
        command.arg(evaluate(formula, rows, columns)?.to_string());
    }
    let output = command.output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Refuses results that are not those of the loop.
fn compare(
    name: &str,
    number: usize,
    expected: &[u8],
    got: &[f64],
    is_integer: bool,
) -> Result<()> {
    let expected: Vec<f64> = expected
        .chunks_exact(4)
        .map(|bytes| {
            let word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
            if is_integer { f64::from(word as i32) } else { f64::from(f32::from_bits(word)) }
        })
        .collect();
    let square: f64 = expected.iter().map(|x| x * x).sum();
    let scale = (square / expected.len() as f64).sqrt() + 1e-30;
    let differs = |pair: &(&f64, &f64)| (pair.0 - pair.1).abs() > TOLERANCE * scale;
    let count = expected.iter().zip(got).filter(differs).count();
    if count * 10_000 > expected.len() * ODD_ELEMENTS {
        return Err(format!(
            "{name}: {count} of {} elements of output {number} are others",
            got.len()
        )
        .into());
    }
    Ok(())
}
