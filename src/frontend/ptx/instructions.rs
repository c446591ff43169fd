//! Instructions of PTX as statements of C++. What computes is in the table, what reaches memory in a file
//! of its own; matrices and what reaches other threads is here.

use std::collections::BTreeSet;

use super::memory::{Space, place};
use super::operands::{self, Argument};
use super::statement::{Line, Statement};
use super::{table, type_name};

/// Where a call stands, for messages.
pub(super) const SITE: &str = "__FILE__, __LINE__";

/// Instructions as C++.
#[derive(Debug)]
pub(super) struct Written {
    /// The statements, on one line.
    pub code: String,
    /// Whether one looks at the bits of floating-point numbers, or moves them by their size.
    pub packs: bool,
}

/// One instruction in C++.
pub(super) struct Call {
    pub code: String,
    pub packs: bool,
}

pub(super) fn call(code: String) -> Call {
    Call { code, packs: false }
}

/// An instruction taken apart.
pub(super) struct Instruction<'i> {
    pub parts: Vec<&'i str>,
    pub arguments: Vec<Argument>,
    pub statement: &'i Statement,
    pub predicates: &'i BTreeSet<String>,
}

/// The guard of `line` (`@p`, `@!p`) without its `@`, its opcode, and the rest.
pub(super) fn opcode(line: &str) -> (Option<&str>, &str, &str) {
    let split = |text: &'_ str| text.find(char::is_whitespace).unwrap_or(text.len());
    let (guard, line) = match line.strip_prefix('@') {
        Some(rest) => {
            let end = split(rest);
            (Some(&rest[..end]), rest[end..].trim_start())
        }
        None => (None, line),
    };
    let end = split(line);
    (guard, &line[..end], line[end..].trim())
}

/// The instructions `lines` of `statement`, or the first that is not known.
pub(super) fn write(lines: &[Line], statement: &Statement) -> Result<Written, String> {
    let (mut code, mut packs, mut depth) = (String::new(), false, 0);
    let mut predicates = BTreeSet::new();
    for line in lines {
        match line {
            Line::Open => {
                depth += 1;
                code.push_str("{ ");
            }
            Line::Close => {
                depth -= 1;
                code.push_str("} ");
            }
            Line::Instruction(text) => {
                let (guard, opcode, rest) = opcode(text);
                let named = || match opcode.ends_with(':') {
                    true => "a label".to_owned(),
                    false => opcode.to_owned(),
                };
                if opcode == ".reg" {
                    code.push_str(&registers(rest, &mut predicates).ok_or_else(named)?);
                    continue;
                }
                // `shfl` may have two results.
                let list = if opcode.starts_with("shfl.") {
                    rest.replacen('|', ",", 1)
                } else {
                    rest.to_owned()
                };
                let arguments = operands::read(&list, statement).ok_or_else(named)?;
                let parts = opcode.split('.').collect();
                let instruction =
                    Instruction { parts, arguments, statement, predicates: &predicates };
                let made = instruction.call().ok_or_else(named)?;
                if let Some(guard) = guard {
                    let (not, name) =
                        guard.strip_prefix('!').map_or(("", guard), |name| ("!", name));
                    let name = name.trim_start_matches('%');
                    let register = operands::register(name).ok_or_else(named)?;
                    let register = register.value().unwrap_or_default().to_owned();
                    if !predicates.contains(&register) {
                        return Err(named());
                    }
                    code.push_str(&format!("if ({not}{register}) "));
                }
                code.push_str(&format!("{{ {} }} ", made.code));
                packs |= made.packs;
            }
        }
        if depth < 0 {
            return Err("an unmatched brace".to_owned());
        }
    }
    match depth {
        0 => Ok(Written { code, packs }),
        _ => Err("an unmatched brace".to_owned()),
    }
}

/// `.reg .b32 a, b<3>;` as variables.
fn registers(rest: &str, predicates: &mut BTreeSet<String>) -> Option<String> {
    let (kind, names) = rest.strip_prefix('.')?.split_once(char::is_whitespace)?;
    let kinds = [
        "pred", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64",
        "f32", "f64",
    ];
    if !kinds.contains(&kind) {
        return None;
    }
    let mut all = Vec::new();
    for name in names.split(',').map(str::trim) {
        let name = name.trim_start_matches('%');
        match name.split_once('<') {
            Some((stem, count)) => {
                let count: usize = count.strip_suffix('>')?.trim().parse().ok()?;
                all.extend((0..count.min(1024)).map(|number| format!("{stem}{number}")));
            }
            None => all.push(name.to_owned()),
        }
    }
    let mut code = String::new();
    for name in all {
        let register = operands::register(&name)?;
        let register = register.value()?;
        code += &format!("{} {register} = {{}}; ", type_name(kind));
        if kind == "pred" {
            predicates.insert(register.to_owned());
        }
    }
    Some(code)
}

/// `from` as a register of type `kind`.
pub(super) fn read_as(kind: &str, from: &str) -> String {
    format!("::replay_ptx::ptx_as<{}>({from})", type_name(kind))
}

pub(super) fn put(to: &Argument, value: &str) -> Option<String> {
    match to {
        Argument::Value(to, _) => Some(format!("::replay_ptx::ptx_put({to}, {value});")),
        Argument::Sink => Some(format!("(void)({value});")),
        _ => None,
    }
}

impl Instruction<'_> {
    fn call(&self) -> Option<Call> {
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
            "prefetch" | "prefetchu" | "griddepcontrol" | "nanosleep" | "trap" => self.other(),
            _ => self.compute(),
        }
    }

    pub(super) fn is(&self, parts: &[&str]) -> bool {
        self.parts == parts
    }

    /// An instruction of the table.
    fn compute(&self) -> Option<Call> {
        let found = table::find(&self.parts)?;
        let [to, from @ ..] = &*self.arguments else { return None };
        if from.len() + 1 != found.types.len() {
            return None;
        }
        let mut list = Vec::new();
        for (argument, kind) in from.iter().zip(&found.types[1..]) {
            list.push(read_as(kind, argument.value()?));
        }
        let value = format!("::replay_ptx::ptx_{}({})", found.function, list.join(", "));
        Some(Call { code: put(to, &value)?, packs: found.packs })
    }

    fn multiply(&self) -> Option<Call> {
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
        let pack = |kind: &str| match kind {
            "f16" => "::replay_rt::packed_half",
            "bf16" => "::replay_rt::packed_bfloat16",
            "tf32" => "::replay_rt::packed_tf32",
            "s8" => "::replay_rt::packed_s8",
            _ => "::replay_rt::packed_u8",
        };
        let (acc, count, function) = match *d {
            "f32" => ("float", 4, format!("ptx_mma<{k}, {}, {}, float>", pack(a), pack(b))),
            "s32" => ("int", 4, format!("ptx_mma<{k}, {}, {}, int>", pack(a), pack(b))),
            _ => ("unsigned", 2, format!("ptx_mma_half<{k}, {}, {}>", pack(a), pack(b))),
        };
        let words = |at: usize, kind: &str| {
            let values = self.arguments[at].values()?;
            let each = |value: &&str| match kind {
                "float" => format!("::replay_ptx::ptx_as<float>({value})"),
                "int" => format!("::replay_ptx::ptx_as<int>({value})"),
                _ => read_as("b32", value),
            };
            Some(values.iter().map(each).collect::<Vec<_>>())
        };
        let old = words(3, acc).filter(|old| old.len() == count)?.join(", ");
        let to = self.arguments[0].values().filter(|to| to.len() == count)?;
        let b32 = type_name("b32");
        let (left, right) = (words(1, "")?.join(", "), words(2, "")?.join(", "));
        let mut code = format!(
            "{acc} replay_ptx_d[{count}]; const {b32} replay_ptx_a[] = {{{left}}}; \
             const {b32} replay_ptx_b[] = {{{right}}}; const {acc} replay_ptx_c[] = {{{old}}}; \
             ::replay_ptx::{function}({SITE}, replay_ptx_d, replay_ptx_a, replay_ptx_b, replay_ptx_c);"
        );
        for (number, to) in to.iter().enumerate() {
            code += &format!(" ::replay_ptx::ptx_put({to}, replay_ptx_d[{number}]);");
        }
        Some(Call { code, packs: true })
    }

    fn collective(&self) -> Option<Call> {
        match (&*self.parts, &*self.arguments) {
            (["shfl", "sync", how @ ("up" | "down" | "bfly" | "idx"), "b32"], list) => {
                let (to, predicate, rest) = match list {
                    [to, a, b, c, mask] => (to, None, [a, b, c, mask]),
                    [to, p, a, b, c, mask] => (to, Some(p.value()?), [a, b, c, mask]),
                    _ => return None,
                };
                let [a, b, c, mask] = rest.map(Argument::value);
                let list = format!(
                    "{}, {}, {}, {}",
                    a?,
                    read_as("u32", b?),
                    read_as("u32", c?),
                    read_as("u32", mask?)
                );
                let value = format!(
                    "::replay_ptx::ptx_shfl<::replay_ptx::ptx_{how}>({}, {list}, {SITE})",
                    to.value()?
                );
                Some(call(match predicate {
                    Some(predicate) => format!("{predicate} = {value};"),
                    None => format!("{value};"),
                }))
            }
            (["vote", "sync", "ballot", "b32"], [to, from, mask]) => {
                let value = format!("__ballot_sync({}, {}, {SITE})", mask.value()?, from.value()?);
                Some(call(put(to, &value)?))
            }
            (["vote", "sync", how @ ("any" | "all"), "pred"], [to, from, mask]) => {
                let value = format!("__{how}_sync({}, {}, {SITE})", mask.value()?, from.value()?);
                Some(call(put(to, &value)?))
            }
            (["activemask", "b32"], [to]) => Some(call(put(to, "__activemask()")?)),
            (["redux", "sync", how, kind], [to, from, mask]) => {
                let fits = match *how {
                    "add" | "min" | "max" => ["u32", "s32"].contains(kind),
                    "and" | "or" | "xor" => *kind == "b32",
                    _ => false,
                };
                let from = fits.then(|| from.value()).flatten()?;
                let value = format!(
                    "__reduce_{how}_sync({}, {}, {SITE})",
                    mask.value()?,
                    read_as(kind, from)
                );
                Some(call(put(to, &value)?))
            }
            _ => None,
        }
    }

    fn wait(&self) -> Option<Call> {
        match (&*self.parts, &*self.arguments) {
            (
                ["bar" | "barrier", "sync"] | ["barrier", "sync", "aligned"],
                [Argument::Value(id, None)],
            ) if id == "0ll" => Some(call(format!("__syncthreads({SITE});"))),
            (["bar", "warp", "sync"], [mask]) => {
                Some(call(format!("__syncwarp({}, {SITE});", mask.value()?)))
            }
            (["membar", "cta" | "gl" | "sys"], [])
            | (["fence", "acq_rel" | "sc", "cta" | "cluster" | "gpu" | "sys"], []) => {
                Some(call("__threadfence();".to_owned()))
            }
            (
                ["barrier", "cluster", "arrive"]
                | ["barrier", "cluster", "arrive", "release" | "relaxed" | "aligned"]
                | ["barrier", "cluster", "arrive", "release" | "relaxed", "aligned"],
                [],
            ) => Some(call(format!("__cluster_barrier_arrive({SITE});"))),
            (
                ["barrier", "cluster", "wait"]
                | ["barrier", "cluster", "wait", "acquire" | "aligned"]
                | ["barrier", "cluster", "wait", "acquire", "aligned"],
                [],
            ) => Some(call(format!("__cluster_barrier_wait({SITE});"))),
            _ => None,
        }
    }

    /// Moves between registers, halves of registers, and addresses of shared memory.
    fn mov(&self) -> Option<Call> {
        let [to, from] = &*self.arguments else { return None };
        let floating = to.is_floating(self.statement) || from.is_floating(self.statement);
        match (&*self.parts, to, from) {
            (["cvta", "to", "shared" | "shared::cta", "u64"], to, Argument::Value(from, _)) => {
                let from = format!("reinterpret_cast<const void*>({})", read_as("u64", from));
                Some(call(put(to, &format!("__cvta_generic_to_shared({from}, {SITE})"))?))
            }
            (["cvta", "shared" | "shared::cta", "u64"], to, Argument::Value(from, _)) => {
                let place = place(Space::Shared, from, 0);
                Some(call(put(to, &format!("reinterpret_cast<{}>({place})", type_name("u64")))?))
            }
            (["mov", "b32" | "b64"], to, Argument::Vector(list)) if list.len() == 2 => {
                let (half, whole, bits) = widths(self.parts[1]);
                let part = |at: usize| list[at].value().map(|value| read_as(half, value));
                let whole = type_name(whole);
                let value = format!("({whole}){} | ({whole}){} << {bits}", part(0)?, part(1)?);
                Some(Call { code: put(to, &format!("({whole})({value})"))?, packs: floating })
            }
            (["mov", "b32" | "b64"], Argument::Vector(list), Argument::Value(from, _))
                if list.len() == 2 =>
            {
                let (half, whole, bits) = widths(self.parts[1]);
                let whole =
                    format!("const {} replay_ptx_w = {};", type_name(whole), read_as(whole, from));
                let half = type_name(half);
                let low = put(&list[0], &format!("({half})replay_ptx_w"))?;
                let high = put(&list[1], &format!("({half})(replay_ptx_w >> {bits})"))?;
                Some(Call { code: format!("{whole} {low} {high}"), packs: floating })
            }
            (["mov", kind], to, Argument::Value(from, _)) => {
                let integers =
                    ["b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"].contains(kind);
                if !integers && !["f32", "f64"].contains(kind) {
                    return None;
                }
                let code = put(to, &read_as(kind, from))?;
                Some(Call { code, packs: integers && floating })
            }
            _ => None,
        }
    }

    fn other(&self) -> Option<Call> {
        match (&*self.parts, &*self.arguments) {
            (["prefetch" | "prefetchu", ..], [Argument::Address(..)])
            | (["griddepcontrol", "wait" | "launch_dependents"], []) => Some(call(";".to_owned())),
            (["nanosleep", "u32"], [time]) => {
                Some(call(format!("__nanosleep({});", read_as("u32", time.value()?))))
            }
            (["trap"], []) => Some(call(format!("__trap({SITE});"))),
            _ => None,
        }
    }
}

/// Half and whole of a register, and the bits of the half.
fn widths(whole: &str) -> (&'static str, &'static str, u32) {
    if whole == "b32" { ("b16", "b32", 16) } else { ("b32", "b64", 32) }
}
