//! `replay completions SHELL` and `replay man DIR`: writes completion scripts and manual pages.

use std::path::{Path, PathBuf};

use ::replay::files;
use clap::CommandFactory;
use clap_complete::Shell;

use super::error::{CliResult, ErrorContext};
use super::out::print;
use super::{Cli, exit};

/// The arguments of `replay completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// The shell that completes commands and options
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script for the shell.
pub fn run_completions(args: &CompletionArgs) -> CliResult<u8> {
    // The script is generated in memory: its own writer panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "replay", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(exit::SUCCESS)
}

/// The arguments of `replay man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The folder for a page of each command, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages.
pub fn run_man(args: &ManArgs) -> CliResult<u8> {
    let folder = &args.folder;
    write_manual_pages(folder)
        .context(|| format!("cannot write manual pages to {}", folder.display()))?;
    Ok(exit::SUCCESS)
}

fn write_manual_pages(folder: &Path) -> std::io::Result<()> {
    // Pages go to the folder as files: a link there may lead anywhere.
    let temporary_folder = tempfile::tempdir()?;
    clap_mangen::generate_to(Cli::command(), &temporary_folder)?;
    std::fs::create_dir_all(folder)?;
    for page in std::fs::read_dir(&temporary_folder)? {
        let page = page?;
        files::replace_entry(&folder.join(page.file_name()), &std::fs::read(page.path())?)?;
    }
    Ok(())
}
