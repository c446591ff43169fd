//! The values of settings: parsed from words alike in options, variables and files, and written as they are parsed.

use std::num::NonZeroUsize;
use std::time::Duration;

use ::replay::process::walls::Sandbox;
use ::replay::trial::GradientEffort;
use clap::ValueEnum;

/// The degrees of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxArg {
    /// Behind all walls, or not at all where this system lacks one
    Strict,
    /// Behind the walls that this system has
    #[default]
    Default,
    /// Without walls
    Off,
}

impl From<SandboxArg> for Sandbox {
    fn from(mode: SandboxArg) -> Sandbox {
        match mode {
            SandboxArg::Strict | SandboxArg::Default => Sandbox::AsOffered,
            SandboxArg::Off => Sandbox::Off,
        }
    }
}

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On terminals that can, unless NO_COLOR is set
    #[default]
    Auto,
    /// Into files and pipes as well
    Always,
    /// Never
    Never,
}

impl ColorArg {
    /// Decides about colours for the rest of the process.
    pub fn settle(self) {
        match self {
            ColorArg::Auto => {}
            ColorArg::Always => anstream::ColorChoice::Always.write_global(),
            ColorArg::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

/// Where kernels run, as the user says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceArg {
    /// The reference machine.
    Cpu,
    /// The GPU with this number, or all of the first one's kind.
    Cuda(Option<usize>),
}

/// A device by its name.
pub fn parse_device_arg(text: &str) -> Result<DeviceArg, String> {
    let device = match text.split_once(':') {
        None if text == "cpu" => Some(DeviceArg::Cpu),
        None if text == "cuda" => Some(DeviceArg::Cuda(None)),
        Some(("cuda", number)) => number.parse().ok().map(|n| DeviceArg::Cuda(Some(n))),
        _ => None,
    };
    device.ok_or_else(|| "the devices are cpu, cuda and cuda:N".to_owned())
}

/// Seconds, as a number with or without a point.
pub fn parse_seconds_arg(text: &str) -> Result<Duration, String> {
    /// A year: even an endless limit has to be a number.
    const MOST: f64 = 31_536_000.0;
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match seconds {
        _ if seconds.is_nan() => Err("not a number of seconds".to_owned()),
        _ if seconds > MOST => Err(format!("more than a year; at most {MOST}")),
        _ if seconds <= 0.0 => Err("must be more than 0".to_owned()),
        _ => match Duration::from_secs_f64(seconds) {
            Duration::ZERO => Err("less than a nanosecond".to_owned()),
            duration => Ok(duration),
        },
    }
}

/// The effort of a check of gradients.
pub fn parse_gradients_arg(text: &str) -> Result<GradientEffort, String> {
    match text {
        "off" => Ok(GradientEffort::Off),
        "quick" => Ok(GradientEffort::Quick),
        "full" => Ok(GradientEffort::Full),
        seconds if seconds.parse::<f64>().is_ok() => {
            parse_seconds_arg(seconds).map(GradientEffort::Within)
        }
        _ => Err("it is off, quick, full or a number of seconds".to_owned()),
    }
}

/// Bytes with an optional K, M, G or T, of 1024 each.
pub fn parse_bytes_arg(text: &str) -> Result<u64, String> {
    /// The address space of x86-64 and AArch64.
    const MOST: u128 = 1 << 47;
    let bare_text = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (digits, shift) = match bare_text.char_indices().next_back() {
        Some((end, unit)) if unit.is_ascii_alphabetic() && !has_letters(&bare_text[..end]) => {
            let place = "KMGT".find(unit.to_ascii_uppercase()).ok_or("the units are K, M, G, T")?;
            (&bare_text[..end], 10 * (place as u32 + 1))
        }
        _ => (bare_text, 0),
    };
    let number: u64 = match digits.parse() {
        Ok(number) => number,
        Err(_) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            u64::MAX
        }
        Err(_) => return Err("not a whole number of bytes, such as 512M or 64G".to_owned()),
    };
    match u128::from(number) << shift {
        0 => Err("must be more than 0".to_owned()),
        bytes if bytes > MOST => Err("more than any machine has; at most 128T".to_owned()),
        bytes => Ok(bytes as u64),
    }
}

fn has_letters(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_alphabetic())
}

/// Cores for thread blocks.
pub fn parse_threads_arg(text: &str) -> Result<NonZeroUsize, String> {
    parse_number_arg(text, 1024)
}

/// The number of concurrent tests.
pub fn parse_jobs_arg(text: &str) -> Result<NonZeroUsize, String> {
    parse_number_arg(text, 256)
}

/// A whole number from 1 to `limit`.
fn parse_number_arg(text: &str, limit: usize) -> Result<NonZeroUsize, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number".to_owned());
    }
    let number = if text.starts_with('-') { 0 } else { digits.parse().unwrap_or(usize::MAX) };
    match NonZeroUsize::new(number) {
        None => Err("must be at least 1".to_owned()),
        Some(number) if number.get() > limit => Err(format!("at most {limit}")),
        Some(number) => Ok(number),
    }
}

/// The word of `value` in options, variables and files.
pub fn format_choice(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |word| word.get_name().to_owned())
}

/// The choice that `word` names.
pub fn parse_choice_arg<T: ValueEnum>(word: &str) -> Result<T, String> {
    T::from_str(word, false).map_err(|_| {
        let choices: Vec<String> = T::value_variants().iter().cloned().map(format_choice).collect();
        format!("it is one of {}", choices.join(", "))
    })
}

/// Devices, with commas between them.
pub fn parse_devices_arg(text: &str) -> Result<Vec<DeviceArg>, String> {
    text.split(',').map(parse_device_arg).collect()
}

/// The words of `devices`.
pub fn format_devices(devices: &[DeviceArg]) -> String {
    let words = devices.iter().map(|device| match device {
        DeviceArg::Cpu => "cpu".to_owned(),
        DeviceArg::Cuda(None) => "cuda".to_owned(),
        DeviceArg::Cuda(Some(number)) => format!("cuda:{number}"),
    });
    words.collect::<Vec<_>>().join(",")
}

/// `bytes` in the largest unit that leaves a whole number.
pub fn format_bytes(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T"];
    let steps = (bytes.trailing_zeros() / 10).min(units.len() as u32 - 1);
    format!("{}{}", bytes >> (10 * steps), units[steps as usize])
}

/// The number of seconds in `duration`.
pub fn format_seconds(duration: Duration) -> String {
    duration.as_secs_f64().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_units_of_1024() {
        assert_eq!(parse_bytes_arg("512"), Ok(512));
        assert_eq!(parse_bytes_arg("2K"), Ok(2048));
        assert_eq!(parse_bytes_arg("3MiB"), Ok(3 << 20));
        assert_eq!(parse_bytes_arg("8g"), Ok(8 << 30));
    }

    /// The error for each text.
    fn refused<T: std::fmt::Debug>(
        read: impl Fn(&str) -> Result<T, String>,
        texts: &[&str],
    ) -> String {
        let told = texts.iter().map(|text| format!("{text}: {}\n", read(text).unwrap_err()));
        told.collect::<String>()
    }

    #[test]
    fn numbers_are_refused_for_what_they_are() {
        let sizes =
            ["", "G", "1X", "-1", "1.5G", "1e99", "inf", "0", "0G", "129T", "99999999999999999999"];
        insta::assert_snapshot!(refused(parse_bytes_arg, &sizes), @"
        : not a whole number of bytes, such as 512M or 64G
        G: not a whole number of bytes, such as 512M or 64G
        1X: the units are K, M, G, T
        -1: not a whole number of bytes, such as 512M or 64G
        1.5G: not a whole number of bytes, such as 512M or 64G
        1e99: not a whole number of bytes, such as 512M or 64G
        inf: not a whole number of bytes, such as 512M or 64G
        0: must be more than 0
        0G: must be more than 0
        129T: more than any machine has; at most 128T
        99999999999999999999: more than any machine has; at most 128T
        ");
        let times = ["", "1m", "nan", "-nan", "inf", "1e10", "-inf", "-1", "-0", "0", "1e-12"];
        insta::assert_snapshot!(refused(parse_seconds_arg, &times), @"
        : not a number of seconds
        1m: not a number of seconds
        nan: not a number of seconds
        -nan: not a number of seconds
        inf: more than a year; at most 31536000
        1e10: more than a year; at most 31536000
        -inf: must be more than 0
        -1: must be more than 0
        -0: must be more than 0
        0: must be more than 0
        1e-12: less than a nanosecond
        ");
        let counts = ["", "-", "x", "1.5", "0", "-1", "-0", "65535", "99999999999999999999"];
        insta::assert_snapshot!(refused(parse_threads_arg, &counts), @"
        : not a whole number
        -: not a whole number
        x: not a whole number
        1.5: not a whole number
        0: must be at least 1
        -1: must be at least 1
        -0: must be at least 1
        65535: at most 1024
        99999999999999999999: at most 1024
        ");
        assert_eq!(parse_jobs_arg("256").map(NonZeroUsize::get), Ok(256));
    }

    #[test]
    fn the_effort_for_gradients_is_a_word_or_seconds() {
        let words = ["off", "quick", "full", "90", "0.5"];
        let told = words.map(|word| parse_gradients_arg(word).map(|effort| effort.to_string()));
        assert_eq!(told, words.map(|word| Ok(word.to_owned())));
        insta::assert_snapshot!(refused(parse_gradients_arg, &["", "some", "0", "-1"]), @"
        : it is off, quick, full or a number of seconds
        some: it is off, quick, full or a number of seconds
        0: must be more than 0
        -1: must be more than 0
        ");
    }

    #[test]
    fn a_device_is_the_cpu_or_a_gpu_with_a_number() {
        assert_eq!(parse_device_arg("cpu"), Ok(DeviceArg::Cpu));
        assert_eq!(parse_device_arg("cuda"), Ok(DeviceArg::Cuda(None)));
        assert_eq!(parse_device_arg("cuda:3"), Ok(DeviceArg::Cuda(Some(3))));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cpu:0", "cuda:-1"] {
            assert!(parse_device_arg(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_timeout_is_a_number_of_seconds() {
        assert_eq!(parse_seconds_arg("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds_arg("1e-9"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn a_written_value_is_parsed_to_itself() {
        for text in ["512", "3K", "1025M", "64G", "128T"] {
            assert_eq!(parse_bytes_arg(text).map(format_bytes), Ok(text.to_owned()));
        }
        for text in ["0.5", "60", "31536000"] {
            assert_eq!(parse_seconds_arg(text).map(format_seconds), Ok(text.to_owned()));
        }
        for text in ["cpu", "cuda", "cpu,cuda:3"] {
            let devices = parse_devices_arg(text);
            assert_eq!(devices.map(|devices| format_devices(&devices)), Ok(text.to_owned()));
        }
        for text in ["strict", "default", "off"] {
            assert_eq!(
                parse_choice_arg::<SandboxArg>(text).map(format_choice),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn a_choice_outside_of_the_known_ones_is_refused_with_them() {
        let refused = parse_choice_arg::<SandboxArg>("none");
        assert_eq!(refused, Err("it is one of strict, default, off".to_owned()));
        let refused = parse_choice_arg::<ColorArg>("Always");
        assert_eq!(refused, Err("it is one of auto, always, never".to_owned()));
    }
}
