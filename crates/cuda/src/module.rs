//! A compiled module in the form of the cache, and the search for the kernel of a launch in it.
//!
//! Host code knows a kernel by the name in its source or by its symbol, the module by its symbol
//! alone. If neither is enough (a template without an instance), NVRTC must be
//! asked for it by expression. Pure: no driver, no files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kernel for filling shared memory, in every module.
pub const FILL_SOURCE: &str = include_str!("fill_shared.cu");
/// The kernels for measuring deviations, in every module of native sources.
pub const DEVIATIONS_SOURCE: &str = include_str!("deviations.cu");
/// The kernels for widening inputs, in every module of a shadow.
pub const WIDEN_SOURCE: &str = include_str!("widen.cu");
/// The name of the kernel for filling shared memory.
pub const FILL_KERNEL: &str = "replay_fill_shared";

/// Machine code, and the symbols of the requested expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// By expression: its symbol in the code.
    pub names: BTreeMap<String, String>,
    pub code: Vec<u8>,
    /// Its PTX, for other rounding; empty if not needed.
    pub ptx: String,
}

#[derive(Serialize, Deserialize)]
struct ModuleHeader {
    names: BTreeMap<String, String>,
    code_bytes: usize,
    #[serde(default)]
    ptx_bytes: usize,
}

impl Module {
    /// One line of JSON, then the code, then its text.
    pub fn encode(&self) -> Vec<u8> {
        let code_bytes = self.code.len();
        let ptx_bytes = self.ptx.len();
        let header = ModuleHeader { names: self.names.clone(), code_bytes, ptx_bytes };
        let mut bytes = serde_json::to_vec(&header).expect("names are plain data");
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.code);
        bytes.extend_from_slice(self.ptx.as_bytes());
        bytes
    }

    /// Reads the bytes from `Module::encode`; bytes behind them are left alone.
    pub fn decode(bytes: &[u8]) -> Option<Module> {
        let line = bytes.iter().position(|&byte| byte == b'\n')?;
        let header: ModuleHeader = serde_json::from_slice(&bytes[..line]).ok()?;
        let (code, following_bytes) = bytes[line + 1..].split_at_checked(header.code_bytes)?;
        let ptx = String::from_utf8(following_bytes.get(..header.ptx_bytes)?.to_vec()).ok()?;
        Some(Module { names: header.names, code: code.to_vec(), ptx })
    }

    /// The symbols of all kernels: each has a section `.text.SYMBOL` in the code.
    pub fn kernels(&self) -> Vec<&str> {
        const SECTION: &[u8] = b"\0.text.";
        let starts = self.code.windows(SECTION.len()).enumerate();
        let starts = starts.filter(|(_, window)| *window == SECTION);
        let mut kernel_names: Vec<&str> = starts
            .filter_map(|(section_begin, _)| {
                let name_bytes = &self.code[section_begin + SECTION.len()..];
                let end = name_bytes.iter().position(|&byte| byte == 0)?;
                std::str::from_utf8(&name_bytes[..end]).ok().filter(|name| !name.is_empty())
            })
            .collect();
        kernel_names.sort_unstable();
        kernel_names.dedup();
        kernel_names
    }

    /// The symbol of the kernel launched as `name` by host code, with the symbol `host` of its host function if it is
    /// known. None if the module does not tell.
    pub fn kernel(&self, name: &str, host: Option<&str>) -> Option<String> {
        if let Some(symbol) = self.names.get(name) {
            return Some(symbol.clone());
        }
        let kernels = self.kernels();
        if let Some(host) = host.filter(|host| kernels.contains(host)) {
            return Some(host.to_owned());
        }
        let wanted_parts: Vec<&str> = name.split("::").filter(|part| !part.is_empty()).collect();
        let mut fitting =
            kernels.iter().filter(|symbol| plain_name(symbol).ends_with(&wanted_parts));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) if !wanted_parts.is_empty() => Some((*only).to_owned()),
            _ => None,
        }
    }
}

/// `ns`, `kernel` of `_ZN2ns6kernelEPf` (Itanium C++ ABI, "Name Encoding"); nothing for an
/// instance of a template. An unmangled symbol is its own name.
fn plain_name(symbol: &str) -> Vec<&str> {
    let Some(mangled) = symbol.strip_prefix("_Z") else { return vec![symbol] };
    let (mut remaining_name, nested) = match mangled.strip_prefix('N') {
        Some(nested_name) => (nested_name, true),
        None => (mangled, false),
    };
    let mut parts = Vec::new();
    loop {
        remaining_name = remaining_name.strip_prefix('L').unwrap_or(remaining_name);
        let digits = remaining_name.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(len) = remaining_name[..digits].parse::<usize>() else { break };
        let Some(part) = remaining_name.get(digits..digits + len) else { break };
        parts.push(part);
        remaining_name = &remaining_name[digits + len..];
        if !nested {
            break;
        }
    }
    if remaining_name.starts_with('I') { Vec::new() } else { parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(symbols: &[&str]) -> Module {
        let sections = symbols.iter().map(|symbol| format!("\0.nv.info.{symbol}\0.text.{symbol}"));
        let code = format!("\x7fELF{}\0", sections.collect::<String>()).into_bytes();
        Module { names: BTreeMap::new(), code, ptx: ".version 9.0".to_owned() }
    }

    #[test]
    fn a_module_is_read_as_it_was_written_whatever_follows() {
        let mut module = module(&["f"]);
        module.names.insert("g<2>".into(), "_Z1gILi2EEvv".into());
        let mut bytes = module.encode();
        bytes.extend_from_slice(b"\ntrailer");
        assert_eq!(Module::decode(&bytes), Some(module));
        assert_eq!(Module::decode(&bytes[..20]), None);
        assert_eq!(Module::decode(&bytes[..bytes.len() - 12]), None);
        assert_eq!(Module::decode(b"no module"), None);
    }

    #[test]
    fn kernels_are_found_by_their_names_in_the_source() {
        let module = module(&["_Z4lossPf", "_ZN2ns4gradEPf", "_ZL6staticPf", "plain"]);
        let find = |name| module.kernel(name, None);
        assert_eq!(find("loss").as_deref(), Some("_Z4lossPf"));
        assert_eq!(find("::loss").as_deref(), Some("_Z4lossPf"));
        assert_eq!(find("ns::grad").as_deref(), Some("_ZN2ns4gradEPf"));
        assert_eq!(find("grad").as_deref(), Some("_ZN2ns4gradEPf"));
        assert_eq!(find("static").as_deref(), Some("_ZL6staticPf"));
        assert_eq!(find("plain").as_deref(), Some("plain"));
        assert_eq!(find("other::grad"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn overloads_are_told_apart_by_the_symbol_of_the_host_function() {
        let module = module(&["_Z1fPf", "_Z1fPd"]);
        assert_eq!(module.kernel("f", None), None);
        assert_eq!(module.kernel("f", Some("_Z1fPd")).as_deref(), Some("_Z1fPd"));
    }

    #[test]
    fn an_instance_of_a_template_is_found_by_its_expression_alone() {
        let mut module = module(&["_Z1fILi256EEvPf"]);
        assert_eq!(module.kernel("f", None), None);
        assert_eq!(module.kernel("f<256>", None), None);
        module.names.insert("f<256>".into(), "_Z1fILi256EEvPf".into());
        assert_eq!(module.kernel("f<256>", None).as_deref(), Some("_Z1fILi256EEvPf"));
    }
}
