//! Compiles `src/meter.c` if DPDK's header is installed. Otherwise the package says why it has no meter.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/meter.c");
    println!("cargo::rerun-if-env-changed=DPDK_INCLUDE");
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
    match compiled() {
        Ok(()) => println!("cargo::rustc-cfg=dpdk"),
        Err(why) => println!("cargo::rustc-env=TOLLGATE_DPDK_MISSING={}", why.replace('\n', " ")),
    }
}

/// Compiles the shim into a library, or says what is missing.
fn compiled() -> Result<(), String> {
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return Err("its clock is the counter of x86-64".to_owned());
    }
    let folder = folder().ok_or("install libdpdk-dev, or set DPDK_INCLUDE")?;
    let header = folder.join("rte_meter.h");
    if !header.is_file() {
        return Err(format!("DPDK_INCLUDE has no rte_meter.h: {}", folder.display()));
    }
    println!("cargo::rerun-if-changed={}", header.display());
    let mut build = cc::Build::new();
    let compiled = build.file(Path::new("src/meter.c")).include(folder).try_compile("dpdk_meter");
    compiled.map_err(|error| format!("src/meter.c was not compiled: {error}"))
}

/// The folder of DPDK's headers: the one that the user names, or that of the installed package.
fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("DPDK_INCLUDE").filter(|folder| !folder.is_empty()) {
        return Some(folder.into());
    }
    let mut asked = Command::new("pkg-config");
    let output = asked.args(["--variable=includedir", "libdpdk"]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !folder.trim().is_empty()).then(|| folder.trim().into())
}
