//! What a child is, and how both libraries hear of it (SUP-30).

use serde_json::json;
use tests::{
    legion_world::{Project, results},
    libraries::library,
    native::within,
};

/// GUARD-70, 04-T7: a role holds for its own child, whatever the parent's is.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_binds_its_own_child_only() {
    let project = Project::new();
    let card = |role: &str| format!("tools: bash\nallowNestedSubagents: true\nacceptance: {{ role: {role} }}");
    project.card("reader", &card("read-only"));
    project.card("writer", &card("writer"));
    let script = r"
rules:
  - match: { task: '^lead (?<below>\w+)$' }
    turns:
      - calls: [{ tool: bash, arguments: { command: 'touch by-{{name}}' } }]
      - calls: [{ tool: subagent, arguments: { agent: '{{match.below}}', name: 'under-{{name}}', task: write, async: false } }]
      - text: done
  - match: { task: '^write$' }
    turns:
      - calls: [{ tool: bash, arguments: { command: 'touch by-{{name}}' } }]
      - text: done
";
    let live = project.session(script);
    for (parent, child, name) in [("writer", "reader", "w"), ("reader", "writer", "r")] {
        let call = json!({ "agent": parent, "name": name, "task": format!("lead {child}"), "async": false });
        assert!(live.subagent(call).await.good().contains("success"));
    }
    let wrote = |name: &str| project.path(&format!("by-{name}")).exists();
    assert!(wrote("w") && !wrote("under-w"), "a read-only child of a writer keeps its ban");
    assert!(!wrote("r") && wrote("under-r"), "a writer child of a read-only parent has none");
    let refused = results(&project.transcript("r"));
    assert!(refused[0].bad().starts_with("read-only role: 'touch by-r' is refused in bash"), "{}", refused[0].text);
    live.end().await;
}

/// SUP-30, ABI-15, 04-T25 with the exact scope that the orchestrator's own tests compare: an unknown schema starts
/// nothing, in either library.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_schema_starts_no_child() {
    let project = Project::new();
    let live = project
        .session_with("otherwise: { text: hi }", |host| host.extension(library("probe_ext").display().to_string()));
    let spec = json!({
        "agentId": "a", "name": "kid", "cwd": project.dir(), "sessionFile": project.path("kid.jsonl"),
        "extensions": [], "skills": [], "contextFiles": false, "hostSkills": false,
        "extensionScope": { "schema": "legion.scope/9", "name": "kid" },
    });
    let reply = within(live.call("probe_request", json!({ "op": "child.create", "input": spec }))).await;
    assert!(reply.text.contains("extensionScope has schema 'legion.scope/9'"), "{}", reply.text);
    assert_eq!(live.host.core().sessions().len(), 1, "the root alone is left");
    live.end().await;
}
