//! Properties of the front end for any source text: every line stays where it was, equal texts have
//! equal translations, and no text ends the program.

use crate::frontend::{
    FrontendError, Precision, SourceUnit, Symbols, ThreadForm, Threads, collect_identifiers,
    find_function_signatures, scan_symbols, translate_for_device, translate_for_host,
    translate_harness_call, unit_integer_conversions,
};

/// The most bytes of a text: more finds nothing new and takes longer.
const MOST: usize = 64 << 10;

/// Any text is translated line for line or refused with a line of it; equal texts alike.
pub fn fuzz_frontend(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]);
    let unit = SourceUnit { path: "src/a.cu", text: &text };
    let lines = text.matches('\n').count();
    let symbols = scan_symbols(&[unit]);
    for (precision, threads) in [
        (Precision::Native, Threads::Stacks),
        (Precision::Native, Threads::Lanes),
        (Precision::Shadow, Threads::Blocks),
    ] {
        let first_translation = host_text(&unit, &symbols, precision, threads, lines);
        let second_translation =
            host_text(&unit, &scan_symbols(&[unit]), precision, threads, lines);
        assert_eq!(first_translation, second_translation, "two translations of one text");
    }
    let device_translation = translate_for_device(&unit, &symbols, Precision::Native)
        .expect("device code is NVRTC's to refuse");
    let Some(kept_text) = device_translation.strip_prefix("#include <replay_nvrtc/prelude>\n")
    else {
        panic!("no prelude in {device_translation}");
    };
    check_line_directive(kept_text, lines);
    match translate_harness_call(&text, "call in replay.toml", &symbols, Precision::Shadow) {
        Ok(call_text) => {
            check_line_directive(&call_text, lines);
        }
        Err(error) => check_refusal_line(&error, lines),
    }
    for function in find_function_signatures(&unit, &symbols) {
        check_line_number(function.line, lines);
    }
    for conversion in unit_integer_conversions(&unit) {
        check_line_number(conversion.line, lines);
    }
    assert!(collect_identifiers(&unit).iter().all(|name| text.contains(name.as_str())));
}

fn host_text(
    unit: &SourceUnit,
    symbols: &Symbols,
    precision: Precision,
    threads: Threads,
    lines: usize,
) -> Result<String, FrontendError> {
    let translation = match translate_for_host(unit, symbols, precision, threads) {
        Ok(host_translation) => host_translation,
        Err(error) => {
            check_refusal_line(&error, lines);
            return Err(error);
        }
    };
    let text = check_line_directive(&translation.text, lines);
    if precision == Precision::Native && is_plain(unit.text) {
        assert_eq!(text, unit.text, "text that is no CUDA and no program");
    }
    translation.launches.iter().for_each(|launch| check_line_number(launch.line, lines));
    translation.kernels.iter().for_each(|kernel| check_line_number(kernel.line, lines));
    for form in &translation.kernel_forms {
        check_line_number(form.line, lines);
        if let ThreadForm::Stacks { line: Some(line), .. } = form.threads {
            check_line_number(line, lines);
        }
    }
    translation.shuffles.iter().for_each(|shuffle| check_line_number(shuffle.line, lines));
    translation
        .shadow_obstacles
        .iter()
        .for_each(|obstacle| check_line_number(obstacle.line, lines));
    Ok(translation.text)
}

/// Whether nothing in `text` is CUDA's or a program's.
fn is_plain(text: &str) -> bool {
    !text.contains("__")
        && !text.contains("<<<")
        && !text.contains("main")
        && !text.starts_with('\u{feff}')
}

/// The lines of a file with `lines` line breaks follow a `#line` directive, as many as before.
fn check_line_directive(translation: &str, lines: usize) -> &str {
    let Some((directive, text)) = translation.split_once('\n') else {
        panic!("one line: {translation}")
    };
    assert!(directive.starts_with("#line 1 \""), "{directive}");
    assert_eq!(text.matches('\n').count(), lines, "line breaks of\n{text}");
    text
}

fn check_refusal_line(error: &FrontendError, lines: usize) {
    super::check_error_text(error, error.hint());
    let (FrontendError::UnseenLaunch { line, .. }
    | FrontendError::UnseenMacroLaunch { line, .. }
    | FrontendError::SharedMemory { line, .. }
    | FrontendError::Unsupported { line, .. }
    | FrontendError::DeviceLaunch { line, .. }
    | FrontendError::UnclosedBracket { line, .. }
    | FrontendError::KeywordArgument { line, .. }) = error;
    check_line_number(*line, lines);
}

fn check_line_number(line: usize, lines: usize) {
    assert!((1..=lines + 1).contains(&line), "line {line} of {}", lines + 1);
}
