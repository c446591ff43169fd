//! NVRTC as an axis, with a library that stands for it: found by its path or by packages, and part of the key of what it makes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use replay::cache::Cache;
use replay::compile::{CompileError, Compiler, DeviceModule, DeviceToolchain};
use replay::cuda::{Module, Nvrtc, SearchPath};
use replay::environment::{Environment, EnvironmentChange, EnvironmentError, UserShell, Workshop};
use replay::fixture::{self, Fixture};
use replay::foreign::Keeper;
use replay::history::{SourceSpec, source_set_from_dir};
use replay::process::walls::{Sandbox, WallOffer, Walls};
use replay::tensor::DType;

use crate::common::gpu_lab::program;

/// The functions of NVRTC. Its machine code names the version and the folders of headers.
const STAND_IN: &str = r#"
#include <stdio.h>
#include <string.h>
static char code[4096];
int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = MINOR; return 0; }
const char* nvrtcGetErrorString(int status) { return "no reason"; }
int nvrtcCreateProgram(void** p, const char* s, const char* n, int c, const char* const* h, const char* const* i) {
    *p = code; return 0;
}
int nvrtcDestroyProgram(void** p) { *p = 0; return 0; }
int nvrtcAddNameExpression(void* p, const char* name) { return 0; }
int nvrtcCompileProgram(void* p, int count, const char* const* options) {
    int used = snprintf(code, sizeof code, "by 12.%d", MINOR);
    for (int i = 0; i < count; i++)
        if (strstr(options[i], "--include-path") && strstr(options[i], "cuda-"))
            used += snprintf(code + used, sizeof code - used, " %s", strstr(options[i], "cuda-"));
    for (int i = 0; i < count; i++) {
        if (strncmp(options[i], "--define-macro=READ=", 20) != 0) continue;
        FILE* file = fopen(options[i] + 20, "r");
        used += snprintf(code + used, sizeof code - used, file ? " read" : " refused");
        if (file) fclose(file);
    }
    return 0;
}
int nvrtcGetLoweredName(void* p, const char* name, const char** lowered) { *lowered = name; return 0; }
int nvrtcGetProgramLogSize(void* p, unsigned long* size) { *size = 1; return 0; }
int nvrtcGetProgramLog(void* p, char* log) { *log = 0; return 0; }
int nvrtcGetCUBINSize(void* p, unsigned long* size) { *size = strlen(code); return 0; }
int nvrtcGetCUBIN(void* p, char* out) { memcpy(out, code, strlen(code)); return 0; }
int nvrtcGetPTXSize(void* p, unsigned long* size) { *size = 1; return 0; }
int nvrtcGetPTX(void* p, char* out) { *out = 0; return 0; }
"#;

/// Answers as an interpreter with pip: it has no packages, knows `nvidia-cuda-nvrtc-cu12` 12.1001.7, and installs it with
/// the library beside itself.
const PYTHON: &str = r#"#!/bin/sh
here=$(dirname "$0")
if [ "$1" = -c ]; then printf '/usr/bin/python3\npython 3.11 here\npip 24.0\n'; exit 0; fi
printf '%s\n' "$*" >> "$here/asked"
case "$*" in
    *"index versions nvidia-cuda-nvrtc-cu12") echo 'Available versions: 12.1003.5, 12.1001.7, 12.1001.2' ;;
    *"index versions nvidia-cuda-nvrtc") echo 'Available versions: 13.0.4' ;;
    *--dry-run*12.1003*) echo 'ERROR: No matching distribution' >&2; exit 1 ;;
    *--dry-run*)
        while [ "$1" != --report ]; do shift; done
        echo '{"install": [
            {"metadata": {"name": "nvidia-cuda-nvrtc-cu12", "version": "12.1001.7"}},
            {"metadata": {"name": "nvidia-cuda-runtime-cu12", "version": "12.1001.3"}}]}' > "$2" ;;
    *)
        while [ "$1" != --target ]; do shift; done
        mkdir -p "$2/nvidia/cuda_nvrtc/lib" && cp "$here/libnvrtc.so.12" "$2/nvidia/cuda_nvrtc/lib/" ;;
esac
"#;

/// A folder with a fixture for kernels, installations of CUDA, and an interpreter.
struct Place {
    folder: tempfile::TempDir,
    cache: Cache,
}

impl Place {
    fn new(values: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let harness = format!(
            "sources = [\"kernel.cu\"]\ncall = \"run(x, out, n);\"\n[axes]\nnvrtc = {values}\n\
             [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n[outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n"
        );
        fs::write(root.join("kernel.cu"), "__global__ void k(float* out) { out[0] = 1; }\n")
            .unwrap();
        fs::write(root.join("replay.toml"), harness).unwrap();
        fs::create_dir(root.join("fixture")).unwrap();
        fs::write(root.join("fixture/fixture.toml"), "harness = \"../replay.toml\"\n").unwrap();
        let x = ("x", DType::F32, &[1][..], &[0; 4][..]);
        fixture::write_safetensors(&root.join("fixture"), &[x], &[]).unwrap();
        let cache = Cache::open(&root.join("cache")).unwrap();
        Place { cache, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The stand-in for NVRTC 12.`minor` at `name`.
    fn add_library(&self, name: &str, minor: u32) {
        let source = self.path("nvrtc.c");
        fs::write(&source, STAND_IN).unwrap();
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        let status = Command::new(std::env::var("CXX").unwrap_or("g++".to_owned()))
            .args(["-x", "c", "-w", "-shared", "-fPIC", &format!("-DMINOR={minor}"), "-o"])
            .args([&self.path(name), &source])
            .status();
        assert!(status.unwrap().success());
    }

    fn add_headers(&self, installation: &str) {
        let include = self.path(installation).join("include");
        fs::create_dir_all(&include).unwrap();
        fs::write(include.join("cuda_fp16.h"), "").unwrap();
    }

    fn add_python(&self) {
        fs::create_dir(self.path("bin")).unwrap();
        fs::write(self.path("bin/python3"), PYTHON).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("bin/python3"), mode).unwrap();
    }

    /// What the interpreter's pip was asked.
    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("bin/asked")).unwrap_or_default();
        let cache = self.cache.root().display().to_string();
        let is_plain = |word: &&str| !word.starts_with(&cache);
        text.lines()
            .map(|line| line.split(' ').filter(is_plain).collect::<Vec<_>>().join(" "))
            .collect()
    }

    fn fixture(&self) -> Fixture {
        Fixture::load(&self.path("fixture")).unwrap()
    }

    fn workshop(&self) -> Workshop<'static> {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.path("bin").display());
        let variables = vec![("PATH".into(), path.into())];
        let shell = UserShell { keeper: Keeper::new(&program()), variables };
        let find = |cxx: &str| Ok(Compiler::find(Some(cxx), &Keeper::new(&program()))?);
        Workshop::new(shell, self.cache.clone(), Box::new(find), Box::new(|_| {}))
    }

    fn make(&self, value: &str) -> Result<Environment, EnvironmentError> {
        let fixture = self.fixture();
        self.workshop().make(&fixture.harness.axes[0], value, &fixture)
    }

    fn try_compile(&self, toolchain: &DeviceToolchain) -> Result<DeviceModule, CompileError> {
        let harness = self.fixture().harness;
        let spec = SourceSpec { sources: harness.sources.clone(), ..SourceSpec::default() };
        let sources = source_set_from_dir(self.folder.path(), &spec).unwrap();
        toolchain.compile(&harness, &sources, None)
    }

    /// The code of the module of `toolchain`, and its key.
    fn compile(&self, toolchain: &DeviceToolchain) -> (String, String) {
        let module = self.try_compile(toolchain).unwrap();
        let code = Module::decode(&fs::read(&module.path).unwrap()).unwrap().code;
        (String::from_utf8(code).unwrap(), module.key)
    }
}

/// The library of `environment`.
fn nvrtc_of(environment: &Environment) -> Nvrtc {
    match &environment.change {
        EnvironmentChange::Nvrtc { nvrtc, .. } => nvrtc.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_installation_compiles_with_its_own_headers_and_has_a_key_of_its_own() {
    let place = Place::new(r#"["./cuda-first", "./cuda-second"]"#);
    place.add_library("cuda-first/lib64/libnvrtc.so.12", 1004);
    place.add_library("cuda-second/targets/x86_64-linux/lib/libnvrtc.so", 1009);
    place.add_library("cuda-again/libnvrtc.so.12", 1009);
    place.add_headers("cuda-first");
    place.add_headers("cuda-second/targets/x86_64-linux");
    let first = place.make("./cuda-first").unwrap();
    let second = place.make("./cuda-second").unwrap();
    assert_eq!(first.name(), "nvrtc ./cuda-first");
    let file = place.path("cuda-first/lib64/libnvrtc.so.12").canonicalize().unwrap();
    assert_eq!(first.lines(), [format!("NVRTC 12.1004: {}", file.display())]);
    let search = SearchPath::default();
    let toolchain = DeviceToolchain::new(nvrtc_of(&first), &search, "sm_90", &place.cache);
    let (first_code, first_key) = place.compile(&toolchain);
    assert!(first_code.starts_with("by 12.1004 cuda-first/include"), "{first_code}");
    assert!(!first_code.contains("cuda-second"), "{first_code}");
    let toolchain = toolchain.with_nvrtc(nvrtc_of(&second), &search);
    let (second_code, second_key) = place.compile(&toolchain);
    let own_headers = "by 12.1009 cuda-second/targets/x86_64-linux/include";
    assert!(second_code.starts_with(own_headers), "{second_code}");
    assert_ne!(first_key, second_key);

    let again = place.make("./cuda-again").unwrap_err();
    assert!(!again.is_value_fault());
    let message = again.to_string().replace(&place.folder.path().display().to_string(), "");
    assert_eq!(
        message,
        "/cuda-again/libnvrtc.so.12 is NVRTC 12.1009, and so is \
         /cuda-second/targets/x86_64-linux/lib/libnvrtc.so, which this process works with"
    );
    assert!(again.hint().unwrap().contains("name one of each version"));
}

/// Puts `count` wide walls around the rest of this thread.
fn enter_walls(count: usize) {
    let everything = Walls { writable: vec!["/".into()], ..Walls::default() };
    for _ in 0..count {
        everything.enter().unwrap();
    }
}

#[test]
fn nvrtc_reads_the_sources_and_nothing_of_the_user() {
    if !WallOffer::of_this_system().files {
        return;
    }
    let place = Place::new(r#"["./cuda-walled", "./other"]"#);
    place.add_library("cuda-walled/libnvrtc.so.12", 1011);
    fs::write(place.path("secret"), "").unwrap();
    let harness = fs::read_to_string(place.path("replay.toml")).unwrap();
    let compile = |path: &str, sandbox: Sandbox| {
        let defines = format!("defines = [\"READ={path}\"]\n");
        fs::write(place.path("replay.toml"), defines + &harness).unwrap();
        let nvrtc = nvrtc_of(&place.make("./cuda-walled").unwrap());
        let toolchain = DeviceToolchain::new(nvrtc, &SearchPath::default(), "sm_90", &place.cache);
        place.compile(&toolchain.with_sandbox(sandbox))
    };
    let secret = place.path("secret").display().to_string();
    for path in [secret.as_str(), "/proc/self/environ", "/etc/hostname"] {
        let (walled, walled_key) = compile(path, Sandbox::AsOffered);
        let (open, open_key) = compile(path, Sandbox::Off);
        assert_eq!([walled, open], ["by 12.1011 refused", "by 12.1011 read"], "{path}");
        assert_ne!(walled_key, open_key);
    }
    assert_eq!(compile("/proc/cpuinfo", Sandbox::AsOffered).0, "by 12.1011 read");
}

#[test]
fn walls_that_the_system_refuses_to_nvrtc_are_the_machine_s_fault() {
    if !WallOffer::of_this_system().files {
        return;
    }
    let place = Place::new(r#"["./cuda-deep", "./other"]"#);
    place.add_library("cuda-deep/libnvrtc.so.12", 1012);
    let nvrtc = nvrtc_of(&place.make("./cuda-deep").unwrap());
    let toolchain = DeviceToolchain::new(nvrtc, &SearchPath::default(), "sm_90", &place.cache);
    let refused = std::thread::scope(|scope| {
        let deep = || {
            // Landlock stacks 16.
            enter_walls(16);
            place.try_compile(&toolchain)
        };
        scope.spawn(deep).join().unwrap().unwrap_err()
    });
    assert!(!refused.is_revision_fault());
    insta::assert_snapshot!(format!("{refused}\nhint: {}", refused.hint().unwrap()), @"
    cannot put NVRTC behind walls
    hint: `replay doctor` says what this system has; --sandbox=off does without
    ");
}

#[test]
fn a_path_without_the_library_and_one_that_is_none_are_untestable() {
    let place = Place::new(r#"["./nowhere", "./kernel.cu"]"#);
    let absent = place.make("./nowhere").unwrap_err();
    assert!(absent.is_value_fault());
    assert!(absent.to_string().starts_with("no libnvrtc: looked in "), "{absent}");
    assert!(absent.to_string().contains("nowhere/lib64"), "{absent}");
    assert!(absent.hint().unwrap().starts_with("a path names an installation of CUDA"));
    let none = place.make("./kernel.cu").unwrap_err();
    assert!(none.is_value_fault() && none.to_string().starts_with("cannot load "), "{none}");
}

#[test]
fn a_version_is_installed_with_the_headers_that_go_with_it_once() {
    let place = Place::new(r#""12.1001..13.0""#);
    place.add_python();
    place.add_library("bin/libnvrtc.so.12", 1001);
    let fixture = place.fixture();
    let values = place.workshop().list_values(&fixture.harness.axes[0], &fixture).unwrap();
    assert_eq!(values, ["12.1001", "12.1003", "13.0"]);
    let made = place.make("12.1001").unwrap();
    assert_eq!(
        made.lines(),
        ["nvidia-cuda-nvrtc-cu12 12.1001.7", "nvidia-cuda-runtime-cu12 12.1001.3"]
    );
    assert!(nvrtc_of(&made).path().starts_with(place.cache.root().canonicalize().unwrap()));
    assert_eq!(place.make("12.1001").unwrap(), made);
    let wanted = "nvidia-cuda-nvrtc-cu12==12.1001.* nvidia-cuda-runtime-cu12==12.1001.*";
    assert_eq!(
        place.asked(),
        [
            "-m pip index versions nvidia-cuda-nvrtc-cu12".to_owned(),
            "-m pip index versions nvidia-cuda-nvrtc".to_owned(),
            format!(
                "-m pip install --quiet --dry-run --report --ignore-installed --no-deps {wanted}"
            ),
            "-m pip install --quiet --no-deps --target nvidia-cuda-nvrtc-cu12==12.1001.7 \
             nvidia-cuda-runtime-cu12==12.1001.3"
                .to_owned(),
        ]
    );
    let refused = place.make("12.1003").unwrap_err();
    assert!(refused.is_value_fault());
    assert_eq!(refused.to_string(), "pip cannot install nvidia-cuda-nvrtc-cu12 12.1003");
}
