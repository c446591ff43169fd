//! Answers of a user: single keys on a terminal, lines from anything else.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};

use console::Term;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::out::{print, println};

/// One answer.
pub enum AnswerKey {
    /// A letter, with the rest of its line; none where keys come one by one.
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
        if io::stdin().is_terminal() {
            Answers::open_terminal().unwrap_or(Answers::Lines)
        } else {
            Answers::Lines
        }
    }

    /// The terminal of this process; none if it cannot be opened.
    fn open_terminal() -> Option<Answers> {
        let keys = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let lines = keys.try_clone().ok()?;
        Some(Answers::Terminal(Term::read_write_pair(keys.try_clone().ok()?, keys), lines))
    }

    /// The answer to `question`; none at the end of input.
    pub fn key(&mut self, question: Arguments) -> Option<AnswerKey> {
        match self {
            Answers::Terminal(keys, terminal) => {
                // Before the question: an early key counts too.
                let _raw = Raw::enter(terminal)?;
                print_question(question);
                let letter = match keys.read_key_raw().ok()? {
                    console::Key::CtrlC => return Some(AnswerKey::Interrupt),
                    console::Key::Escape | console::Key::Char(CTRL_D) => return None,
                    console::Key::Char(letter) => letter.to_ascii_lowercase(),
                    console::Key::Enter => '\n',
                    _ => '?',
                };
                println!("{}", letter.escape_default());
                Some(AnswerKey::Letter(letter, None))
            }
            Answers::Lines => {
                print_question(question);
                let line = read_line(&mut io::stdin().lock())?;
                let line = line.trim();
                let letter = line.chars().next().unwrap_or(' ');
                let rest = line[letter.len_utf8().min(line.len())..].trim();
                Some(AnswerKey::Letter(letter.to_ascii_lowercase(), Some(rest.to_owned())))
            }
        }
    }

    /// A whole line as an answer to `question`; none at the end of input.
    pub fn line(&mut self, question: &str) -> Option<String> {
        print_question(format_args!("{question}"));
        let line = match self {
            // A terminal gives one line at a time, so nothing is read ahead and lost.
            Answers::Terminal(_, lines) => read_line(&mut BufReader::new(lines))?,
            Answers::Lines => read_line(&mut io::stdin().lock())?,
        };
        Some(line.trim().to_owned())
    }
}

fn print_question(question: Arguments) {
    print!("{question}");
    let _ = io::stdout().flush();
}

fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let byte_count = input.read_line(&mut line).ok()?;
    (byte_count > 0).then_some(line)
}

/// A terminal with every key at once and none shown, until this is dropped.
struct Raw<'t> {
    terminal: &'t File,
    before: Termios,
}

impl Raw<'_> {
    fn enter(terminal: &File) -> Option<Raw<'_>> {
        let before = tcgetattr(terminal).ok()?;
        let mut raw = before.clone();
        // Ctrl-C comes as a key: the settings are put back before the program ends.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Now, &raw).ok()?;
        Some(Raw { terminal, before })
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // A lost terminal needs no settings.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
