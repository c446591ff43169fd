//! Instructions of PTX as statements of C++: matrices, and instructions between threads. Arithmetic is in the table,
//! memory in a file of its own.

use std::collections::BTreeSet;

use super::memory::{PtxSpace, ptx_memory_place};
use super::operands::{self, PtxArgument};
use super::statement::{AsmStatement, PtxLine};
use super::{ptx_type_name, table};

/// Where a call stands, for messages.
pub(super) const SITE: &str = "__FILE__, __LINE__";

/// Instructions as C++.
#[derive(Debug)]
pub(super) struct PtxCode {
    /// The statements, on one line.
    pub code: String,
    /// Whether one looks at the bits of floating-point numbers, or moves them by their size.
    pub packs: bool,
}

/// One instruction in C++.
pub(super) struct PtxCall {
    pub code: String,
    pub packs: bool,
}

pub(super) fn ptx_call(code: String) -> PtxCall {
    PtxCall { code, packs: false }
}

/// An instruction taken apart.
pub(super) struct Instruction<'i> {
    pub parts: Vec<&'i str>,
    pub arguments: Vec<PtxArgument>,
    pub statement: &'i AsmStatement,
    pub predicates: &'i BTreeSet<String>,
}

/// The guard of `line` (`@p`, `@!p`) without its `@`, its opcode, and the rest.
pub(super) fn split_opcode(line: &str) -> (Option<&str>, &str, &str) {
    let (guard, line) = match line.strip_prefix('@') {
        Some(guarded_text) => {
            let (guard, guarded_line) = split_first_word(guarded_text);
            (Some(guard), guarded_line.trim_start())
        }
        None => (None, line),
    };
    let (opcode, arguments) = split_first_word(line);
    (guard, opcode, arguments.trim())
}

/// The format of `mma`'s operands of the type `kind`.
fn matrix_pack_name(kind: &str) -> &'static str {
    match kind {
        "f16" => "::replay_rt::packed_half",
        "bf16" => "::replay_rt::packed_bfloat16",
        "tf32" => "::replay_rt::packed_tf32",
        "s8" => "::replay_rt::packed_s8",
        _ => "::replay_rt::packed_u8",
    }
}

/// `text` up to its first white space, and the rest.
fn split_first_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// The instructions `lines` of `statement`, or the first unknown one.
pub(super) fn write_ptx_code(
    lines: &[PtxLine],
    statement: &AsmStatement,
) -> Result<PtxCode, String> {
    let mut code = String::new();
    let mut packs = false;
    let mut depth = 0;
    let mut predicates = BTreeSet::new();
    for line in lines {
        match line {
            PtxLine::Open => {
                depth += 1;
                code.push_str("{ ");
            }
            PtxLine::Close => {
                depth -= 1;
                code.push_str("} ");
            }
            PtxLine::Instruction(text) => {
                let (guard, opcode, operand_text) = split_opcode(text);
                let opcode_name =
                    || if opcode.ends_with(':') { "a label".to_owned() } else { opcode.to_owned() };
                if opcode == ".reg" {
                    code.push_str(
                        &declare_registers(operand_text, &mut predicates)
                            .ok_or_else(opcode_name)?,
                    );
                    continue;
                }
                // `shfl` may have two results.
                let list = if opcode.starts_with("shfl.") {
                    operand_text.replacen('|', ",", 1)
                } else {
                    operand_text.to_owned()
                };
                let arguments =
                    operands::parse_ptx_arguments(&list, statement).ok_or_else(opcode_name)?;
                let parts = opcode.split('.').collect();
                let instruction =
                    Instruction { parts, arguments, statement, predicates: &predicates };
                let emitted_call = instruction.call().ok_or_else(opcode_name)?;
                if let Some(guard) = guard {
                    let (not, name) =
                        guard.strip_prefix('!').map_or(("", guard), |name| ("!", name));
                    let name = name.trim_start_matches('%');
                    let register = operands::register_argument(name).ok_or_else(opcode_name)?;
                    let register = register.value().unwrap_or_default().to_owned();
                    if !predicates.contains(&register) {
                        return Err(opcode_name());
                    }
                    code.push_str(&format!("if ({not}{register}) "));
                }
                code.push_str(&format!("{{ {} }} ", emitted_call.code));
                packs |= emitted_call.packs;
            }
        }
        if depth < 0 {
            return Err("an unmatched brace".to_owned());
        }
    }
    match depth {
        0 => Ok(PtxCode { code, packs }),
        _ => Err("an unmatched brace".to_owned()),
    }
}

/// `.reg .b32 a, b<3>;` as variables.
fn declare_registers(declaration: &str, predicates: &mut BTreeSet<String>) -> Option<String> {
    let (kind, names) = declaration.strip_prefix('.')?.split_once(char::is_whitespace)?;
    let kinds = [
        "pred", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64",
        "f32", "f64",
    ];
    if !kinds.contains(&kind) {
        return None;
    }
    let mut register_names = Vec::new();
    for name in names.split(',').map(str::trim) {
        let name = name.trim_start_matches('%');
        match name.split_once('<') {
            Some((stem, count)) => {
                let count: usize = count.strip_suffix('>')?.trim().parse().ok()?;
                register_names.extend((0..count.min(1024)).map(|number| format!("{stem}{number}")));
            }
            None => register_names.push(name.to_owned()),
        }
    }
    let mut code = String::new();
    for name in register_names {
        let register = operands::register_argument(&name)?;
        let register = register.value()?;
        code += &format!("{} {register} = {{}}; ", ptx_type_name(kind));
        if kind == "pred" {
            predicates.insert(register.to_owned());
        }
    }
    Some(code)
}

/// `expression` as a register of type `kind`.
pub(super) fn read_as(kind: &str, expression: &str) -> String {
    format!("::replay_ptx::ptx_as<{}>({expression})", ptx_type_name(kind))
}

pub(super) fn write_ptx_result(destination: &PtxArgument, value: &str) -> Option<String> {
    match destination {
        PtxArgument::Value(destination_name, _) => {
            Some(format!("::replay_ptx::ptx_put({destination_name}, {value});"))
        }
        PtxArgument::Sink => Some(format!("(void)({value});")),
        _ => None,
    }
}

impl Instruction<'_> {
    fn call(&self) -> Option<PtxCall> {
        match *self.parts.first()? {
            "ld" => self.load(),
            "st" => self.store(),
            "atom" | "red" => self.atomic(),
            "cp" => self.async_copy(),
            "mapa" => self.map(),
            "ldmatrix" | "stmatrix" => self.matrices(),
            "mma" => self.multiply(),
            "shfl" | "vote" | "activemask" | "redux" => self.collective(),
            "bar" | "barrier" | "membar" | "fence" => self.wait(),
            "mov" | "cvta" => self.mov().or_else(|| self.compute()),
            "prefetch" | "prefetchu" | "griddepcontrol" | "nanosleep" | "trap" => {
                self.translate_miscellaneous()
            }
            _ => self.compute(),
        }
    }

    pub(super) fn has_parts(&self, parts: &[&str]) -> bool {
        self.parts == parts
    }

    /// An instruction of the table.
    fn compute(&self) -> Option<PtxCall> {
        let table_entry = table::find_ptx_function(&self.parts)?;
        let [destination, sources @ ..] = &*self.arguments else { return None };
        if sources.len() + 1 != table_entry.types.len() {
            return None;
        }
        let mut list = Vec::new();
        for (argument, kind) in sources.iter().zip(&table_entry.types[1..]) {
            list.push(read_as(kind, argument.value()?));
        }
        let value = format!("::replay_ptx::ptx_{}({})", table_entry.function, list.join(", "));
        Some(PtxCall { code: write_ptx_result(destination, &value)?, packs: table_entry.packs })
    }

    fn multiply(&self) -> Option<PtxCall> {
        let ["mma", "sync", "aligned", shape, "row", "col", d, a, b, c] = &*self.parts else {
            return None;
        };
        let k = match (*shape, *d, *a, *b, *c) {
            ("m16n8k16", "f32" | "f16", "f16", "f16", _) => 16,
            ("m16n8k8", "f32" | "f16", "f16", "f16", _) => 8,
            ("m16n8k16", "f32", "bf16", "bf16", _) => 16,
            ("m16n8k8", "f32", "bf16", "bf16", _) => 8,
            ("m16n8k8", "f32", "tf32", "tf32", _) => 8,
            ("m16n8k4", "f32", "tf32", "tf32", _) => 4,
            ("m16n8k16", "s32", "s8" | "u8", "s8" | "u8", _) => 16,
            ("m16n8k32", "s32", "s8" | "u8", "s8" | "u8", _) => 32,
            _ => return None,
        };
        if c != d || self.arguments.len() != 4 {
            return None;
        }
        let left_pack = matrix_pack_name(a);
        let right_pack = matrix_pack_name(b);
        let (acc, count, function) = match *d {
            "f32" => ("float", 4, format!("ptx_mma<{k}, {left_pack}, {right_pack}, float>")),
            "s32" => ("int", 4, format!("ptx_mma<{k}, {left_pack}, {right_pack}, int>")),
            _ => ("unsigned", 2, format!("ptx_mma_half<{k}, {left_pack}, {right_pack}>")),
        };
        let old = self.matrix_words(3, acc).filter(|old| old.len() == count)?.join(", ");
        let destinations =
            self.arguments[0].values().filter(|registers| registers.len() == count)?;
        let b32 = ptx_type_name("b32");
        let left = self.matrix_words(1, "")?.join(", ");
        let right = self.matrix_words(2, "")?.join(", ");
        let mut code = format!(
            "{acc} replay_ptx_d[{count}]; const {b32} replay_ptx_a[] = {{{left}}}; \
             const {b32} replay_ptx_b[] = {{{right}}}; const {acc} replay_ptx_c[] = {{{old}}}; \
             ::replay_ptx::{function}({SITE}, replay_ptx_d, replay_ptx_a, replay_ptx_b, replay_ptx_c);"
        );
        for (number, destination) in destinations.iter().enumerate() {
            code += &format!(" ::replay_ptx::ptx_put({destination}, replay_ptx_d[{number}]);");
        }
        Some(PtxCall { code, packs: true })
    }

    /// The values of an operand of `mma`, as words, or as numbers of the accumulator `kind`.
    fn matrix_words(&self, argument_index: usize, kind: &str) -> Option<Vec<String>> {
        let values = self.arguments[argument_index].values()?;
        let words = values.iter().map(|value| match kind {
            "float" => format!("::replay_ptx::ptx_as<float>({value})"),
            "int" => format!("::replay_ptx::ptx_as<int>({value})"),
            _ => read_as("b32", value),
        });
        Some(words.collect())
    }

    fn collective(&self) -> Option<PtxCall> {
        match (&*self.parts, &*self.arguments) {
            (["shfl", "sync", shuffle_mode @ ("up" | "down" | "bfly" | "idx"), "b32"], list) => {
                let (destination, predicate, shuffle_operands) = match list {
                    [destination, a, b, c, mask] => (destination, None, [a, b, c, mask]),
                    [destination, p, a, b, c, mask] => {
                        (destination, Some(p.value()?), [a, b, c, mask])
                    }
                    _ => return None,
                };
                let [a, b, c, mask] = shuffle_operands.map(PtxArgument::value);
                let list = format!(
                    "{}, {}, {}, {}",
                    a?,
                    read_as("u32", b?),
                    read_as("u32", c?),
                    read_as("u32", mask?)
                );
                let value = format!(
                    "::replay_ptx::ptx_shfl<::replay_ptx::ptx_{shuffle_mode}>({}, {list}, {SITE})",
                    destination.value()?
                );
                Some(ptx_call(match predicate {
                    Some(predicate) => format!("{predicate} = {value};"),
                    None => format!("{value};"),
                }))
            }
            (["vote", "sync", "ballot", "b32"], [destination, source, mask]) => {
                let value =
                    format!("__ballot_sync({}, {}, {SITE})", mask.value()?, source.value()?);
                Some(ptx_call(write_ptx_result(destination, &value)?))
            }
            (
                ["vote", "sync", vote_mode @ ("any" | "all"), "pred"],
                [destination, source, mask],
            ) => {
                let value =
                    format!("__{vote_mode}_sync({}, {}, {SITE})", mask.value()?, source.value()?);
                Some(ptx_call(write_ptx_result(destination, &value)?))
            }
            (["activemask", "b32"], [destination]) => {
                Some(ptx_call(write_ptx_result(destination, "__activemask()")?))
            }
            (["redux", "sync", operation, kind], [destination, source, mask]) => {
                let is_supported = match *operation {
                    "add" | "min" | "max" => ["u32", "s32"].contains(kind),
                    "and" | "or" | "xor" => *kind == "b32",
                    _ => false,
                };
                let source_value = is_supported.then(|| source.value()).flatten()?;
                let value = format!(
                    "__reduce_{operation}_sync({}, {}, {SITE})",
                    mask.value()?,
                    read_as(kind, source_value)
                );
                Some(ptx_call(write_ptx_result(destination, &value)?))
            }
            _ => None,
        }
    }

    fn wait(&self) -> Option<PtxCall> {
        match (&*self.parts, &*self.arguments) {
            (
                ["bar" | "barrier", "sync"] | ["barrier", "sync", "aligned"],
                [PtxArgument::Value(id, None)],
            ) if id == "0ll" => Some(ptx_call(format!("__syncthreads({SITE});"))),
            (["bar", "warp", "sync"], [mask]) => {
                Some(ptx_call(format!("__syncwarp({}, {SITE});", mask.value()?)))
            }
            (["membar", "cta" | "gl" | "sys"], [])
            | (["fence", "acq_rel" | "sc", "cta" | "cluster" | "gpu" | "sys"], []) => {
                Some(ptx_call("__threadfence();".to_owned()))
            }
            (
                ["barrier", "cluster", "arrive"]
                | ["barrier", "cluster", "arrive", "release" | "relaxed" | "aligned"]
                | ["barrier", "cluster", "arrive", "release" | "relaxed", "aligned"],
                [],
            ) => Some(ptx_call(format!("__cluster_barrier_arrive({SITE});"))),
            (
                ["barrier", "cluster", "wait"]
                | ["barrier", "cluster", "wait", "acquire" | "aligned"]
                | ["barrier", "cluster", "wait", "acquire", "aligned"],
                [],
            ) => Some(ptx_call(format!("__cluster_barrier_wait({SITE});"))),
            _ => None,
        }
    }

    /// Moves between registers, halves of registers, and addresses of shared memory.
    fn mov(&self) -> Option<PtxCall> {
        let [destination, source] = &*self.arguments else { return None };
        let floating =
            destination.is_floating(self.statement) || source.is_floating(self.statement);
        match (&*self.parts, destination, source) {
            (
                ["cvta", "to", "shared" | "shared::cta", "u64"],
                destination,
                PtxArgument::Value(source_name, _),
            ) => {
                let pointer_code =
                    format!("reinterpret_cast<const void*>({})", read_as("u64", source_name));
                Some(ptx_call(write_ptx_result(
                    destination,
                    &format!("__cvta_generic_to_shared({pointer_code}, {SITE})"),
                )?))
            }
            (
                ["cvta", "shared" | "shared::cta", "u64"],
                destination,
                PtxArgument::Value(source_name, _),
            ) => {
                let place = ptx_memory_place(PtxSpace::Shared, source_name, 0);
                Some(ptx_call(write_ptx_result(
                    destination,
                    &format!("reinterpret_cast<{}>({place})", ptx_type_name("u64")),
                )?))
            }
            (["mov", "b32" | "b64"], destination, PtxArgument::Vector(list)) if list.len() == 2 => {
                let (half, whole_kind, bits) = split_register_widths(self.parts[1]);
                let part =
                    |list_index: usize| list[list_index].value().map(|value| read_as(half, value));
                let whole_type = ptx_type_name(whole_kind);
                let value =
                    format!("({whole_type}){} | ({whole_type}){} << {bits}", part(0)?, part(1)?);
                Some(PtxCall {
                    code: write_ptx_result(destination, &format!("({whole_type})({value})"))?,
                    packs: floating,
                })
            }
            (
                ["mov", "b32" | "b64"],
                PtxArgument::Vector(list),
                PtxArgument::Value(source_name, _),
            ) if list.len() == 2 => {
                let (half, whole_kind, bits) = split_register_widths(self.parts[1]);
                let whole_definition = format!(
                    "const {} replay_ptx_w = {};",
                    ptx_type_name(whole_kind),
                    read_as(whole_kind, source_name)
                );
                let half = ptx_type_name(half);
                let low = write_ptx_result(&list[0], &format!("({half})replay_ptx_w"))?;
                let high =
                    write_ptx_result(&list[1], &format!("({half})(replay_ptx_w >> {bits})"))?;
                Some(PtxCall { code: format!("{whole_definition} {low} {high}"), packs: floating })
            }
            (["mov", kind], destination, PtxArgument::Value(source_name, _)) => {
                let integers =
                    ["b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"].contains(kind);
                if !integers && !["f32", "f64"].contains(kind) {
                    return None;
                }
                let code = write_ptx_result(destination, &read_as(kind, source_name))?;
                Some(PtxCall { code, packs: integers && floating })
            }
            _ => None,
        }
    }

    fn translate_miscellaneous(&self) -> Option<PtxCall> {
        match (&*self.parts, &*self.arguments) {
            (["prefetch" | "prefetchu", ..], [PtxArgument::Address(..)])
            | (["griddepcontrol", "wait" | "launch_dependents"], []) => {
                Some(ptx_call(";".to_owned()))
            }
            (["nanosleep", "u32"], [time]) => {
                Some(ptx_call(format!("__nanosleep({});", read_as("u32", time.value()?))))
            }
            (["trap"], []) => Some(ptx_call(format!("__trap({SITE});"))),
            _ => None,
        }
    }
}

/// Half and whole of a register, and the bits of the half.
fn split_register_widths(whole_kind: &str) -> (&'static str, &'static str, u32) {
    if whole_kind == "b32" { ("b16", "b32", 16) } else { ("b32", "b64", 32) }
}
