//! Versions by their day: `2.10.0.dev20251101` is of 2025-11-01.

use super::versions::list_known_versions;
use super::{EnvironmentError, Python, Workshop};
use replay_base::cache::CacheKind;

/// What stands in a version before its day.
const DEV: &str = ".dev";
/// The digits of a day.
const DAY: usize = "20251101".len();

/// The package of an axis, and the index that has a version of each day.
#[derive(Clone, Copy)]
pub(super) struct Nightly<'n> {
    pub package: &'n str,
    pub index: &'n str,
}

impl Nightly<'_> {
    /// The days from `ends[0]` to `ends[1]` that have a version, the oldest first.
    pub(super) fn list_days(
        &self,
        workshop: &Workshop<'_>,
        python: &Python,
        ends: [&String; 2],
    ) -> Result<Vec<String>, EnvironmentError> {
        let known = list_known_versions(workshop, python, self.package, Some(self.index))?;
        let [first, last] = ends;
        let all_days = list_days_of(&known);
        let is_between = |day: &&String| first <= *day && *day <= last;
        let days: Vec<String> = all_days.iter().filter(is_between).cloned().collect();
        if days.is_empty() {
            return Err(EnvironmentError::EmptyRange {
                package: self.package.to_owned(),
                first: first.clone(),
                last: last.clone(),
                known: describe_days(&all_days),
            });
        }
        Ok(days)
    }

    /// The newest version of `day`; remembered, so that it needs no index the next time.
    pub(super) fn find_version(
        &self,
        workshop: &Workshop<'_>,
        python: &Python,
        day: &str,
    ) -> Result<String, EnvironmentError> {
        let mut hasher = blake3::Hasher::new_derive_key("replay version of a day 1");
        let asked = (&python.description, self.package, self.index, day);
        hasher.update(format!("{asked:?}").as_bytes());
        let key = hasher.finalize().to_hex()[..40].to_owned();
        let remembered = workshop.cache.read(CacheKind::Fact, &key);
        if let Some(version) = remembered.and_then(|bytes| String::from_utf8(bytes).ok()) {
            return Ok(version);
        }
        let known = list_known_versions(workshop, python, self.package, Some(self.index))?;
        let Some(version) = known.iter().find(|version| day_of(version).as_deref() == Some(day))
        else {
            return Err(EnvironmentError::NoNightly {
                package: self.package.to_owned(),
                day: day.to_owned(),
                known: describe_days(&list_days_of(&known)),
            });
        };
        workshop.cache.write(CacheKind::Fact, &key, version.as_bytes())?;
        Ok(version.clone())
    }
}

/// The day in `version`, as `2025-11-01`.
fn day_of(version: &str) -> Option<String> {
    let (_, number) = version.split_once(DEV)?;
    let day = number.get(..DAY).filter(|day| day.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..]))
}

/// The days of `versions`, the oldest first.
fn list_days_of(versions: &[String]) -> Vec<String> {
    let mut days: Vec<String> = versions.iter().filter_map(|version| day_of(version)).collect();
    days.sort();
    days.dedup();
    days
}

/// The first and the last of `days`.
fn describe_days(days: &[String]) -> String {
    match days {
        [] => "no version with a day".to_owned(),
        [day] => day.clone(),
        [first, .., last] => format!("{first} to {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_tells_its_day() {
        assert_eq!(day_of("2.10.0.dev20251101+cu128").as_deref(), Some("2025-11-01"));
        assert_eq!(day_of("0.8.1.dev202511010915").as_deref(), Some("2025-11-01"));
        for without in ["2.10.0", "2.10.0.dev7", "2.10.0.devé0251101"] {
            assert_eq!(day_of(without), None, "{without}");
        }
        let versions = ["2.1.dev20251103", "2.1.dev20251101", "2.0", "2.0.dev20251101"];
        let days = list_days_of(&versions.map(str::to_owned));
        assert_eq!(days, ["2025-11-01", "2025-11-03"]);
        assert_eq!(describe_days(&days), "2025-11-01 to 2025-11-03");
        assert_eq!(describe_days(&[]), "no version with a day");
    }
}
