//! The copy of the repository, and the files of the crate that is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::{Item, ItemMod};

use crate::config::Config;

/// The package whose library is changed.
#[derive(Debug, Clone)]
pub struct Package {
    /// As cargo names it.
    pub name: String,
    /// The library, as the compiler names it.
    pub library: String,
    /// Its folder, relative to the workspace: empty if it is the workspace's root.
    pub folder: PathBuf,
    /// The root of the library, relative to the workspace.
    pub root: PathBuf,
}

impl Package {
    /// Asks cargo for a package of a workspace.
    pub fn of(workspace: &Path, name: &str) -> io::Result<Self> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(workspace)
            .output()?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| io::Error::other(String::from_utf8_lossy(&output.stderr)))?;
        let relative = |path: &serde_json::Value| {
            let path = Path::new(path.as_str().unwrap_or_default());
            path.strip_prefix(workspace).unwrap_or(path).to_owned()
        };
        let missing =
            || io::Error::other(format!("the workspace has no package {name} with a library"));
        let array = |value: &'_ serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let packages = array(&metadata["packages"]);
        let package =
            packages.iter().find(|package| package["name"] == name).ok_or_else(missing)?;
        let targets = array(&package["targets"]);
        let library =
            targets.iter().find(|target| target["kind"][0] == "lib").ok_or_else(missing)?;
        Ok(Self {
            name: name.to_owned(),
            library: library["name"].as_str().unwrap_or_default().replace('-', "_"),
            folder: relative(&package["manifest_path"]).with_file_name(""),
            root: relative(&library["src_path"]),
        })
    }
}

/// The files of a crate by its `mod` lines, without those for tests or of another configuration: paths
/// relative to the workspace, and contents.
pub fn sources(
    workspace: &Path,
    root: &Path,
    config: &Config,
) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let source = std::fs::read_to_string(workspace.join(&path))
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let parsed = syn::parse_file(&source)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let is_root = path == root || path.ends_with("mod.rs");
        let folder = if is_root { parent.to_owned() } else { path.with_extension("") };
        modules(&parsed.items, &folder, config, &mut |folder, module| {
            let name = module.ident.to_string();
            let [flat, nested] =
                [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
            let file = match path_attribute(module) {
                Some(other) => parent.join(other),
                None if workspace.join(&flat).exists() => flat,
                None => nested,
            };
            open.push(file);
        });
        files.insert(path, source);
    }
    Ok(files)
}

fn modules(items: &[Item], folder: &Path, config: &Config, each: &mut impl FnMut(&Path, &ItemMod)) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        if !config.allows(&module.attrs) {
            continue;
        }
        match &module.content {
            Some((_, items)) => {
                modules(items, &folder.join(module.ident.to_string()), config, each)
            }
            None => each(folder, module),
        }
    }
}

fn path_attribute(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The files that git knows or would add, relative to the workspace.
fn listed(workspace: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let names = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(names.filter(|name| workspace.join(name).is_file()).collect())
}

/// Brings a copy of the workspace up to date. `changed` holds files with other contents. A file that is the
/// same is not written again, so that cargo does not build it again.
pub fn copy(workspace: &Path, to: &Path, changed: &BTreeMap<PathBuf, String>) -> io::Result<()> {
    let files = listed(workspace)?;
    remove_others(to, Path::new(""), &|name| files.contains(name) || changed.contains_key(name))?;
    for name in files.iter().chain(changed.keys()) {
        let contents = match changed.get(name) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(workspace.join(name))?,
        };
        let target = to.join(name);
        if std::fs::read(&target).ok().as_ref() == Some(&contents) {
            continue;
        }
        std::fs::create_dir_all(target.parent().unwrap_or(to))?;
        std::fs::write(&target, contents)?;
        if !changed.contains_key(name) {
            std::fs::set_permissions(
                &target,
                std::fs::metadata(workspace.join(name))?.permissions(),
            )?;
        }
    }
    Ok(())
}

fn remove_others(to: &Path, folder: &Path, keep: &impl Fn(&Path) -> bool) -> io::Result<()> {
    let Ok(entries) = std::fs::read_dir(to.join(folder)) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(to, &name, keep)?;
        } else if !keep(&name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The version that results are valid for: the package's code and tests, what they depend on, and this tool.
pub fn revision(workspace: &Path, package: &Package) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    let folders = ["src", "tests", "Cargo.toml"].map(|part| package.folder.join(part));
    for name in listed(workspace)? {
        if folders.iter().any(|folder| name.starts_with(folder)) || name == Path::new("Cargo.lock")
        {
            name.hash(&mut hasher);
            std::fs::read(workspace.join(&name))?.hash(&mut hasher);
        }
    }
    for text in
        [include_str!("switch.rs"), include_str!("render.rs"), include_str!("find/visit.rs")]
    {
        text.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
