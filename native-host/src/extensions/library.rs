//! A library that runs in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host_abi::info::HostInfo;
use host_abi::sdk::host::ExtensionHandle;
use host_abi::{LoadError, LoadedExtension};

use super::scopes::Port;

/// A started extension library. The same file gives the same running extension, whoever asks.
#[derive(Debug, Clone)]
pub struct Library {
    /// As it was named in a card, a setting or on the command line.
    pub entry: String,
    pub handle: ExtensionHandle,
    loaded: Arc<LoadedExtension>,
}

impl Library {
    /// Loads the file at `path` and starts it, once per process; `info` is told to the first start.
    pub fn start(path: &Path, entry: impl Into<String>, info: &HostInfo) -> Result<Library, LoadError> {
        let loaded = host_abi::load(path)?;
        let handle = loaded.start(Port::new(loaded.path().to_owned()), info)?;
        Ok(Library { entry: entry.into(), handle, loaded })
    }

    /// The name that it gives itself.
    pub fn name(&self) -> &str {
        &self.loaded.info().name
    }

    /// Canonical path of the file.
    pub fn path(&self) -> &Path {
        self.loaded.path()
    }

    /// The file of an extension entry: an absolute path, or one below `cwd`. `builtin:` entries name parts of
    /// other hosts, this one has none.
    pub fn resolve(entry: &str, cwd: &Path) -> Result<PathBuf, String> {
        if entry.starts_with("builtin:") {
            return Err(format!("extension not found: {entry}; this host has no built-in extensions"));
        }
        let path = cwd.join(entry);
        if path.is_file() { Ok(path) } else { Err(format!("extension not found: {entry}")) }
    }
}
