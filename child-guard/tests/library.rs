//! The built library, loaded the way a host loads it.

use std::path::PathBuf;

use host_abi::info::{AttachSpec, HostInfo, Mode};
use host_abi::sdk::BoxFuture;
use host_abi::sdk::host::Host;
use host_abi::{AbiError, library_file_name, load};

struct QuietHost;

impl Host for QuietHost {
    fn post(&self, _: u64, _: &str, _: &str) {}

    fn request(&self, _: u64, op: &str, _: String) -> BoxFuture<Result<String, AbiError>> {
        let error = AbiError::unknown_op(op);
        Box::pin(async move { Err(error) })
    }
}

/// The library that this test was built with: in the folder of the test itself.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.with_file_name(library_file_name("child_guard"))
}

/// ABI-20, GUARD-11, GUARD-30
#[test]
fn a_host_loads_starts_and_attaches_it() {
    let loaded = load(&library()).expect("the library loads");
    assert_eq!(loaded.info().name, "child-guard");
    assert_eq!(loaded.info().abi, host_abi::VERSION);
    let host = HostInfo {
        name: "test".to_owned(),
        version: "0".to_owned(),
        mode: Mode::Print,
        has_ui: false,
        cwd: "/srv".to_owned(),
        agent_dir: "/home/agent".to_owned(),
        project_trusted: true,
        ops: vec![],
        events: vec![],
        gates: vec![],
    };
    let guard = loaded.start(QuietHost, &host).expect("it starts");
    let scope = serde_json::json!({
        "schema": "legion.scope/1", "name": "w", "role": "worker", "nodeId": "root/w", "dbPath": "/r/legion.db",
        "sessionFile": "/r/w.jsonl", "runDir": "/r", "rootRunDir": "/r", "parentPath": ["root"], "depth": 1,
        "spawnMode": "inprocess",
    });
    let spec = AttachSpec {
        agent_id: "a".to_owned(),
        session_id: "s".to_owned(),
        session_file: None,
        cwd: "/srv".to_owned(),
        mode: Mode::Print,
        has_ui: false,
        project_trusted: true,
        extension_scope: Some(scope),
    };
    let registrations = guard.attach(1, &spec).expect("it attaches");
    assert_eq!(registrations.gates, ["tool_call"]);
    assert_eq!(registrations.input_for, ["bash"]);
    guard.detach(1);
}
