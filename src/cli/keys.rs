//! Answers of a user: single keys on a terminal, lines from anything else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

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
    /// The terminal.
    Terminal(File),
    /// Standard input, a line an answer.
    Lines,
}

/// The byte of Ctrl-C, end of text.
const INTERRUPT: u8 = 0x03;
/// Bytes that end the session: end of transmission (Ctrl-D), escape.
const ENDS: [u8; 2] = [0x04, 0x1b];

impl Answers {
    /// The terminal where standard input is one, else standard input.
    pub fn open() -> Answers {
        let terminal = io::stdin().is_terminal().then(|| File::open("/dev/tty").ok()).flatten();
        terminal.map_or(Answers::Lines, Answers::Terminal)
    }

    /// The next answer; none at the end of input.
    pub fn key(&mut self) -> Option<Key> {
        let _ = io::stdout().flush();
        match self {
            Answers::Terminal(terminal) => {
                let raw = Raw::enter(terminal)?;
                let mut byte = [0];
                let read = (&*terminal).read(&mut byte);
                drop(raw);
                if !matches!(read, Ok(1)) || ENDS.contains(&byte[0]) {
                    return None;
                }
                if byte[0] == INTERRUPT {
                    return Some(Key::Interrupt);
                }
                let letter = char::from(byte[0]).to_ascii_lowercase();
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

    /// A whole line that answers `question`; none at the end of input, where nobody is left.
    pub fn line(&mut self, question: &str) -> Option<String> {
        print!("{question}");
        let _ = io::stdout().flush();
        let line = match self {
            // A terminal gives one line at a time, so nothing is read ahead and lost.
            Answers::Terminal(terminal) => read_line(&mut BufReader::new(terminal))?,
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

/// A terminal that gives every key at once, without showing it, until this is dropped.
struct Raw<'t> {
    terminal: &'t File,
    before: Termios,
}

impl Raw<'_> {
    fn enter(terminal: &File) -> Option<Raw<'_>> {
        let before = tcgetattr(terminal).ok()?;
        let mut raw = before.clone();
        // Ctrl-C comes as a key, so that the settings are put back before the program ends.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Now, &raw).ok()?;
        Some(Raw { terminal, before })
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
