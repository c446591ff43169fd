//! Compiles a source set to a module for one GPU architecture, with NVRTC.
//!
//! Modules are found by content, like artifacts. The instances of templates in a module are those of the host code, by the
//! symbols of its artifact. They are remembered for the next run, as a launch of any other is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::divided_headers::{JoinReason, find_divided_header};
use super::encoding::decode_source;
use super::instances::find_instances;
use super::key::KeyHasher;
use super::outside_files::Outside;
use super::source_units::SourceUnits;
use super::translation::{
    create_source_units, decode_source_texts, list_include_folders, unit_sources,
    untranslated_files, write_source_tree,
};
use super::walls::nvrtc_walls;
use super::{
    About, Artifact, CompileError, HEADERS, RefusedCode, first_error, for_this_run, includes,
    scratch_failed,
};
use replay_base::cache::{Cache, CacheKind};
use replay_base::process::walls::Sandbox;
use replay_base::summary;
use replay_base::tensor::DType;
use replay_cuda::{
    DEVIATIONS_SOURCE, DirectedRounding, FILL_SOURCE, Module, Nvrtc, NvrtcAnswer, SearchPath,
    WIDEN_SOURCE, math_error_ulps, round_ptx,
};
use replay_fixture::harness::{CppStandard, Harness};
use replay_frontend::{Precision, SourceUnit};
use replay_history::SourceSet;
use replay_runtime::headers;
use replay_runtime::renamed::restore_source_names;

/// NVRTC for one architecture, with its headers and its cache.
#[derive(Clone, Debug)]
pub struct DeviceToolchain {
    nvrtc: Nvrtc,
    architecture: String,
    /// Where CUDA's headers are.
    include: Vec<PathBuf>,
    outside: Arc<Outside>,
    /// Whether machine code has line information.
    lines: bool,
    sandbox: Sandbox,
    cache: Cache,
}

/// A compiled module.
#[derive(Clone, Debug)]
pub struct DeviceModule {
    /// The file, as [`Module::decode`] reads it.
    pub path: PathBuf,
    /// Identifies sources, headers, NVRTC, architecture, flags, and the files from outside.
    pub key: String,
    /// Its instances of templates.
    pub expressions: BTreeSet<String>,
    unit: Arc<DeviceUnit>,
}

/// A shadow in device code, or why there is none.
pub type DeviceShadow = Result<DeviceModule, String>;

impl DeviceModule {
    /// The greatest documented error, in units in the last place, of the mathematical functions in the device code; 1 if
    /// each of them rounds as on the CPU.
    pub fn math_ulps(&self) -> f64 {
        self.unit.math_ulps
    }

    /// Why the device code cannot round in other directions, if it cannot.
    pub fn rounding_obstacle(&self) -> Option<String> {
        let module = std::fs::read(&self.path).ok().and_then(|bytes| Module::decode(&bytes));
        let Some(module) = module.filter(|module| !module.ptx.is_empty()) else {
            return Some("the module has no PTX".to_owned());
        };
        round_ptx(&module.ptx, DirectedRounding::Down)
            .err()
            .map(|instruction| format!("{instruction} rounds to nearest alone"))
    }

    /// Whether the device code names atomic operations; the device chooses their order.
    pub fn has_atomics(&self) -> bool {
        self.unit.atomics
    }
}

impl DeviceToolchain {
    /// Compiles with `nvrtc` and the headers beside it or in `search`, and remembers in `cache`.
    pub fn new(
        nvrtc: Nvrtc,
        search: &SearchPath,
        architecture: &str,
        cache: &Cache,
    ) -> DeviceToolchain {
        let include = search.header_folders(nvrtc.path());
        let architecture = architecture.to_owned();
        let cache = cache.clone();
        DeviceToolchain {
            nvrtc,
            architecture,
            include,
            outside: Arc::default(),
            lines: false,
            sandbox: Sandbox::default(),
            cache,
        }
    }

    /// The same with NVRTC kept as `sandbox` says.
    pub fn with_sandbox(self, sandbox: Sandbox) -> DeviceToolchain {
        DeviceToolchain { sandbox, ..self }
    }

    /// The same with `nvrtc`. Headers beside it come before those of this one.
    pub fn with_nvrtc(self, nvrtc: Nvrtc, search: &SearchPath) -> DeviceToolchain {
        let mut include = search.header_folders(nvrtc.path());
        for folder in &self.include {
            if !include.contains(folder) {
                include.push(folder.clone());
            }
        }
        DeviceToolchain { nvrtc, include, ..self }
    }

    /// The same, with line information in its modules.
    pub fn with_lines(self) -> DeviceToolchain {
        DeviceToolchain { lines: true, ..self }
    }

    /// The architecture, such as `sm_90`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// NVRTC itself.
    pub fn nvrtc(&self) -> &Nvrtc {
        &self.nvrtc
    }

    /// Compiles the device code of `sources`, with every known instance of a template: those of earlier runs, or else
    /// those of `host`, their host code.
    ///
    /// # Errors
    /// [`CompileError`]; it tells the program at fault.
    pub fn compile(
        &self,
        harness: &Harness,
        sources: &SourceSet,
        host: Option<&Artifact>,
    ) -> Result<DeviceModule, CompileError> {
        self.compile_unit(DeviceUnit::translate(harness, sources, Precision::Native)?, host)
            .map_err(|error| error.with_finding(harness, sources))
    }

    /// The same before there is host code; none where it has to tell the instances.
    ///
    /// # Errors
    /// As [`DeviceToolchain::compile`].
    pub fn compile_early(
        &self,
        harness: &Harness,
        sources: &SourceSet,
    ) -> Result<Option<DeviceModule>, CompileError> {
        let unit = DeviceUnit::translate(harness, sources, Precision::Native)?;
        if unit.has_templates && self.remembered(&self.key(&unit)?).is_empty() {
            return Ok(None);
        }
        let module = self.compile_unit(unit, None);
        module.map(Some).map_err(|error| error.with_finding(harness, sources))
    }

    /// The same as [`DeviceToolchain::compile`] with `float` meaning `double`, or why such code cannot run on the
    /// device, in words.
    ///
    /// # Errors
    /// As [`DeviceToolchain::compile`].
    pub fn compile_shadow(
        &self,
        harness: &Harness,
        sources: &SourceSet,
        host: Option<&Artifact>,
    ) -> Result<DeviceShadow, CompileError> {
        if let Some(obstacle) = shadow_obstacle(sources, harness)? {
            return Ok(Err(obstacle));
        }
        match self.compile_unit(DeviceUnit::translate(harness, sources, Precision::Shadow)?, host) {
            Err(CompileError::Refused { first_error, .. }) => Ok(Err(first_error)),
            compiled => compiled.map(Ok),
        }
    }

    fn compile_unit(
        &self,
        unit: DeviceUnit,
        host: Option<&Artifact>,
    ) -> Result<DeviceModule, CompileError> {
        let unit = Arc::new(unit);
        let key = self.key(&unit)?;
        let remembered = self.remembered(&key);
        let of_host = host.filter(|_| remembered.is_empty());
        let of_host = of_host.map_or_else(BTreeSet::new, |host| find_instances(&host.path));
        if !of_host.is_empty() {
            match self.compile_with(&unit, &key, &of_host) {
                // One of them may be launched by nobody, and not compile for the device.
                Err(CompileError::Refused { .. }) => {}
                compiled => {
                    let path = compiled?;
                    self.remember(&key, &of_host)?;
                    return Ok(DeviceModule { path, key, expressions: of_host, unit });
                }
            }
        }
        let path = self.compile_with(&unit, &key, &remembered)?;
        Ok(DeviceModule { path, key, expressions: remembered, unit })
    }

    /// Compiles `module` again with the instance `expression`, and remembers it.
    ///
    /// # Errors
    /// [`CompileError`]; NVRTC refuses an instance that the sources lack.
    pub fn extend(
        &self,
        module: &DeviceModule,
        expression: &str,
    ) -> Result<DeviceModule, CompileError> {
        let mut expressions = module.expressions.clone();
        expressions.insert(expression.to_owned());
        let path = self.compile_with(&module.unit, &module.key, &expressions)?;
        self.remember(&module.key, &expressions)?;
        Ok(DeviceModule { path, expressions, ..module.clone() })
    }

    /// The module with the kernel `summarize` for elements of `dtype`.
    ///
    /// # Errors
    /// [`CompileError`] if NVRTC or the cache cannot be used.
    pub fn summary(&self, dtype: DType) -> Result<PathBuf, CompileError> {
        let unit = DeviceUnit {
            text: summary::device::SOURCE.to_owned(),
            files: Vec::new(),
            defines: vec![format!("ELEMENT={}", summary::device::kernel_element_name(dtype))],
            undefine: Vec::new(),
            options: Vec::new(),
            standard: CppStandard::default(),
            folders: Vec::new(),
            system_folders: Vec::new(),
            math_ulps: 1.0,
            atomics: false,
            has_templates: false,
            precision: Precision::Native,
            rounds: false,
        };
        self.compile_with(&unit, &self.key(&unit)?, &BTreeSet::new())
    }

    fn remember(&self, key: &str, expressions: &BTreeSet<String>) -> Result<(), CompileError> {
        let text = serde_json::to_vec(expressions).expect("names are plain data");
        self.cache.write(CacheKind::Fact, &expressions_key(key), &text)?;
        Ok(())
    }

    fn remembered(&self, key: &str) -> BTreeSet<String> {
        let cached_text = self.cache.read(CacheKind::Fact, &expressions_key(key));
        cached_text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    fn compile_with(
        &self,
        unit: &DeviceUnit,
        key: &str,
        expressions: &BTreeSet<String>,
    ) -> Result<PathBuf, CompileError> {
        let key = module_key(key, expressions);
        if let Some(path) = self.cache.find(CacheKind::Module, &key) {
            return Ok(path);
        }
        if let Some(log) = self.cache.read(CacheKind::Refusal, &key) {
            return Err(self.refused(&key, &String::from_utf8_lossy(&log)));
        }
        let _span = tracing::info_span!("compile", compiler = "NVRTC", names = expressions.len());
        let scratch = self.cache.scratch()?;
        let folder = scratch.path();
        let laid_out = headers::write_device(&folder.join(HEADERS));
        laid_out
            .and_then(|()| write_source_tree(folder, &unit.files))
            .map_err(scratch_failed(folder))?;
        let names: Vec<String> = expressions.iter().map(|name| unit.named(name)).collect();
        match self.call_nvrtc(unit, folder, &names)? {
            NvrtcAnswer::Compiled(image) => {
                let names = expressions.iter().cloned().zip(image.names).collect();
                let ptx = if unit.rounds { image.ptx } else { String::new() };
                let module = Module { names, code: image.code, ptx };
                Ok(self.cache.write(CacheKind::Module, &key, &module.encode())?)
            }
            NvrtcAnswer::Rejected { log } => {
                // NVRTC names the place of a requested expression by a number.
                let log = log.replace("__nv_name_map(", "launched name (");
                // A missing file may be there the next time.
                let key = if log.contains("open source file") { for_this_run(&key) } else { key };
                self.cache.write(CacheKind::Refusal, &key, log.as_bytes())?;
                Err(self.refused(&key, &log))
            }
        }
    }

    /// NVRTC's answer on `unit`, laid out in `folder`. It reads no file that the unit has no business with.
    fn call_nvrtc(
        &self,
        unit: &DeviceUnit,
        folder: &Path,
        names: &[String],
    ) -> Result<NvrtcAnswer, CompileError> {
        let options = self.options(unit, folder);
        let compile = || self.nvrtc.compile(&unit.text, &options, names);
        let answer = match self.sandbox {
            Sandbox::Off => compile(),
            Sandbox::AsOffered => {
                let walls = nvrtc_walls(self.nvrtc.path(), folder, &self.outside_folders(unit));
                walls.work_behind(compile).map_err(CompileError::Walls)?
            }
        };
        Ok(answer?)
    }

    fn options(&self, unit: &DeviceUnit, folder: &Path) -> Vec<String> {
        // `-fmad`, `-prec-div`, `-prec-sqrt` and `-ftz` have nvcc's defaults.
        let mut options = vec![
            format!("--std={}", unit.standard.name()),
            format!("--gpu-architecture={}", self.architecture),
        ];
        if unit.precision == Precision::Shadow {
            // As on the CPU: only the mathematical functions differ.
            options.push("--fmad=false".to_owned());
        }
        if self.lines {
            options.push("--generate-line-info".to_owned());
        }
        options.extend(unit.options.iter().cloned());
        options.extend(unit.undefine.iter().map(|name| format!("--undefine-macro={name}")));
        options.extend(unit.defines.iter().map(|define| format!("--define-macro={define}")));
        let include_folders = unit.folders.iter().map(|include| folder.join("tree").join(include));
        let headers = folder.join(HEADERS);
        let all_folders =
            std::iter::once(folder.to_owned()).chain(include_folders).chain([headers]);
        let all_folders = all_folders.chain(self.outside_folders(unit));
        options.extend(all_folders.map(|include| format!("--include-path={}", include.display())));
        options
    }

    fn refused(&self, key: &str, log: &str) -> CompileError {
        let log = restore_source_names(log);
        let first_error = first_error(&log);
        CompileError::Refused {
            what: RefusedCode::DeviceCode,
            about: About::from_message(&first_error),
            finding: None,
            first_error,
            log: log.into_owned(),
            log_path: self.cache.path(CacheKind::Refusal, key),
            place: None,
        }
    }

    /// The key of `unit`. It covers the files within reach of its includes as well.
    fn key(&self, unit: &DeviceUnit) -> Result<String, CompileError> {
        let first = self.first_key(unit);
        if let Some(key) = self.outside.recall(&self.cache, &first) {
            return Ok(key);
        }
        let start_time = SystemTime::now();
        // Files outside of the front end are searched as well.
        let files: Vec<_> = unit.files.iter().map(|(_, bytes)| decode_source(bytes)).collect();
        let texts = files.iter().map(|file| &*file.text).chain([unit.text.as_str()]);
        let read_files: Vec<PathBuf> =
            includes::find_reachable_files(texts, &self.outside_folders(unit))
                .into_iter()
                .collect();
        let library = [self.nvrtc.path().to_owned()];
        let key = self.outside.remember(&self.cache, &first, start_time, &read_files, &library)?;
        Ok(key.unwrap_or_else(|| for_this_run(&first)))
    }

    /// The folders of headers outside of the sources, CUDA's first.
    fn outside_folders(&self, unit: &DeviceUnit) -> Vec<PathBuf> {
        self.include.iter().chain(&unit.system_folders).cloned().collect()
    }

    /// The key of everything known without reading files outside of the sources.
    fn first_key(&self, unit: &DeviceUnit) -> String {
        let mut hasher = KeyHasher::new("module");
        let (major, minor) = self.nvrtc.version();
        hasher.part(headers::device_identity().as_bytes());
        hasher.part(format!("{} {major}.{minor} {}", self.architecture, self.lines));
        if self.sandbox == Sandbox::Off {
            // Without walls it may read more, and refuse less.
            hasher.part("without walls");
        }
        hasher.part(self.nvrtc.path().as_os_str().as_encoded_bytes());
        hasher.part(format!("{:?}", unit.precision));
        hasher.part(unit.standard.name());
        let outside_folders = self.outside_folders(unit);
        hasher.list(outside_folders.iter().map(|folder| folder.as_os_str().as_encoded_bytes()));
        hasher.list(&unit.options);
        hasher.list(&unit.undefine);
        hasher.list(&unit.defines);
        hasher.list(&unit.folders);
        hasher.part(&unit.text);
        for (path, text) in &unit.files {
            hasher.part(path);
            hasher.part(text);
        }
        hasher.finish()
    }
}

fn module_key(key: &str, expressions: &BTreeSet<String>) -> String {
    let mut hasher = KeyHasher::new("module with expressions");
    hasher.part(key);
    hasher.list(expressions);
    hasher.finish()
}

/// The key of the instances of templates for a module.
fn expressions_key(key: &str) -> String {
    let mut hasher = KeyHasher::new("expressions");
    hasher.part(key);
    hasher.finish()
}

/// The file of `sources` without a shadow in device code, and the reason in it.
fn shadow_obstacle(sources: &SourceSet, harness: &Harness) -> Result<Option<String>, CompileError> {
    let texts = decode_source_texts(sources, harness)?;
    let obstacle_text = create_source_units(&texts).into_iter().find_map(|unit| {
        let obstacle = replay_frontend::device_shadow_obstacle(&unit)?;
        Some(format!("{} has {obstacle}", unit.path))
    });
    Ok(obstacle_text)
}

/// The device code of a source set, as one translation unit.
#[derive(Debug)]
struct DeviceUnit {
    text: String,
    files: Vec<(String, Vec<u8>)>,
    defines: Vec<String>,
    undefine: Vec<String>,
    /// Those of the harness.
    options: Vec<String>,
    standard: CppStandard,
    /// The harness's `include` folders, relative to the tree.
    folders: Vec<String>,
    /// The harness's `system_include` folders.
    system_folders: Vec<PathBuf>,
    /// The result of [`DeviceModule::math_ulps`].
    math_ulps: f64,
    /// The result of [`DeviceModule::has_atomics`].
    atomics: bool,
    /// Whether a kernel is a template.
    has_templates: bool,
    precision: Precision,
    /// Whether its module is to be rounded in other directions.
    rounds: bool,
}

/// What the names of functions in device code tell of its results.
struct NamedFunctions {
    /// The result of [`DeviceModule::math_ulps`].
    math_ulps: f64,
    /// The result of [`DeviceModule::has_atomics`].
    atomics: bool,
}

impl NamedFunctions {
    fn add_names(&mut self, unit: &SourceUnit<'_>) {
        let names = replay_frontend::collect_identifiers(unit);
        let errors = names.iter().filter_map(|name| math_error_ulps(name));
        self.math_ulps = errors.fold(self.math_ulps, f64::max);
        self.atomics |= names.iter().any(|name| name.starts_with("atomic"));
    }
}

impl DeviceUnit {
    /// `name`, a name in host code, as this code has it. NVRTC finds names in namespaces without one by themselves.
    fn named(&self, name: &str) -> String {
        let name = name.replace("(anonymous namespace)::", "");
        match self.precision {
            Precision::Shadow => replay_frontend::device_shadow_name(&name),
            Precision::Native | Precision::Checked => name,
        }
    }

    fn translate(
        harness: &Harness,
        sources: &SourceSet,
        precision: Precision,
    ) -> Result<DeviceUnit, CompileError> {
        let texts = decode_source_texts(sources, harness)?;
        let units = create_source_units(&texts);
        let paths = unit_sources(sources)?;
        let unit_paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        if let Some(divided) = find_divided_header(&units, &unit_paths, JoinReason::Gpu) {
            return Err(CompileError::DividedHeader(divided));
        }
        let symbols = replay_frontend::scan_symbols(&units);
        let mut files = Vec::new();
        let mut functions = NamedFunctions { math_ulps: 1.0, atomics: false };
        for (unit, (_, decoded)) in units.iter().zip(&texts) {
            let text = replay_frontend::translate_for_device(unit, &symbols, precision)?;
            functions.add_names(&SourceUnit { path: unit.path, text: &text });
            files.push((unit.path.to_owned(), decoded.encode(text)));
        }
        let read_texts = texts.iter().map(|(_, decoded)| &*decoded.text);
        for path in includes::find_reachable_files(read_texts, &harness.system_include) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let text = decode_source(&bytes).text;
            functions.add_names(&SourceUnit { path: &path.display().to_string(), text: &text });
        }
        files.extend(untranslated_files(sources));
        let defines = &harness.defines;
        let included =
            SourceUnits::new(&units, paths, &symbols, defines, &BTreeSet::new(), precision);
        let precision_source = match precision {
            Precision::Shadow => WIDEN_SOURCE,
            Precision::Native | Precision::Checked => DEVIATIONS_SOURCE,
        };
        Ok(DeviceUnit {
            text: std::iter::once(FILL_SOURCE.to_owned())
                .chain([precision_source.to_owned()])
                .chain([included.include_all()])
                .collect(),
            folders: list_include_folders(harness, &files),
            system_folders: harness.system_include.clone(),
            files,
            defines: match precision {
                Precision::Shadow => {
                    let widen = |define: &String| replay_frontend::device_shadow_name(define);
                    harness.defines.iter().map(widen).collect()
                }
                Precision::Native | Precision::Checked => harness.defines.clone(),
            },
            undefine: harness.undefine.clone(),
            options: match precision {
                // They are about the numbers that it stands for.
                Precision::Shadow => Vec::new(),
                Precision::Native | Precision::Checked => harness.nvrtc_options.clone(),
            },
            standard: harness.standard,
            math_ulps: functions.math_ulps,
            atomics: functions.atomics,
            has_templates: symbols.has_kernel_templates(),
            precision,
            rounds: precision == Precision::Native,
        })
    }
}
