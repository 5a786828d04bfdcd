//! The smallest extension: one tool that greets.

use host_abi::{
    AbiError,
    calls::{ToolInvocation, ToolResult},
    info::{AttachSpec, ExtensionInfo, HostInfo},
    registration::{Registrations, ToolDef},
    sdk::extension::{Extension, HostHandle, Invocation, Responder},
};
use serde_json::json;

struct Greeter;

impl Extension for Greeter {
    /// A session comes up: say what this extension wants of it.
    fn attach(&self, _scope: u64, _spec: AttachSpec) -> Result<Registrations, AbiError> {
        let schema = json!({
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"],
        });
        let greet = ToolDef::new("greet", "Greet", "Greets somebody by name.", schema);
        Ok(Registrations { tools: vec![greet], ..Registrations::default() })
    }

    /// A call comes in. Long work belongs on a runtime of the extension's own; this one answers at once.
    fn invoke(&self, call: Invocation, reply: Responder) {
        let answer = call.payload::<ToolInvocation>().map(|tool| {
            let name = tool.params["name"].as_str().unwrap_or("you");
            ToolResult::text(format!("Hello {name}"))
        });
        reply.finish(answer.as_ref().map_err(Clone::clone));
    }

    /// Nothing here outlives its call, so there is nothing to stop and nothing to forget.
    fn cancel(&self, _call: u64) {}
    fn detach(&self, _scope: u64) {}
    fn notify(&self, _scope: u64, _event: &str, _json: &str) {}

    fn query(&self, _scope: u64, name: &str, _json: &str) -> Result<String, AbiError> {
        Err(AbiError::unknown_op(name))
    }
}

fn info() -> ExtensionInfo {
    ExtensionInfo {
        name: "greeter".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        abi: host_abi::VERSION.to_owned(),
        ops: vec![],
        events: vec![],
    }
}

/// Called once per process. Keep `host` to ask the host for things.
fn init(_host: HostHandle, _info: HostInfo) -> Result<Greeter, AbiError> {
    Ok(Greeter)
}

host_abi::export_extension!(info = info, init = init);
