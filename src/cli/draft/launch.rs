//! The statement that calls a function: template arguments, grid and block of a kernel without a launcher.

use ::replay::frontend::{Signature, TemplateParameter};

use super::MARK;

/// The statement that calls `function` with `arguments`; `sizes` are those of its parameters, `result` takes
/// what it returns, `note` tells of guesses among the arguments.
pub fn statement(
    function: &Signature,
    arguments: &str,
    sizes: &[String],
    result: Option<&str>,
    guesses: &[String],
) -> String {
    let Signature { name, scope, .. } = function;
    let template = template_arguments(function);
    let mut guessed = guesses.to_vec();
    let launch = if function.kernel {
        guessed.insert(0, "grid, block".to_owned());
        let (grid, block) = grid(function, sizes);
        // As much as a block has without being asked.
        let shared = if function.grid.dynamic_shared { ", 32768" } else { "" };
        format!("<<<{grid}, {block}{shared}>>>")
    } else {
        String::new()
    };
    if !template.is_empty() {
        guessed.insert(0, "template arguments".to_owned());
    }
    let assigned = result.map_or(String::new(), |name| format!("{name} = "));
    let note = match guessed.is_empty() {
        true => String::new(),
        false => format!(" // {}: {}", &MARK[2..], guessed.join(", ")),
    };
    format!("{assigned}{scope}{name}{template}{launch}({arguments});{note}")
}

/// The template arguments that the call has to write: of kernels all, of functions those that their
/// parameters do not tell.
fn template_arguments(function: &Signature) -> String {
    let Some(parameters) = &function.template else { return String::new() };
    let deduced = |parameter: &TemplateParameter| {
        let mut taken = function.parameters.iter();
        taken.any(|taken| taken.ty.split(' ').any(|word| word == parameter.name))
    };
    let given = |parameter: &TemplateParameter| !parameter.has_default;
    let needed = |parameter: &TemplateParameter| {
        given(parameter) && (function.kernel || !deduced(parameter))
    };
    let Some(last) = parameters.iter().rposition(needed) else { return String::new() };
    let arguments: Vec<&str> = parameters[..=last].iter().map(template_argument).collect();
    format!("<{}>", arguments.join(", "))
}

fn template_argument(parameter: &TemplateParameter) -> &'static str {
    let name = parameter.name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match parameter.ty.as_str() {
        "typename" | "class" => "float",
        "bool" => "false",
        _ if has(&["block_size", "blocksize", "threads", "block_dim"]) => "256",
        _ if has(&["tile", "block", "bm", "bn", "bk", "dim"]) => "16",
        _ if has(&["head"]) => "64",
        _ if has(&["warp"]) => "32",
        _ if has(&["vec", "unroll", "pack", "elem", "per"]) => "4",
        _ => "32",
    }
}

/// Grid and block of a kernel that nothing launches: enough threads or blocks for all elements, since
/// kernels pass over what is too many.
fn grid(function: &Signature, sizes: &[String]) -> (String, &'static str) {
    let product = |sizes: &[String]| match sizes {
        [] => "1".to_owned(),
        sizes => sizes.join(" * "),
    };
    let (of, outer) = (function.grid, sizes.len().saturating_sub(1));
    let last = sizes.last().map_or("1", String::as_str);
    match (of.threads_y, of.blocks_y, of.by_thread) {
        (true, ..) => {
            let first = sizes.first().cloned().unwrap_or("1".to_owned());
            let largest = |most: String, size: &String| format!("max({most}, {size})");
            let most = sizes.iter().skip(1).fold(first, largest);
            let blocks = format!("({most} + 15) / 16");
            (format!("dim3({blocks}, {blocks})"), "dim3(16, 16)")
        }
        (_, true, true) => {
            (format!("dim3(({last} + 255) / 256, {})", product(&sizes[..outer])), "256")
        }
        (_, true, false) => (format!("dim3({last}, {})", product(&sizes[..outer])), "256"),
        (.., true) => (format!("({} + 255) / 256", product(sizes)), "256"),
        _ if !of.blocks_x => ("1".to_owned(), "256"),
        _ => (product(&sizes[..outer.max(1).min(sizes.len())]), "256"),
    }
}
