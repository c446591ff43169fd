//! Properties of the front end for any source text: every line stays where it was, equal texts have
//! equal translations, and no text ends the program.

use crate::frontend::{
    FrontendError, Precision, Symbols, ThreadForm, Threads, Unit, call, device, host, identifiers,
    scan, signatures,
};

/// The most bytes of a text: more finds nothing new and takes longer.
const MOST: usize = 64 << 10;

/// Any text is translated line for line or refused with a line of it; equal texts alike.
pub fn frontend(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]);
    let unit = Unit { path: "src/a.cu", text: &text };
    let lines = text.matches('\n').count();
    let symbols = scan(&[unit]);
    for (precision, threads) in [
        (Precision::Native, Threads::Stacks),
        (Precision::Native, Threads::Lanes),
        (Precision::Shadow, Threads::Blocks),
    ] {
        let made = host_text(&unit, &symbols, precision, threads, lines);
        let again = host_text(&unit, &scan(&[unit]), precision, threads, lines);
        assert_eq!(made, again, "two translations of one text");
    }
    let made =
        device(&unit, &symbols, Precision::Native).expect("device code is NVRTC's to refuse");
    let Some(kept) = made.strip_prefix("#include <replay_nvrtc/prelude>\n") else {
        panic!("no prelude in {made}");
    };
    stays(kept, lines);
    match call(&text, "call in replay.toml", &symbols, Precision::Shadow) {
        Ok(made) => {
            stays(&made, lines);
        }
        Err(error) => refused(&error, lines),
    }
    for function in signatures(&unit, &symbols) {
        within(function.line, lines);
    }
    assert!(identifiers(&unit).iter().all(|name| text.contains(name.as_str())));
}

fn host_text(
    unit: &Unit,
    symbols: &Symbols,
    precision: Precision,
    threads: Threads,
    lines: usize,
) -> Result<String, FrontendError> {
    let made = match host(unit, symbols, precision, threads) {
        Ok(made) => made,
        Err(error) => {
            refused(&error, lines);
            return Err(error);
        }
    };
    let text = stays(&made.text, lines);
    if precision == Precision::Native && is_plain(unit.text) {
        assert_eq!(text, unit.text, "text that is no CUDA and no program");
    }
    made.launches.iter().for_each(|launch| within(launch.line, lines));
    made.kernels.iter().for_each(|kernel| within(kernel.line, lines));
    for form in &made.kernel_forms {
        within(form.line, lines);
        if let ThreadForm::Stacks { line: Some(line), .. } = form.threads {
            within(line, lines);
        }
    }
    made.shuffles.iter().for_each(|shuffle| within(shuffle.line, lines));
    made.shadow_obstacles.iter().for_each(|found| within(found.line, lines));
    Ok(made.text)
}

/// Whether nothing in `text` is CUDA's or a program's.
fn is_plain(text: &str) -> bool {
    !text.contains("__")
        && !text.contains("<<<")
        && !text.contains("main")
        && !text.starts_with('\u{feff}')
}

/// The lines of a file with `lines` line breaks follow a `#line` directive, as many as before.
fn stays(made: &str, lines: usize) -> &str {
    let Some((directive, text)) = made.split_once('\n') else { panic!("one line: {made}") };
    assert!(directive.starts_with("#line 1 \""), "{directive}");
    assert_eq!(text.matches('\n').count(), lines, "line breaks of\n{text}");
    text
}

fn refused(error: &FrontendError, lines: usize) {
    super::told(error, error.hint());
    let (FrontendError::UnseenLaunch { line, .. }
    | FrontendError::UnseenMacroLaunch { line, .. }
    | FrontendError::SharedMemory { line, .. }
    | FrontendError::Unsupported { line, .. }) = error;
    within(*line, lines);
}

fn within(line: usize, lines: usize) {
    assert!((1..=lines + 1).contains(&line), "line {line} of {}", lines + 1);
}
