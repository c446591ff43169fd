//! Instructions that reach memory: loads, stores, atomics, copies, and the parts of matrices.

use super::instructions::{Call, Instruction, SITE, call, put, read_as};
use super::operands::Argument;
use super::type_name;

impl Instruction<'_> {
    /// Whether the parts between the first and the last two say that memory is shared, and whether they
    /// make the access one that other threads wait for, and that it orders others.
    fn memory(&self) -> Option<Memory> {
        let mut memory = Memory::default();
        let parts = &self.parts[1..];
        let (kind, modifiers) = parts.split_last()?;
        memory.kind = (*kind).to_owned();
        for part in modifiers {
            match *part {
                "shared" | "shared::cta" => memory.space = Space::Shared,
                "shared::cluster" => memory.space = Space::Cluster,
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
        let fits = kinds.contains(&memory.kind.as_str()) && !(memory.strong && memory.count > 1);
        fits.then_some(memory)
    }

    pub(super) fn load(&self) -> Option<Call> {
        let memory = self.memory()?;
        let [to, Argument::Address(base, offset)] = &*self.arguments else { return None };
        let to = to.values().filter(|to| to.len() == memory.count)?.join(", ");
        let function = match memory.strong {
            true => format!("ptx_ld_strong<{}, {}>", type_name(&memory.kind), memory.fenced),
            false => format!("ptx_ld<{}>", type_name(&memory.kind)),
        };
        let at = place(memory.space, base, *offset);
        let packs = memory.packs();
        Some(Call { code: format!("::replay_ptx::{function}({at}, {SITE}, {to});"), packs })
    }

    pub(super) fn store(&self) -> Option<Call> {
        let memory = self.memory()?;
        let [Argument::Address(base, offset), from] = &*self.arguments else { return None };
        let from = from.values().filter(|from| from.len() == memory.count)?;
        let list: Vec<String> = from.iter().map(|from| read_as(&memory.kind, from)).collect();
        let function = match memory.strong {
            true => format!("ptx_st_strong<{}, {}>", type_name(&memory.kind), memory.fenced),
            false => format!("ptx_st<{}>", type_name(&memory.kind)),
        };
        let at = place(memory.space, base, *offset);
        let code = format!("::replay_ptx::{function}({at}, {SITE}, {});", list.join(", "));
        Some(Call { code, packs: memory.packs() })
    }

    pub(super) fn atomic(&self) -> Option<Call> {
        let mut parts = self.parts[1..].iter().copied().peekable();
        let sem = ["relaxed", "acquire", "release", "acq_rel"];
        let fenced = parts.next_if(|part| sem.contains(part)).is_some_and(|part| part != "relaxed");
        parts.next_if(|part| ["cta", "gpu", "sys", "cluster"].contains(part));
        let spaces = ["global", "shared", "shared::cta", "shared::cluster"];
        let space = match parts.next_if(|part| spaces.contains(part)) {
            None | Some("global") => Space::Generic,
            Some("shared::cluster") => Space::Cluster,
            Some(_) => Space::Shared,
        };
        let operation = parts.next()?;
        let kind = parts.next()?;
        let fits = match operation {
            "add" => ["u32", "s32", "u64", "f32", "f64"].contains(&kind),
            "min" | "max" => ["u32", "s32", "u64", "s64"].contains(&kind),
            "and" | "or" | "xor" | "exch" | "cas" => ["b32", "b64"].contains(&kind),
            "inc" | "dec" => kind == "u32",
            _ => false,
        };
        if !fits || parts.next().is_some() {
            return None;
        }
        let (to, rest) = match (self.parts[0], &*self.arguments) {
            ("atom", [to, rest @ ..]) => (to, rest),
            ("red", rest) if operation != "exch" && operation != "cas" => (&Argument::Sink, rest),
            _ => return None,
        };
        let [Argument::Address(base, offset), values @ ..] = rest else { return None };
        if values.len() != if operation == "cas" { 2 } else { 1 } {
            return None;
        }
        let mut list = vec![place(space, base, *offset)];
        for value in values {
            list.push(read_as(kind, value.value()?));
        }
        let list = list.join(", ");
        let name = format!("::replay_ptx::ptx_atom_{operation}<{}, {fenced}>", type_name(kind));
        Some(call(put(to, &format!("{name}({list})"))?))
    }

    pub(super) fn async_copy(&self) -> Option<Call> {
        let no_operands = self.arguments.is_empty();
        if self.is(&["cp", "async", "commit_group"]) || self.is(&["cp", "async", "wait_all"]) {
            return no_operands.then(|| call("::replay_ptx::ptx_cp_async_wait();".to_owned()));
        }
        if self.is(&["cp", "async", "wait_group"]) {
            let [count] = &*self.arguments else { return None };
            return Some(call(format!("::replay_ptx::ptx_cp_async_wait({});", count.value()?)));
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
            Argument::Address(to, to_offset),
            Argument::Address(from, from_offset),
            bytes,
            rest @ ..,
        ] = &*self.arguments
        else {
            return None;
        };
        let bytes = bytes.value()?;
        let from_bytes = match rest {
            [] => bytes,
            [one] => one.value().filter(|one| !self.predicates.contains(*one))?,
            _ => return None,
        };
        let to = place(Space::Shared, to, *to_offset);
        let from = place(Space::Generic, from, *from_offset);
        let code =
            format!("::replay_ptx::ptx_cp_async({to}, {from}, {bytes}, {from_bytes}, {SITE});");
        Some(Call { code, packs: true })
    }

    /// `mapa`: the address in the cluster's window, or in all of memory, of what another block has there.
    pub(super) fn map(&self) -> Option<Call> {
        let [to, Argument::Value(from, _), rank] = &*self.arguments else { return None };
        let function = match *self.parts {
            ["mapa", "shared::cluster", "u32" | "u64"] => "ptx_mapa_window",
            ["mapa", "u64"] => "ptx_mapa",
            _ => return None,
        };
        let rank = read_as("u32", rank.value()?);
        let value = format!("::replay_ptx::{function}({from}, {rank}, {SITE})");
        Some(call(put(to, &value)?))
    }

    pub(super) fn matrices(&self) -> Option<Call> {
        let [name, "sync", "aligned", rest @ ..] = &*self.parts else { return None };
        // The assembler takes shape and number in either order.
        let (count, rest) = match rest {
            ["m8n8", count, rest @ ..] | [count, "m8n8", rest @ ..] => (count, rest),
            _ => return None,
        };
        let count = ["x1", "x2", "x4"].iter().position(|it| it == count).map(|at| 1usize << at)?;
        let (transposed, rest) = match rest {
            ["trans", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let ["shared" | "shared::cta", "b16"] = rest else { return None };
        let (address, registers) = match (*name, &*self.arguments) {
            ("ldmatrix", [to, at]) => (at, to),
            ("stmatrix", [at, from]) => (at, from),
            _ => return None,
        };
        let Argument::Address(base, offset) = address else { return None };
        let registers = registers.values().filter(|list| list.len() == count)?.join(", ");
        let row = format!("::replay_ptx::ptx_row<{count}>({base}, {offset}, {SITE})");
        let function = format!("::replay_ptx::ptx_{name}<{count}, {transposed}>");
        Some(Call { code: format!("{function}({row}, {SITE}, {registers});"), packs: true })
    }
}

/// The access that the parts of an instruction describe.
struct Memory {
    kind: String,
    space: Space,
    /// Other threads may wait for it.
    strong: bool,
    /// It orders other accesses.
    fenced: bool,
    count: usize,
}

impl Default for Memory {
    fn default() -> Self {
        let space = Space::Generic;
        Memory { kind: String::new(), space, strong: false, fenced: false, count: 1 }
    }
}

impl Memory {
    /// Whether the shadow cannot tell what is moved: flags are integers, packed numbers look like them.
    fn packs(&self) -> bool {
        !matches!(self.kind.as_str(), "f32" | "f64") && !self.strong
    }
}

/// What an address means.
#[derive(Clone, Copy)]
pub(super) enum Space {
    /// All of memory.
    Generic,
    /// The block's shared memory.
    Shared,
    /// That of all blocks of the cluster.
    Cluster,
}

/// The place in memory at `base + offset`.
pub(super) fn place(space: Space, base: &str, offset: i64) -> String {
    let space = match space {
        Space::Generic => "ptx_generic",
        Space::Shared => "ptx_shared",
        Space::Cluster => "ptx_cluster",
    };
    format!("::replay_ptx::ptx_at<::replay_ptx::{space}>({base}, {offset}, {SITE})")
}
