//! Writes man pages and shell completions of the installed programs, for their packages:
//! `cargo run -p evenkeel-tests --example manual -- DIRECTORY`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use clap_complete::Shell;
use evenkeel_router::config::Config;

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
    let page = directory.join("evenkeel-router/evenkeel-router.toml.5");
    fs::write(page, configuration())
}

/// The manual page of the router's configuration, of the keys that its parser reads.
fn configuration() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        ".TH evenkeel-router.toml 5 \"\" \"evenkeel-router {version}\"\n\
         .SH NAME\nevenkeel-router.toml \\- what evenkeel-router does\n\
         .SH SYNOPSIS\n.nf\nname = \"r1\"\n[[links]]\nname = \"bottleneck\"\ntun = \"ek-bn\"\n\
         rate_bps = 2_000_000\nroutes = [{{ to = \"10.0.2.0/24\", dev = \"eth0\" }}]\n.fi\n\
         .SH DESCRIPTION\nA TOML file. Rates, sizes and times are numbers in the unit of their key, or \
         strings with a unit such as \"5M\". Values in parentheses are those of keys that are left \
         out.\n"
    );
    for (title, keys) in Config::keys() {
        let heading = match title {
            "" => "THE ROUTER".to_owned(),
            title => format!("EACH OF {title}"),
        };
        page += &format!(".SH {}\n", roff(&heading));
        for (key, meaning) in keys {
            let range = (title == "[[links]]").then(|| range(key)).flatten();
            let range = range.map_or(String::new(), |range| format!(" {range}."));
            page += &format!(
                ".TP\n.B {}\n{}{}\n",
                roff(key),
                roff(meaning.trim()),
                roff(&range)
            );
        }
    }
    page + ".SH SEE ALSO\n.BR evenkeel-router (1),\n.BR evenkeel-router-check (1),\n\
            /usr/share/doc/evenkeel-router/router.md\n"
}

/// The range of a link's key in words, as the parser says it to somebody who leaves it.
fn range(key: &str) -> Option<String> {
    let text = format!("name = \"r\"\n[[links]]\n{key} = 1e15\n");
    let refusal = Config::parse(&text, "", Path::new("/")).err()?.to_string();
    let (_, range) = refusal.split_once("is out of range; use ")?;
    range.lines().next().map(|range| format!("From {range}"))
}

/// A text as roff(7) wants it.
fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
