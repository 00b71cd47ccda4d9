//! Compiles what is preloaded into user-mode Linux's kernel, which exists on x86 only.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

const SOURCE: &str = "src/backend/uml/xstate.c";

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let library = Path::new(&out).join("xstate.so");
    let is = |what, value| env::var(what).as_deref() == Ok(value);
    if !(is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ARCH", "x86_64")) {
        fs::write(&library, "").expect("cargo made the directory");
        return ExitCode::SUCCESS;
    }
    let mut compiler: Command = cc::Build::new().get_compiler().to_command();
    let compiled = compiler
        .args([
            "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", SOURCE,
        ])
        .arg("-o")
        .arg(&library)
        .arg("-ldl")
        .status();
    match compiled {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("compiling {SOURCE} failed: {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cannot run the C compiler: {error}; install one (Debian: gcc)");
            ExitCode::FAILURE
        }
    }
}
