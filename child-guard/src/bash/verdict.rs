//! What [`classify_read_only`](super::classify_read_only) answers.

use std::fmt;

/// Whether a read-only child may run a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOnlyVerdict {
    Allow,
    /// `command` is the first simple command that is refused, as written and at most 100 characters of it.
    Refuse {
        command: String,
        why: Why,
    },
    /// It cannot be split into commands, so nothing can be said about it.
    Unparsable,
}

/// Why a command is refused; displayed as in GUARD-96.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    WritesTo(String),
    ChangesFiles,
    ChangesRepository,
    InstallsPackages,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WritesTo(target) => write!(f, "writes to '{target}'"),
            Self::ChangesFiles => f.write_str("changes files"),
            Self::ChangesRepository => f.write_str("changes the repository"),
            Self::InstallsPackages => f.write_str("installs packages"),
        }
    }
}
