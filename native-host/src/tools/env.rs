//! What tools know of the process and of the session they run in.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use host_abi::scope::vars;

/// The variables that tell a command about the session that runs it (NAT-4).
const SESSION_VARIABLES: [&str; 4] = ["PI_SESSION_ID", "PI_SESSION_FILE", "PI_PROVIDER", "PI_MODEL"];

/// The environment of the host process, taken once.
#[derive(Debug, Clone, Default)]
pub struct HostEnv {
    vars: Vec<(OsString, OsString)>,
    home: Option<PathBuf>,
    temp_dir: PathBuf,
}

/// What shell commands are told of the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionEnv {
    pub session_id: String,
    pub session_file: Option<PathBuf>,
    pub provider: Option<String>,
    pub model: Option<String>,
}

impl HostEnv {
    /// `vars` is the whole environment for commands; `HOME` and `TMPDIR` are read from it.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>) -> HostEnv {
        let vars: Vec<(OsString, OsString)> = vars.into_iter().collect();
        let value = |name: &str| vars.iter().find(|(key, _)| key == name).map(|(_, value)| PathBuf::from(value));
        let home = value("HOME").filter(|path| path.is_absolute());
        let temp_dir = value("TMPDIR").filter(|path| path.is_absolute()).unwrap_or_else(|| PathBuf::from("/tmp"));
        HostEnv { vars, home, temp_dir }
    }

    /// What `~` stands for.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Where overlong output is kept whole.
    pub fn temp_dir(&self) -> &Path {
        &self.temp_dir
    }

    /// The environment of a command of `session`, with the session's facts. Without a child's identity: what a
    /// session runs is no child of the legion (SUP-36).
    pub fn for_command(&self, session: &SessionEnv) -> Vec<(OsString, OsString)> {
        let withheld = |key: &OsStr| vars::CHILD.iter().chain(&SESSION_VARIABLES).any(|name| key == *name);
        let mut vars: Vec<(OsString, OsString)> = self.vars.iter().filter(|(key, _)| !withheld(key)).cloned().collect();
        let mut set = |name: &str, value: Option<OsString>| vars.extend(value.map(|value| (name.into(), value)));
        set("PI_SESSION_ID", Some(session.session_id.clone().into()));
        set("PI_SESSION_FILE", session.session_file.clone().map(PathBuf::into_os_string));
        set("PI_PROVIDER", session.provider.clone().map(OsString::from));
        set("PI_MODEL", session.model.clone().map(OsString::from));
        vars
    }
}
