//! The loader (01 §2). Libraries are never unloaded; the same file twice gives the same extension.

use std::{
    collections::HashMap,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

use abi_stable::{
    library::{
        AbiHeader, LibHeader, LibraryError, RawLibrary, RootModule as _, RootModuleError, lib_header_from_raw_library,
    },
    std_types::{RResult, RString},
};

use crate::{
    error::{AbiError, codes},
    ffi::ExtensionModRef,
    info::{ExtensionInfo, HostInfo},
    sdk::{
        decode, encode,
        host::{self, ExtensionHandle},
    },
};

/// Why a library is no extension for this host. Each text names the file and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    #[error("extension library not found: {path}; build it, or set PI_LEGION_LIB_DIR to its directory")]
    Missing { path: PathBuf },
    #[error("{path} is not a loadable library ({reason}); give the path of the built extension library")]
    NotALibrary { path: PathBuf, reason: String },
    #[error("{path} exports no extension root module; build it as a cdylib that calls export_extension!")]
    NoRootModule { path: PathBuf },
    #[error(
        "{path} was built with abi_stable {found}, this host has {expected}; rebuild it against this host's host-abi"
    )]
    OtherAbiStable { path: PathBuf, expected: String, found: String },
    #[error("{path} was built with host-abi {found}, this host has {expected}; rebuild it, or update the host")]
    Version { path: PathBuf, expected: String, found: String },
    #[error(
        "{path} has another layout of the root module: {cause}; rebuild it against this host's host-abi {expected}"
    )]
    Layout { path: PathBuf, expected: &'static str, cause: String, full: String },
    #[error("{path} failed to start: {message}")]
    Init { path: PathBuf, message: String },
    #[error("{path} panicked while starting: {message}; report it to the extension's author")]
    Panicked { path: PathBuf, message: String },
}

impl LoadError {
    /// The whole report for the log, where the message holds only its first cause.
    pub fn full_report(&self) -> Option<&str> {
        match self {
            Self::Layout { full, .. } => Some(full),
            _ => None,
        }
    }
}

/// Characters of a report's cause that a message holds.
const CAUSE_CHARS: usize = 240;

#[cfg(test)]
mod tests;

/// A library that was loaded and whose layout fits; [`LoadedExtension::start`] brings it to life.
#[derive(Debug)]
pub struct LoadedExtension {
    path: PathBuf,
    info: ExtensionInfo,
    module: ModuleRef,
    stamp: Option<(SystemTime, u64)>,
    started: Mutex<Option<ExtensionHandle>>,
}

struct ModuleRef(ExtensionModRef);

impl std::fmt::Debug for ModuleRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModuleRef")
    }
}

fn registry() -> &'static Mutex<HashMap<PathBuf, Arc<LoadedExtension>>> {
    static REGISTRY: OnceLock<Mutex<HashMap<PathBuf, Arc<LoadedExtension>>>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default)
}

/// Loads the library at `path`, or gives the one that was loaded from there before.
///
/// # Errors
/// [`LoadError`], one variant per cause.
pub fn load(path: &Path) -> Result<Arc<LoadedExtension>, LoadError> {
    let canonical = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => LoadError::Missing { path: path.to_owned() },
        _ => LoadError::NotALibrary { path: path.to_owned(), reason: error.to_string() },
    })?;
    let mut registry = registry().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loaded) = registry.get(&canonical) {
        return Ok(Arc::clone(loaded));
    }
    let loaded = Arc::new(open(&canonical)?);
    registry.insert(canonical, Arc::clone(&loaded));
    Ok(loaded)
}

fn open(path: &Path) -> Result<LoadedExtension, LoadError> {
    let stamp = stamp(path);
    let header = header(path).map_err(|error| from_library(path, error))?;
    let expected = ExtensionModRef::VERSION_STRINGS;
    let found = header.version_strings();
    if !compatible(expected.version.as_str(), found.version.as_str()) {
        return Err(LoadError::Version {
            path: path.to_owned(),
            expected: expected.version.to_string(),
            found: found.version.to_string(),
        });
    }
    let module = header.init_root_module::<ExtensionModRef>().map_err(|error| from_library(path, error))?;
    let info = read_info(&(module.info())()).map_err(|error| from_start(path, error))?;
    Ok(LoadedExtension { path: path.to_owned(), info, module: ModuleRef(module), stamp, started: Mutex::default() })
}

/// The root module's header.
///
/// Not by `RootModule::load_from_file`: that caches one module per type and would give the first library for
/// every later path. The library stays open even when it is refused: it may have started threads by then.
fn header(path: &Path) -> Result<&'static LibHeader, LibraryError> {
    let library: &'static RawLibrary = Box::leak(Box::new(RawLibrary::load_at(path)?));
    // SAFETY: the symbol is the one that abi_stable defines, and the library is never closed.
    unsafe { lib_header_from_raw_library(library) }
}

/// A library whose `info` panicked answers with the error in its place.
fn read_info(json: &str) -> Result<ExtensionInfo, AbiError> {
    decode("info", json).map_err(|bad| match AbiError::from_json(json) {
        error if error.code == codes::PANIC => error,
        _ => bad,
    })
}

fn from_start(path: &Path, error: AbiError) -> LoadError {
    let (path, message) = (path.to_owned(), error.message);
    if error.code == codes::PANIC { LoadError::Panicked { path, message } } else { LoadError::Init { path, message } }
}

/// Semver: below 1.0 the minor version must be equal, above it the major one; patches load each other.
fn compatible(a: &str, b: &str) -> bool {
    fn breaking(version: &str) -> (&str, Option<&str>) {
        let mut parts = version.split('.');
        match (parts.next().unwrap_or_default(), parts.next()) {
            ("0", minor) => ("0", minor),
            (major, _) => (major, None),
        }
    }
    breaking(a) == breaking(b)
}

fn from_library(path: &Path, error: LibraryError) -> LoadError {
    let path = path.to_owned();
    match error {
        LibraryError::OpenError { err, .. } => {
            let reason = err.to_string();
            // The loader of the platform puts the path before its reason.
            let reason = reason.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&reason).to_owned();
            LoadError::NotALibrary { path, reason }
        }
        LibraryError::GetSymbolError { .. } => LoadError::NoRootModule { path },
        LibraryError::InvalidAbiHeader(found) => LoadError::OtherAbiStable {
            path,
            expected: abi_stable_version(&AbiHeader::VALUE),
            found: abi_stable_version(&found),
        },
        LibraryError::InvalidCAbi { found, .. } => LoadError::OtherAbiStable {
            path,
            expected: abi_stable_version(&AbiHeader::VALUE),
            found: format!("another C ABI ({})", first_cause(&found.to_string())),
        },
        LibraryError::IncompatibleVersionNumber { expected_version, actual_version, .. } => {
            LoadError::Version { path, expected: expected_version.to_string(), found: actual_version.to_string() }
        }
        LibraryError::AbiInstability(report) => {
            let full = report.to_string();
            LoadError::Layout { path, expected: env!("CARGO_PKG_VERSION"), cause: first_cause(&full), full }
        }
        LibraryError::RootModule { err: RootModuleError::Unwound, .. } => {
            LoadError::Panicked { path, message: "its root module".to_owned() }
        }
        other => LoadError::Init { path, message: first_cause(&other.to_string()) },
    }
}

fn abi_stable_version(header: &AbiHeader) -> String {
    if header.magic_string == AbiHeader::VALUE.magic_string {
        format!("{}.{}", header.abi_major, header.abi_minor)
    } else {
        "of another kind".to_owned()
    }
}

/// The first cause of a report that runs to hundreds of lines, in one line: `mismatched type (expected A, found B)`.
fn first_cause(report: &str) -> String {
    let lines: Vec<&str> = report.lines().map(str::trim).collect();
    let start = lines.iter().position(|line| line.starts_with("Error:")).unwrap_or(0);
    let block = lines[start.min(lines.len())..].iter().skip_while(|line| line.is_empty());
    let block: Vec<&str> = block.take_while(|line| !line.is_empty()).copied().collect();
    let heading = |name: &str| block.iter().position(|line| *line == name);
    let cause = match (heading("Expected:"), heading("Found:")) {
        (Some(expected), Some(found)) if expected < found => format!(
            "{} (expected {}, found {})",
            block[..expected].join(" "),
            block[expected + 1..found].join(" "),
            block[found + 1..].join(" "),
        ),
        _ => block.join(" "),
    };
    let cause = cause.trim_start_matches("Error:").trim();
    match cause.char_indices().nth(CAUSE_CHARS) {
        Some((end, _)) => format!("{}…", &cause[..end]),
        None => cause.to_owned(),
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = path.metadata().ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

impl LoadedExtension {
    /// Canonical path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the library says of itself.
    pub fn info(&self) -> &ExtensionInfo {
        &self.info
    }

    /// Whether the file on disk is no longer the one that runs (ABI-23): restart to use the new build.
    pub fn changed_on_disk(&self) -> bool {
        stamp(&self.path) != self.stamp
    }

    /// Calls `init`, once per library and process; later calls give the running extension and drop `host`.
    ///
    /// # Errors
    /// `init` erred or panicked; it may be tried again.
    pub fn start(&self, host: impl host::Host, info: &HostInfo) -> Result<ExtensionHandle, LoadError> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = started.as_ref() {
            return Ok(handle.clone());
        }
        let failed = |error| from_start(&self.path, error);
        let json = encode("init", info).map_err(failed)?;
        match (self.module.0.init())(host::boxed(host), RString::from(json)) {
            RResult::ROk(extension) => {
                let handle = ExtensionHandle::new(extension);
                *started = Some(handle.clone());
                Ok(handle)
            }
            RResult::RErr(json) => Err(failed(AbiError::from_json(&json))),
        }
    }
}

/// File name of the extension `name` (`legion_ext`) on this platform (ABI-24).
pub fn library_file_name(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Looks for an extension's file: the explicit path, then `lib_dir` (`PI_LEGION_LIB_DIR`), then beside the
/// addon or executable (ABI-24).
///
/// # Errors
/// [`LoadError::Missing`] with the last place looked at.
pub fn find(name: &str, explicit: Option<&Path>, lib_dir: Option<&Path>, beside: &Path) -> Result<PathBuf, LoadError> {
    if let Some(path) = explicit {
        return if path.is_file() { Ok(path.to_owned()) } else { Err(LoadError::Missing { path: path.to_owned() }) };
    }
    let file = library_file_name(name);
    let places = lib_dir.into_iter().chain([beside]).map(|dir| dir.join(&file));
    let mut last = beside.join(&file);
    for place in places {
        if place.is_file() {
            return Ok(place);
        }
        last = place;
    }
    Err(LoadError::Missing { path: last })
}
