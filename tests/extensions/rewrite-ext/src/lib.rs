//! A test extension that rewrites the commands of `bash`: `run this: <command>` becomes `<command>`.
//!
//! It stands for any extension that changes a call before child-guard judges it (GUARD-10).

use host_abi::{
    AbiError,
    gates::{GateCall, ToolCall, ToolCallAnswer, names as gates},
    info::{AttachSpec, ExtensionInfo, HostInfo},
    registration::Registrations,
    sdk::extension::{Extension, HostHandle, Invocation, Responder},
};
use serde_json::Value;

const TOOL: &str = "bash";
const PREFIX: &str = "run this: ";

struct Rewriter;

impl Extension for Rewriter {
    fn attach(&self, _scope: u64, _spec: AttachSpec) -> Result<Registrations, AbiError> {
        let gates = vec![gates::TOOL_CALL.to_owned()];
        Ok(Registrations { gates, input_for: vec![TOOL.to_owned()], ..Registrations::default() })
    }

    fn invoke(&self, call: Invocation, reply: Responder) {
        let answer = call.payload::<GateCall<ToolCall>>().map(|GateCall { event, .. }| {
            let input = event.input.whole().filter(|_| event.tool_name == TOOL).and_then(rewritten);
            ToolCallAnswer { input, ..ToolCallAnswer::default() }
        });
        reply.finish(answer.as_ref().map_err(Clone::clone));
    }

    fn cancel(&self, _call: u64) {}
    fn detach(&self, _scope: u64) {}
    fn notify(&self, _scope: u64, _event: &str, _json: &str) {}

    fn query(&self, _scope: u64, name: &str, _json: &str) -> Result<String, AbiError> {
        Err(AbiError::unknown_op(name))
    }
}

fn rewritten(input: &Value) -> Option<Value> {
    let command = input.get("command")?.as_str()?.strip_prefix(PREFIX)?;
    let mut input = input.clone();
    input["command"] = command.into();
    Some(input)
}

fn info() -> ExtensionInfo {
    ExtensionInfo {
        name: "rewriter".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        abi: host_abi::VERSION.to_owned(),
        ops: vec![],
        events: vec![gates::TOOL_CALL.to_owned()],
    }
}

fn init(_host: HostHandle, _info: HostInfo) -> Result<Rewriter, AbiError> {
    Ok(Rewriter)
}

host_abi::export_extension!(info = info, init = init);
