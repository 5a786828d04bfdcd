//! The process's environment, read in this one place.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::tools::HostEnv;

/// What the host takes from its environment (SUP-119).
#[derive(Debug, Clone, Default)]
pub struct Env {
    /// `PI_CODING_AGENT_DIR`.
    pub agent_dir: Option<PathBuf>,
    /// `PI_LEGION_LIB_DIR`.
    pub lib_dir: Option<PathBuf>,
    /// `NO_COLOR`, set to anything.
    pub no_color: bool,
    /// All variables, for commands.
    pub vars: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// The running program.
    pub executable: PathBuf,
}

impl Env {
    /// The environment of this process.
    pub fn read() -> std::io::Result<Env> {
        let vars: Vec<(OsString, OsString)> = env::vars_os().collect();
        let value = |name: &str| vars.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let path = |name: &str| value(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(Env {
            agent_dir: path("PI_CODING_AGENT_DIR"),
            lib_dir: path("PI_LEGION_LIB_DIR"),
            no_color: value("NO_COLOR").is_some_and(|value| !value.is_empty()),
            cwd: env::current_dir()?,
            executable: env::current_exe()?,
            vars,
        })
    }

    /// What tools get to see.
    pub fn for_tools(&self) -> HostEnv {
        HostEnv::new(self.vars.iter().cloned())
    }

    /// How a shell finds this program: by its name where that is enough, else by its path.
    pub fn command_name(&self) -> String {
        let path = self.vars.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        let dir = self.executable.parent();
        let found = path.is_some_and(|path| env::split_paths(path).any(|entry| Some(entry.as_path()) == dir));
        match self.executable.file_name().filter(|_| found) {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.executable.display().to_string(),
        }
    }

    /// The host's user directory: as the environment says, else `~/.pi/agent`.
    pub fn agent_dir(&self) -> PathBuf {
        let tools = self.for_tools();
        let expand = |path: &PathBuf| match (path.strip_prefix("~"), tools.home()) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.clone(),
        };
        match &self.agent_dir {
            Some(dir) => self.cwd.join(expand(dir)),
            None => tools.home().unwrap_or(&self.cwd).join(".pi/agent"),
        }
    }
}
