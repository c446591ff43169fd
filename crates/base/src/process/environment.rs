//! The user's variables that replayed code may see: lists, so that no secret is among them. Pure: the variables are
//! handed in.

use std::ffi::OsStr;

/// Variables about the machine and the user's place on it.
const GENERAL: [&str; 12] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "RUST_BACKTRACE",
];

/// Beginnings of such variables.
const GENERAL_BEGINNINGS: [&str; 2] = ["LC_", "XDG_"];

/// Beginnings of what NVIDIA's driver and tools read.
const DEVICE_BEGINNINGS: [&str; 3] = ["CUDA_", "NVIDIA_", "NV_"];

/// Words in the names of secrets.
const SECRET_WORDS: [&str; 11] = [
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "KEYS",
    "PASS",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "TOKEN",
    "TOKENS",
];

/// Whether the variable `name` says where things are and how they are written, and has no influence on a number.
pub fn is_general_variable(name: &OsStr) -> bool {
    GENERAL.iter().any(|known_name| name == *known_name)
        || begins_with_any(name, &GENERAL_BEGINNINGS)
}

/// Whether kernels may see the variable `name`.
pub fn is_kernel_variable(name: &OsStr) -> bool {
    is_general_variable(name) || begins_with_any(name, &DEVICE_BEGINNINGS)
}

/// Whether `name` has one of these beginnings, and is not that of a secret.
pub fn begins_with_any(name: &OsStr, beginnings: &[&str]) -> bool {
    let name = name.to_string_lossy();
    beginnings.iter().any(|beginning| name.starts_with(beginning)) && !names_secret(&name)
}

fn names_secret(name: &str) -> bool {
    name.split('_').any(|word| SECRET_WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_see_the_machine_and_no_secret() {
        let is_seen = |name: &&str| is_kernel_variable(OsStr::new(name));
        let seen = ["PATH", "HOME", "LC_ALL", "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES"];
        assert!(seen.iter().all(is_seen));
        let unseen = [
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_PROFILE",
            "SSH_AUTH_SOCK",
            "HTTPS_PROXY",
            "DBUS_SESSION_BUS_ADDRESS",
            "NVIDIA_API_KEY",
            "XDG_SECRET",
            "LD_PRELOAD",
            "REPLAY_CACHE_DIR",
            "",
        ];
        assert_eq!(unseen.iter().find(|name| is_seen(name)), None);
    }

    #[test]
    fn a_word_within_another_is_no_secret() {
        assert!(begins_with_any(OsStr::new("TOKENIZERS_PARALLELISM"), &["TOKENIZERS_"]));
        assert!(!begins_with_any(OsStr::new("HF_TOKEN"), &["HF_"]));
        assert!(!begins_with_any(OsStr::new("HF_HUB_token"), &["HF_"]));
    }
}
