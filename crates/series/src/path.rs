//! The names of parameters as a tree: `layers.3.attn.q` lies in `layers.3.attn`, in `layers.3`, in
//! `layers`.

/// The parts of a parameter's name, between dots. A name without dots is split at numbers between underscores:
/// `layers_3_attn_q` has the parts `layers`, `3` and `attn_q`.
pub(super) fn split_parameter_name(name: &str) -> Vec<String> {
    if name.contains('.') {
        return name.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    }
    let mut parts: Vec<String> = Vec::new();
    let mut after_number = true;
    for word in name.split('_') {
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        match parts.last_mut() {
            Some(last) if !after_number && !is_number => {
                last.push('_');
                last.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
        after_number = is_number;
    }
    parts
}

/// The name of a parameter with dots between its parts.
pub(super) fn to_parameter_path(name: &str) -> String {
    split_parameter_name(name).join(".")
}

/// The layer of a parameter: the path up to the first number, and this number.
pub(super) fn parse_layer(path: &str) -> Option<(String, u64)> {
    let parts: Vec<&str> = path.split('.').collect();
    let layer_index = parts.iter().position(|part| part.parse::<u64>().is_ok())?;
    Some((parts[..layer_index].join("."), parts[layer_index].parse().ok()?))
}

/// The groups of at least two of `paths`: prefixes, and the empty path for all. A group with the same paths as a smaller
/// one is left out. Sorted as a tree, in the order of `paths`.
pub fn group_paths(paths: &[&str]) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for path in paths {
        let parts: Vec<&str> = path.split('.').collect();
        for length in 0..parts.len() {
            let group = parts[..length].join(".");
            let members: Vec<&&str> =
                paths.iter().filter(|other_path| is_in_group(other_path, &group)).collect();
            let next = parts[..length + 1].join(".");
            let is_whole = members.iter().all(|member| is_in_group(member, &next));
            if members.len() > 1 && !is_whole && !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    groups
}

/// Whether `path` is in `group`, or is it.
pub fn is_in_group(path: &str, group: &str) -> bool {
    group.is_empty()
        || path == group
        || path.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_or_numbers_are_paths() {
        for (name, path) in [
            ("layers.3.attn.q", "layers.3.attn.q"),
            ("layers_3_attn_q", "layers.3.attn_q"),
            ("token_embedding", "token_embedding"),
            ("h_0_1_w", "h.0.1.w"),
            ("w2", "w2"),
            ("x_", "x_"),
        ] {
            assert_eq!(to_parameter_path(name), path, "{name}");
        }
    }

    #[test]
    fn a_layer_is_the_first_number_of_a_path() {
        assert_eq!(parse_layer("layers.3.attn.0.q"), Some(("layers".to_owned(), 3)));
        assert_eq!(parse_layer("head"), None);
    }

    #[test]
    fn groups_are_those_that_bring_several_together() {
        let paths = ["embed", "layers.0.q", "layers.0.k", "layers.1.q", "layers.10.q", "head"];
        assert_eq!(group_paths(&paths), ["", "layers", "layers.0"]);
        assert_eq!(group_paths(&["head.w"]), [""; 0]);
        assert_eq!(group_paths(&["net.a", "net.b"]), ["net"]);
    }
}
