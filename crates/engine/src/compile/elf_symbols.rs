//! The object files of an artifact. What the compiler gives to several of them is one thing for the linker; here each
//! keeps its own functions, as nvcc's translation units keep their device functions.

use std::collections::HashSet;
use std::mem::offset_of;

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym};
use replay_runtime::renamed::symbol_suffix;

type Header = FileHeader64<LittleEndian>;

/// Gives names of their own to the functions and shared arrays of `objects` that an earlier one defines, too. Variables
/// with vague linkage stay one.
///
/// # Errors
/// [`object::Error`] if one of them is no ELF file of 64 bits in little-endian order.
pub(super) fn keep_functions_apart(objects: &mut [Vec<u8>]) -> Result<(), object::Error> {
    let mut known = KnownNames::default();
    for (number, object) in objects.iter_mut().enumerate() {
        let renamed = known.add_object(object)?;
        rename_symbols(object, &renamed, &symbol_suffix(number))?;
    }
    Ok(())
}

/// The names of the objects so far.
#[derive(Default)]
struct KnownNames {
    /// Of definitions with external linkage.
    symbols: HashSet<Vec<u8>>,
    /// Those of them that give way to another definition, as their code says.
    weak: HashSet<Vec<u8>>,
    /// Of groups of sections, of which the linker keeps the first under each name.
    groups: HashSet<Vec<u8>>,
}

impl KnownNames {
    /// Adds the names of `bytes`. Returns the numbers of its symbols with a known name that are to get another one.
    fn add_object(&mut self, bytes: &[u8]) -> Result<Vec<usize>, object::Error> {
        let header = Header::parse(bytes)?;
        let sections = header.sections(LittleEndian, bytes)?;
        let symbols = sections.symbols(LittleEndian, bytes, elf::SHT_SYMTAB)?;
        let mut renamed = Vec::new();
        let grouped_sections = list_grouped_sections(bytes, &sections)?;
        for (index, symbol) in symbols.enumerate() {
            if symbol.st_bind() == elf::STB_LOCAL || symbol.is_undefined(LittleEndian) {
                continue;
            }
            let name = symbol.name(LittleEndian, symbols.strings())?;
            let section = symbols.symbol_section(LittleEndian, symbol, index)?;
            let is_grouped = section.is_some_and(|section| grouped_sections.contains(&section.0));
            let gives_way = symbol.st_bind() == elf::STB_WEAK && !is_grouped;
            // An object has each name once.
            let is_known = !self.symbols.insert(name.to_vec());
            if gives_way {
                self.weak.insert(name.to_vec());
            } else if is_known
                && !self.weak.contains(name)
                && stays_apart(symbol.st_type(), symbol.st_bind(), name)
            {
                renamed.push(index.0);
            }
        }
        for section in sections.iter() {
            let Some((_, members)) = section.group(LittleEndian, bytes)? else { continue };
            let signature = object::SymbolIndex(section.sh_info(LittleEndian) as usize);
            let name = symbols.symbol(signature)?.name(LittleEndian, symbols.strings())?;
            let mut has_code = false;
            for member in members {
                let member = object::SectionIndex(member.get(LittleEndian) as usize);
                let flags = sections.section(member)?.sh_flags(LittleEndian);
                has_code |= flags.contains(elf::SHF_EXECINSTR);
            }
            let is_known = !self.groups.insert(name.to_vec());
            // The group of a constructor has a name that no function has.
            if has_code && is_known && !renamed.contains(&signature.0) {
                renamed.push(signature.0);
            }
        }
        Ok(renamed)
    }
}

/// The sections of `bytes` in groups, of which the linker keeps one: vague linkage.
fn list_grouped_sections(
    bytes: &[u8],
    sections: &SectionTable<'_, Header>,
) -> Result<HashSet<usize>, object::Error> {
    let mut grouped = HashSet::new();
    for section in sections.iter() {
        if let Some((_, members)) = section.group(LittleEndian, bytes)? {
            grouped.extend(members.iter().map(|member| member.get(LittleEndian) as usize));
        }
    }
    Ok(grouped)
}

/// Whether each object has a definition `name` of its own.
fn stays_apart(kind: elf::SymbolType, binding: elf::SymbolBind, name: &[u8]) -> bool {
    match kind {
        elf::STT_FUNC => true,
        // Two definitions that a program could not have, unless a device has them. Or the slot of a shared array.
        elf::STT_OBJECT => {
            let has_word = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
            binding == elf::STB_GLOBAL || has_word(b"replay_shared_") && has_word(b"_slot")
        }
        _ => false,
    }
}

/// Appends `suffix` to the names of the symbols with these numbers.
fn rename_symbols(
    bytes: &mut Vec<u8>,
    numbers: &[usize],
    suffix: &str,
) -> Result<(), object::Error> {
    if numbers.is_empty() {
        return Ok(());
    }
    let header = Header::parse(&**bytes)?;
    let sections = header.sections(LittleEndian, &**bytes)?;
    let symbols = sections.symbols(LittleEndian, &**bytes, elf::SHT_SYMTAB)?;
    let table = sections.section(symbols.section())?.sh_offset(LittleEndian) as usize;
    let strings_section = sections.section(symbols.string_section())?;
    let mut strings = strings_section.data(LittleEndian, &**bytes)?.to_vec();
    let strings_header = header.e_shoff(LittleEndian) as usize
        + symbols.string_section().0 * size_of::<elf::SectionHeader64<LittleEndian>>();
    let mut new_names = Vec::new();
    for &number in numbers {
        let name =
            symbols.symbol(object::SymbolIndex(number))?.name(LittleEndian, symbols.strings())?;
        new_names.push((number, strings.len()));
        strings.extend_from_slice(name);
        strings.extend_from_slice(suffix.as_bytes());
        strings.push(0);
    }
    for (number, name) in new_names {
        let field = table
            + number * size_of::<elf::Sym64<LittleEndian>>()
            + offset_of!(elf::Sym64<LittleEndian>, st_name);
        bytes[field..][..4].copy_from_slice(&u32::to_le_bytes(name as u32));
    }
    let offset = strings_header + offset_of!(elf::SectionHeader64<LittleEndian>, sh_offset);
    let end = u64::to_le_bytes(bytes.len() as u64);
    bytes[offset..][..8].copy_from_slice(&end);
    let size = strings_header + offset_of!(elf::SectionHeader64<LittleEndian>, sh_size);
    bytes[size..][..8].copy_from_slice(&u64::to_le_bytes(strings.len() as u64));
    bytes.extend(strings);
    Ok(())
}
