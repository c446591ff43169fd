//! Reads the output of compute-sanitizer. Text in, findings out.
//!
//! A record is a line `========= WORDS` and the further indented lines behind it
//! (Compute Sanitizer documentation, "Memcheck Tool" and its siblings).

use super::SanitizerFinding;

/// The output of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// The findings, each place once, in order.
    pub findings: Vec<SanitizerFinding>,
    /// Whether it came to its summary.
    pub complete: bool,
    /// Its complaints about itself: why it could not work.
    pub complaints: Vec<String>,
}

const MARK: &str = "=========";

/// Reads the output of a run.
pub fn parse_transcript(text: &str) -> Transcript {
    let mut transcript =
        Transcript { findings: Vec::new(), complete: false, complaints: Vec::new() };
    for record in split_transcript_records(text) {
        let head = record[0];
        let lines = &record[1..];
        if head.starts_with("ERROR SUMMARY") || head.starts_with("RACECHECK SUMMARY") {
            transcript.complete = true;
        } else if let Some(new_finding) =
            parse_race(head, lines).or_else(|| parse_located_finding(head, lines))
        {
            count_sanitizer_finding(&mut transcript.findings, new_finding);
        } else if ["Error", "Internal", "Warning", "Device"].iter().any(|w| head.starts_with(w)) {
            transcript.complaints.push(head.to_owned());
        }
    }
    transcript
}

/// The records of `text`: the head, then its further lines.
fn split_transcript_records(text: &str) -> Vec<Vec<&str>> {
    let mut records: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
        let words = line.trim();
        match records.last_mut() {
            _ if words.is_empty() => {}
            Some(last) if line.starts_with("     ") => last.push(words),
            _ => records.push(vec![words]),
        }
    }
    records
}

/// Counts `new_finding` where the same was found before.
fn count_sanitizer_finding(findings: &mut Vec<SanitizerFinding>, new_finding: SanitizerFinding) {
    let known_finding = findings.iter_mut().find(|known| {
        (&known.what, &known.kernel, &known.sites)
            == (&new_finding.what, &new_finding.kernel, &new_finding.sites)
    });
    match known_finding {
        Some(known_finding) => known_finding.count += new_finding.count,
        None => findings.push(new_finding),
    }
}

fn blank_sanitizer_finding(description: &str) -> SanitizerFinding {
    SanitizerFinding {
        what: description.to_owned(),
        kernel: None,
        sites: Vec::new(),
        block: None,
        thread: None,
        address: None,
        detail: String::new(),
        count: 1,
    }
}

/// `Error: Race reported between Write access at f(int *)+0xa0 in k.cu:11` and lines such as
/// `and Read access at f(int *)+0xb0 in k.cu:12 [512 hazards]`.
fn parse_race(head: &str, lines: &[&str]) -> Option<SanitizerFinding> {
    let (severity, first) = head.split_once(": Race reported between ")?;
    let mut new_finding = blank_sanitizer_finding("");
    let mut accesses = Vec::new();
    let mut count = 0;
    let other_accesses = lines.iter().filter_map(|line| line.strip_prefix("and "));
    for access in std::iter::once(first).chain(other_accesses) {
        let (access, hazards) = match access.split_once(" [") {
            Some((access, hazards_text)) => {
                (access, hazards_text.split(' ').next().and_then(|n| n.parse().ok()))
            }
            None => (access, None),
        };
        count += hazards.unwrap_or(0);
        let (access_kind, location) = access.split_once(" access at ")?;
        accesses.push(access_kind.to_lowercase());
        let (kernel, site) = function_and_site(location);
        new_finding.kernel.get_or_insert(kernel);
        new_finding.sites.extend(site.map(str::to_owned));
    }
    new_finding.what = format!("{severity}: race between {}", accesses.join(" and "));
    new_finding.count = u64::max(count, 1);
    Some(new_finding)
}

/// A head and lines with places: `at f(int *)+0x60 in k.cu:6`, `by thread (4,0,0) in block
/// (0,0,0)`, `Access to 0x7f00 is out of bounds`.
fn parse_located_finding(head: &str, lines: &[&str]) -> Option<SanitizerFinding> {
    let by_host = head.starts_with("Host API memory access error");
    let mut new_finding = blank_sanitizer_finding(if by_host {
        "Uninitialized memory copied by the host"
    } else {
        head
    });
    let mut details = Vec::new();
    for line in lines {
        if let Some(location) = line.strip_prefix("at ") {
            let (kernel, site) = function_and_site(location);
            new_finding.kernel = Some(kernel);
            new_finding.sites.extend(site.map(str::to_owned));
        } else if let Some((thread, block)) = line
            .strip_prefix("by thread ")
            .and_then(|position_text| position_text.split_once(" in block "))
        {
            (new_finding.thread, new_finding.block) = (parse_triple(thread), parse_triple(block));
        } else {
            let address = line.split(' ').find(|word| word.starts_with("0x"));
            new_finding.address = new_finding.address.or(address.map(str::to_owned));
            let detail = without_addresses(line);
            details.extend((detail != "Address").then_some(detail));
        }
    }
    new_finding.detail = details.join(" ");
    (by_host || new_finding.kernel.is_some()).then_some(new_finding)
}

/// `line` without its addresses, since they differ between runs: `Access is out of bounds` of `Access to
/// 0x7f00 is out of bounds`.
fn without_addresses(line: &str) -> String {
    let mut kept_words: Vec<&str> = Vec::new();
    for word in line.split(' ') {
        if word.starts_with("0x") {
            kept_words.pop_if(|word_before| matches!(*word_before, "to" | "at"));
        } else {
            kept_words.push(word);
        }
    }
    kept_words.join(" ")
}

/// `ns::f<int>` and `k.cu:6` of `void ns::f<int>(T1 *)+0x40 in k.cu:6`.
fn function_and_site(location: &str) -> (String, Option<&str>) {
    let (function, site) = match location.rsplit_once(" in ") {
        Some((function, site)) => (function, Some(site)),
        None => (location, None),
    };
    let function = function.rsplit_once("+0x").map_or(function, |(function, _)| function);
    (without_parameters(function), site)
}

fn without_parameters(function: &str) -> String {
    let mut depth = 0usize;
    let opening_parenthesis = function.char_indices().rev().find(|&(_, character)| {
        match character {
            ')' => depth += 1,
            '(' => depth = depth.saturating_sub(1),
            _ => return false,
        }
        character == '(' && depth == 0
    });
    let name = opening_parenthesis.map_or(function, |(index, _)| &function[..index]);
    name.strip_prefix("void ").unwrap_or(name).to_owned()
}

/// The numbers of `(4,0,0)`.
fn parse_triple(text: &str) -> Option<[u32; 3]> {
    let inner = text.trim().strip_prefix('(')?.split(')').next()?;
    let numbers: Vec<u32> =
        inner.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of compute-sanitizer 2025.3.1 on an NVIDIA H200 for kernels with planted errors.
    fn recorded(name: &str) -> Transcript {
        let path = format!("{}/../../tests/sanitizer/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        parse_transcript(&std::fs::read_to_string(path).unwrap())
    }

    fn told(name: &str) -> String {
        let transcript = recorded(name);
        assert!(transcript.complete && transcript.complaints.is_empty(), "{transcript:?}");
        let lines = transcript.findings.iter().map(|f| {
            format!(
                "{} | {:?} | {} | thread {:?} block {:?} | {:?} | {} | {}",
                f.what,
                f.kernel,
                f.sites.join(", "),
                f.thread,
                f.block,
                f.address,
                f.detail,
                f.count
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn accesses_tell_kernel_thread_address_and_the_nearest_allocation() {
        insta::assert_snapshot!(told("memcheck-past"));
        insta::assert_snapshot!(told("memcheck-crooked"));
        insta::assert_snapshot!(told("memcheck-far"));
        insta::assert_snapshot!(told("memcheck-shared_past"));
    }

    #[test]
    fn races_tell_both_places_and_how_many_bytes_they_concern() {
        insta::assert_snapshot!(told("racecheck-racy"));
        insta::assert_snapshot!(told("racecheck-racy_dynamic"));
    }

    #[test]
    fn reads_of_memory_that_nobody_wrote_are_told_of_kernels_and_of_copies() {
        insta::assert_snapshot!(told("initcheck-unread"));
    }

    #[test]
    fn barriers_in_divergent_code_are_told() {
        insta::assert_snapshot!(told("synccheck-diverged"));
    }

    #[test]
    fn a_clean_run_has_a_summary_and_no_findings() {
        assert_eq!(recorded("memcheck-good").findings, []);
        assert!(recorded("memcheck-good").complete);
    }

    #[test]
    fn what_it_says_of_itself_is_no_finding() {
        let transcript = parse_transcript(
            "========= COMPUTE-SANITIZER\n========= Error: Device not supported\n",
        );
        assert_eq!(transcript.complaints, ["Error: Device not supported"]);
        assert!(transcript.findings.is_empty() && !transcript.complete);
        let nothing = parse_transcript("");
        assert!(!nothing.complete);
    }

    #[test]
    fn a_kernel_without_line_numbers_is_named_all_the_same() {
        let transcript = parse_transcript(
            "========= Invalid __global__ read of size 1 bytes\n\
                        =========     at void f<int (*)(int)>(int (*)(int))+0x10\n\
                        =========     by thread (1,2,3) in block (4,5,6)\n",
        );
        let found = &transcript.findings[0];
        assert_eq!(found.kernel.as_deref(), Some("f<int (*)(int)>"));
        assert_eq!((found.thread, found.block), (Some([1, 2, 3]), Some([4, 5, 6])));
        assert!(found.sites.is_empty());
    }
}
