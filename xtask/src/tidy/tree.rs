//! The checkout as tidy sees it: packages, their Rust files and where each file stands in its module tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Finding;
use super::facts::Facts;

/// Directories that hold no code of ours.
const SKIPPED: &[&str] = &["target", "node_modules", "fixtures"];

/// Everything that the checks look at. Paths are relative to the root, with `/`.
#[derive(Debug)]
pub struct Tree {
    pub packages: Vec<Package>,
    pub files: Vec<SourceFile>,
}

/// One `Cargo.toml` with a `[package]`.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    /// Empty for a package at the root, otherwise it ends with `/`.
    pub dir: String,
    pub manifest: toml::Table,
    pub manifest_text: String,
}

#[derive(Debug)]
pub struct SourceFile {
    pub path: String,
    /// Position of its package in [`Tree::packages`].
    pub package: usize,
    pub facts: Facts,
    /// The module path of the file in its crate; `None` where no crate reaches it.
    pub place: Option<Place>,
}

#[derive(Debug, Clone)]
pub struct Place {
    pub module: Vec<String>,
    /// Compiled for tests only: below a `#[cfg(test)] mod`, or in a test, bench or example target.
    pub test: bool,
}

impl Tree {
    /// Reads the checkout. Files that cannot be read or parsed become findings.
    pub fn read(root: &Path) -> (Self, Vec<Finding>) {
        let mut findings = Vec::new();
        let (mut manifests, mut sources) = (Vec::new(), Vec::new());
        for entry in walkdir::WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_ours) {
            let Ok(entry) = entry else { continue };
            let Ok(path) = entry.path().strip_prefix(root) else { continue };
            let path = path.to_string_lossy().replace('\\', "/");
            if !entry.file_type().is_file() {
                continue;
            }
            if entry.file_name() == "Cargo.toml" {
                manifests.push(path);
            } else if path.ends_with(".rs") {
                sources.push(path);
            }
        }
        let packages: Vec<_> = manifests.into_iter().filter_map(|path| package(root, &path, &mut findings)).collect();
        let mut files = Vec::new();
        for (path, facts) in read_all(root, sources) {
            let facts = facts.unwrap_or_else(|(line, error)| {
                findings.push(Finding::new(&path, line, format!("cannot be read: {error}"), "mend the file"));
                Facts::default()
            });
            if let Some(package) = innermost(&packages, &path) {
                files.push(SourceFile { path, package, facts, place: None });
            }
        }
        let mut tree = Self { packages, files };
        tree.place_files();
        (tree, findings)
    }

    /// Walks the module trees from every target of every package.
    fn place_files(&mut self) {
        let index: BTreeMap<String, usize> =
            self.files.iter().enumerate().map(|(i, file)| (file.path.clone(), i)).collect();
        let mut queue: Vec<(usize, Place, bool)> = Vec::new();
        for package in &self.packages {
            for (path, test) in package.targets(index.keys()) {
                if let Some(&file) = index.get(&path) {
                    queue.push((file, Place { module: Vec::new(), test }, true));
                }
            }
        }
        let mut seen: BTreeSet<(usize, bool)> = BTreeSet::new();
        while let Some((file, place, is_root)) = queue.pop() {
            if !seen.insert((file, place.test)) {
                continue;
            }
            let source = &self.files[file];
            let (dir, name) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
            for decl in &source.facts.mods {
                let own = if is_root || name == "mod.rs" || decl.path.is_some() {
                    dir.to_owned()
                } else {
                    join(dir, name.trim_end_matches(".rs"))
                };
                let base = decl.inline.iter().fold(own, |dir, module| join(&dir, module));
                let candidates = match &decl.path {
                    Some(path) => vec![join(&base, path)],
                    None => {
                        vec![join(&base, &format!("{}.rs", decl.name)), join(&base, &format!("{}/mod.rs", decl.name))]
                    }
                };
                let module = [place.module.as_slice(), &decl.inline, std::slice::from_ref(&decl.name)].concat();
                let next = Place { module, test: place.test || decl.test };
                queue.extend(
                    candidates.iter().filter_map(|path| index.get(path)).map(|&file| (file, next.clone(), false)),
                );
            }
            for include in &source.facts.includes {
                queue.extend(index.get(&join(dir, include)).map(|&file| (file, place.clone(), true)));
            }
            let known = &mut self.files[file].place;
            // A file that both kinds of code share is judged as product code.
            if known.as_ref().is_none_or(|known| known.test) {
                *known = Some(place);
            }
        }
    }

    pub fn package_of(&self, file: &SourceFile) -> &Package {
        &self.packages[file.package]
    }
}

impl Package {
    /// The root file of every target that cargo would compile, and whether it is test code.
    fn targets<'a>(&self, files: impl Iterator<Item = &'a String>) -> Vec<(String, bool)> {
        let own = |path: &str| format!("{}{path}", self.dir);
        let auto = |key: &str| {
            self.manifest.get("package").and_then(|p| p.get(key)).and_then(toml::Value::as_bool).unwrap_or(true)
        };
        let mut targets = vec![(own("build.rs"), false), (own("src/lib.rs"), false), (own("src/main.rs"), false)];
        for (key, test) in [("lib", false), ("bin", false), ("test", true), ("bench", true), ("example", true)] {
            let tables = match self.manifest.get(key) {
                Some(toml::Value::Array(tables)) => tables.iter().collect(),
                Some(table) => vec![table],
                None => Vec::new(),
            };
            let paths = tables.into_iter().filter_map(|table| table.get("path")?.as_str());
            targets.extend(paths.map(|path| (own(path), test)));
        }
        let folders = [
            ("src/bin/", "autobins", false),
            ("tests/", "autotests", true),
            ("benches/", "autobenches", true),
            ("examples/", "autoexamples", true),
        ];
        for path in files {
            let Some(rest) = path.strip_prefix(&self.dir) else { continue };
            for (folder, key, test) in folders {
                let Some(rest) = rest.strip_prefix(folder) else { continue };
                if auto(key) && (!rest.contains('/') || rest.split_once('/').is_some_and(|(_, file)| file == "main.rs"))
                {
                    targets.push((path.clone(), test));
                }
            }
        }
        targets
    }

    /// Names of the dependencies of one section of the manifest, as crates name them, with their lines.
    pub fn dependencies(&self, section: &str) -> Vec<(String, usize)> {
        let Some(toml::Value::Table(table)) = self.manifest.get(section) else { return Vec::new() };
        table.keys().map(|name| (name.replace('-', "_"), self.line_of(section, name))).collect()
    }

    fn line_of(&self, section: &str, name: &str) -> usize {
        let mut inside = false;
        for (at, line) in self.manifest_text.lines().enumerate() {
            if let Some(header) = line.trim().strip_prefix('[') {
                inside = header.trim_end_matches(']') == section;
            } else if inside
                && line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            {
                return at + 1;
            }
        }
        1
    }
}

fn is_ours(entry: &walkdir::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    entry.depth() == 0 || !(name.starts_with('.') || (entry.file_type().is_dir() && SKIPPED.contains(&name.as_ref())))
}

fn package(root: &Path, path: &str, findings: &mut Vec<Finding>) -> Option<Package> {
    let manifest_text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let manifest: toml::Table = match manifest_text.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            findings.push(Finding::new(path, 1, format!("cannot be read: {error}"), "mend the manifest"));
            return None;
        }
    };
    let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
    Some(Package { name, dir: path.trim_end_matches("Cargo.toml").to_owned(), manifest, manifest_text })
}

fn innermost(packages: &[Package], path: &str) -> Option<usize> {
    (0..packages.len()).filter(|&i| path.starts_with(&packages[i].dir)).max_by_key(|&i| packages[i].dir.len())
}

type Read = (String, Result<Facts, (usize, String)>);

/// Parsing is nearly all of tidy's work, so every core takes part.
fn read_all(root: &Path, paths: Vec<String>) -> Vec<Read> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let facts = std::fs::read_to_string(root.join(path))
                        .map_err(|error| (1, error.to_string()))
                        .and_then(|source| Facts::of(&source));
                    done.lock().expect("no worker panics while it holds the lock").push((path.clone(), facts));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics while it holds the lock");
    done.sort_by(|(a, _), (b, _)| a.cmp(b));
    done
}

/// `dir` and `rest` with `.` and `..` taken out.
fn join(dir: &str, rest: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
