//! Kernels written as public repositories write them, in `tests/engine/shipped`: each compiles, gives what a
//! serial loop in float64 gives, and has a float64 shadow. docs/cuda-support.md shows them in a table.

#[path = "shipped/case.rs"]
mod case;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use replay::backend::{Backend, CpuBackend, Cuda, Host, Mode};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::cuda::SearchPath;
use replay::fixture::{self, Fixture};
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::runtime::report::NO_SHADOW;
use replay::summary::POISON_A;
use replay::worker::{Limits, Run};

use self::case::{Case, DTYPES, Tensor, cases, scaled};
use super::project::{Machine, cache, shared_cpu};

const FOLDER: &str = "tests/engine/shipped";
/// The sources in it.
const FILES: [&str; 9] = [
    "norms",
    "losses",
    "activations",
    "attention",
    "embedding",
    "optimizers",
    "matmul",
    "moving",
    "bare",
];

/// Where the sources of this package are: a device may run the tests on another machine.
pub(super) fn root() -> PathBuf {
    std::env::var_os("REPLAY_TEST_ROOT").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// What the serial loops give for `cases`: the elements of all outputs, one after the other.
fn expected(cases: &[&Case]) -> Vec<Vec<f64>> {
    answers(cases, &[])
}

/// The same; with an argument the microseconds of the loop come first.
fn answers(cases: &[&Case], arguments: &[&str]) -> Vec<Vec<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("reference");
    let compiler = std::env::var("CXX").unwrap_or("c++".to_owned());
    let built = Command::new(compiler)
        .args(["-std=c++17", "-O2", "-ffp-contract=off", "-o"])
        .args([&program, &root().join(FOLDER).join("reference.cpp")])
        .status();
    assert!(built.unwrap().success());
    let child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let questions: String = cases.iter().map(|case| case.question()).collect();
    let mut input = child.stdin.take().unwrap();
    let asking = std::thread::spawn(move || input.write_all(questions.as_bytes()).unwrap());
    let answer = child.wait_with_output().unwrap();
    asking.join().unwrap();
    let text = String::from_utf8(answer.stdout).unwrap();
    let answers = text.split("end\n").map(|one| {
        one.lines().map(|line| line.replace("-nan", "NaN").parse().unwrap()).collect::<Vec<f64>>()
    });
    answers.take(cases.len()).collect()
}

/// A source with its cases, as one project: a scalar chooses the case.
struct Shipped {
    dir: tempfile::TempDir,
    name: String,
    cases: Vec<Case>,
    sources: Arc<SourceSet>,
}

impl Shipped {
    fn new(name: &str) -> Shipped {
        Shipped::laid_out(name, false)
    }

    /// With real sizes if it is `timed`: each call then measures itself.
    fn laid_out(name: &str, timed: bool) -> Shipped {
        let dir = tempfile::tempdir().unwrap();
        let folder = root().join(FOLDER);
        for file in ["common.cuh", name] {
            fs::copy(folder.join(file), dir.path().join(file)).unwrap();
        }
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let cases = if timed { scaled(&text, &to_real_size(&text)) } else { cases(&text) };
        if timed {
            let clock = fs::read_to_string(root().join("benches/engine/clock.h")).unwrap();
            let common = fs::read_to_string(folder.join("common.cuh")).unwrap();
            fs::write(dir.path().join("common.cuh"), common + &clock).unwrap();
        }
        let mut harness = format!(
            "sources = [{name:?}]\ninclude = [\"common.cuh\"]\n\
             sizes = [{}]\ncall = '''\nswitch (which) {{\n",
            DTYPES.map(|dtype| format!("\"outs_{dtype}\"")).join(", ")
        );
        for (number, case) in cases.iter().enumerate() {
            let (statements, begin, end) = if timed {
                (case.statements(), "best_us(3, cpu_us, [&] {", "});")
            } else {
                (case.statements(), "", "")
            };
            harness += &format!("case {number}: {{ {begin} {statements} {end} }} break;\n");
        }
        harness += "}\n'''\n[inputs.which]\ndtype = \"i32\"\nshape = []\n\
                    [outputs.cpu_us]\ndtype = \"f64\"\nshape = []\n";
        for dtype in DTYPES {
            harness += &format!(
                "[inputs.in_{dtype}]\ndtype = \"{dtype}\"\nshape = [\"ins_{dtype}\"]\n\
                 [outputs.out_{dtype}]\ndtype = \"{dtype}\"\nshape = [\"outs_{dtype}\"]\n"
            );
        }
        fs::write(dir.path().join("replay.toml"), harness).unwrap();
        let spec = SourceSpec {
            sources: vec![name.into()],
            include: vec!["common.cuh".into()],
            ..SourceSpec::default()
        };
        let sources = source_set_from_dir(dir.path(), &spec).unwrap().into();
        Shipped { dir, name: name.to_owned(), cases, sources }
    }

    fn all() -> Vec<Shipped> {
        FILES.map(|name| Shipped::new(&format!("{name}.cu"))).into()
    }

    /// The fixture of case number `number`.
    fn fixture(&self, number: usize) -> Fixture {
        let case = &self.cases[number];
        let at = self.dir.path().join(format!("case{number}"));
        fs::create_dir_all(&at).unwrap();
        let mut manifest =
            format!("harness = \"../replay.toml\"\n[scalars]\nwhich = {number}\n[sizes]\n");
        let mut stored = Vec::new();
        for dtype in DTYPES {
            let of = |tensor: &&Tensor| tensor.dtype == dtype;
            let outs: usize = case.outputs.iter().filter(of).map(Tensor::room).sum();
            manifest += &format!("outs_{dtype} = {}\n", outs.max(1));
            let mut bytes = Vec::new();
            for (index, input) in case.inputs.iter().enumerate().filter(|(_, t)| of(t)) {
                bytes.extend(case.values(index).iter().flat_map(|&x| input.bytes(x)));
                bytes.resize(bytes.len() + (input.room() - input.count) * dtype.size(), 0);
            }
            bytes.resize(bytes.len().max(dtype.size()), 0);
            stored.push((format!("in_{dtype}"), dtype, [bytes.len() / dtype.size()], bytes));
        }
        fs::write(at.join("fixture.toml"), manifest).unwrap();
        let tensors = stored.iter().map(|(name, dtype, shape, bytes)| {
            (name.as_str(), *dtype, &shape[..], bytes.as_slice())
        });
        fixture::write_safetensors(&at, &tensors.collect::<Vec<_>>(), &[]).unwrap();
        Fixture::load(&at).unwrap()
    }

    /// The elements of all outputs of case number `number` on `backend`, or why there are none.
    fn run(
        &self,
        backend: &dyn Backend,
        number: usize,
        precision: Precision,
    ) -> Result<Vec<f64>, String> {
        self.run_timed(backend, number, precision).map(|(found, _)| found)
    }

    /// The same and, if calls measure themselves, the microseconds of processor time.
    fn run_timed(
        &self,
        backend: &dyn Backend,
        number: usize,
        precision: Precision,
    ) -> Result<(Vec<f64>, f64), String> {
        let fixture = self.fixture(number);
        let fixture = Arc::new(fixture);
        let prepared = backend.prepare(&fixture, &self.sources, precision, &|| ());
        let variant = prepared.map_err(|error| {
            format!("{error} {:?}", std::error::Error::source(&error).map(ToString::to_string))
        })?;
        let run: Run = variant.run(&Mode::plain(POISON_A)).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        let mut at = [0; DTYPES.len()];
        for output in &self.cases[number].outputs {
            let place = DTYPES.iter().position(|dtype| *dtype == output.dtype).unwrap();
            let view = run.output(&format!("out_{}", output.dtype));
            let view = view.ok_or_else(|| format!("{:?}", run.ending))?;
            found.extend((0..output.count).map(|index| view.get_f64(at[place] + index)));
            at[place] += output.room();
        }
        let time = run.output("cpu_us").map_or(f64::NAN, |time| time.get_f64(0));
        Ok((found, time))
    }
}

/// What the first size of each case of `text` is multiplied by, so that its tensors have [`ELEMENTS`].
fn to_real_size(text: &str) -> impl Fn(&str) -> i64 {
    let factor = |case: &Case| {
        let most = match case.name.as_str() {
            // Their calls fit one size.
            "dequantize_int4" | "embedding_bag" | "matrix_transpose_naive" => 1,
            _ => usize::MAX,
        };
        (ELEMENTS / case.elements()).next_power_of_two().min(most) as i64
    };
    let factors: Vec<(String, i64)> =
        cases(text).iter().map(|case| (case.name.clone(), factor(case))).collect();
    move |name| factors.iter().find(|(known, _)| known == name).map_or(1, |(_, factor)| *factor)
}

/// The elements of the tensors of a case that is timed, at least.
const ELEMENTS: usize = 1 << 18;

/// Where `found` is off by more than `tolerance` allows.
fn difference(found: &[f64], expected: &[f64], tolerance: f64) -> Option<String> {
    assert_eq!(found.len(), expected.len());
    let off = |(found, expected): (&f64, &f64)| (found - expected).abs() / expected.abs().max(1.0);
    let worst = found.iter().zip(expected).map(off).enumerate();
    let (at, worst) = worst.fold((0, 0.0), |most, one| {
        // NaN is the worst of all.
        if one.1 > most.1 || one.1.is_nan() { one } else { most }
    });
    let fits = worst <= tolerance;
    (!fits).then(|| format!("{at}: {} not {}, off by {worst:.1e}", found[at], expected[at]))
}

/// The table of docs/cuda-support.md, by name and source: the columns behind them.
fn documented() -> Vec<(String, [String; 5])> {
    let page = fs::read_to_string(root().join("docs/cuda-support.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, source, rest @ ..] = cells.as_slice() else { return None };
        let rest = <[&str; 5]>::try_from(rest).ok()?;
        let key = format!("{} {source}", name.trim_matches('`'));
        source.ends_with(".cu").then(|| (key, rest.map(str::to_owned)))
    });
    rows.collect()
}

#[test]
fn each_kernel_compiles_gives_what_a_serial_loop_gives_and_has_a_shadow() {
    let shipped = Shipped::all();
    let all: Vec<&Case> = shipped.iter().flat_map(|source| &source.cases).collect();
    assert!(all.len() >= 60, "{}", all.len());
    let expected = expected(&all);
    let cpu = shared_cpu("", Machine::PLAIN);
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for (source, number) in shipped
        .iter()
        .flat_map(|source| (0..source.cases.len()).map(move |number| (source, number)))
    {
        let case = &source.cases[number];
        let expected = &expected[rows.len()];
        let mut told = |precision, tolerance| match source.run(&cpu, number, precision) {
            Err(why) => {
                wrong.push(format!("{} {precision:?}: {why}", case.name));
                ("no", "no")
            }
            Ok(found) => match difference(&found, expected, tolerance) {
                None => ("yes", "yes"),
                Some(why) => {
                    wrong.push(format!("{} {precision:?}: {why}", case.name));
                    ("yes", "no")
                }
            },
        };
        let (compiles, right) = told(Precision::Native, case.tolerance);
        let shadow = match source.run(&cpu, number, Precision::Shadow) {
            Err(why) if why.contains(NO_SHADOW) => "no",
            _ => told(Precision::Shadow, SHADOW).1,
        };
        let key = format!("{} {}", case.name, source.name);
        rows.push((key, [compiles, right, shadow].map(str::to_owned)));
    }
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
    let known = documented();
    let untimed = known.iter().find(|(_, [.., time])| time.parse::<f64>().is_err());
    assert_eq!(untimed, None, "`measure_the_times_of_the_table` tells the last column");
    let known: Vec<(String, [String; 3])> =
        known.into_iter().map(|(key, [a, b, c, ..])| (key, [a, b, c])).collect();
    assert_eq!(rows, known, "docs/cuda-support.md has another table");
}

/// Sums of many more numbers than in the table's other columns have fewer digits.
const AT_REAL_SIZE: f64 = 1e-2;

#[test]
#[ignore = "measures the last column of the table in docs/cuda-support.md, on an idle machine"]
fn measure_the_times_of_the_table() {
    let cache = cache();
    let cpu = cpu_of(program(), 1, &cache);
    let mut wrong = Vec::new();
    for name in FILES {
        let source = Shipped::laid_out(&format!("{name}.cu"), true);
        let all: Vec<&Case> = source.cases.iter().collect();
        for (number, answer) in answers(&all, &["timed"]).into_iter().enumerate() {
            let case = &source.cases[number];
            let (serial_us, expected) = answer.split_first().unwrap();
            let found = source.run_timed(&cpu, number, Precision::Native);
            let off = match &found {
                Ok((found, _)) => difference(found, expected, AT_REAL_SIZE),
                Err(why) => Some(why.clone()),
            };
            wrong.extend(off.map(|off| format!("{}: {off}", case.name)));
            let ratio = found.map_or(f64::NAN, |(_, engine_us)| engine_us / serial_us);
            println!("{} {} {ratio:.2} {serial_us:.1}", case.name, source.name);
        }
    }
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

/// What the shadow may be off by: constants in the sources are float32.
const SHADOW: f64 = 1e-7;

/// A device adds in other orders, and its functions of mathematics are off by some units.
const ON_A_GPU: f64 = 5.0;

/// The program that replays; the environment may name one that is optimised.
fn program() -> PathBuf {
    let program = std::env::var_os("REPLAY_TEST_PROGRAM").map(PathBuf::from);
    program.unwrap_or_else(|| env!("CARGO_BIN_EXE_replay").into())
}

/// The reference machine of `program`.
fn cpu_of(program: PathBuf, threads: usize, cache: &Cache) -> CpuBackend {
    let compiler = Compiler::find(None, &Keeper::new(&program)).unwrap();
    let limits = Limits { timeout: Duration::from_secs(60), ..Limits::default() };
    let host = Host::new(program, limits, threads, cache.temporary());
    CpuBackend::new(Toolchain::new(compiler, cache), host)
}

/// The first GPU; the program and CUDA's libraries are where the environment says.
pub(super) fn gpu(cache: &Cache) -> Cuda {
    let folders = |name: &str| {
        std::env::split_paths(&std::env::var_os(name).unwrap_or_default()).collect::<Vec<_>>()
    };
    let search = SearchPath {
        libraries: folders("LD_LIBRARY_PATH"),
        roots: folders("CUDA_HOME"),
        python: Some("python3".to_owned()),
    };
    let cpu = cpu_of(program(), 2, cache);
    Cuda::new(cpu, Some(0), None, &search, cache)
        .unwrap_or_else(|error| panic!("needs a GPU: {error}"))
}

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_gives_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("cache")).unwrap();
    let gpu = gpu(&cache);
    let shipped = Shipped::all();
    let all: Vec<&Case> = shipped.iter().flat_map(|source| &source.cases).collect();
    let expected = expected(&all);
    let known = documented();
    let mut rows = Vec::new();
    for source in &shipped {
        for (number, case) in source.cases.iter().enumerate() {
            let expected = &expected[rows.len()];
            let found = source.run(&gpu, number, Precision::Native);
            let wrong = match found {
                Err(why) => Some(why),
                Ok(found) => difference(&found, expected, case.tolerance * ON_A_GPU),
            };
            let key = format!("{} {}", case.name, source.name);
            println!("{key}: {}", wrong.as_deref().unwrap_or("yes"));
            rows.push((key, if wrong.is_none() { "yes" } else { "no" }.to_owned()));
        }
    }
    let known: Vec<_> = known.into_iter().map(|(key, [_, _, _, gpu, _])| (key, gpu)).collect();
    // What the table says was not run may give anything.
    let not_run = |key: &str| known.iter().any(|(name, gpu)| name == key && gpu == "not run");
    rows.retain(|(key, _)| !not_run(key));
    let known: Vec<_> = known.iter().filter(|(_, gpu)| gpu != "not run").cloned().collect();
    assert_eq!(rows, known, "docs/cuda-support.md has another table");
}
