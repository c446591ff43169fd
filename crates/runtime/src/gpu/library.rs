//! Launches without a kernel of the sources: functions of NVIDIA's libraries, and kernels without a name.

use crate::report::ChildReport;
use replay_cuda::LibraryError;

/// A library of NVIDIA's whose functions host code calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// cuBLAS and cuBLASLt; they answer themselves.
    Blas,
    /// cuRAND; it does so as well.
    Random,
    /// CUB's device-wide part or Thrust, whose algorithms the host computes.
    Host,
}

impl Library {
    /// The library of the function `kernel`.
    pub(super) fn from_kernel(kernel: &str) -> Option<Library> {
        if kernel.starts_with("cub::") || kernel.starts_with("thrust::") {
            Some(Library::Host)
        } else if is_library_function(kernel, "cublas") {
            Some(Library::Blas)
        } else if is_library_function(kernel, "curand") {
            Some(Library::Random)
        } else {
            None
        }
    }
}

/// Whether `name` is `prefix` with an upper letter behind it, such as `cublasCreate`.
fn is_library_function(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// The report for a call of `function`, whose library cannot be used.
pub(super) fn library_refusal(function: &str, error: &LibraryError) -> ChildReport {
    ChildReport::Refused {
        message: format!("{function} was called: {error}"),
        hint: Some(error.hint()),
    }
}

/// The report for a kernel launched by `function` without a symbol of the host as its name.
pub(super) fn nameless_kernel_refusal(function: &str) -> ChildReport {
    ChildReport::Refused {
        message: format!("{function} launches a kernel by a pointer that leads to no name"),
        hint: Some("launch the kernel by its name: a GPU finds it by that alone".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_a_library_is_told_from_a_kernel_of_the_user_s_by_its_name() {
        let of = Library::from_kernel;
        assert_eq!(of("cublasSgemm"), Some(Library::Blas));
        assert_eq!(of("curandGenerateUniform"), Some(Library::Random));
        assert_eq!(of("cub::DeviceReduce::Sum"), Some(Library::Host));
        assert_eq!(of("thrust::sort"), Some(Library::Host));
        for of_the_user in ["cublas_epilogue_kernel", "cub_sum", "thrust_step", "curandom"] {
            assert_eq!(of(of_the_user), None, "{of_the_user}");
        }
    }

    #[test]
    fn a_kernel_that_only_a_pointer_names_is_refused_with_the_function_that_launches_it() {
        let ChildReport::Refused { message, hint } =
            nameless_kernel_refusal("cudaLaunchCooperativeKernel")
        else {
            panic!("the kernel is not at fault");
        };
        insta::assert_snapshot!(message, @"cudaLaunchCooperativeKernel launches a kernel by a pointer that leads to no name");
        insta::assert_snapshot!(hint.unwrap(), @"launch the kernel by its name: a GPU finds it by that alone");
    }
}
