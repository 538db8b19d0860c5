//! Every package that others may use has complete metadata, and the links in its README lead somewhere on
//! crates.io and in its documentation. `ci/check.sh packages` builds the packages themselves.

#[allow(dead_code, reason = "other tests use all of it")]
mod pages;

use std::path::{Component, Path, PathBuf};

use pages::{documents, prose, read, root, slashed};

/// The categories of crates.io that suit a package here.
const CATEGORIES: [&str; 15] = [
    "algorithms",
    "asynchronous",
    "command-line-utilities",
    "concurrency",
    "config",
    "date-and-time",
    "development-tools::profiling",
    "network-programming",
    "no-std",
    "no-std::no-alloc",
    "simulation",
    "visualization",
    "web-programming",
    "web-programming::http-client",
    "web-programming::http-server",
];

/// The adapters with a workspace of their own, which inherits nothing from the root's.
const ADAPTERS: [&str; 3] = ["integrations/actix", "integrations/pingora", "integrations/reqwest"];

/// The line of an adapter's manifest that `ci/checks/packaged.sh` replaces with the root's `repository`.
const REPOSITORY_GOES_HERE: &str = "# repository = ";

fn is_adapter(folder: &Path) -> bool {
    ADAPTERS.iter().any(|its| Path::new(its) == folder)
}

/// The folders of the packages that may be published: the root, those in `crates/`, and the adapters.
fn published() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("crates")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut folders: Vec<PathBuf> = names.map(|name| Path::new("crates").join(name)).collect();
    folders.sort();
    folders.insert(0, PathBuf::new());
    folders.extend(ADAPTERS.map(PathBuf::from));
    folders
}

fn file(folder: &Path, name: &str) -> String {
    read(folder.join(name).to_str().expect("a path in UTF-8"))
}

/// A section of a manifest, such as `package`.
fn section(manifest: &str, name: &str) -> String {
    let lines = manifest.lines().skip_while(|line| *line != format!("[{name}]")).skip(1);
    lines.take_while(|line| !line.starts_with('[')).collect::<Vec<_>>().join("\n")
}

fn value<'a>(section: &'a str, field: &str) -> Option<&'a str> {
    section.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(" = "))
}

/// The strings of a list that is written on one line.
fn strings(list: &str) -> Vec<&str> {
    list.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_package_that_is_published_has_complete_metadata() {
    for folder in published() {
        let manifest = file(&folder, "Cargo.toml");
        let package = section(&manifest, "package");
        let of = |field: &str| {
            value(&package, field).unwrap_or_else(|| panic!("{}: no {field}", folder.display()))
        };
        let name = of("name").trim_matches('"');
        let description = of("description").trim_matches('"');
        assert!((20..=120).contains(&description.len()), "{name}: {description:?}");
        assert!(!description.ends_with('.'), "{name}: a description is not a sentence");
        let documentation = of("documentation").trim_matches('"');
        assert!(
            documentation.starts_with("https://docs.rs/") && documentation.ends_with(name),
            "{name}: {documentation}"
        );
        let shared = section(&read("Cargo.toml"), "workspace.package");
        let shared = |field| value(&shared, field).unwrap_or_else(|| panic!("no {field}"));
        if is_adapter(&folder) {
            for repeated in ["version", "edition", "rust-version", "license", "include"] {
                assert_eq!(of(repeated), shared(repeated), "{name}: {repeated} is not the root's");
            }
            // Its address is in the root's manifest only. A release adds it to this one.
            assert_eq!(value(&package, "repository"), None, "{name}");
            assert!(package.contains(REPOSITORY_GOES_HERE), "{name}: where does the address go?");
        } else {
            for inherited in ["version", "edition", "rust-version", "license", "repository"] {
                assert_eq!(of(&format!("{inherited}.workspace")), "true", "{name}: {inherited}");
            }
        }
        assert_eq!(of("readme"), "\"README.md\"", "{name}");
        assert!(package.contains("\ninclude"), "{name} does not say what its package holds");

        let wanted = format!("version = {}", shared("version"));
        for line in manifest.lines().filter(|line| line.contains("path = \"../")) {
            assert!(line.contains(&wanted), "{name}: {line}: {wanted}");
        }

        let keywords = strings(of("keywords"));
        assert!((1..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        for keyword in keywords {
            let is_word = keyword.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            assert!(is_word && keyword.len() <= 20, "{name}: crates.io takes no {keyword:?}");
        }
        let categories = strings(of("categories"));
        assert!((1..=5).contains(&categories.len()), "{name}: {categories:?}");
        for category in categories {
            assert!(CATEGORIES.contains(&category), "{name}: no category is named {category:?}");
        }
        let documented = section(&manifest, "package.metadata.docs.rs");
        assert_eq!(value(&documented, "all-features"), Some("true"), "{name}: docs.rs");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let same = file(&folder, licence) == read(licence);
            assert!(same, "{name}: {licence} is not a link to the root's");
        }
    }
}

/// The folders that have a file of this name.
fn folders_with(wanted: &str) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            if entry.path().is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(folder.join(name));
            } else if name == wanted {
                found.push(folder.clone());
            }
        }
    }
    found
}

#[test]
fn every_other_package_is_private() {
    let mut private = 0;
    for folder in folders_with("Cargo.toml") {
        if !published().contains(&folder) {
            let package = section(&file(&folder, "Cargo.toml"), "package");
            let is_private = value(&package, "publish") == Some("false");
            assert!(is_private, "{}: say publish = false", folder.display());
            private += 1;
        }
    }
    assert!(private > 5, "only {private} other packages were found");
}

#[test]
fn the_python_package_has_the_version_of_the_crates() {
    let version =
        |manifest: &str, name| value(&section(&read(manifest), name), "version").map(str::to_owned);
    let python = version("integrations/python/Cargo.toml", "package");
    assert_eq!(python, version("Cargo.toml", "workspace.package"));
    assert!(python.is_some());
}

/// Dependabot raises a pinned version only in the folders that its configuration names.
#[test]
fn every_file_that_pins_versions_is_kept_up_to_date() {
    let updates = read(".github/dependabot.yml");
    for (ecosystem, pins) in [("cargo", "Cargo.lock"), ("pip", "requirements.txt")] {
        let start = format!("- package-ecosystem: {ecosystem}\n");
        let (_, rest) = updates.split_once(&start).unwrap_or_else(|| panic!("no {ecosystem}"));
        let listed: Vec<&str> = rest
            .lines()
            .take_while(|line| !line.contains("package-ecosystem"))
            .filter_map(|line| line.trim().trim_start_matches("directory:").rsplit([' ']).next())
            .filter(|word| word.starts_with('/'))
            .collect();
        for folder in folders_with(pins) {
            let folder = format!("/{}", slashed(&folder));
            assert!(listed.contains(&folder.as_str()), "dependabot.yml has no {folder} of {pins}");
        }
    }
}

/// The targets of the links in Markdown: in the text, and where they are defined below it.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let ends = |rest: &str, end: char| rest.split(end).next().unwrap_or_default().to_owned();
    let mut found: Vec<String> = prose.split("](").skip(1).map(|rest| ends(rest, ')')).collect();
    found.extend(prose.lines().filter_map(definition).map(|(_, target)| target.to_owned()));
    found
}

/// The name and the target of a link's definition: `[name]: target`.
fn definition(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Where crates.io leads a relative link: it puts the repository's address and the package's folder before
/// it. It drops what leaves the repository, so that is no path here.
fn on_crates_io(folder: &Path, target: &str) -> Option<PathBuf> {
    let target = target.split(['#', '?']).next().unwrap_or_default();
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

#[test]
fn links_of_readmes_lead_to_files_of_the_repository() {
    let mut count = 0;
    for folder in published() {
        for target in links(&file(&folder, "README.md")) {
            if !is_relative(&target) || target.starts_with('#') {
                continue;
            }
            let path = on_crates_io(&folder, &target);
            let path = path.unwrap_or_else(|| panic!("{}: {target}", folder.display()));
            // The address of a folder has another form than that of a file.
            assert!(root().join(path).is_file(), "{}: {target} is no file", folder.display());
            count += 1;
        }
    }
    assert!(count > 30, "only {count} links were found");
    assert_eq!(on_crates_io(Path::new("crates/http"), "../../../docs"), None);
}

/// The documentation stands beside no other file, so a README that is part of it may have only relative links
/// that `src/lib.rs` defines anew before it.
#[test]
fn readmes_that_are_documentation_have_no_dead_link_there() {
    let mut defined = 0;
    for folder in published() {
        let Ok(library) = std::fs::read_to_string(root().join(&folder).join("src/lib.rs")) else {
            continue;
        };
        let is_documentation = library
            .lines()
            .any(|line| line.starts_with("#![") && line.contains("include_str!(\"../README.md\")"));
        if !is_documentation {
            continue;
        }
        let readme = file(&folder, "README.md");
        let definitions: Vec<_> = readme.lines().filter_map(definition).collect();
        for target in links(&readme).iter().filter(|target| is_relative(target)) {
            let place = folder.display();
            let found = definitions.iter().find(|(_, defined)| defined == target);
            let (name, _) = found.unwrap_or_else(|| {
                panic!("{place}: give {target} a name, [name]: {target}, at the end of the README")
            });
            let path = on_crates_io(&folder, target).expect("a path");
            let path = slashed(&path);
            let line = format!(
                "#![doc = concat!(\"[{name}]: \", env!(\"CARGO_PKG_REPOSITORY\"), \"/blob/HEAD/{path}\")]"
            );
            let before = library.split("include_str!").next().unwrap_or_default();
            assert!(before.contains(&line), "{place}: src/lib.rs needs {line} before its README");
            defined += 1;
        }
    }
    assert!(defined >= 4, "only {defined} such links were found");
}

#[test]
fn the_address_of_the_repository_is_written_once() {
    let manifest = read("Cargo.toml");
    let shared = section(&manifest, "workspace.package");
    let address = value(&shared, "repository").expect("an address").trim_matches('"');
    let is_usable = address.starts_with("https://") && !address.ends_with(['/', '.']);
    assert!(is_usable && !address.ends_with(".git"), "{address}: crates.io puts paths behind it");
    assert_eq!(manifest.matches(address).count(), 1, "{address} is in Cargo.toml again");
    for page in documents() {
        assert!(!read(&page).contains(address), "{page}: link to the file, without {address}");
    }
    for folder in published().iter().skip(1) {
        let again = file(folder, "Cargo.toml").contains(address);
        assert!(!again, "{}: say repository.workspace = true", folder.display());
    }
}

#[test]
fn workflows_call_scripts_that_exist() {
    let entry = read("ci/check.sh");
    let mut calls = 0;
    for workflow in ["ci.yml", "nightly.yml"] {
        let text = read(&format!(".github/workflows/{workflow}"));
        for line in text.lines() {
            let step = line.trim().trim_start_matches("- ").strip_prefix("run: ");
            let words: Vec<&str> = step.unwrap_or_default().split_whitespace().collect();
            let is_script = |word: &&&str| word.starts_with("ci/") || word.starts_with(".ci/");
            let Some(script) = words.iter().find(is_script) else { continue };
            assert!(root().join(script).is_file(), "{workflow}: {script} is not there");
            calls += 1;
        }
        // A check is named after the script, or in the workflow's matrix.
        let named = text.split("ci/check.sh ").chain(text.split("check: ")).skip(1);
        for name in named.map(|rest| rest.split([' ', '\n', '}']).next().unwrap_or_default()) {
            let is_name = name.starts_with(|c: char| c.is_ascii_lowercase());
            let known =
                entry.contains(&format!(" {name} |")) || entry.contains(&format!("| {name})"));
            assert!(!is_name || known, "{workflow}: ci/check.sh has no check named {name}");
        }
    }
    assert!(calls >= 5, "only {calls} calls were found");
}
