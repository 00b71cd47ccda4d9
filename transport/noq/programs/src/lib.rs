//! What the programs share: their command lines, and how they end.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

/// An error as a program prints it: one line.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A command line: words, and options with a value each.
pub struct Arguments {
    words: Vec<String>,
    options: HashMap<String, String>,
}

impl Arguments {
    /// Of this process. An option is `--NAME VALUE`, with one of the `names`.
    ///
    /// # Errors
    ///
    /// An option has another name, or no value.
    pub fn of_process(names: &[&str]) -> Result<Self> {
        let (mut words, mut options) = (Vec::new(), HashMap::new());
        let mut arguments = std::env::args().skip(1);
        while let Some(word) = arguments.next() {
            let Some(name) = word.strip_prefix("--") else {
                words.push(word);
                continue;
            };
            if name == "help" {
                return Ok(Self {
                    words: vec![name.to_owned()],
                    options,
                });
            }
            if !names.contains(&name) {
                return Err(format!("there is no option {word}; see --help").into());
            }
            let value = arguments.next().ok_or(format!("{word} wants a value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Self { words, options })
    }

    /// The words that are no options.
    pub fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// The value of an option, or `default` without it.
    ///
    /// # Errors
    ///
    /// The value cannot be read.
    pub fn option<T: FromStr<Err: std::fmt::Display>>(&self, name: &str, default: T) -> Result<T> {
        let Some(value) = self.options.get(name) else {
            return Ok(default);
        };
        let value = value.parse();
        Ok(value.map_err(|error| format!("--{name}: {error}"))?)
    }
}

/// Ends a program: with its error on standard error, if it has failed.
pub fn end(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut line = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                let more = error.to_string();
                // Some libraries repeat the cause in their own words.
                if !line.ends_with(&more) {
                    line += &format!(": {more}");
                }
                cause = error.source();
            }
            eprintln!("{line}");
            ExitCode::FAILURE
        }
    }
}

/// Names the path in an error.
///
/// # Errors
///
/// That of `result`.
pub fn at<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    Ok(result.map_err(|error| format!("{}: {error}", path.display()))?)
}
