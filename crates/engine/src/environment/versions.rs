//! The versions of a package, as pip knows them.

use std::cmp::Ordering;

use super::error::tail_of;
use super::installer::Installer;
use super::{EnvironmentError, Python, Workshop};

/// What stands before the list in pip's answer.
const LIST: &str = "Available versions:";

/// The versions of `package` from `ends[0]` to `ends[1]`, the oldest first.
pub(super) fn list_versions(
    workshop: &Workshop<'_>,
    python: &Python,
    package: &str,
    ends: [&String; 2],
) -> Result<Vec<String>, EnvironmentError> {
    select_between(package, &list_known_versions(workshop, python, package, None)?, ends)
}

/// All versions of `package`, the newest first; those of `index`, or of the user's own.
pub(super) fn list_known_versions(
    workshop: &Workshop<'_>,
    python: &Python,
    package: &str,
    index: Option<&str>,
) -> Result<Vec<String>, EnvironmentError> {
    (workshop.tell)(&format!("asking pip for the versions of {package}"));
    let installer = Installer::find(&workshop.shell, python);
    if installer != Installer::Pip {
        let package = package.to_owned();
        return Err(EnvironmentError::NoListing { package, python: python.name() });
    }
    let options = index.map_or(Vec::new(), |url| installer.index_options(url));
    let arguments = [vec!["versions".to_owned(), package.to_owned()], options].concat();
    let finished = installer.run(&workshop.shell, python, "index", &arguments)?;
    let printed = String::from_utf8_lossy(&finished.stdout).into_owned();
    let known = parse_versions(&printed);
    if known.is_empty() {
        let package = package.to_owned();
        return Err(EnvironmentError::NoVersions { package, tail: tail_of(&finished) });
    }
    Ok(known)
}

/// Those of `known`, versions of `package` with the newest first, from `ends[0]` to `ends[1]`; the oldest first.
pub(super) fn select_between(
    package: &str,
    known: &[String],
    ends: [&String; 2],
) -> Result<Vec<String>, EnvironmentError> {
    let [first, last] = ends;
    let chosen = list_between(known, first, last);
    if chosen.is_empty() {
        let [newest, oldest] =
            [known.first(), known.last()].map(|end| end.map_or("none", String::as_str));
        return Err(EnvironmentError::EmptyRange {
            package: package.to_owned(),
            first: first.clone(),
            last: last.clone(),
            known: format!("{oldest} to {newest}"),
        });
    }
    Ok(chosen)
}

/// The versions in pip's answer, the newest first, as pip sorts them.
fn parse_versions(printed: &str) -> Vec<String> {
    let list = printed.lines().find_map(|line| line.trim().strip_prefix(LIST));
    let versions = list.unwrap_or_default().split(',').map(str::trim);
    versions.filter(|version| !version.is_empty()).map(str::to_owned).collect()
}

/// Those of `known`, the newest first, from `first` to `last` with all that begins like it; the oldest first.
fn list_between(known: &[String], first: &str, last: &str) -> Vec<String> {
    let is_between = |version: &&String| {
        compare_releases(version, first) != Ordering::Less
            && (begins_like(version, last) || compare_releases(version, last) != Ordering::Greater)
    };
    known.iter().rev().filter(is_between).cloned().collect()
}

/// Whether `version` is `prefix`, or a release of it: 3.6.1 of 3.6.
pub fn begins_like(version: &str, prefix: &str) -> bool {
    let rest = version.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']))
}

/// Compares the numbers of two releases; missing ones are 0.
fn compare_releases(one: &str, other: &str) -> Ordering {
    let mut numbers = [one, other].map(|version| release_numbers(version).into_iter());
    loop {
        match numbers.each_mut().map(Iterator::next) {
            [None, None] => return Ordering::Equal,
            [one, other] => match one.unwrap_or(0).cmp(&other.unwrap_or(0)) {
                Ordering::Equal => {}
                order => return order,
            },
        }
    }
}

/// The numbers of a release, without what is behind them.
fn release_numbers(version: &str) -> Vec<u64> {
    let release: &str = version.split(['+', '-']).next().unwrap_or_default();
    let parts = release.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().ok()
    });
    parts.map_while(|number| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_takes_all_releases_of_its_ends_and_nothing_beside() {
        let answer = "triton (3.7.0)\nAvailable versions: 3.7.0, 3.6.1, 3.6.0, 3.10.0, 3.5.1, 3.2.0.post1, 3.2.0, 3.1\n";
        let known = parse_versions(answer);
        assert_eq!(known.len(), 8);
        assert_eq!(
            list_between(&known, "3.2", "3.6"),
            ["3.2.0", "3.2.0.post1", "3.5.1", "3.6.0", "3.6.1"]
        );
        assert_eq!(list_between(&known, "3.6.1", "3.7"), ["3.6.1", "3.7.0"]);
        assert_eq!(list_between(&known, "4", "5"), [""; 0]);
        assert_eq!(parse_versions("WARNING: pip index is experimental\n"), [""; 0]);
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert_eq!(compare_releases("3.10", "3.9.1"), Ordering::Greater);
        assert_eq!(compare_releases("3", "3.0.0"), Ordering::Equal);
        assert_eq!(compare_releases("2.0rc1", "2.0"), Ordering::Equal);
        assert!(begins_like("3.6.1", "3.6") && begins_like("3.6", "3.6"));
        assert!(!begins_like("3.60", "3.6"));
    }
}
