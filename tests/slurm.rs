//! Searches on a real Slurm: a controller and two nodes, all on this machine, started by the tests and ended
//! with them. They wait for what happens, never for time to pass.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::env::{Run, TestEnv};

/// One test at a time has the nodes: each finds them free.
static TURN: Mutex<()> = Mutex::new(());

/// A cluster of its own, in a folder of its own.
struct Cluster {
    folder: tempfile::TempDir,
    port: u16,
    _turn: MutexGuard<'static, ()>,
}

/// A port whose three successors are free, too.
fn free_port() -> u16 {
    for base in (20_000..32_000).step_by(10) {
        let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (base..base + 4).all(free) {
            return base;
        }
    }
    panic!("no free ports");
}

impl Cluster {
    fn start() -> Cluster {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = Cluster { folder, port: free_port(), _turn: turn };
        for name in ["state", "n1", "n2"] {
            fs::create_dir(cluster.path(name)).expect("a folder");
        }
        fs::write(cluster.path("slurm.conf"), cluster.configuration()).expect("a file");
        cluster.daemon("slurmctld", &["-c"]);
        cluster.node("n1");
        cluster.node("n2");
        cluster.wait_for("two idle nodes", || {
            cluster.ask("sinfo", &["-h", "-N", "-p", "main", "-o", "%T"]).matches("idle").count()
                == 2
        });
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As a container without systemd, munge and accounting can have it.
    fn configuration(&self) -> String {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().expect("a name");
        let dir = self.folder.path().display();
        let port = self.port;
        let user = self.user();
        format!(
            "ClusterName=replay\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\n\
             SlurmdPort={}\nAuthType=auth/none\nCredType=cred/none\nMpiDefault=none\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             SlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/%n.pid\nSlurmctldLogFile={dir}/slurmctld.log\n\
             SlurmdLogFile={dir}/%n.log\nReturnToService=2\nMaxArraySize=3\nSlurmdTimeout=5\nKillWait=1\n\
             SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=1000\n\
             PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n\
             NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=1000\n\
             NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=1000\n\
             PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n\
             PartitionName=urgent Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF\n",
            port + 1,
            port + 2,
            port + 3,
        )
    }

    fn user(&self) -> String {
        let output = Command::new("id").arg("-un").output().expect("id runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn daemon(&self, program: &str, words: &[&str]) {
        let conf = self.path("slurm.conf");
        let path = "/usr/sbin:/usr/bin:/sbin:/bin";
        let mut command = Command::new(format!("/usr/sbin/{program}"));
        command.arg("-f").arg(&conf).args(words).env("SLURM_CONF", &conf).env("PATH", path);
        let output = command.output().expect("Slurm is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn node(&self, name: &str) {
        self.daemon("slurmd", &["-N", name]);
    }

    /// The output of a program of Slurm's.
    fn ask(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", self.path("slurm.conf"));
        let output = command.output().expect("Slurm is installed");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn wait_for(&self, what: &str, mut is_there: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_there() {
            if begun.elapsed() > Duration::from_secs(180) {
                let log = fs::read_to_string(self.path("slurmctld.log")).unwrap_or_default();
                panic!("no {what}:\n{}\n{log}", self.ask("scontrol", &["show", "job"]));
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// The states of all tasks that Slurm knows, such as `RUNNING`, and their nodes.
    fn tasks(&self) -> Vec<(String, String)> {
        let text = self.ask("squeue", &["-h", "-r", "-t", "all", "-o", "%T %N"]);
        let task = |line: &str| {
            let (state, node) = line.split_once(' ').unwrap_or((line, ""));
            (state.to_owned(), node.trim().to_owned())
        };
        text.lines().map(task).collect()
    }

    fn wait_until_running(&self, tasks: usize) {
        self.wait_for("running tasks", || {
            self.tasks().iter().filter(|(state, _)| state == "RUNNING").count() == tasks
        });
    }

    /// Ends the daemon `name` at once.
    fn end(&self, name: &str) {
        let pid = fs::read_to_string(self.path(&format!("{name}.pid"))).unwrap_or_default();
        let _ = Command::new("kill").args(["-9", pid.trim()]).stderr(Stdio::null()).status();
    }

    /// Ends the daemon of a node and everything that it runs, at once.
    fn kill(&self, node: &str) {
        let pid = fs::read_to_string(self.path(&format!("{node}.pid"))).expect("a number");
        let mut doomed = vec![pid.trim().to_owned()];
        for process in fs::read_dir("/proc").expect("processes").flatten() {
            let variables = fs::read(process.path().join("environ")).unwrap_or_default();
            let wanted = format!("SLURMD_NODENAME={node}");
            if variables.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()) {
                doomed.push(process.file_name().to_string_lossy().into_owned());
            }
        }
        let steps = Command::new("pgrep").args(["-P", pid.trim()]).output().expect("pgrep runs");
        doomed.extend(String::from_utf8_lossy(&steps.stdout).lines().map(str::to_owned));
        let _ = Command::new("kill").arg("-9").args(&doomed).stderr(Stdio::null()).status();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ask("scancel", &["--state=RUNNING", "--user", &self.user()]);
        for name in ["n1", "n2", "slurmctld"] {
            self.end(name);
        }
    }
}

/// A history of a kernel that goes wrong at c2, and a compiler that waits for a gate.
struct Site {
    env: TestEnv,
    ids: Vec<String>,
    gate: PathBuf,
}

impl Site {
    fn new() -> Site {
        let text = |number: usize, factor: &str| {
            format!(
                "__global__ void k(const float* x, float* y) {{ int i = threadIdx.x; y[i] = {factor}; }}\n\
                 void run(const float* x, float* y, int n) {{ k<<<1, n>>>(x, y); }}\n// {number}\n"
            )
        };
        let env = TestEnv::isolated().with_kernel(&text(0, "x[i] * 2"), "run(x, y, n);");
        let mut ids = vec![env.repo.git(&["rev-parse", "HEAD"])];
        for (number, factor) in ["x[i] * 2", "x[i] * 3", "x[i] * 3"].iter().enumerate() {
            let message = format!("c{}", number + 1);
            ids.push(env.repo.commit_file("k.cu", &text(number + 1, factor), &message));
        }
        let gate = env.repo.beside("gate");
        let site = Site { env, ids, gate };
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        // Only what compiles a kernel waits: the compiler is asked for its version, too.
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *-shared*) while [ -e {} ]; do sleep 0.1; done;; esac\n\
             exec {compiler} \"$@\"\n",
            site.gate.display()
        );
        let path = site.compiler();
        fs::write(&path, script).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        site.set("");
        site
    }

    /// Settings besides the usual ones.
    fn set(&self, more: &str) {
        let text = format!("interval = 0.2\n{more}");
        fs::write(self.env.path("replay.cluster.toml"), text).expect("a file");
    }

    fn compiler(&self) -> PathBuf {
        self.env.repo.beside("gated-compiler")
    }

    fn close(&self) {
        fs::write(&self.gate, "").expect("a file");
    }

    fn open(&self) {
        fs::remove_file(&self.gate).expect("a file");
    }

    fn words(&self) -> Vec<&str> {
        let ends = ["--good", &self.ids[0], "--bad", &self.ids[3]];
        [&["bisect", "fixtures/tiny"], &ends[..], &["--jobs", "2"]].concat()
    }

    fn command(&self, cluster: &Cluster, words: &[&str], more: &[&str]) -> Command {
        let mut command = self.env.command(&[words, more].concat());
        command.env("SLURM_CONF", cluster.path("slurm.conf")).env("CXX", self.compiler());
        command
    }

    /// The search, which goes on, two tasks at a time if `more` does not say otherwise.
    fn begin(&self, cluster: &Cluster, more: &[&str]) -> Child {
        let more = [&["--on-cluster", "slurm"], more].concat();
        let mut words = self.words();
        if more.contains(&"--jobs") {
            words.truncate(words.len() - 2);
        }
        let mut command = self.command(cluster, &words, &more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    }

    fn end(&self, child: Child) -> Run {
        self.env.read(&child.wait_with_output().expect("an end"))
    }

    /// The answer of one machine, from an empty cache.
    fn answer(&self, words: &[&str]) -> Run {
        let mut command = self.env.command(words);
        command.env("CXX", self.compiler());
        command.env("REPLAY_CACHE_DIR", self.env.repo.beside("another-cache"));
        self.env.finish(&mut command)
    }

    fn expect_the_answer(&self, run: &Run) {
        let here = self.answer(&self.words());
        assert_eq!((run.code, &run.stdout), (here.code, &here.stdout), "{}", run.text());
        let first = format!("{} is the first bad commit", &self.ids[2][..7]);
        assert!(run.stdout.starts_with(&first), "{}", run.text());
    }
}

#[test]
#[ignore = "needs Slurm"]
fn two_nodes_answer_byte_for_byte_as_one_machine_does() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.expect_the_answer(&site.end(site.begin(&cluster, &[])));
    let range = format!("{}..{}", site.ids[0], site.ids[3]);
    for words in [vec!["log", "fixtures/tiny", &range], vec!["fixtures", "--rev", &site.ids[1]]] {
        let run = site.env.finish(&mut site.command(&cluster, &words, &["--on-cluster", "slurm"]));
        let here = site.answer(&words);
        assert_eq!((run.code, run.stdout), (here.code, here.stdout), "{}", run.stderr);
    }
}

#[test]
#[ignore = "needs Slurm"]
fn two_nodes_that_share_no_cache_answer_byte_for_byte_as_one_machine_does() {
    let cluster = Cluster::start();
    let site = Site::new();
    let nodes = site.env.repo.beside("nodes");
    site.set(&format!("cache = \"{}/$SLURMD_NODENAME\"\n", nodes.display()));
    // Each task has a node for itself.
    site.close();
    let search = site.begin(&cluster, &["--cluster-arg=--cpus-per-task=2"]);
    cluster.wait_until_running(2);
    site.open();
    site.expect_the_answer(&site.end(search));
    for node in ["n1", "n2"] {
        let outcomes = nodes.join(node).join("replay/outcomes");
        assert!(outcomes.read_dir().expect("a cache").next().is_some(), "{node} made a test");
    }
}

#[test]
#[ignore = "needs Slurm"]
fn commits_are_compiled_ahead_with_less_priority_than_tests() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let search = site.begin(&cluster, &["--jobs", "4"]);
    cluster.wait_until_running(4);
    let nice = |line: &&str| line.contains("Nice=") && !line.contains("Nice=0 ");
    let shown = cluster.ask("scontrol", &["-o", "show", "job"]);
    assert_eq!(shown.lines().filter(nice).count(), 2, "{shown}");
    site.open();
    site.expect_the_answer(&site.end(search));
}

#[test]
#[ignore = "needs Slurm"]
fn a_controller_that_is_gone_for_a_while_holds_the_search_up_and_no_more() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let search = site.begin(&cluster, &[]);
    cluster.wait_until_running(2);
    // Slurm calls a task running before its node has begun it.
    let folder = site.env.cache_parent().join("cluster");
    let begun = format!("--replay-task {}", folder.display());
    cluster.wait_for("two tasks at work", || {
        let output = Command::new("pgrep").args(["-fc", "--", &begun]).output();
        let count = output.expect("pgrep runs").stdout;
        String::from_utf8_lossy(&count).trim().parse::<u32>().is_ok_and(|count| count >= 2)
    });
    cluster.end("slurmctld");
    site.open();
    cluster.wait_for("an array that nobody takes", || {
        arrays(&folder)
            .iter()
            .any(|array| array.join("tasks.json").exists() && !array.join("id.json").exists())
    });
    cluster.daemon("slurmctld", &[]);
    site.expect_the_answer(&site.end(search));
}

#[test]
#[ignore = "needs Slurm"]
fn a_search_whose_tasks_a_person_cancels_ends_and_goes_on_later() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let search = site.begin(&cluster, &[]);
    cluster.wait_until_running(2);
    cluster.ask("scancel", &["--user", &cluster.user()]);
    let run = site.end(search);
    assert_eq!((run.code, run.stdout.as_str()), (Some(128), ""), "{}", run.text());
    assert!(run.stderr.contains(" is unavailable: somebody has cancelled it\n"), "{}", run.stderr);
    cluster.wait_for("no task", || cluster.tasks().iter().all(|(state, _)| state == "CANCELLED"));
    site.open();
    site.expect_the_answer(&site.end(site.begin(&cluster, &[])));
}

#[test]
#[ignore = "needs Slurm"]
fn options_that_sbatch_does_not_know_are_told_in_its_words() {
    let cluster = Cluster::start();
    let site = Site::new();
    for (option, told) in [
        ("--nonsense", "error: Slurm refuses the tasks: sbatch: unrecognized option '--nonsense'"),
        ("--partition=none", "invalid partition specified: none"),
        ("--help", "error: Slurm refuses the tasks: `sbatch` names no job: Usage: sbatch"),
        ("--wait", "error: --wait is not for the user of --cluster-arg"),
    ] {
        let run = site.end(site.begin(&cluster, &[&format!("--cluster-arg={option}")]));
        assert_eq!((run.code, run.stdout.as_str()), (Some(128), ""), "{}", run.text());
        assert!(run.stderr.contains(told), "{}", run.stderr);
    }
}

#[test]
#[ignore = "needs Slurm"]
fn the_tests_of_a_node_that_dies_are_made_on_another() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let search = site.begin(&cluster, &["--cluster-arg=--cpus-per-task=2"]);
    cluster.wait_until_running(2);
    cluster.kill("n1");
    cluster.wait_for("a node that is down", || {
        cluster.ask("sinfo", &["-h", "-N", "-n", "n1", "-o", "%T"]).contains("down")
    });
    site.open();
    site.expect_the_answer(&site.end(search));
}

#[test]
#[ignore = "needs Slurm"]
fn a_preempted_test_waits_for_its_turn_and_is_no_finding() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let search = site.begin(&cluster, &[]);
    cluster.wait_until_running(2);
    let conf = cluster.path("slurm.conf");
    let urgent = ["-p", "urgent", "-N2", "--exclusive", "--parsable", "--wrap", "sleep 600"];
    let log = cluster.path("urgent.log").display().to_string();
    let mut command = Command::new("sbatch");
    command.args(urgent).args(["-o", &log]).env("SLURM_CONF", &conf);
    let id = String::from_utf8(command.output().expect("sbatch runs").stdout).expect("a number");
    cluster.wait_for("preempted tasks", || {
        let shown = cluster.ask("scontrol", &["-o", "show", "job"]);
        let requeued =
            |line: &&str| line.contains("JobState=PENDING") && line.contains("Restarts=1");
        shown.lines().filter(requeued).count() == 2
    });
    cluster.ask("scancel", &[id.trim()]);
    site.open();
    site.expect_the_answer(&site.end(search));
}

#[test]
#[ignore = "needs Slurm"]
fn a_driver_that_was_killed_is_followed_by_one_that_starts_nothing_anew() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let folder = site.env.cache_parent().join("cluster");
    // A lost login, then a driver that is killed. Below `nohup` a lost login does not end a driver, and SIGTERM has it
    // cancel its tasks: both drivers are killed there.
    let lost = if ignores_hangups() { "-KILL" } else { "-HUP" };
    for signal in [lost, "-KILL"] {
        let mut driver = site.begin(&cluster, &[]);
        cluster.wait_until_running(2);
        cluster.wait_for("a driver that watches", || is_locked(&folder));
        Command::new("kill").args([signal, &driver.id().to_string()]).status().expect("it runs");
        driver.wait().expect("an end");
        // What it has forked ends after it.
        cluster.wait_for("a lock that nobody holds", || !is_locked(&folder));
    }
    let last = site.begin(&cluster, &[]);
    cluster.wait_for("a driver that watches", || is_locked(&folder));
    let another = site.end(site.begin(&cluster, &[]));
    assert_eq!(another.code, Some(128), "{}", another.text());
    assert!(another.stderr.contains("another replay is at work on the same command"));
    site.open();
    site.expect_the_answer(&site.end(last));
    // Two ends, then the commits between them, then the answer: five tasks, none of them twice.
    let names = cluster.ask("squeue", &["-h", "-r", "-t", "all", "-o", "%j"]);
    let needed = names.lines().filter(|name| !name.ends_with("-spare"));
    assert_eq!(needed.count(), 5, "{names}");
}

/// Whether this process and those below it ignore a hangup, as `nohup` has it.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 == 1)
}

/// The folders of the arrays of the commands in `folder`.
fn arrays(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let inside = entries.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten());
    let paths =
        inside.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("array-"));
    paths.map(|entry| entry.path()).collect()
}

/// Whether a process holds the lock of the only command in `folder`. To try to lock it would keep others from it.
fn is_locked(folder: &Path) -> bool {
    let mut inside = fs::read_dir(folder).into_iter().flatten().flatten();
    let lock = inside.next().and_then(|entry| fs::metadata(entry.path().join("lock")).ok());
    let held = fs::read_to_string("/proc/locks").unwrap_or_default();
    lock.is_some_and(|lock| held.contains(&format!(":{} ", lock.ino())))
}

#[test]
#[ignore = "needs Slurm"]
fn an_interrupted_search_cancels_its_tasks_and_goes_on_later() {
    let cluster = Cluster::start();
    let site = Site::new();
    site.close();
    let search = site.begin(&cluster, &[]);
    cluster.wait_until_running(2);
    let id = search.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().expect("kill runs");
    let run = site.end(search);
    insta::assert_snapshot!(run.text(), @"
    ended by a signal
    --- stderr
    error: interrupted: what was under way on the cluster is cancelled, what was done is kept
    ");
    cluster.wait_for("no task", || cluster.tasks().iter().all(|(state, _)| state == "CANCELLED"));
    site.open();
    site.expect_the_answer(&site.end(site.begin(&cluster, &[])));
}

#[test]
#[ignore = "needs Slurm"]
fn results_that_a_full_folder_does_not_take_are_unavailable_until_there_is_room() {
    let cluster = Cluster::start();
    let site = Site::new();
    let shared = site.env.repo.beside("shared");
    fs::create_dir(&shared).expect("a folder");
    let path = shared.display().to_string();
    let mount = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", &path];
    let mounted = Command::new("mount").args(mount).status().expect("mount runs");
    assert!(mounted.success(), "this test needs the right to mount a small file system");
    site.close();
    let search = site.begin(&cluster, &["--cluster-dir", &path]);
    cluster.wait_until_running(2);
    let filler = shared.join("filler");
    // It takes what is left, and fails when there is nothing left.
    assert!(fs::write(&filler, vec![0; 1 << 20]).is_err());
    site.open();
    let run = site.end(search);
    assert_eq!(run.code, Some(128), "{}", run.text());
    assert!(
        run.stderr.contains("is unavailable") || run.stderr.contains("cannot"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.is_empty(), "no verdict: {}", run.stdout);
    fs::remove_file(&filler).expect("a file");
    let run = site.end(site.begin(&cluster, &["--cluster-dir", &path]));
    Command::new("umount").args(["-l", &path]).status().expect("umount runs");
    site.expect_the_answer(&run);
}
