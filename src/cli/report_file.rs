//! The files of `--report`: the result once more, in the format of each file's ending.

use std::path::{Path, PathBuf};

use ::replay::files;

use super::error::{CliResult, CommandError, ErrorContext};
use super::replay::Format;

/// The file formats of most commands.
pub const FILES: [FileFormat; 2] = [FileFormat::Html, FileFormat::Json];

/// The format of a report in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// A page to look at.
    Html,
    /// For programs.
    Json,
    /// For the summary of a job.
    Markdown,
    /// For CI servers.
    Junit,
}

impl FileFormat {
    /// The ending of the names of such files.
    fn ending(self) -> &'static str {
        match self {
            FileFormat::Html => "html",
            FileFormat::Json => "json",
            FileFormat::Markdown => "md",
            FileFormat::Junit => "xml",
        }
    }
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Format {
        match format {
            FileFormat::Json => Format::Json,
            _ => Format::Html,
        }
    }
}

/// A file for a result.
struct ReportFile {
    path: PathBuf,
    /// The format of its ending.
    format: FileFormat,
}

/// The files for a result.
pub struct ReportFiles(Vec<ReportFile>);

impl ReportFiles {
    /// The files at `paths`. `formats` are those of the command.
    ///
    /// # Errors
    /// As [`ReportFile::named`], and if a file is named twice.
    pub fn named(paths: &[PathBuf], formats: &[FileFormat]) -> CliResult<ReportFiles> {
        for (number, path) in paths.iter().enumerate() {
            if paths[..number].contains(path) {
                let message = format!("the report {} is named twice", path.display());
                return Err(
                    CommandError::new(message).with_hint("each --report names another file")
                );
            }
        }
        let files = paths.iter().map(|path| ReportFile::named(path, formats));
        Ok(ReportFiles(files.collect::<CliResult<_>>()?))
    }

    /// Whether one of them is a page.
    pub fn have_page(&self) -> bool {
        self.have(FileFormat::Html)
    }

    /// Whether one of them is of this format.
    pub fn have(&self, format: FileFormat) -> bool {
        self.0.iter().any(|file| file.format == format)
    }

    /// Writes each with the text of `render` in its format.
    pub fn write(&self, render: impl Fn(FileFormat) -> String) -> CliResult<()> {
        self.0.iter().try_for_each(|file| file.write(&render(file.format)))
    }
}

impl ReportFile {
    /// The file at `path`. `formats` are those of the command.
    ///
    /// # Errors
    /// If the ending names none of them, or the folder does not exist: before anything is replayed.
    fn named(path: &Path, formats: &[FileFormat]) -> CliResult<ReportFile> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let known_format = formats.iter().find(|format| Some(format.ending()) == ending);
        let Some(&format) = known_format else {
            let endings: Vec<String> =
                formats.iter().map(|format| format!(".{}", format.ending())).collect();
            let message = format!("the ending of {} names no format of a report", path.display());
            return Err(CommandError::new(message)
                .with_hint(format!("the endings are {}", endings.join(", "))));
        };
        refuse_unwritable_path(path, "report")?;
        Ok(ReportFile { path: path.to_owned(), format })
    }

    /// Writes the report; an earlier one is replaced.
    fn write(&self, text: &str) -> CliResult<()> {
        files::replace_entry(&self.path, text.as_bytes())
            .context(|| format!("cannot write the report to {}", self.path.display()))
    }
}

/// Refuses a path for the file of the option `--NOUN`: before anything is replayed.
///
/// # Errors
/// If the folder does not exist, or something other than a file is in its place.
pub fn refuse_unwritable_path(path: &Path, noun: &str) -> CliResult<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let message = format!("there is no folder {} for the {noun}", folder.display());
        return Err(CommandError::new(message)
            .with_hint(format!("make it, or name another file with --{noun}")));
    }
    if let Ok(target) = std::fs::read_link(path) {
        let message = format!(
            "the {noun} cannot be written to {}: it is a symbolic link to {}",
            path.display(),
            target.display()
        );
        return Err(CommandError::new(message)
            .with_hint(format!("remove the link, or name the file itself with --{noun}")));
    }
    if path.is_dir() {
        let message = format!("the {noun} cannot be written to {}: it is a folder", path.display());
        return Err(
            CommandError::new(message).with_hint(format!("name a file in it with --{noun}"))
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_names_the_format_and_what_cannot_be_written_is_told_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let named = |name: &str| ReportFile::named(&folder.path().join(name), &FILES);
        assert_eq!(named("a.html").unwrap().format, FileFormat::Html);
        assert_eq!(named("a.b.json").unwrap().format, FileFormat::Json);
        std::fs::create_dir(folder.path().join("folder.html")).expect("a folder");
        std::os::unix::fs::symlink("loss.cu", folder.path().join("link.html")).expect("a link");
        let names = ["a", "a.pdf", "a.md", "none/a.html", "folder.html", "link.html"];
        let told = names.map(|name| {
            let error = named(name).err().expect("it cannot be written");
            let at = folder.path().display().to_string();
            format!("{}; {}\n", error.message().replace(&at, ""), error.hints().join("; "))
        });
        insta::assert_snapshot!(told.concat(), @"
        the ending of /a names no format of a report; the endings are .html, .json
        the ending of /a.pdf names no format of a report; the endings are .html, .json
        the ending of /a.md names no format of a report; the endings are .html, .json
        there is no folder /none for the report; make it, or name another file with --report
        the report cannot be written to /folder.html: it is a folder; name a file in it with --report
        the report cannot be written to /link.html: it is a symbolic link to loss.cu; remove the link, or name the file itself with --report
        ");
    }

    #[test]
    fn a_file_that_is_named_twice_is_refused() {
        let paths = ["a.html", "a.json", "a.html"].map(PathBuf::from);
        assert!(ReportFiles::named(&paths[..2], &FILES).is_ok_and(|files| files.have_page()));
        let error = ReportFiles::named(&paths, &FILES).err().expect("it is refused");
        insta::assert_snapshot!(error.in_a_line(), @"the report a.html is named twice");
    }

    #[test]
    fn a_link_that_was_put_there_since_is_replaced_and_its_target_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.html");
        let file = ReportFile::named(&path, &FILES).unwrap();
        std::fs::write(folder.path().join("loss.cu"), "a source").expect("a file");
        std::os::unix::fs::symlink("loss.cu", &path).expect("a link");
        file.write("a page").unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!((text("loss.cu"), text("a.html")), ("a source".into(), "a page".into()));
    }

    #[test]
    fn an_earlier_report_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.html");
        for text in ["one", "two"] {
            let file = ReportFile::named(&path, &FILES).unwrap();
            file.write(text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
        }
    }
}
