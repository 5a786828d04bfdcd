//! The smallest host: loads an extension library, gives it one session and calls its first tool.
//!
//! `cargo run -p tests --example smallest_host -- target/debug/libsmallest_ext.so Ada`

use std::{error::Error, io::Write as _, path::Path, sync::mpsc};

use host_abi::{
    AbiError,
    calls::{ToolInvocation, ToolResult, kinds},
    fence::install_host_hook,
    info::{AttachSpec, Ctx, HostInfo, Mode},
    load,
    sdk::{
        BoxFuture, decode, encode,
        host::{CallTarget, Host, ReplySink},
    },
};

/// What the extension may ask for. This host can tell about itself, and nothing else.
struct Smallest;

impl Host for Smallest {
    /// Nobody waits for a post, so what is not understood is left out.
    fn post(&self, _scope: u64, _op: &str, _json: &str) {}

    /// Work of a host with a runtime goes into the future; when the extension drops it, the work ends.
    fn request(&self, _scope: u64, op: &str, _json: String) -> BoxFuture<Result<String, AbiError>> {
        let answer = match op {
            "host.info" => encode(op, &info()),
            _ => Err(AbiError::unknown_op(op)),
        };
        Box::pin(async { answer })
    }
}

/// Where the answer of a call arrives, from a thread of the extension's.
struct Answer(mpsc::Sender<Result<String, AbiError>>);

impl ReplySink for Answer {
    fn progress(&self, _json: &str) {}

    fn finish(&self, result: Result<String, AbiError>) {
        drop(self.0.send(result));
    }
}

fn info() -> HostInfo {
    HostInfo {
        name: "smallest".to_owned(),
        version: "0.1.0".to_owned(),
        mode: Mode::Print,
        has_ui: false,
        cwd: ".".to_owned(),
        agent_dir: ".".to_owned(),
        project_trusted: false,
        ops: vec!["host.info".to_owned()],
        events: vec![],
        gates: vec![],
    }
}

/// One session, one call.
pub fn greet(library: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    install_host_hook();
    let extension = load(library)?.start(Smallest, &info())?;

    // The host numbers its sessions from 1 and never uses a number twice.
    let scope = 1;
    let registered = extension.attach(
        scope,
        &AttachSpec {
            agent_id: "root".to_owned(),
            session_id: "session-1".to_owned(),
            session_file: None,
            cwd: ".".to_owned(),
            mode: Mode::Print,
            has_ui: false,
            project_trusted: false,
            extension_scope: None,
        },
    )?;
    let tool = registered.tools.first().ok_or("the extension has no tool")?;

    // What a model would ask for.
    let (sender, receiver) = mpsc::channel();
    extension.invoke(
        CallTarget { scope, call: 1, kind: kinds::TOOL, name: &tool.name },
        &ToolInvocation {
            tool_call_id: "call-1".to_owned(),
            params: serde_json::json!({ "name": name }),
            ctx: Ctx {
                cwd: ".".to_owned(),
                mode: Mode::Print,
                has_ui: false,
                session_id: "session-1".to_owned(),
                session_file: None,
                model: None,
                idle: false,
            },
        },
        Answer(sender),
    );
    let result: ToolResult = decode("tool result", &receiver.recv()??)?;

    extension.detach(scope);
    Ok(result.joined_text())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, name] = arguments.as_slice() else {
        return Err("usage: smallest_host <extension library> <name>".into());
    };
    writeln!(std::io::stdout(), "{}", greet(Path::new(library), name)?)?;
    Ok(())
}
