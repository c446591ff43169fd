//! The instances of kernel templates in host code, by the symbols of its artifact.
//!
//! Each launch in host code mentions the type `replay_rt::instance<&kernel<...>>`; the name of that type is a symbol of the
//! artifact. NVRTC can then compile all instances in one run, before any of them is launched.

use std::collections::BTreeSet;
use std::path::Path;

use cpp_demangle::Symbol;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};

/// More instances are compiled as they are launched: most of them are never.
const MOST: usize = 64;

/// The prefix of the symbols with the names of instances (Itanium C++ ABI, "Virtual Tables and RTTI").
const INSTANCE: &str = "_ZTSN9replay_rt8instanceI";

/// The instances of templates that the artifact at `path` may launch; none if there are too many.
pub(super) fn find_instances(path: &Path) -> BTreeSet<String> {
    let Ok(bytes) = std::fs::read(path) else { return BTreeSet::new() };
    let Ok(artifact) = ElfFile64::<object::Endianness>::parse(&*bytes) else {
        return BTreeSet::new();
    };
    let names = artifact.dynamic_symbols().filter_map(|symbol| symbol.name().ok());
    let instances: BTreeSet<String> =
        names.filter(|name| name.starts_with(INSTANCE)).filter_map(name_instance).collect();
    if instances.len() > MOST { BTreeSet::new() } else { instances }
}

/// `ns::f<256, float>` of the symbol with the name of `replay_rt::instance<&void ns::f<256, float>(float*)>`; none for a
/// kernel other than a template, and for one that device code cannot name.
fn name_instance(symbol: &str) -> Option<String> {
    let spelled = Symbol::new(symbol).ok()?.demangle().ok()?;
    let (_, kernel) = spelled.split_once("<&void ")?;
    let name = without_parameters(kernel.strip_suffix('>')?)?;
    // Lambdas, functions as arguments, and what one file keeps to itself.
    let has_name = !["{", "&", "(anonymous namespace)"].iter().any(|part| name.contains(part));
    (name.ends_with('>') && has_name).then(|| spell_as_launched(name))
}

/// `function` without its parameters, which may hold parentheses of their own.
fn without_parameters(function: &str) -> Option<&str> {
    let mut depth = 0;
    for (position, character) in function.char_indices().rev() {
        match character {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&function[..position]);
        }
    }
    None
}

/// `name` as a launch gives it: numbers of these types without a cast, and no spaces between closing brackets or before `*`.
fn spell_as_launched(name: &str) -> String {
    const NUMBERS: [&str; 5] =
        ["(unsigned int)", "(long)", "(unsigned long)", "(long long)", "(unsigned long long)"];
    let mut spelled =
        NUMBERS.iter().fold(name.replace(" *", "*"), |name, cast| name.replace(cast, ""));
    while spelled.contains("> >") {
        spelled = spelled.replace("> >", ">>");
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_as_its_launch_names_it() {
        let name = |kernel: &str| name_instance(&format!("{INSTANCE}XadL_Z{kernel}EEE"));
        assert_eq!(name("N2ns1fILi256EfEEvPT0_E").as_deref(), Some("ns::f<256, float>"));
        assert_eq!(name("1gILj4ELb1EEvPKfE").as_deref(), Some("g<4, true>"));
        assert_eq!(name("1lILln5EEvvE").as_deref(), Some("l<-5>"));
        assert_eq!(name("1hIL4Kind1EEviE").as_deref(), Some("h<(Kind)1>"));
        assert_eq!(
            name("1kIN2ns1VI4halfEEPKfEvPKT_T0_PFviEE").as_deref(),
            Some("k<ns::V<half>, float const*>")
        );
        assert_eq!(name("5pairsI4PairIS2_IfEEEvPT_E").as_deref(), Some("pairs<Pair<Pair<float>>>"));
        assert_eq!(name("3actPKfPfiE"), None, "no template");
        assert_eq!(name("N12_GLOBAL__N_11fIfEEvPT_E"), None, "no name outside of its file");
        assert_eq!(name("6hookedIiXadL_Z4hookPiEEEvPT_E"), None, "a function is its argument");
        assert_eq!(name_instance(INSTANCE), None);
    }
}
