//! Launches that are no kernels of the sources: calls of NVIDIA's libraries, and kernels without a name.

use crate::runtime::report::Report;

/// A library of NVIDIA's whose functions host code calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// cuBLAS and cuBLASLt, which answer themselves.
    Blas,
    /// One that only the CPU has, by its name.
    Absent(&'static str),
}

impl Library {
    /// The library that has the function `kernel`.
    pub(super) fn of(kernel: &str) -> Option<Library> {
        let is_called = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase());
        let is_scoped = |rest: &str| rest.starts_with("::");
        Some(match kernel {
            _ if kernel.strip_prefix("cublas").is_some_and(is_called) => Library::Blas,
            _ if kernel.strip_prefix("curand").is_some_and(is_called) => Library::Absent("cuRAND"),
            _ if kernel.strip_prefix("cub").is_some_and(is_scoped) => {
                Library::Absent("CUB's device-wide part")
            }
            _ if kernel.strip_prefix("thrust").is_some_and(is_scoped) => Library::Absent("Thrust"),
            _ => return None,
        })
    }
}

/// The report for a function of `library`, which only the CPU has.
pub(super) fn absent(kernel: &str, library: &str) -> Report {
    Report::Refused {
        message: format!("{kernel} was called, and {library} is not connected to GPUs"),
        hint: Some("replay with --backend cpu, which computes it".to_owned()),
    }
}

/// The report for a kernel that `function` launches, whose name no symbol of the host tells.
pub(super) fn nameless(function: &str) -> Report {
    Report::Refused {
        message: format!("{function} launches a kernel by a pointer that leads to no name"),
        hint: Some("on a GPU such a kernel may be neither static nor a template".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_only_the_cpu_has_is_refused_by_name() {
        let told = ["curandGenerateUniform", "cub::DeviceReduce::Sum", "thrust::sort"];
        let told = told.map(|kernel| match Library::of(kernel) {
            Some(Library::Absent(library)) => match absent(kernel, library) {
                Report::Refused { message, hint } => format!("{message}\nhint: {}", hint.unwrap()),
                report => panic!("{report:?}"),
            },
            library => panic!("{kernel} is of {library:?}"),
        });
        insta::assert_snapshot!(told.join("\n"), @r"
        curandGenerateUniform was called, and cuRAND is not connected to GPUs
        hint: replay with --backend cpu, which computes it
        cub::DeviceReduce::Sum was called, and CUB's device-wide part is not connected to GPUs
        hint: replay with --backend cpu, which computes it
        thrust::sort was called, and Thrust is not connected to GPUs
        hint: replay with --backend cpu, which computes it
        ");
        assert_eq!(Library::of("cublasSgemm"), Some(Library::Blas));
        for of_the_user in ["cublas_epilogue_kernel", "cub_sum", "thrust_step", "curandom"] {
            assert_eq!(Library::of(of_the_user), None, "{of_the_user}");
        }
    }

    #[test]
    fn a_kernel_that_only_a_pointer_names_is_refused_with_the_function_that_launches_it() {
        let Report::Refused { message, hint } = nameless("cudaLaunchCooperativeKernel") else {
            panic!("the kernel is not at fault");
        };
        insta::assert_snapshot!(message, @"cudaLaunchCooperativeKernel launches a kernel by a pointer that leads to no name");
        insta::assert_snapshot!(hint.unwrap(), @"on a GPU such a kernel may be neither static nor a template");
    }
}
