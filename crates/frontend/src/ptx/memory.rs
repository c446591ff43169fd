//! Instructions on memory: loads, stores, atomics, copies, and the parts of matrices.

use super::instructions::{Instruction, PtxCall, SITE, ptx_call, read_as, write_ptx_result};
use super::operands::PtxArgument;
use super::ptx_type_name;

impl Instruction<'_> {
    /// The kind of memory by the parts between the first and the last two, whether other threads may wait for the access,
    /// and whether it orders others.
    fn memory(&self) -> Option<PtxMemory> {
        let mut memory = PtxMemory::default();
        let parts = &self.parts[1..];
        let (kind, modifiers) = parts.split_last()?;
        memory.kind = (*kind).to_owned();
        for part in modifiers {
            match *part {
                "shared" | "shared::cta" => memory.space = PtxSpace::Shared,
                "shared::cluster" => memory.space = PtxSpace::Cluster,
                "global" | "const" | "local" | "nc" | "ca" | "cg" | "cs" | "lu" | "cv" | "wb"
                | "wt" | "weak" => {}
                "volatile" | "relaxed" => memory.strong = true,
                "acquire" | "release" => (memory.strong, memory.fenced) = (true, true),
                "cta" | "gpu" | "sys" | "cluster" if memory.strong => {}
                "v2" => memory.count = 2,
                "v4" => memory.count = 4,
                "L2::cache_hint" => return None,
                hint if hint.starts_with("L1::") || hint.starts_with("L2::") => {}
                _ => return None,
            }
        }
        let kinds = [
            "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64",
            "f64",
        ];
        let is_supported =
            kinds.contains(&memory.kind.as_str()) && !(memory.strong && memory.count > 1);
        is_supported.then_some(memory)
    }

    pub(super) fn load(&self) -> Option<PtxCall> {
        let memory = self.memory()?;
        let [destination, PtxArgument::Address(base, offset)] = &*self.arguments else {
            return None;
        };
        let destination_list =
            destination.values().filter(|registers| registers.len() == memory.count)?.join(", ");
        let function = if memory.strong {
            format!("ptx_ld_strong<{}, {}>", ptx_type_name(&memory.kind), memory.fenced)
        } else {
            format!("ptx_ld<{}>", ptx_type_name(&memory.kind))
        };
        let address = ptx_memory_place(memory.space, base, *offset);
        let packs = memory.packs();
        Some(PtxCall {
            code: format!("::replay_ptx::{function}({address}, {SITE}, {destination_list});"),
            packs,
        })
    }

    pub(super) fn store(&self) -> Option<PtxCall> {
        let memory = self.memory()?;
        let [PtxArgument::Address(base, offset), source] = &*self.arguments else { return None };
        let source_names = source.values().filter(|registers| registers.len() == memory.count)?;
        let list: Vec<String> =
            source_names.iter().map(|source_name| read_as(&memory.kind, source_name)).collect();
        let function = if memory.strong {
            format!("ptx_st_strong<{}, {}>", ptx_type_name(&memory.kind), memory.fenced)
        } else {
            format!("ptx_st<{}>", ptx_type_name(&memory.kind))
        };
        let address = ptx_memory_place(memory.space, base, *offset);
        let code = format!("::replay_ptx::{function}({address}, {SITE}, {});", list.join(", "));
        Some(PtxCall { code, packs: memory.packs() })
    }

    pub(super) fn atomic(&self) -> Option<PtxCall> {
        let mut parts = self.parts[1..].iter().copied().peekable();
        let sem = ["relaxed", "acquire", "release", "acq_rel"];
        let fenced = parts.next_if(|part| sem.contains(part)).is_some_and(|part| part != "relaxed");
        parts.next_if(|part| ["cta", "gpu", "sys", "cluster"].contains(part));
        let spaces = ["global", "shared", "shared::cta", "shared::cluster"];
        let space = match parts.next_if(|part| spaces.contains(part)) {
            None | Some("global") => PtxSpace::Generic,
            Some("shared::cluster") => PtxSpace::Cluster,
            Some(_) => PtxSpace::Shared,
        };
        let operation = parts.next()?;
        let kind = parts.next()?;
        let is_supported = match operation {
            "add" => ["u32", "s32", "u64", "f32", "f64"].contains(&kind),
            "min" | "max" => ["u32", "s32", "u64", "s64"].contains(&kind),
            "and" | "or" | "xor" | "exch" | "cas" => ["b32", "b64"].contains(&kind),
            "inc" | "dec" => kind == "u32",
            _ => false,
        };
        if !is_supported || parts.next().is_some() {
            return None;
        }
        let (destination, operands) = match (self.parts[0], &*self.arguments) {
            ("atom", [destination, operands @ ..]) => (destination, operands),
            ("red", operands) if operation != "exch" && operation != "cas" => {
                (&PtxArgument::Sink, operands)
            }
            _ => return None,
        };
        let [PtxArgument::Address(base, offset), values @ ..] = operands else { return None };
        if values.len() != if operation == "cas" { 2 } else { 1 } {
            return None;
        }
        let mut list = vec![ptx_memory_place(space, base, *offset)];
        for value in values {
            list.push(read_as(kind, value.value()?));
        }
        let list = list.join(", ");
        let name = format!("::replay_ptx::ptx_atom_{operation}<{}, {fenced}>", ptx_type_name(kind));
        Some(ptx_call(write_ptx_result(destination, &format!("{name}({list})"))?))
    }

    pub(super) fn async_copy(&self) -> Option<PtxCall> {
        let no_operands = self.arguments.is_empty();
        if self.has_parts(&["cp", "async", "commit_group"])
            || self.has_parts(&["cp", "async", "wait_all"])
        {
            return no_operands.then(|| ptx_call("::replay_ptx::ptx_cp_async_wait();".to_owned()));
        }
        if self.has_parts(&["cp", "async", "wait_group"]) {
            let [count] = &*self.arguments else { return None };
            return Some(ptx_call(format!("::replay_ptx::ptx_cp_async_wait({});", count.value()?)));
        }
        let ["cp", "async", "ca" | "cg", "shared" | "shared::cta", "global", hints @ ..] =
            &*self.parts
        else {
            return None;
        };
        if hints.iter().any(|hint| !hint.starts_with("L2::") || *hint == "L2::cache_hint") {
            return None;
        }
        let [
            PtxArgument::Address(to_base, to_offset),
            PtxArgument::Address(from_base, from_offset),
            bytes,
            optional_arguments @ ..,
        ] = &*self.arguments
        else {
            return None;
        };
        let bytes = bytes.value()?;
        let from_bytes = match optional_arguments {
            [] => bytes,
            [source_size] => {
                source_size.value().filter(|size_name| !self.predicates.contains(*size_name))?
            }
            _ => return None,
        };
        let to_address = ptx_memory_place(PtxSpace::Shared, to_base, *to_offset);
        let from_address = ptx_memory_place(PtxSpace::Generic, from_base, *from_offset);
        let code = format!(
            "::replay_ptx::ptx_cp_async({to_address}, {from_address}, {bytes}, {from_bytes}, {SITE});"
        );
        Some(PtxCall { code, packs: true })
    }

    /// `mapa`: the address of another block's memory, in the cluster's window or in all of memory.
    pub(super) fn map(&self) -> Option<PtxCall> {
        let [destination, PtxArgument::Value(source, _), rank] = &*self.arguments else {
            return None;
        };
        let function = match *self.parts {
            ["mapa", "shared::cluster", "u32" | "u64"] => "ptx_mapa_window",
            ["mapa", "u64"] => "ptx_mapa",
            _ => return None,
        };
        let rank = read_as("u32", rank.value()?);
        let value = format!("::replay_ptx::{function}({source}, {rank}, {SITE})");
        Some(ptx_call(write_ptx_result(destination, &value)?))
    }

    pub(super) fn matrices(&self) -> Option<PtxCall> {
        let [name, "sync", "aligned", modifiers @ ..] = &*self.parts else { return None };
        // The assembler takes shape and number in either order.
        let (count, modifiers) = match modifiers {
            ["m8n8", count, modifiers @ ..] | [count, "m8n8", modifiers @ ..] => (count, modifiers),
            _ => return None,
        };
        let count = ["x1", "x2", "x4"]
            .iter()
            .position(|choice| choice == count)
            .map(|exponent| 1usize << exponent)?;
        let (transposed, modifiers) = match modifiers {
            ["trans", modifiers @ ..] => (true, modifiers),
            modifiers => (false, modifiers),
        };
        let ["shared" | "shared::cta", "b16"] = modifiers else { return None };
        let (address, registers) = match (*name, &*self.arguments) {
            ("ldmatrix", [destination, row_address]) => (row_address, destination),
            ("stmatrix", [row_address, source]) => (row_address, source),
            _ => return None,
        };
        let PtxArgument::Address(base, offset) = address else { return None };
        let registers = registers.values().filter(|list| list.len() == count)?.join(", ");
        let row = format!("::replay_ptx::ptx_row<{count}>({base}, {offset}, {SITE})");
        let function = format!("::replay_ptx::ptx_{name}<{count}, {transposed}>");
        Some(PtxCall { code: format!("{function}({row}, {SITE}, {registers});"), packs: true })
    }
}

/// An access to memory, by the parts of an instruction.
struct PtxMemory {
    kind: String,
    space: PtxSpace,
    /// Other threads may wait for it.
    strong: bool,
    /// It orders other accesses.
    fenced: bool,
    count: usize,
}

impl Default for PtxMemory {
    fn default() -> Self {
        let space = PtxSpace::Generic;
        PtxMemory { kind: String::new(), space, strong: false, fenced: false, count: 1 }
    }
}

impl PtxMemory {
    /// Whether the moved value may be packed numbers or flags: the shadow cannot tell.
    fn packs(&self) -> bool {
        !matches!(self.kind.as_str(), "f32" | "f64") && !self.strong
    }
}

/// The meaning of an address.
#[derive(Clone, Copy)]
pub(super) enum PtxSpace {
    /// All of memory.
    Generic,
    /// The block's shared memory.
    Shared,
    /// Shared memory of all blocks of the cluster.
    Cluster,
}

/// The place in memory at `base + offset`.
pub(super) fn ptx_memory_place(space: PtxSpace, base: &str, offset: i64) -> String {
    let space = match space {
        PtxSpace::Generic => "ptx_generic",
        PtxSpace::Shared => "ptx_shared",
        PtxSpace::Cluster => "ptx_cluster",
    };
    format!("::replay_ptx::ptx_at<::replay_ptx::{space}>({base}, {offset}, {SITE})")
}
