//! The `cfg`s that are true in the copy: what `rustc --print cfg` says, all features, and debug assertions.

use std::collections::BTreeSet;
use std::io;
use std::process::Command;

use syn::{Attribute, Meta, Token, punctuated::Punctuated};

/// The configuration that the copy is compiled in.
#[derive(Debug, Clone, Default)]
pub struct Config(BTreeSet<String>);

impl Config {
    /// Asks the compiler.
    pub fn of_host() -> io::Result<Self> {
        let printed = Command::new("rustc").args(["--print", "cfg"]).output()?;
        let printed = String::from_utf8_lossy(&printed.stdout).replace(' ', "");
        Ok(Self(printed.lines().map(str::to_owned).collect()))
    }

    /// Whether an item with these attributes is compiled, and is not for tests only.
    pub fn allows(&self, attributes: &[Attribute]) -> bool {
        attributes.iter().all(|attribute| {
            if attribute.path().is_ident("test") {
                return false;
            }
            if !attribute.path().is_ident("cfg") {
                return true;
            }
            attribute.parse_args::<Meta>().map_or(true, |meta| self.holds(&meta))
        })
    }

    /// Whether a predicate holds.
    pub fn holds(&self, meta: &Meta) -> bool {
        match meta {
            // The tests' own code is not changed, though it is compiled.
            Meta::Path(path) if path.is_ident("test") => false,
            Meta::Path(path) => {
                path.get_ident().is_some_and(|name| self.0.contains(&name.to_string()))
            }
            Meta::NameValue(pair) if pair.path.is_ident("feature") => true,
            Meta::NameValue(pair) => {
                let (Some(name), syn::Expr::Lit(value)) = (pair.path.get_ident(), &pair.value)
                else {
                    return true;
                };
                let syn::Lit::Str(value) = &value.lit else { return true };
                self.0.contains(&format!("{name}=\"{}\"", value.value()))
            }
            Meta::List(list) => {
                let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
                let Ok(parts) = parts else { return true };
                let mut holds = parts.iter().map(|part| self.holds(part));
                match list.path.get_ident().map(ToString::to_string).as_deref() {
                    Some("any") => holds.any(|holds| holds),
                    Some("not") => !holds.all(|holds| holds),
                    _ => holds.all(|holds| holds),
                }
            }
        }
    }
}
