//! The symbols of functions of an artifact, by their addresses: of a static one, too.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;

use addr2line::Loader;

use super::renamed::restore_symbol;

/// The object in which an address lies, and the nearest symbol before it that the loader knows.
struct LoadedPlace {
    path: PathBuf,
    base: usize,
    symbol: Option<String>,
}

/// The symbol of the function at `address` that the loader knows: one of an external function.
pub(crate) fn external_symbol_at(address: *const c_void) -> Option<String> {
    locate(address)?.symbol
}

fn locate(address: *const c_void) -> Option<LoadedPlace> {
    // SAFETY: dladdr fills in the structure, with strings of the loader's, or returns 0.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if address.is_null() || libc::dladdr(address, &raw mut info) == 0 {
            return None;
        }
        // An address without a symbol of its own: the nearest one before it is somebody else's.
        let is_its_own = !info.dli_sname.is_null() && info.dli_saddr.cast_const() == address;
        Some(LoadedPlace {
            path: PathBuf::from(CStr::from_ptr(info.dli_fname).to_string_lossy().as_ref()),
            base: info.dli_fbase as usize,
            symbol: is_its_own.then(|| {
                restore_symbol(&CStr::from_ptr(info.dli_sname).to_string_lossy()).to_owned()
            }),
        })
    }
}

fn find_symbol(address: *const c_void) -> Option<CString> {
    let place = locate(address)?;
    if let Some(symbol) = place.symbol {
        return CString::new(symbol).ok();
    }
    let tables = Loader::new(&place.path).ok()?;
    let in_file = (address as usize).checked_sub(place.base)? as u64;
    let symbol = tables.find_symbol_info(in_file).filter(|symbol| symbol.address() == in_file)?;
    CString::new(restore_symbol(symbol.name())).ok()
}

/// The symbol of the function at `address`, null if it has none. It stays valid: code asks once for each function.
pub(crate) extern "C" fn name_function(address: *const c_void) -> *const c_char {
    find_symbol(address).map_or(std::ptr::null(), |symbol| symbol.into_raw().cast_const())
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn known_to_its_file_alone(_: *const c_void) {}

    #[test]
    fn a_static_function_has_the_symbol_of_its_file_and_other_memory_has_none() {
        let function = known_to_its_file_alone as *const c_void;
        assert_eq!(external_symbol_at(function), None);
        let symbol = find_symbol(function).unwrap().into_string().unwrap();
        assert!(symbol.contains("known_to_its_file_alone"), "{symbol}");
        assert_eq!(find_symbol(function.wrapping_byte_add(1)), None);
        assert_eq!(find_symbol((&raw const symbol).cast()), None);
        assert_eq!(name_function(std::ptr::null()), std::ptr::null());
    }
}
