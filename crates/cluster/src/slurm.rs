//! Slurm: arrays by `sbatch`, their state by `scontrol`. Needs no accounting.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::folder::task_folder_error;
use super::task_array::task_log_path;
use super::{Array, ClusterError, Scheduler, TaskStanding};

/// The options of arrays.
#[derive(Clone, Debug, Default)]
pub struct Slurm {
    /// `--partition`.
    partition: Option<String>,
    /// `--gres`.
    gres: Option<String>,
    /// Further options of `sbatch`, each one word.
    arguments: Vec<String>,
    /// How long the controller is left in peace between two questions.
    interval: Duration,
    /// The most tasks of an array, once the controller has told.
    most: Option<usize>,
}

const NAME: &str = "Slurm";
/// Some option keeps `sbatch` from submitting.
const NO_ID: &str = "`sbatch` names no job";
/// Messages of its programs while the controller is out of reach.
const SILENT: [&str; 7] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Communication connection failure",
    "Connection refused",
    "Connection timed out",
    "backup controller in standby mode",
];
/// The reason of a held task after a failed launch. Nobody releases it.
const NEVER_BEGAN: &str = "launch_failed_requeued_held";

impl Slurm {
    /// Arrays with these options of `sbatch`; the controller is left in peace for `interval`.
    pub fn new(
        partition: Option<String>,
        gres: Option<String>,
        arguments: Vec<String>,
        interval: Duration,
    ) -> Slurm {
        Slurm { partition, gres, arguments, interval, most: None }
    }

    /// The options of `sbatch` for `array`.
    fn options(&self, array: &Array<'_>) -> Vec<OsString> {
        let log = task_log_path(array.folder, "%a").display().to_string();
        let last = array.tasks - 1;
        let mut words = vec![
            "--parsable".to_owned(),
            "--requeue".to_owned(),
            format!("--job-name={}", array.name),
            format!("--array=0-{last}%{}", array.width),
            "--ntasks=1".to_owned(),
            format!("--output={log}"),
            format!("--error={log}"),
        ];
        words.extend(self.partition.as_ref().map(|name| format!("--partition={name}")));
        words.extend(self.gres.as_ref().map(|list| format!("--gres={list}")));
        if !array.without.is_empty() {
            words.push(format!("--exclude={}", array.without.join(",")));
        }
        if array.is_spare {
            words.push("--nice".to_owned());
        }
        words.extend(self.arguments.iter().cloned());
        words.into_iter().map(OsString::from).collect()
    }
}

/// The script of an array's tasks.
fn array_script(worker: &[OsString]) -> String {
    let words: Vec<String> = worker
        .iter()
        .map(|word| {
            let word = word.to_string_lossy().into_owned();
            shlex::try_quote(&word).map_or(word.clone(), |quoted| quoted.into_owned())
        })
        .collect();
    format!("#!/bin/sh\nexec {} \"$SLURM_ARRAY_TASK_ID\"\n", words.join(" "))
}

/// The answer of one of Slurm's programs.
struct SlurmAnswer {
    ok: bool,
    stdout: String,
    stderr: String,
}

fn run_slurm_program(program: &str, words: &[OsString]) -> Result<SlurmAnswer, ClusterError> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output =
        output.map_err(|source| ClusterError::Missing { program: program.to_owned(), source })?;
    Ok(SlurmAnswer {
        ok: output.status.success(),
        stdout: trim_printed_text(&output.stdout),
        stderr: trim_printed_text(&output.stderr),
    })
}

fn trim_printed_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn silent_slurm_error(answer: SlurmAnswer) -> ClusterError {
    ClusterError::Silent { scheduler: NAME, words: answer.stderr }
}

fn owned_slurm_words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

impl Scheduler for Slurm {
    fn submit(&mut self, array: &Array<'_>) -> Result<String, ClusterError> {
        let path = array.folder.join("script");
        std::fs::write(&path, array_script(array.worker))
            .map_err(task_folder_error("write", &path))?;
        let mut words = self.options(array);
        words.push(path.clone().into_os_string());
        let answer = run_slurm_program("sbatch", &words)?;
        // On a federation the cluster's name follows the id.
        let id = answer.stdout.split(';').next().unwrap_or_default().to_owned();
        if answer.ok && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(id);
        }
        if SILENT.iter().any(|words| answer.stderr.contains(words)) {
            return Err(silent_slurm_error(answer));
        }
        let SlurmAnswer { stdout, stderr, .. } = answer;
        let answer_text = if stderr.is_empty() { stdout } else { stderr };
        let first = answer_text.lines().next().unwrap_or_default().to_owned();
        let words = if answer.ok { format!("{NO_ID}: {first}") } else { answer_text };
        Err(ClusterError::Refused { scheduler: NAME, words })
    }

    fn find(&mut self, name: &str) -> Result<Option<String>, ClusterError> {
        let name = format!("--name={name}");
        let words = owned_slurm_words(&["--noheader", "--me", "--format=%F", &name]);
        let answer = run_slurm_program("squeue", &words)?;
        if !answer.ok {
            return Err(silent_slurm_error(answer));
        }
        Ok(answer.stdout.lines().next().map(|line| line.trim().to_owned()))
    }

    fn poll(&mut self, id: &str, tasks: usize) -> Result<Vec<Option<TaskStanding>>, ClusterError> {
        let answer =
            run_slurm_program("scontrol", &owned_slurm_words(&["--oneliner", "show", "job", id]))?;
        let words = format!("{} {}", answer.stdout, answer.stderr);
        if !answer.ok && words.contains("Invalid job id") {
            return Ok(vec![None; tasks]);
        }
        if !answer.ok {
            return Err(silent_slurm_error(answer));
        }
        Ok(parse_task_standings(&answer.stdout, tasks))
    }

    fn cancel(&mut self, id: &str, tasks: &[usize]) -> Result<(), ClusterError> {
        let numbers: Vec<String> = tasks.iter().map(usize::to_string).collect();
        let task_list = format!("{id}_[{}]", numbers.join(","));
        let answer = run_slurm_program("scancel", &owned_slurm_words(&["--quiet", &task_list]))?;
        if answer.ok { Ok(()) } else { Err(silent_slurm_error(answer)) }
    }

    fn most(&mut self) -> usize {
        if self.most.is_none() {
            let answer = run_slurm_program("scontrol", &owned_slurm_words(&["show", "config"]));
            self.most = answer.ok().and_then(|answer| most_in(&answer.stdout));
        }
        self.most.unwrap_or(usize::MAX)
    }

    fn interval(&self) -> Duration {
        self.interval
    }
}

/// `MaxArraySize` in the output of `scontrol show config`: numbers of tasks stay below it.
fn most_in(text: &str) -> Option<usize> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let mut sizes = pairs.filter(|(name, _)| name.trim() == "MaxArraySize");
    sizes.next()?.1.trim().parse().ok()
}

/// The standings in the output of `scontrol --oneliner show job`: a line for each task, or for many waiting ones.
fn parse_task_standings(text: &str, tasks: usize) -> Vec<Option<TaskStanding>> {
    let mut found_standings = vec![None; tasks];
    for line in text.lines() {
        let fields: HashMap<&str, &str> =
            line.split_whitespace().filter_map(|field| field.split_once('=')).collect();
        let standing = parse_slurm_state(
            get_slurm_field(&fields, "JobState"),
            get_slurm_field(&fields, "Reason"),
            get_slurm_field(&fields, "NodeList"),
        );
        for number in parse_task_numbers(get_slurm_field(&fields, "ArrayTaskId"), tasks) {
            found_standings[number] = Some(standing.clone());
        }
    }
    found_standings
}

/// The field called `name`, or no text.
fn get_slurm_field<'t>(fields: &HashMap<&str, &'t str>, name: &str) -> &'t str {
    fields.get(name).copied().unwrap_or_default()
}

/// The state names of `squeue`'s manual.
fn parse_slurm_state(state: &str, reason: &str, node: &str) -> TaskStanding {
    let node = if node == "(null)" { "" } else { node }.to_owned();
    let reason = reason.to_owned();
    match state {
        "CANCELLED" => TaskStanding::Cancelled,
        _ if reason == NEVER_BEGAN => {
            TaskStanding::Ended { state: "a failed launch".to_owned(), reason, node }
        }
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD"
        | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => TaskStanding::Waiting { reason },
        "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT"
        | "RESIZING" => TaskStanding::Running { node },
        state => TaskStanding::Ended { state: state.to_owned(), reason, node },
    }
}

/// The numbers below `end` in `3`, `0-4`, `1,3,5-7%2`.
fn parse_task_numbers(text: &str, end: usize) -> Vec<usize> {
    let text = text.split('%').next().unwrap_or_default();
    let mut all_numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            all_numbers.extend(first..last.saturating_add(1).min(end));
        }
    }
    all_numbers
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_array_asks_for_what_the_site_needs() {
        let own = |text: &str| Some(text.to_owned());
        let arguments = vec!["--account=physics".to_owned()];
        let slurm = Slurm::new(own("gpu"), own("gpu:1"), arguments, Duration::from_secs(5));
        let worker = ["/opt/re play".into(), "--replay-task".into(), "/shared/x/array-0".into()];
        let array = Array {
            name: "replay-1a2b-0",
            folder: Path::new("/shared/x/array-0"),
            tasks: 16,
            width: 4,
            worker: &worker,
            without: &["n1".to_owned(), "n7".to_owned()],
            is_spare: true,
        };
        let words: Vec<String> =
            slurm.options(&array).iter().map(|w| w.to_string_lossy().into_owned()).collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        --parsable
        --requeue
        --job-name=replay-1a2b-0
        --array=0-15%4
        --ntasks=1
        --output=/shared/x/array-0/%a.log
        --error=/shared/x/array-0/%a.log
        --partition=gpu
        --gres=gpu:1
        --exclude=n1,n7
        --nice
        --account=physics
        ");
        insta::assert_snapshot!(array_script(&worker), @r#"
        #!/bin/sh
        exec '/opt/re play' --replay-task /shared/x/array-0 "$SLURM_ARRAY_TASK_ID"
        "#);
    }

    #[test]
    fn the_size_of_an_array_is_the_sites() {
        let text =
            "Configuration data as of now\nMaxArraySize            = 1001\nMaxJobCount = 7\n";
        assert_eq!((most_in(text), most_in("")), (Some(1001), None));
    }

    #[test]
    fn a_task_that_a_person_cancelled_or_no_node_could_start_is_over() {
        assert_eq!(parse_slurm_state("CANCELLED", "None", "n1"), TaskStanding::Cancelled);
        assert!(parse_slurm_state("PENDING", NEVER_BEGAN, "(null)").is_over());
        assert!(!parse_slurm_state("PENDING", "JobHeldUser", "(null)").is_over());
    }

    #[test]
    fn numbers_beyond_the_array_are_passed_over() {
        let standings =
            parse_task_standings("ArrayTaskId=1-18446744073709551615 JobState=CANCELLED", 3);
        assert_eq!(standings, [None, Some(TaskStanding::Cancelled), Some(TaskStanding::Cancelled)]);
        assert_eq!(parse_task_numbers("18446744073709551615,2-1,0", 3), [0]);
    }

    #[test]
    fn each_state_of_a_task_is_read_from_its_line() {
        let text = "JobId=9 ArrayJobId=7 ArrayTaskId=3-5%2 JobState=PENDING Reason=Resources NodeList=\n\
                    JobId=8 ArrayJobId=7 ArrayTaskId=0 JobState=COMPLETED Reason=None NodeList=n1\n\
                    JobId=10 ArrayJobId=7 ArrayTaskId=1 JobState=NODE_FAIL Reason=NodeDown NodeList=n2\n\
                    JobId=11 ArrayJobId=7 ArrayTaskId=2 JobState=RUNNING Reason=None NodeList=n3";
        let found = parse_task_standings(text, 7);
        let ended = |state: &str, reason: &str, node: &str| {
            let own = str::to_owned;
            Some(TaskStanding::Ended { state: own(state), reason: own(reason), node: own(node) })
        };
        assert_eq!(found[0], ended("COMPLETED", "None", "n1"));
        assert_eq!(found[1], ended("NODE_FAIL", "NodeDown", "n2"));
        assert_eq!(found[2], Some(TaskStanding::Running { node: "n3".to_owned() }));
        let waiting = Some(TaskStanding::Waiting { reason: "Resources".to_owned() });
        assert_eq!(found[3..6], [waiting.clone(), waiting.clone(), waiting]);
        assert_eq!(found[6], None, "the controller has forgotten it");
    }
}
