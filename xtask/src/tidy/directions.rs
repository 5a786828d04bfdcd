//! Directions: which module, package and foreign crate may be named from where (part 00).

use super::Finding;
use super::facts::Named;
use super::tables::{ANY, CONFINED, CORE_CRATES, MODULES, NOT_FOR_CORE, PACKAGES};
use super::tree::{Package, Place, SourceFile, Tree};

const LEGION_EXT: &str = "legion-ext/src/";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        confined_crates(file, &mut findings);
        if let Some(place) = file.place.as_ref().filter(|place| file.path.starts_with(LEGION_EXT) && !place.test) {
            module_imports(tree, file, place, &mut findings);
        }
    }
    for package in &tree.packages {
        manifest(package, &mut findings);
    }
    findings
}

/// The path from the root of its crate, for a path that starts there.
pub fn in_crate(place: &Place, named: &Named) -> Option<Vec<String>> {
    let mut base = [place.module.as_slice(), &named.inline].concat();
    let mut segments = named.segments.iter().peekable();
    match segments.next()?.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => drop(base.pop()),
        _ => return None,
    }
    while segments.next_if(|segment| *segment == "super").is_some() {
        base.pop();
    }
    base.extend(segments.cloned());
    Some(base)
}

pub fn starts_with(segments: &[String], path: &str) -> bool {
    let mut segments = segments.iter();
    path.split("::").all(|part| segments.next().is_some_and(|segment| segment == part))
}

fn module_imports(tree: &Tree, file: &SourceFile, place: &Place, findings: &mut Vec<Finding>) {
    let own = place.module.first().map_or("lib", String::as_str);
    let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == own) else {
        findings.push(Finding::new(
            &file.path,
            1,
            format!("`{own}` is no module of part 00"),
            "put it into one, or give it a line in xtask/src/tidy/tables.rs and in docs/spec/00-overview.md",
        ));
        return;
    };
    for named in file.facts.names.iter().filter(|named| !named.test) {
        let Some(target) = in_crate(place, named) else { continue };
        let Some(target) = target.first() else { continue };
        let known = MODULES.iter().any(|(name, _)| name == target);
        if known && target != own && *allowed != ANY && !allowed.split(' ').any(|module| module == target) {
            findings.push(Finding::new(
                &file.path,
                named.line,
                format!("`{own}` imports `{target}`, against the direction of part 00"),
                "move the shared part down, or hand it in from above",
            ));
        }
    }
    if own == "core" {
        core_is_pure(tree.package_of(file), file, findings);
    }
}

fn core_is_pure(package: &Package, file: &SourceFile, findings: &mut Vec<Finding>) {
    let crates: Vec<String> = package.dependencies("dependencies").into_iter().map(|(name, _)| name).collect();
    for named in file.facts.names.iter().filter(|named| !named.test) {
        let Some(first) = named.segments.first() else { continue };
        let foreign = crates.contains(first) && (named.imported || named.segments.len() > 1);
        if foreign && !CORE_CRATES.contains(&first.as_str()) {
            findings.push(Finding::new(
                &file.path,
                named.line,
                format!("`core` names the crate `{first}`"),
                format!("core knows std, {} only; the shell above it acts", CORE_CRATES.join(" and ")),
            ));
        }
        if let Some(path) = NOT_FOR_CORE.iter().find(|path| starts_with(&named.segments, path)) {
            findings.push(Finding::new(
                &file.path,
                named.line,
                format!("`core` names `{path}`"),
                "core has no clock, input or output; the shell above it acts",
            ));
        }
    }
    for called in file.facts.asyncs.iter().filter(|called| !called.test) {
        findings.push(Finding::new(
            &file.path,
            called.line,
            "`core` is asynchronous here",
            "core decides at once; the shell above it waits",
        ));
    }
}

fn confined_crates(file: &SourceFile, findings: &mut Vec<Finding>) {
    let test_file = file.place.as_ref().is_some_and(|place| place.test) || file.path.starts_with("tests/");
    for confined in CONFINED {
        if confined.files.iter().any(|start| file.path.starts_with(start)) {
            continue;
        }
        for named in &file.facts.names {
            let exempt = confined.tests && (named.test || test_file);
            if !exempt && named.segments.iter().any(|segment| segment == confined.krate) {
                findings.push(Finding::new(
                    &file.path,
                    named.line,
                    format!("names `{}`", confined.krate),
                    confined.reason,
                ));
            }
        }
    }
}

fn manifest(package: &Package, findings: &mut Vec<Finding>) {
    let path = format!("{}Cargo.toml", package.dir);
    for (section, dev) in [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)] {
        for (name, line) in package.dependencies(section) {
            let confined = CONFINED.iter().find(|confined| confined.krate == name);
            if let Some(confined) = confined
                && !(dev && confined.tests)
                && !confined.packages.contains(&package.name.as_str())
            {
                findings.push(Finding::new(&path, line, format!("depends on `{name}`"), confined.reason));
            }
            let member = PACKAGES.iter().any(|(member, _)| member.replace('-', "_") == name);
            let allowed = PACKAGES.iter().find(|(member, _)| *member == package.name);
            if let Some((_, allowed)) = allowed.filter(|_| member && !dev)
                && !allowed.contains(&name.as_str())
            {
                findings.push(Finding::new(
                    &path,
                    line,
                    format!("`{}` depends on `{name}`, against the direction of part 00", package.name),
                    "share what both need through host-abi",
                ));
            }
        }
    }
}
