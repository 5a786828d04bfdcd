//! `cargo xtask tidy`: the rules of the project that no compiler checks (QLT-4).
//!
//! [`tables`] says what is allowed, [`tree`] and [`facts`] read the checkout, and each other module is one kind of
//! check over them. Nothing is changed, and nothing outside the checkout is read.

mod bans;
mod directions;
mod facts;
mod files;
mod ids;
mod tables;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;
use std::path::Path;

/// One offence: where, what, and the way out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative to the root of the checkout.
    pub file: String,
    /// From 1.
    pub line: usize,
    pub what: String,
    pub fix: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what, fix } = self;
        write!(f, "{file}:{line}: {what}; {fix}")
    }
}

/// Every offence in the checkout at `root`, by file and line.
pub fn check(root: &Path) -> Vec<Finding> {
    let (tree, mut findings) = tree::Tree::read(root);
    findings.extend(directions::check(&tree));
    findings.extend(bans::check(&tree));
    findings.extend(files::check(&tree));
    findings.extend(ids::check(root, &tree));
    findings.sort();
    findings.dedup();
    findings
}
