//! Answers of a user: single keys on a terminal, lines from anything else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};

use console::Term;

use super::out::{print, println};

/// One answer.
pub enum Key {
    /// A letter, with what followed it on its line; none where keys come one by one.
    Letter(char, Option<String>),
    /// Ctrl-C.
    Interrupt,
}

/// Where answers come from.
pub enum Answers {
    /// The terminal, for keys and for lines.
    Terminal(Term, File),
    /// Standard input, a line an answer.
    Lines,
}

/// End of transmission.
const CTRL_D: char = '\u{4}';

impl Answers {
    /// The terminal where standard input is one, else standard input.
    pub fn open() -> Answers {
        let terminal = || {
            let keys = File::options().read(true).write(true).open("/dev/tty").ok()?;
            let lines = keys.try_clone().ok()?;
            Some(Answers::Terminal(Term::read_write_pair(keys.try_clone().ok()?, keys), lines))
        };
        io::stdin().is_terminal().then(terminal).flatten().unwrap_or(Answers::Lines)
    }

    /// The next answer; none at the end of input.
    pub fn key(&mut self) -> Option<Key> {
        let _ = io::stdout().flush();
        match self {
            Answers::Terminal(keys, _) => {
                let letter = match keys.read_key_raw().ok()? {
                    console::Key::CtrlC => return Some(Key::Interrupt),
                    console::Key::Escape | console::Key::Char(CTRL_D) => return None,
                    console::Key::Char(letter) => letter.to_ascii_lowercase(),
                    console::Key::Enter => '\n',
                    _ => '?',
                };
                println!("{}", letter.escape_default());
                Some(Key::Letter(letter, None))
            }
            Answers::Lines => {
                let line = read_line(&mut io::stdin().lock())?;
                let line = line.trim();
                let letter = line.chars().next().unwrap_or(' ');
                let rest = line[letter.len_utf8().min(line.len())..].trim();
                Some(Key::Letter(letter.to_ascii_lowercase(), Some(rest.to_owned())))
            }
        }
    }

    /// A whole line that answers `question`; none at the end of input.
    pub fn line(&mut self, question: &str) -> Option<String> {
        print!("{question}");
        let _ = io::stdout().flush();
        let line = match self {
            // A terminal gives one line at a time, so nothing is read ahead and lost.
            Answers::Terminal(_, lines) => read_line(&mut BufReader::new(lines))?,
            Answers::Lines => read_line(&mut io::stdin().lock())?,
        };
        Some(line.trim().to_owned())
    }
}

fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = input.read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}
