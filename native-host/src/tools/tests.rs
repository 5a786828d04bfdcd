//! The tools on real files and processes.

mod facts;
mod files;
mod search;
mod shell;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::session_file::blocks_text;

/// A directory to work in, with a home and a temporary directory beside it.
struct Place {
    _dir: TempDir,
    cwd: PathBuf,
    env: Arc<HostEnv>,
}

impl Place {
    fn new() -> Place {
        Place::below("work")
    }

    /// `cwd` is the working directory below a fresh one.
    fn below(cwd: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let cwd = root.join(cwd);
        for dir in [&cwd, &root.join("home"), &root.join("tmp")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let var = |name: &str, value: &Path| (OsString::from(name), OsString::from(value));
        let mut vars = vec![var("HOME", &root.join("home")), var("TMPDIR", &root.join("tmp"))];
        vars.push(("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()));
        vars.extend(host_abi::scope::vars::CHILD.iter().map(|name| (OsString::from(name), OsString::from("leaked"))));
        vars.push(("PI_SESSION_ID".into(), "of the parent".into()));
        Place { _dir: dir, cwd, env: Arc::new(HostEnv::new(vars)) }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.cwd.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.cwd.join(name)).unwrap()
    }

    fn context(&self) -> ToolContext {
        ToolContext {
            call_id: "call_1".into(),
            cwd: self.cwd.clone(),
            env: Arc::clone(&self.env),
            session: SessionEnv {
                session_id: "s-1".into(),
                session_file: Some("/s.jsonl".into()),
                provider: Some("scripted".into()),
                model: Some("echo".into()),
            },
            cancel: CancellationToken::new(),
            progress: None,
        }
    }

    /// The call as the agent loop makes it: prepared, checked, run.
    async fn call(&self, tool: &str, input: Value) -> ToolOutput {
        call(tool, self.context(), input).await
    }
}

async fn call(name: &str, ctx: ToolContext, input: Value) -> ToolOutput {
    let tool = tool(name);
    match prepare_call(&*tool, input) {
        Ok(input) => tool.run(ctx, input).await,
        Err(problem) => ToolOutput::error(problem),
    }
}

fn tool(name: &str) -> Arc<dyn Tool> {
    builtin_tools().into_iter().find(|tool| tool.def().name == name).expect("a built-in tool")
}

impl ToolOutput {
    /// The text of a result that must be a good one.
    #[track_caller]
    fn good(&self) -> String {
        assert!(!self.is_error, "{self:?}");
        blocks_text(&self.content)
    }

    /// The text of a result that must be an error.
    #[track_caller]
    fn bad(&self) -> String {
        assert!(self.is_error, "{self:?}");
        blocks_text(&self.content)
    }
}
