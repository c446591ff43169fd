//! The settings of one source: the options of a command, the environment, or a file.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::replay::trial::GradientEffort;

use super::super::error::{CliResult, CommandError};
use super::key::Key;
use super::values::{
    ColorArg, DeviceArg, SandboxArg, parse_bytes_arg, parse_choice_arg, parse_devices_arg,
    parse_gradients_arg, parse_jobs_arg, parse_seconds_arg, parse_threads_arg,
};
use super::{Origin, Setting};

/// Settings, as far as one source has them.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    pub backend: Option<Setting<Vec<DeviceArg>>>,
    pub timeout: Option<Setting<Duration>>,
    pub memory: Option<Setting<u64>>,
    pub threads: Option<Setting<NonZeroUsize>>,
    pub jobs: Option<Setting<NonZeroUsize>>,
    pub gradients: Option<Setting<GradientEffort>>,
    pub sandbox: Option<Setting<SandboxArg>>,
    pub color: Option<Setting<ColorArg>>,
    pub cxx: Option<Setting<OsString>>,
    pub cache_dir: Option<Setting<PathBuf>>,
    pub cache_shared: Option<Setting<PathBuf>>,
    pub cache_size: Option<Setting<u64>>,
}

impl Layer {
    /// The settings in the environment that `read` gives.
    ///
    /// # Errors
    /// A variable with a value that is none of its setting.
    pub fn from_environment(read: &dyn Fn(&str) -> Option<OsString>) -> CliResult<Layer> {
        let read = |name: &'static str| read(name).filter(|value| !value.is_empty());
        let mut layer = Layer::default();
        for key in Key::ALL {
            let Some(value) = read(key.variable()) else { continue };
            layer.set(key, &value, Origin::Variable(key.variable())).map_err(|problem| {
                CommandError::new(format!("{} is not understood: {problem}", key.variable()))
            })?;
        }
        if layer.color.is_none() {
            layer.color = find_common_color(&read);
        }
        Ok(layer)
    }

    /// Sets `key` to what `value` says.
    ///
    /// # Errors
    /// Why `value` is none of the key's, in words.
    pub fn set(&mut self, key: Key, value: &OsStr, origin: Origin) -> Result<(), String> {
        let text = value.to_str().ok_or("it is no text");
        match key {
            Key::Backend => self.backend = Some(Setting::new(parse_devices_arg(text?)?, origin)),
            Key::Timeout => self.timeout = Some(Setting::new(parse_seconds_arg(text?)?, origin)),
            Key::Memory => self.memory = Some(Setting::new(parse_bytes_arg(text?)?, origin)),
            Key::Threads => self.threads = Some(Setting::new(parse_threads_arg(text?)?, origin)),
            Key::Jobs => self.jobs = Some(Setting::new(parse_jobs_arg(text?)?, origin)),
            Key::Gradients => {
                self.gradients = Some(Setting::new(parse_gradients_arg(text?)?, origin));
            }
            Key::Sandbox => self.sandbox = Some(Setting::new(parse_choice_arg(text?)?, origin)),
            Key::Color => self.color = Some(Setting::new(parse_choice_arg(text?)?, origin)),
            // Who looks for the compiler refuses one that is no text.
            Key::Cxx => self.cxx = Some(Setting::new(value.to_owned(), origin)),
            Key::CacheDir => self.cache_dir = Some(Setting::new(Path::new(value).into(), origin)),
            Key::CacheShared => {
                self.cache_shared = Some(Setting::new(Path::new(value).into(), origin));
            }
            Key::CacheSize => self.cache_size = Some(Setting::new(parse_bytes_arg(text?)?, origin)),
        }
        Ok(())
    }
}

/// The colours that variables of many programs ask for; `NO_COLOR` has the last word.
fn find_common_color(read: &dyn Fn(&'static str) -> Option<OsString>) -> Option<Setting<ColorArg>> {
    const NEVER: &str = "NO_COLOR";
    const ALWAYS: &str = "CLICOLOR_FORCE";
    if read(NEVER).is_some() {
        Some(Setting::new(ColorArg::Never, Origin::Variable(NEVER)))
    } else if read(ALWAYS).is_some_and(|value| value != "0") {
        Some(Setting::new(ColorArg::Always, Origin::Variable(ALWAYS)))
    } else {
        None
    }
}
