//! Where a loaded artifact lies in memory.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The search for one artifact, and its result.
struct ImageSearch<'p> {
    path: &'p Path,
    base: Option<usize>,
    writable: Vec<(usize, usize)>,
}

/// The difference between the addresses in memory and those in the file of the artifact at `path`.
pub(super) fn find_load_bias(path: &Path) -> Option<usize> {
    search_image(path).base
}

/// The variables of the artifact at `path`: begin and end of each piece of memory.
pub(super) fn find_writable_segments(path: &Path) -> Vec<(usize, usize)> {
    search_image(path).writable
}

fn search_image(path: &Path) -> ImageSearch<'_> {
    let mut search = ImageSearch { path, base: None, writable: Vec::new() };
    // SAFETY: the callback gets the search back, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut search).cast()) };
    search
}

unsafe extern "C" fn visit_object(
    info: *mut libc::dl_phdr_info,
    _: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of one object, and the search of the caller.
    unsafe {
        let info = &*info;
        let search = &mut *data.cast::<ImageSearch>();
        let name = CStr::from_ptr(info.dlpi_name);
        if OsStr::from_bytes(name.to_bytes()) != search.path.as_os_str() {
            return 0;
        }
        search.base = Some(info.dlpi_addr as usize);
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let writable = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0);
        search.writable = writable
            .map(|header| {
                let segment_begin = info.dlpi_addr as usize + header.p_vaddr as usize;
                (segment_begin, segment_begin + header.p_memsz as usize)
            })
            .collect();
    }
    1
}
