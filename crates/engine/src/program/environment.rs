//! The variables of the user that programs see: those that say where things are, those that decide what libraries
//! compute, and those that the harness names. All but the first are part of a program's identity.

use std::ffi::{OsStr, OsString};

use super::request::ProgramDevice;
use replay_base::process::environment::{begins_with_any, is_general_variable};

/// Beginnings of the user's variables with influence on a program's results.
const DECIDING: [&str; 36] = [
    "PYTHON",
    "VIRTUAL_ENV",
    "CONDA_",
    "LD_",
    "CUDA_",
    "CUBLAS",
    "CUDNN",
    "NCCL_",
    "NVIDIA_",
    "ROCR_",
    "HIP_",
    "HSA_",
    "JAX_",
    "XLA_",
    "TF_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "TOKENIZERS_",
    "TRANSFORMERS_",
    "HF_",
    "NUMBA_",
    "NUMPY_",
    "NPY_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "NPROC",
    "MALLOC_",
    "MPL",
    "CC",
    "CXX",
    "CPATH",
];
/// The number of threads for libraries. One thread for each replay gives the same bits on every machine, and replays
/// run side by side instead.
const THREADS: &str = "1";
/// The variables with the number of threads.
const THREAD_VARIABLES: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];
/// Programs may keep a cache of their own beside replay's.
const CACHE: &str = "REPLAY_CACHE_DIR";

/// Whether the user's variable `name` has influence on the results of a program. The harness adds `named_variables`.
pub(super) fn is_deciding_variable(name: &OsStr, named_variables: &[String]) -> bool {
    begins_with_any(name, &DECIDING) || named_variables.iter().any(|named| name == named.as_str())
}

/// The environment of every command of a harness: what the user's has for it, `named_variables` among it, with the
/// harness's own variables. Others keep the machine and earlier runs out of the results.
pub(crate) fn program_environment<'e>(
    user: &[(OsString, OsString)],
    named_variables: &[String],
    own_variables: impl Iterator<Item = (&'e String, &'e String)>,
    device: ProgramDevice,
) -> Vec<(OsString, OsString)> {
    let mut all_variables: Vec<(OsString, OsString)> = user
        .iter()
        .filter(|(name, _)| {
            name == CACHE
                || is_general_variable(name)
                || is_deciding_variable(name, named_variables)
        })
        .cloned()
        .collect();
    set_variable(&mut all_variables, "PYTHONDONTWRITEBYTECODE", "1");
    set_variable(&mut all_variables, "PYTHONHASHSEED", "0");
    if let ProgramDevice::Cuda(Some(number)) = device {
        set_variable(&mut all_variables, "CUDA_VISIBLE_DEVICES", number.to_string());
    }
    for (name, value) in own_variables {
        set_variable(&mut all_variables, name, value);
    }
    for name in THREAD_VARIABLES {
        if !all_variables.iter().any(|(known_name, _)| known_name.as_os_str() == name) {
            all_variables.push((name.into(), THREADS.into()));
        }
    }
    set_variable(&mut all_variables, "REPLAY_THREADS", THREADS);
    set_variable(&mut all_variables, "REPLAY_DEVICE", device.name());
    all_variables
}

/// Gives the variable `name` this value, whether it is there or not.
pub(super) fn set_variable(
    variables: &mut Vec<(OsString, OsString)>,
    name: &str,
    value: impl AsRef<OsStr>,
) {
    let value = value.as_ref();
    match variables.iter_mut().find(|(known_name, _)| known_name.as_os_str() == name) {
        Some((_, known_value)) => *known_value = value.into(),
        None => variables.push((name.into(), value.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(
        user: &[(&str, &str)],
        env: &[(&str, &str)],
        named: &[&str],
    ) -> Vec<(OsString, OsString)> {
        let user: Vec<_> = user.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let own: Vec<_> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let own = own.iter().map(|(name, value)| (name, value));
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        program_environment(&user, &named, own, ProgramDevice::Cuda(Some(2)))
    }

    fn value<'v>(variables: &'v [(OsString, OsString)], name: &str) -> Option<&'v str> {
        variables.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn the_harness_has_the_last_word_on_its_environment() {
        let user = [("OMP_NUM_THREADS", "3"), ("REPLAY_TREE", "/x"), ("PYTHONPATH", "user")];
        let all = seen(&user, &[("PYTHONPATH", "own")], &[]);
        assert_eq!(value(&all, "PYTHONPATH"), Some("own"));
        assert_eq!(value(&all, "OMP_NUM_THREADS"), Some("3"));
        assert_eq!(value(&all, "MKL_NUM_THREADS"), Some("1"));
        assert_eq!(value(&all, "CUDA_VISIBLE_DEVICES"), Some("2"));
        assert_eq!(value(&all, "REPLAY_TREE"), None);
    }

    #[test]
    fn a_program_sees_no_secret_that_its_harness_does_not_name() {
        let user = [
            ("GITHUB_TOKEN", "1"),
            ("HF_TOKEN", "2"),
            ("SSH_AUTH_SOCK", "3"),
            ("DATA", "4"),
            ("WANDB_API_KEY", "5"),
            ("HF_HOME", "6"),
        ];
        let secrets = |all: &[(OsString, OsString)]| -> String {
            user.iter().filter_map(|(name, _)| value(all, name)).collect()
        };
        assert_eq!(secrets(&seen(&user, &[], &[])), "6");
        assert_eq!(secrets(&seen(&user, &[], &["DATA", "WANDB_API_KEY"])), "456");
    }
}
