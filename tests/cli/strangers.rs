//! Code from strangers: what replayed code may reach. One kernel and one program try many ways out, and say which were
//! open.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use replay::process::walls::WallOffer;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::common::env::{Run, TestEnv};

/// Ways out, as host code.
const ATTACKS: &str = include_str!("../programs/attacks.h");

/// Host code of the kernel below, that prints what it finds.
const HEAD: &str = r#"
__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }
static void look_for_variables() {
  for (const char* name : {"PATH", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "CUDA_SECRET"})
    if (getenv(name)) printf("variable %s\n", name);
}
static void look_for_descriptors() {
  char name[32], path[4096] = {};
  for (int file = 3; file < 4096; ++file) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    // It has what it is made of.
    if (readlink(name, path, sizeof path - 1) > 0 && !strstr(path, "/artifacts/")) printf("descriptor %d\n", file);
  }
  printf("looked\n");
}
"#;

/// `env` with a kernel whose host code makes `call`, with the ways out at hand.
fn hostile(env: TestEnv, call: &str) -> TestEnv {
    // A device's compiler has none of the headers.
    env.with_kernel(&format!("#ifndef __CUDACC_RTC__\n{ATTACKS}#endif\n{HEAD}"), call)
}

/// What a user keeps in the home of tests.
const SECRETS: [&str; 10] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/key",
    ".git-credentials",
    ".bash_history",
    ".bashrc",
];

/// Puts a user's secrets into the home of `env`, with folders to write in.
fn furnish_home(env: &TestEnv) -> PathBuf {
    let home = env.repo.beside("home");
    for name in SECRETS.into_iter().chain([".cache/hub/model", ".local/lib/x.py", "data/x"]) {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "SECRET_KEY 1\n").expect("a file");
    }
    home
}

/// A call that tries the ways out to files in `home` and to `victim`, and `others`, before it launches the kernel.
fn list_attacks(env: &TestEnv, home: &Path, victim: &Victim, others: &str) -> String {
    format!(
        "attacks::try_files({home:?}, {:?}, {:?}); {others} attacks::try_others({:?}, {}, {}); puts(\"tried\"); k<<<1, n>>>(x, y, n);",
        env.repo.root(),
        env.cache(),
        home.join(SECRETS[0]),
        victim.process.id(),
        victim.port(),
    )
}

/// Whether this system has all walls; that it lacks some is said, not failed.
fn has_all_walls() -> bool {
    let WallOffer { files, connections, signals } = WallOffer::of_this_system();
    let has_all = files && connections && signals;
    if !has_all {
        eprintln!("skipped: this system lacks walls of Landlock");
    }
    has_all
}

/// What `env` prints with `arguments` on a system whose kernel has no Landlock.
fn replay_without_landlock(env: &TestEnv, arguments: &[&str]) -> Run {
    let calls = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    let rules: BTreeMap<i64, _> = calls.map(|call| (call, Vec::new())).into();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, architecture);
    let filter: BpfProgram = filter.expect("a filter").try_into().expect("a filter");
    let mut command = env.command(arguments);
    // SAFETY: the closure makes system calls alone.
    unsafe {
        command.pre_exec(move || seccompiler::apply_filter(&filter).map_err(std::io::Error::other));
    }
    env.finish(&mut command)
}

/// A process and a port that nobody may reach.
struct Victim {
    process: Child,
    listener: TcpListener,
}

impl Victim {
    fn new() -> Victim {
        let process = Command::new("sleep").arg("100").spawn().expect("a process");
        Victim { process, listener: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().expect("an address").port()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("a process");
    }
}

/// The lines that the replayed code of the newest commit printed, where a descriptor of a file comes with the program.
fn printed_with_descriptor(env: &TestEnv) -> String {
    let inherited = env.repo.beside("inherited");
    let line = format!(
        "exec 7> '{}'; exec '{}' fixtures/tiny --rev HEAD",
        inherited.display(),
        env!("CARGO_BIN_EXE_replay")
    );
    let mut shell = Command::new("sh");
    env.settle(shell.args(["-c", &line]));
    let run = env.finish(&mut shell);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert_eq!(fs::read(&inherited).expect("a file"), b"");
    printed_lines(&run)
}

fn printed_lines(run: &Run) -> String {
    let (_, printed) = run.stdout.split_once("\nprinted\n").expect("it printed something");
    let (printed, _) = printed.split_once("\n\n").expect("an end");
    printed.lines().map(|line| line.trim_start_matches([' ', '|'])).collect::<Vec<_>>().join("\n")
}

#[test]
fn replayed_code_has_no_descriptors_but_its_own() {
    let call = "look_for_descriptors(); k<<<1, n>>>(x, y, n);";
    let env = TestEnv::with_own_replays();
    let env = hostile(env, call);
    assert_eq!(printed_with_descriptor(&env), "looked");
    for preload in ["", "preload = []"] {
        let keys = format!("program = [\"./speaker\"]\n{preload}");
        let env = TestEnv::isolated().with_program(&keys, "");
        env.kernel("look-for-descriptors");
        assert_eq!(printed_with_descriptor(&env), "looked", "{preload}");
    }
}

#[test]
fn replayed_code_sees_no_secrets_in_its_environment() {
    let printed = |env: &TestEnv| {
        let mut command = env.command(&["fixtures/tiny", "--rev", "HEAD"]);
        for name in ["GITHUB_TOKEN", "SSH_AUTH_SOCK", "CUDA_SECRET"] {
            command.env(name, "a secret");
        }
        let run = env.finish(&mut command);
        assert_eq!(run.code, Some(0), "{}", run.text());
        printed_lines(&run)
    };
    let call = "look_for_variables(); k<<<1, n>>>(x, y, n);";
    let env = hostile(TestEnv::with_own_replays(), call);
    assert_eq!(printed(&env), "variable PATH");
    let keys = "program = [\"./speaker\"]\nsandbox = { env = [\"SSH_AUTH_SOCK\"] }";
    let env = TestEnv::isolated().with_program(keys, "");
    env.kernel(
        "variable PATH\nvariable GITHUB_TOKEN\nvariable SSH_AUTH_SOCK\nvariable CUDA_SECRET",
    );
    assert_eq!(printed(&env), "variable PATH\nvariable SSH_AUTH_SOCK");
}

#[test]
fn a_kernel_reaches_no_file_no_process_and_no_port() {
    if !has_all_walls() {
        return;
    }
    let victim = Victim::new();
    let env = TestEnv::with_own_replays();
    let home = furnish_home(&env);
    let shared = "/dev/shm/replay-stranger";
    let others = format!(
        "attacks::try_parent(); attacks::try_states({:?}); \
         attacks::say(attacks::opens({shared:?}, O_RDWR | O_CREAT), \"shared memory\"); unlink({shared:?});",
        home.join(SECRETS[0]),
    );
    let call = list_attacks(&env, &home, &victim, &others);
    let env = hostile(env, &call);
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert_eq!(printed_lines(&run), "tried");
    let without_walls = printed_lines(&env.replay(&["fixtures/tiny", "--sandbox=off"]));
    for reached in
        ["read through /proc/self/root", "opened again", "connected", "bound a name", "left memory"]
    {
        assert!(without_walls.contains(reached), "{without_walls}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_kernel_on_a_gpu_reaches_no_secret_no_checkout_and_no_port() {
    if !has_all_walls() {
        return;
    }
    let victim = Victim::new();
    let env = TestEnv::with_own_replays();
    let home = furnish_home(&env);
    let call = list_attacks(&env, &home, &victim, "");
    let env = hostile(env, &call);
    let run = env.replay(&["fixtures/tiny", "--backend", "cuda"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    // A driver has sockets with names.
    let reached = "bound a name \nleft memory \nleft semaphores \nleft a queue \ntried";
    assert_eq!(printed_lines(&run), reached);
}

#[test]
fn a_compiler_reads_no_secret() {
    if !has_all_walls() {
        return;
    }
    let env = TestEnv::with_own_replays();
    let home = furnish_home(&env);
    let env = hostile(env, "k<<<1, n>>>(x, y, n);");
    let secret = home.join(SECRETS[0]);
    for line in [
        format!("#if __has_include({secret:?})\n#endif"),
        format!("#include {secret:?}"),
        format!("asm(\".incbin \\\"{}\\\"\");", secret.display()),
    ] {
        env.repo
            .write("k.cu", format!("{line}\n__global__ void k(const float*, float*, int) {{}}\n"));
        let run = env.replay(&["fixtures/tiny"]);
        assert_eq!(run.code, Some(125), "{}", run.text());
        assert!(!run.text().contains("SECRET_KEY"), "{}", run.text());
        let reason = run.stdout.lines().find(|line| line.starts_with("untestable: "));
        assert!(reason.is_some_and(|line| line.contains("id_ed25519")), "{}", run.text());
        assert!(run.text().contains("hint: the sandbox lets compilers read"), "{}", run.text());
    }
}

#[test]
fn a_program_reaches_no_secret_no_file_to_write_and_no_process() {
    if !has_all_walls() {
        return;
    }
    let victim = Victim::new();
    for preload in ["", "preload = []\n"] {
        let env = TestEnv::isolated();
        let home = furnish_home(&env);
        let given = env.repo.beside("given");
        fs::write(&given, "").expect("a file");
        let keys =
            format!("program = [\"./speaker\"]\n{preload}sandbox = {{ write = [{given:?}] }}");
        let env = env.with_program(&keys, "");
        let words = [
            format!(
                "attack-files {} {} {}",
                home.display(),
                env.repo.root().display(),
                env.cache().display()
            ),
            format!(
                "attack-others {} {} {}",
                home.join(SECRETS[0]).display(),
                victim.process.id(),
                victim.port()
            ),
            format!("open {}", home.join(".cache/hub/model").display()),
            format!("open {}", home.join("data/x").display()),
            format!("touch {}", home.join("data/x").display()),
            format!("touch {}", env.path("speaker").display()),
            format!("touch {}", given.display()),
            "touch /dev/null".to_owned(),
        ];
        // The parent of a staying program's replay is that program.
        let parent = if preload.is_empty() { "\nattack-parent" } else { "" };
        env.kernel(&(words.join("\n") + parent));
        let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
        assert_eq!(run.code, Some(0), "{}", run.text());
        let printed = printed_lines(&run).replace(&home.display().to_string(), "[HOME]");
        let printed = printed.replace(&given.display().to_string(), "[GIVEN]");
        let mut printed: Vec<&str> = printed.lines().collect();
        printed.sort_unstable();
        let reached = [
            "read [HOME]/.cache/hub/model",
            "read [HOME]/data/x",
            "wrote /dev/null",
            "wrote [GIVEN]",
        ];
        assert_eq!(printed, reached, "{preload}");
    }
}

#[test]
fn a_link_that_a_program_leaves_in_the_place_of_its_files_leads_nowhere() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]", "");
    let secret = furnish_home(&env).join(SECRETS[0]);
    fs::write(&secret, "\"SECRET_KEY\"").expect("a file");
    env.kernel(&format!("link-outputs {}", secret.display()));
    let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
    let failure = run.stdout.lines().find(|line| line.contains("failed: "));
    insta::assert_snapshot!(failure.unwrap_or_default(), @"failed: outputs: failed to open the file with its outputs: it is a symbolic link, not a file");
    env.kernel(&format!("link-answer {}\ndivide 3", secret.display()));
    let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: the program that the harness names fails by itself: its answer cannot be read: it is a symbolic link, not a file
    hint: it lies beside replay.toml and is not of the revision: mend it there
    ");
}

#[test]
fn code_that_fails_behind_walls_is_told_with_what_it_reached_for() {
    if !has_all_walls() {
        return;
    }
    let env = TestEnv::with_own_replays();
    let secret = furnish_home(&env).join(SECRETS[0]);
    let call = format!(
        "if (!fopen({secret:?}, \"r\")) {{ perror(\"key\"); exit(3); }} k<<<1, n>>>(x, y, n);"
    );
    let env = hostile(env, &call);
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(printed_lines(&run), @r#"
    key: Permission denied
    note: reached outside: open("~/.ssh/id_ed25519"); the sandbox keeps replayed code from most files and from all connections: see `replay help sandbox`
    "#);
    let without_walls = env.replay(&["fixtures/tiny", "--sandbox=off"]);
    assert_eq!(without_walls.code, Some(0), "{}", without_walls.text());
    for preload in ["", "preload = []"] {
        let keys = format!("program = [\"./speaker\"]\nsandbox = {{ env = [] }}\n{preload}");
        let env = TestEnv::isolated().with_program(&keys, "");
        let home = furnish_home(&env);
        env.kernel(&format!("need {}", home.join(SECRETS[0]).display()));
        let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
        assert_eq!(run.code, Some(1), "{}", run.text());
        let printed = printed_lines(&run).replace(&home.display().to_string(), "[HOME]");
        insta::allow_duplicates! {
            insta::assert_snapshot!(printed, @r#"
            [HOME]/.ssh/id_ed25519: Permission denied
            note: reached outside: open("~/.ssh/id_ed25519"); the sandbox keeps replayed code from most files and from all connections: see `replay help sandbox`
            "#);
        }
    }
}

#[test]
fn a_strict_sandbox_replays_where_every_wall_is_and_refuses_a_gpu() {
    let env = hostile(TestEnv::new(), "k<<<1, n>>>(x, y, n);");
    let run = env.replay(&["fixtures/tiny", "--sandbox=strict"]);
    let expected = if has_all_walls() { 0 } else { 128 };
    assert_eq!(run.code, Some(expected), "{}", run.text());
    let run = env.replay(&["fixtures/tiny", "--sandbox=strict", "--backend", "cuda"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: --sandbox=strict: a GPU's driver needs more
    hint: replay on the CPU, or with --sandbox=default
    ");
}

#[test]
fn a_system_without_landlock_says_so_and_replays_unless_it_is_strict() {
    let env = hostile(TestEnv::new(), "k<<<1, n>>>(x, y, n);");
    let doctor = replay_without_landlock(&env, &["doctor"]);
    let (_, told) = doctor.stdout.split_once("none    sandbox").expect("a line on the sandbox");
    let told: Vec<&str> = told.lines().take(2).map(str::trim).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    this system lacks walls around files, walls around connections, walls around signals
    run code from strangers on Linux 6.12 with Landlock, or in a container
    ");
    let run = replay_without_landlock(&env, &["fixtures/tiny"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let run = replay_without_landlock(&env, &["fixtures/tiny", "--sandbox=strict"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: --sandbox=strict: this system lacks walls around files, walls around connections, walls around signals
    hint: Linux 6.12 with Landlock has all; --sandbox=default takes what is there
    ");
}

#[test]
fn a_strict_sandbox_is_not_widened_by_a_harness() {
    if !has_all_walls() {
        return;
    }
    let keys = "program = [\"./speaker\"]\nsandbox = { network = true }";
    let env = TestEnv::isolated().with_program(keys, "");
    env.kernel("divide 3");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--sandbox=strict"]).text(), @"
    exit code 128
    --- stderr
    error: --sandbox=strict: `[sandbox]` in replay.toml asks for more
    hint: drop it there, or replay with --sandbox=default if you trust the harness
    ");
}
