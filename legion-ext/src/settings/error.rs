//! Why the settings cannot be used.

use std::fmt;

/// What is wrong with the settings files, one entry per fault; one file's fault does not hide the other's (SET-55).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// Whole sentences, each with its file and dotted path (SET-2).
    pub faults: Vec<String>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("; "))
    }
}
