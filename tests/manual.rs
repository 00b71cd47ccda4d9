//! Writes man pages and shell completions of the installed programs, for their packages:
//! `cargo run -p evenkeel-tests --example manual -- DIRECTORY`.

use std::path::PathBuf;
use std::{env, fs, io};

use clap_complete::Shell;

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.ok_or_else(|| io::Error::other("name a directory to write to"))?;
    for command in [
        evenkeel_apps::cli::command(),
        evenkeel_router::cli::command(),
    ] {
        let name = command.get_name().to_owned();
        let directory = directory.join(&name);
        fs::create_dir_all(&directory)?;
        clap_mangen::generate_to(command.clone(), &directory)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            clap_complete::generate_to(shell, &mut command.clone(), &name, &directory)?;
        }
    }
    Ok(())
}
