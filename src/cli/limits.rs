//! The shell's limits on this process. Limits below every command's needs are an error here, before they end the process
//! by a signal.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::error::{CliResult, CommandError};

/// A need of every command.
struct Need {
    resource: Resource,
    name: &'static str,
    option: &'static str,
    least: u64,
    /// The limit to set where the shell allows more than it has set.
    usual: u64,
}

const NEEDS: [Need; 3] = [
    Need {
        resource: Resource::Stack,
        name: "stack",
        option: "-s",
        least: 512 << 10,
        usual: 8 << 20,
    },
    Need { resource: Resource::Data, name: "data", option: "-d", least: 32 << 20, usual: u64::MAX },
    Need {
        resource: Resource::As,
        name: "addresses",
        option: "-v",
        least: 256 << 20,
        usual: u64::MAX,
    },
];

/// Raises the limits of this process to its needs, as far as it may.
///
/// # Errors
/// If the shell allows less than every command needs.
pub fn raise_process_limits() -> CliResult<()> {
    NEEDS.iter().try_for_each(|need| need.settle(getrlimit(need.resource)))
}

impl Need {
    /// Whether a limit of `bytes` is enough; none is no limit.
    fn is_met_by(&self, bytes: Option<u64>) -> bool {
        bytes.is_none_or(|bytes| bytes >= self.least)
    }

    fn settle(&self, limit: Rlimit) -> CliResult<()> {
        if self.is_met_by(limit.current) {
            return Ok(());
        }
        let allowed = limit.maximum.unwrap_or(u64::MAX).min(self.usual);
        let current = (allowed < u64::MAX).then_some(allowed);
        if self.is_met_by(current) && setrlimit(self.resource, Rlimit { current, ..limit }).is_ok()
        {
            return Ok(());
        }
        let kib = limit.current.unwrap_or_default() >> 10;
        let message = format!("the shell allows {kib} KiB of {}", self.name);
        let least_kib = self.least >> 10;
        Err(CommandError::new(message)
            .with_hint(format!("allow {least_kib} KiB or more: ulimit {}", self.option)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_a_limit_is_an_error_that_names_it() {
        let low = Rlimit { current: Some(64 << 10), maximum: Some(64 << 10) };
        let told = NEEDS.iter().map(|need| {
            let error = need.settle(low).expect_err("it is too low");
            format!("{}; {}\n", error.message(), error.hints().join("; "))
        });
        insta::assert_snapshot!(told.collect::<String>(), @"
        the shell allows 64 KiB of stack; allow 512 KiB or more: ulimit -s
        the shell allows 64 KiB of data; allow 32768 KiB or more: ulimit -d
        the shell allows 64 KiB of addresses; allow 262144 KiB or more: ulimit -v
        ");
    }

    #[test]
    fn limits_that_suffice_are_left_alone() {
        let before = NEEDS.map(|need| getrlimit(need.resource));
        raise_process_limits().expect("the tests have enough");
        assert_eq!(NEEDS.map(|need| getrlimit(need.resource)), before);
    }
}
