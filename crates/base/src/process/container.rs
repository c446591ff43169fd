//! The memory left to this process by the containers around it: the limits of its control groups, of every one
//! between it and the root, in both versions of Linux's interface.

use std::fs;
use std::path::{Path, PathBuf};

/// A hierarchy of control groups with a limit of memory.
struct Hierarchy {
    /// Where it is mounted.
    mount: PathBuf,
    /// The group of this process.
    group: PathBuf,
    most: &'static str,
    used: &'static str,
}

/// The bytes left to this process below the limits of its groups; none if there is no limit.
pub(super) fn free_container_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    parse_hierarchies(&groups, &mounts).iter().filter_map(Hierarchy::free_memory).min()
}

/// The hierarchies of memory in the texts of `/proc/self/cgroup` and `/proc/self/mountinfo` (cgroups(7), proc(5)).
fn parse_hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    mounts.lines().filter_map(|line| parse_hierarchy(groups, line)).collect()
}

fn parse_hierarchy(groups: &str, mount: &str) -> Option<Hierarchy> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let root = place.next()?;
    let mount = place.next()?;
    let mut kind = kind.split(' ');
    let is_first = match kind.next()? {
        "cgroup" => kind.nth(1)?.split(',').any(|option| option == "memory"),
        "cgroup2" => false,
        _ => return None,
    };
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        let is_memory_group = if is_first {
            controllers.split(',').any(|name| name == "memory")
        } else {
            controllers.is_empty()
        };
        is_memory_group.then_some(path)
    })?;
    // A container sees its own group as the root of the mount.
    let path_below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let is_inside =
        path_below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let mount = PathBuf::from(mount);
    let group = if is_inside { mount.join(path_below) } else { mount.clone() };
    let (most, used) = if is_first {
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
    } else {
        ("memory.max", "memory.current")
    };
    Some(Hierarchy { mount, group, most, used })
}

impl Hierarchy {
    fn free_memory(&self) -> Option<u64> {
        let groups = self.group.ancestors().take_while(|group| group.starts_with(&self.mount));
        groups.filter_map(|group| self.left_in(group)).min()
    }

    fn left_in(&self, group: &Path) -> Option<u64> {
        let most_bytes = read_number(&group.join(self.most))?;
        let used = read_number(&group.join(self.used))?;
        // The used memory includes pages of files. The system takes them back if need be.
        let files = cached_files(group).unwrap_or_default();
        Some(most_bytes.saturating_sub(used.saturating_sub(files)))
    }
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The bytes of files in memory for `group` and those below it.
fn cached_files(group: &Path) -> Option<u64> {
    let text = fs::read_to_string(group.join("memory.stat")).ok()?;
    Some(read_statistic(&text, "inactive_file")? + read_statistic(&text, "active_file")?)
}

/// The number called `name` in the text of a `memory.stat`, with the groups below where the system tells it.
fn read_statistic(text: &str, name: &str) -> Option<u64> {
    let prefixes = [format!("total_{name} "), format!("{name} ")];
    prefixes.iter().find_map(|prefix| {
        text.lines().find_map(|line| line.strip_prefix(prefix)?.trim().parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups below a folder, with limit, use and cached files of each.
    fn made(names: [&str; 2], groups: &[(&str, &str, u64, u64)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (group, most, used, cached) in groups {
            let home = folder.path().join(group);
            fs::create_dir_all(&home).unwrap();
            fs::write(home.join(names[0]), format!("{most}\n")).unwrap();
            fs::write(home.join(names[1]), format!("{used}\n")).unwrap();
            let stat = format!("anon 1\ninactive_file {cached}\nactive_file 0\n");
            fs::write(home.join("memory.stat"), stat).unwrap();
        }
        folder
    }

    fn left(groups: &str, mounts: &str) -> Option<u64> {
        parse_hierarchies(groups, mounts).iter().filter_map(Hierarchy::free_memory).min()
    }

    #[test]
    fn the_limit_of_every_group_around_a_process_counts() {
        let names = ["memory.max", "memory.current"];
        let groups = [("a", "500", 300, 50), ("a/b", "max", 100, 0), ("a/b/c", "400", 10, 0)];
        let folder = made(names, &groups);
        let at = folder.path().display();
        let mounts = format!("31 24 0:27 / {at} rw,nosuid - cgroup2 cgroup2 rw\n");
        assert_eq!(left("0::/a/b/c\n", &mounts), Some(250));
        assert_eq!(left("0::/\n", &mounts), None);
        // A container sees its own group alone, or its path from outside.
        let inside = format!("31 24 0:27 /a/b {at}/a/b rw - cgroup2 cgroup2 rw\n");
        assert_eq!(left("0::/a/b/c\n", &inside), Some(390));
        assert_eq!(left("0::/../x\n", &mounts), None);
    }

    #[test]
    fn groups_of_the_first_version_count_too() {
        let names = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
        let folder = made(names, &[("", "9223372036854771712", 0, 0), ("job", "400", 150, 0)]);
        let at = folder.path().display();
        let mounts = format!(
            "40 32 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             41 32 0:34 / {at} rw shared:9 - cgroup cgroup rw,memory\n"
        );
        assert_eq!(left("9:cpu:/other\n4:memory:/job\n0::/\n", &mounts), Some(250));
    }
}
