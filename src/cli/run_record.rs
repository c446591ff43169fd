//! The record of this run: made once, rendered by every report.

use std::sync::OnceLock;
use std::time::SystemTime;

use ::replay::report::{ReportLine, RunRecord, sanitise_line, utc_date};
use ::replay::tensor::count_cores;
use rustix::fs::{FileType, fstat};

use super::VERSION;
use super::out::print;

/// The record of this process.
pub fn run_record() -> &'static RunRecord {
    static RECORD: OnceLock<RunRecord> = OnceLock::new();
    RECORD.get_or_init(|| RunRecord {
        command: quoted_command_line(),
        version: VERSION.to_owned(),
        machine: describe_machine(),
        date: utc_date(SystemTime::now()),
    })
}

/// The variable of the environment for a text without the record, as tasks of a cluster write it.
pub const WITHOUT_HEAD: &str = "REPLAY_TASK_WITHOUT_HEAD";

/// Prints the record above a kept text: standard output is a file then. `about` names the subject where the text does not
/// say it.
pub fn print_record_head(about: &[ReportLine]) {
    if std::env::var_os(WITHOUT_HEAD).is_some() {
        return;
    }
    let file = fstat(rustix::stdio::stdout());
    if file.is_ok_and(|file| FileType::from_raw_mode(file.st_mode) == FileType::RegularFile) {
        print!("{}", run_record().text(about));
    }
}

fn quoted_command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let quoted = words.map(|word| match shlex::try_quote(&word) {
        Ok(quoted) => quoted.into_owned(),
        Err(_) => word,
    });
    let words: Vec<String> = ["replay".to_owned()].into_iter().chain(quoted).collect();
    sanitise_line(&words.join(" ")).into_owned()
}

fn describe_machine() -> String {
    let system = rustix::system::uname();
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    let parts = [
        system.nodename().to_string_lossy().into_owned(),
        [system.sysname(), system.release(), system.machine()]
            .map(|part| part.to_string_lossy().into_owned())
            .join(" "),
        model.unwrap_or_else(|| "a processor without a name".to_owned()),
        format!("{} threads", count_cores()),
    ];
    sanitise_line(&parts.join(", ")).into_owned()
}
