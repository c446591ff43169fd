//! The environment of a compiler: variables needed to run it, and none with an effect on its output.

use std::ffi::OsString;
use std::path::Path;

/// Variables needed to find and run a compiler, or a wrapper command before it.
const PASSED: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// Prefixes of the settings of commands to cache or distribute compilations.
const WRAPPERS: [&str; 4] = ["CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_"];

/// Variables with folders of headers, libraries and the compiler's own parts. They are not passed on: an artifact does
/// not depend on its user.
const HEADER_PATHS: [&str; 4] =
    ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX"];

/// The environment of a compiler, taken from `all_variables` of this process. The compiler writes temporary files to
/// `temporary`, and speaks English.
pub(super) fn compiler_environment(
    all_variables: impl Iterator<Item = (OsString, OsString)>,
    temporary: Option<&Path>,
) -> Vec<(OsString, OsString)> {
    let passed_variables = all_variables.filter(|(name, _)| {
        let name = name.to_str().unwrap_or_default();
        PASSED.contains(&name) || WRAPPERS.iter().any(|prefix| name.starts_with(prefix))
    });
    let mut kept_variables: Vec<_> = passed_variables.collect();
    kept_variables.push(("LC_ALL".into(), "C".into()));
    // What it would keep is in the cache already, and its folder is none of those that a compilation may write.
    kept_variables.push(("CCACHE_DISABLE".into(), "1".into()));
    if let Some(folder) = temporary {
        kept_variables.push(("TMPDIR".into(), folder.into()));
    }
    kept_variables
}

/// The first variable of this process with folders of headers. It is not passed on.
pub(super) fn find_withheld_variable() -> Option<&'static str> {
    HEADER_PATHS.into_iter().find(|name| std::env::var_os(name).is_some_and(|set| !set.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_sees_nothing_that_decides_what_it_makes() {
        let set = [
            ("PATH", "/bin"),
            ("CPATH", "/opt/include"),
            ("LIBRARY_PATH", "/opt/lib"),
            ("SOURCE_DATE_EPOCH", "1"),
            ("LD_RUN_PATH", "/opt/lib"),
            ("DEPENDENCIES_OUTPUT", "/tmp/x"),
            ("CCACHE_DIR", "/ccache"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("TMPDIR", "/var/tmp"),
        ];
        let all = set.into_iter().map(|(name, value)| (name.into(), value.into()));
        let seen = compiler_environment(all, Some(Path::new("/work")));
        let seen: Vec<String> = seen
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            seen,
            ["PATH=/bin", "CCACHE_DIR=/ccache", "LC_ALL=C", "CCACHE_DISABLE=1", "TMPDIR=/work"]
        );
    }
}
