//! Prints the public API of libraries, an item a line, from rustdoc's JSON. For `.ci/api`, which
//! names the files without their ending `.json`. Exits with 2 where another version of Rust wrote
//! them.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use public_api::Builder;
use serde_json::Value;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    for name in env::args_os().skip(1) {
        let file = Path::new(&name).with_extension("json");
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let written: Value = serde_json::from_str(&text)?;
        let format = written["format_version"].as_u64();
        if format != Some(FORMAT) {
            eprintln!(
                "skipped: rustdoc's JSON has the format {format:?}; public-api reads {FORMAT}, \
                 Rust 1.95's"
            );
            return Ok(ExitCode::from(2));
        }
        // Blanket and automatic implementations follow from the types; derived ones are worth a look.
        let api = Builder::from_rustdoc_json(&file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()?;
        println!("{api}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The version of rustdoc's JSON that public-api reads.
const FORMAT: u64 = 57;
