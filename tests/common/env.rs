//! The program in an environment of its own (folder, HOME, cache, variables), and its answers.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use replay::cache::Cache;
use replay::fixture::{self, NewTensor};
use replay::foreign::Keeper;
use replay::tensor::DType;

use crate::common::repo::TestRepo;
use crate::common::schema;

/// A repository with the program's environment around it.
pub struct TestEnv {
    pub repo: TestRepo,
    cache: PathBuf,
}

/// The kinds of entries for precompiled headers.
const HEADER_KINDS: [&str; 2] = ["precompiled", "dependencies"];

/// A cache with nothing in it but precompiled headers, for native code, shadows and checked builds. The next run of the
/// tests uses them again.
fn precompiled_headers() -> &'static Path {
    static HEADERS: OnceLock<PathBuf> = OnceLock::new();
    HEADERS.get_or_init(|| {
        let kernel = |factor: usize| {
            format!("__global__ void k(const float* x, float* y) {{ y[0] = {factor} * x[0]; }}")
        };
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("headers-cache");
        let cache = Cache::place(&parent);
        let makers = makers_of_headers();
        let makers_file = parent.join("makers");
        if fs::read_to_string(&makers_file).is_ok_and(|known_makers| known_makers == makers) {
            return cache;
        }
        let _ = fs::remove_dir_all(&parent);
        let env = TestEnv { repo: TestRepo::new(), cache: parent };
        let env = env.with_kernel(&kernel(1), "k<<<1, 1>>>(x, y);");
        // The second command that compiles precompiles the headers.
        for factor in [2, 4] {
            for commit in 0..2 {
                env.repo.write("k.cu", kernel(factor + commit));
                env.repo.commit("Another factor");
            }
            env.replay(&["diff", "fixtures/tiny", "main~1", "main", "--check=always"]);
        }
        for kind in fs::read_dir(&cache).expect("a folder").flatten() {
            if kind.path().is_dir() && HEADER_KINDS.iter().all(|&kept| kind.file_name() != kept) {
                fs::remove_dir_all(kind.path()).expect("a folder");
            }
        }
        fs::write(&makers_file, makers).expect("a file");
        cache
    })
}

/// The program and the compiler that precompile headers, told from later builds.
fn makers_of_headers() -> String {
    let program = env!("CARGO_BIN_EXE_replay");
    let status = fs::metadata(program).expect("the program");
    let built = status.modified().expect("a time");
    format!("{program} of {built:?}, {:?}", std::env::var_os("CXX"))
}

/// The output of a run, made fit for snapshots.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl TestEnv {
    /// Shares compiled kernels with other tests.
    pub fn new() -> TestEnv {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache");
        fs::create_dir_all(&cache).expect("a folder");
        TestEnv { repo: TestRepo::new(), cache }
    }

    /// Has a cache of its own, with nothing in it but precompiled headers: they halve the time of each compilation.
    pub fn isolated() -> TestEnv {
        let env = TestEnv::without_cache();
        Cache::open(&env.cache).expect("a cache");
        let headers = precompiled_headers();
        for kind in HEADER_KINDS {
            let folder = env.cache().join(kind);
            for entry in fs::read_dir(headers.join(kind)).expect("a folder").flatten() {
                let place = folder.join(entry.file_name());
                // Temporary files may lie in memory.
                if fs::hard_link(entry.path(), &place).is_err() {
                    fs::copy(entry.path(), place).expect("a copy");
                }
            }
        }
        env
    }

    /// Has replays of its own, and shares compiled kernels with other tests.
    pub fn with_own_replays() -> TestEnv {
        let env = TestEnv::without_cache();
        Cache::open(&env.cache).expect("a cache");
        let shared = TestEnv::new();
        Cache::open(&shared.cache).expect("a cache");
        for kind in ["artifacts", "refusals"].iter().chain(&HEADER_KINDS) {
            let folder = env.cache().join(kind);
            fs::remove_dir(&folder).expect("an empty folder");
            std::os::unix::fs::symlink(shared.cache().join(kind), &folder).expect("a link");
        }
        env
    }

    /// Has a cache of its own, not made yet.
    pub fn without_cache() -> TestEnv {
        let repo = TestRepo::new();
        let cache = repo.beside("cache");
        TestEnv { repo, cache }
    }

    /// With the language-model loss and its two fixtures.
    pub fn with_demonstration(self) -> TestEnv {
        self.with_folders(&["fixtures/step0", "fixtures/step0-words", "kernels/lm_loss"])
    }

    /// With copies of folders of this package.
    pub fn with_folders(self, names: &[&str]) -> TestEnv {
        for name in names {
            copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name), &self.path(name));
        }
        self
    }

    /// The harness of the demonstration without `gradient_of`: replays that check no gradients need
    /// neither float64 shadow nor noise, and take a fraction of the time.
    pub fn without_gradients(self) -> TestEnv {
        let path = self.path("kernels/lm_loss/replay.toml");
        let text = fs::read_to_string(&path).expect("a file");
        let kept = text.lines().filter(|line| !line.starts_with("gradient_of"));
        fs::write(&path, kept.collect::<Vec<_>>().join("\n")).expect("a file");
        self
    }

    /// With `kernel` committed as `k.cu`, a harness that makes `call`, and the fixture `tiny` with
    /// an input `x` of four floats for an output `y` of four.
    pub fn with_kernel(self, kernel: &str, call: &str) -> TestEnv {
        self.repo.write("k.cu", kernel);
        self.repo.write("replay.toml", harness(&format!("call = {call:?}")));
        self.repo.write(".gitignore", "fixtures\n");
        self.write_tiny();
        self.repo.commit("A kernel");
        self
    }

    /// The fixture `tiny`.
    pub fn write_tiny(&self) {
        let bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        self.write_fixture("tiny", &[("x", DType::F32, &[4], &bytes)]);
    }

    /// A fixture of the harness at the root.
    pub fn write_fixture(&self, name: &str, tensors: &[NewTensor<'_>]) {
        let folder = self.path(&format!("fixtures/{name}"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("fixture.toml"), "harness = \"../../replay.toml\"\n")
            .expect("a file");
        fixture::write_safetensors(&folder, tensors, &[]).expect("a fixture");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.repo.root().join(name)
    }

    /// The folder that the cache lies in.
    pub fn cache_parent(&self) -> &Path {
        &self.cache
    }

    /// The cache's own folder.
    pub fn cache(&self) -> PathBuf {
        Cache::place(&self.cache)
    }

    /// Empties the cache of all but what compilers made.
    pub fn forget_results(&self) {
        for kind in ["outcomes", "judgements", "facts"] {
            let _ = fs::remove_dir_all(self.cache().join(kind));
        }
    }

    /// Entries of one kind in the cache.
    pub fn cached(&self, kind: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join(kind)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// The program, about to be run in the repository.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// Puts any command into this environment.
    pub fn settle(&self, command: &mut Command) {
        command
            .current_dir(self.repo.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.repo.beside("home"))
            .env("REPLAY_CACHE_DIR", &self.cache)
            .env("COLUMNS", "100")
            .env("TERM", "dumb")
            .stdin(Stdio::null());
        if let Some(cxx) = std::env::var_os("CXX") {
            command.env("CXX", cxx);
        }
    }

    /// Runs the program to its end.
    pub fn replay(&self, arguments: &[&str]) -> Run {
        self.finish(&mut self.command(arguments))
    }

    /// Runs a command of this environment to its end. What it writes as JSON keeps to its schema.
    pub fn finish(&self, command: &mut Command) -> Run {
        let run = self.read(&command.output().expect("the program runs"));
        let arguments: Vec<&OsStr> = command.get_args().collect();
        if arguments.windows(2).any(|pair| pair == ["--format", "json"]) {
            for document in schema::documents(&run.stdout) {
                assert_eq!(schema::problems(&document), [""; 0], "{arguments:?}: {document:#}");
            }
        }
        run
    }

    pub fn read(&self, output: &Output) -> Run {
        let plain = |bytes: &[u8]| self.mask(&String::from_utf8_lossy(bytes));
        Run {
            code: output.status.code(),
            stdout: plain(&output.stdout),
            stderr: plain(&output.stderr),
        }
    }

    /// Replaces what differs between machines and runs.
    fn mask(&self, text: &str) -> String {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let real = |path: &Path| fs::canonicalize(path).unwrap_or(path.to_owned());
        let mut text = text
            .replace(&real(&self.repo.root()).display().to_string(), "[ROOT]")
            .replace(&self.repo.root().display().to_string(), "[ROOT]")
            .replace(&self.cache().display().to_string(), "[CACHE]")
            .replace(&self.cache.display().to_string(), "[CACHES]")
            .replace(compiler(), "[COMPILER]")
            .replace(&format!("{threads} threads"), "[N] threads");
        for folder in ["[CACHE]/refusals/", "[CACHE]/tmp/"] {
            let mut at = 0;
            while let Some(found) = text[at..].find(folder) {
                let start = at + found + folder.len();
                let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '.');
                let end = text[start..].find(ends).map_or(text.len(), |end| start + end);
                text.replace_range(start..end, "[KEY]");
                at = start;
            }
        }
        mask_run(&text)
    }
}

/// Replaces the run that a comment ends with.
fn mask_run(text: &str) -> String {
    let masked =
        |line: &str| if line.starts_with("<sub>") { "[RUN]\n".to_owned() } else { line.to_owned() };
    text.split_inclusive('\n').map(masked).collect()
}

impl Run {
    /// Everything a user sees, and the exit code.
    pub fn text(&self) -> String {
        let mut text = match self.code {
            Some(code) => format!("exit code {code}\n"),
            None => "ended by a signal\n".to_owned(),
        };
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                let _ = write!(text, "--- {name}\n{stream}");
            }
        }
        text
    }

    /// The verdict line.
    pub fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// The same without the words of a compiler, which are its own.
    pub fn without_compilers_words(mut self) -> Run {
        for stream in [&mut self.stdout, &mut self.stderr] {
            let lines = stream.lines().map(|line| match line.split_once("error: ") {
                Some((place, _)) if place.ends_with(": ") => {
                    let place = place.trim_end_matches(": ").trim_end_matches(": fatal");
                    let line = place.rsplit_once(':').map_or(place, |(line, _column)| line);
                    format!("{line}: error: [MESSAGE]")
                }
                _ => line.to_owned(),
            });
            *stream = lines.map(|line| line + "\n").collect();
        }
        self
    }
}

/// A harness for one kernel in `k.cu`; `call` is TOML.
pub fn harness(call: &str) -> String {
    format!(
        "sources = [\"k.cu\"]\n{call}\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n"
    )
}

/// The version that the compiler in use reports.
pub fn compiler() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let cxx = std::env::var("CXX").ok();
        let keeper = Keeper::new(Path::new(env!("CARGO_BIN_EXE_replay")));
        let found =
            replay::compile::Compiler::find(cxx.as_deref(), &keeper).expect("a C++ compiler");
        found.version().to_owned()
    })
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder").flatten() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).expect("a file");
    }
}
