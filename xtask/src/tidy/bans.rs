//! Bans: what only named files may do, and what nobody may leave behind.

use super::Finding;
use super::directions::starts_with;
use super::tables::{BANS, MAY_PRINT, PRINTS, UNBANNED, UNFINISHED};
use super::tree::{SourceFile, Tree};

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let product = file.place.as_ref().is_some_and(|place| !place.test);
        if product && !within(file, UNBANNED) {
            confined_acts(file, &mut findings);
        }
        if product && !within(file, MAY_PRINT) && !within(file, UNBANNED) {
            for called in &file.facts.macros {
                if PRINTS.contains(&called.name.as_str()) && !called.test {
                    findings.push(Finding::new(
                        &file.path,
                        called.line,
                        format!("prints by `{}!`", called.name),
                        "the host owns the terminal; log it, or hand the text up",
                    ));
                }
            }
        }
        left_behind(file, &mut findings);
    }
    findings
}

fn within(file: &SourceFile, starts: &[&str]) -> bool {
    starts.iter().any(|start| file.path.starts_with(start))
}

fn confined_acts(file: &SourceFile, findings: &mut Vec<Finding>) {
    for ban in BANS.iter().filter(|ban| !within(file, ban.files)) {
        let hits = |paths: &[&str], segments: &[String]| paths.iter().any(|path| starts_with(segments, path));
        for named in file.facts.names.iter().filter(|named| !named.test) {
            if hits(ban.paths, &named.segments) && !hits(ban.except, &named.segments) {
                let what = format!("{} (`{}`)", ban.what, named.segments.join("::"));
                findings.push(Finding::new(&file.path, named.line, what, ban.fix));
            }
        }
        for called in file.facts.getters.iter().filter(|called| !called.test) {
            if ban.methods.contains(&called.name.as_str()) {
                let what = format!("{} (`.{}()`)", ban.what, called.name);
                findings.push(Finding::new(&file.path, called.line, what, ban.fix));
            }
        }
    }
}

fn left_behind(file: &SourceFile, findings: &mut Vec<Finding>) {
    for called in file.facts.macros.iter().filter(|called| UNFINISHED.contains(&called.name.as_str())) {
        let what = format!("leaves `{}!` behind", called.name);
        findings.push(Finding::new(&file.path, called.line, what, "finish it, or refuse clearly"));
    }
    for &line in &file.facts.ignores {
        findings.push(Finding::new(
            &file.path,
            line,
            "ignores a test",
            "make what it needs in the test, or take it out",
        ));
    }
}
