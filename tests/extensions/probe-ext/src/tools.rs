//! The tools and the command `/probe`.

use std::{sync::Arc, time::Duration};

use host_abi::{
    AbiError,
    calls::{CommandInvocation, NestedUsage, ToolInvocation, ToolResult},
    fence::panic_error,
    ops,
    registration::{Annotations, ToolDef},
    sdk::{
        decode,
        extension::{Invocation, Responder},
    },
};
use serde_json::{Value, json};

use crate::{Probe, Session, Work, gates::Script, identity, lock};

/// The first words of `/probe`, with what they do.
pub const COMMANDS: &[(&str, &str)] = &[
    ("print", "prints the rest as a line"),
    ("release", "lets a held gate go"),
    ("refuse", "fails"),
    ("panic", "panics"),
    ("say", "sends the rest as a user message"),
];

pub fn definitions() -> Vec<ToolDef> {
    let tool = |name: &str, about: &str, properties: Value| {
        ToolDef::new(name, name, about, json!({ "type": "object", "properties": properties }))
    };
    let text = || json!({ "type": "string" });
    let whole = || json!({ "type": "integer" });
    let flag = || json!({ "type": "boolean" });
    let op = || json!({ "op": text(), "input": {}, "raw": text(), "pad": whole(), "scope": whole() });
    vec![
        tool("probe_whoami", "Tells which session the work runs for.", json!({})),
        ToolDef {
            prompt_snippet: Some("Give back what you were given".to_owned()),
            prompt_guidelines: vec!["Use probe_echo to see what reaches a tool.".to_owned()],
            execution_mode: Some("sequential".to_owned()),
            exposure: Some("always".to_owned()),
            annotations: Some(Annotations { read_only_hint: true }),
            render_call: true,
            render_result: true,
            ..tool(
                "probe_echo",
                "Gives back its parameters.",
                json!({ "text": text(), "pad": whole(), "render": text() }),
            )
        },
        ToolDef { default_active: Some(false), ..tool("probe_hidden", "Is registered but switched off.", json!({})) },
        tool("probe_sleep", "Sleeps until it is cancelled, or so many milliseconds.", json!({ "ms": whole() })),
        tool("probe_progress", "Posts n partial results and ends.", json!({ "n": whole() })),
        tool("probe_request", "Asks the host.", op()),
        tool("probe_post", "Tells the host.", op()),
        tool("probe_panic", "Panics where it is told to.", json!({ "where": text() })),
        tool("probe_drop_reply", "Never answers and forgets the call.", json!({})),
        ToolDef {
            output_schema: Some(json!({
                "type": "object", "properties": { "sum": whole() }, "required": ["sum"],
            })),
            ..tool("probe_usage", "Spends tokens.", json!({ "terminate": flag(), "error": flag() }))
        },
        tool(
            "probe_gate",
            "Says how a gate answers from now on.",
            json!({ "gate": text(), "answer": {}, "hold": {}, "panic": flag(), "err": text(), "release": flag(),
                "tool": text(), "times": whole() }),
        ),
        tool("probe_asked", "Tells what the gates were asked.", json!({})),
        tool("probe_events", "Tells the events so far.", json!({})),
        tool("probe_views", "Tells what the components went through.", json!({})),
    ]
}

/// Begins a tool call; what it does before the spawn happens here.
pub fn start(
    probe: &Arc<Probe>,
    call: &Invocation,
    tool: ToolInvocation,
    session: Arc<Session>,
    reply: Responder,
) -> Result<(), AbiError> {
    let params = tool.params;
    match call.name.as_str() {
        "probe_whoami" => probe.start(call, reply, session, |_| async { done(whoami().await?) }),
        "probe_echo" | "probe_hidden" => probe.start(call, reply, session, |_| async { done(echo(params)) }),
        "probe_sleep" => probe.start(call, reply, session, |work| sleep(work, params)),
        "probe_progress" => probe.start(call, reply, session, |work| progress(work, params)),
        "probe_request" => probe.start(call, reply, session, |work| request(work, params)),
        "probe_post" => probe.start(call, reply, session, |work| post(work, params)),
        "probe_panic" => panics(probe, call, &params, session, reply),
        "probe_drop_reply" => drop(reply),
        "probe_usage" => probe.start(call, reply, session, |_| async move { done(usage(&params)) }),
        "probe_gate" => {
            session.gates.set(decode("probe_gate", &params.to_string())?);
            reply.finish(Ok(&ToolResult::text("set")));
        }
        "probe_asked" => reply.finish(Ok(&details(json!(session.gates.asked())))),
        "probe_events" => reply.finish(Ok(&details(json!(*lock(&session.events))))),
        "probe_views" => reply.finish(Ok(&details(session.views.seen()))),
        other => return Err(AbiError::unknown_op(other)),
    }
    Ok(())
}

pub async fn command(work: Work, command: CommandInvocation) -> Result<Value, AbiError> {
    let (word, rest) = command.args.split_once(' ').unwrap_or((&command.args, ""));
    match word {
        "print" => {
            work.host
                .post(work.session.identity.scope, &ops::Print { line: rest.to_owned(), stream: ops::Stream::Out });
        }
        "release" => {
            work.session.gates.set(Script { gate: rest.to_owned(), release: true, ..Script::default() });
        }
        "refuse" => return Err(AbiError::new("PROBE", format!("refused: {rest}"))),
        "panic" => panic!("probe: command"),
        "say" => {
            let message = ops::SendUserMessage { content: rest.to_owned(), deliver_as: None };
            work.host.request(work.session.identity.scope, &message).await?;
        }
        _ => {}
    }
    Ok(json!({ "args": command.args }))
}

fn details(details: Value) -> ToolResult {
    ToolResult { details: Some(details.clone()), ..ToolResult::text(details.to_string()) }
}

fn done(result: ToolResult) -> Result<Value, AbiError> {
    serde_json::to_value(result).map_err(|error| AbiError::bad_payload("result", &error))
}

/// The identity here, and in a task that this one spawns.
async fn whoami() -> Result<ToolResult, AbiError> {
    fn facts() -> Result<Value, AbiError> {
        let identity = identity::current()?;
        Ok(json!({
            "scope": identity.scope,
            "agentId": identity.spec.agent_id,
            "extensionScope": identity.spec.extension_scope,
        }))
    }
    tokio::task::yield_now().await;
    let nested = identity::spawn_scoped(async {
        tokio::task::yield_now().await;
        facts()
    })?;
    let nested = nested.await.map_err(|error| AbiError::host(error.to_string()))??;
    let mut own = facts()?;
    own["nested"] = nested;
    Ok(details(own))
}

fn echo(params: Value) -> ToolResult {
    let text = params["text"].as_str().unwrap_or_default().to_owned();
    let pad = params["pad"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    ToolResult { details: Some(params), ..ToolResult::text(text + &"x".repeat(pad)) }
}

async fn sleep(work: Work, params: Value) -> Result<Value, AbiError> {
    work.reply.progress(&ToolResult::text("asleep"));
    let rest = async {
        match params["ms"].as_u64() {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    };
    let cancelled = tokio::select! {
        () = work.cancelled.cancelled() => true,
        () = rest => false,
    };
    done(details(json!({ "cancelled": cancelled })))
}

async fn progress(work: Work, params: Value) -> Result<Value, AbiError> {
    let n = params["n"].as_u64().unwrap_or(0);
    for i in 0..n {
        work.reply.progress(&details(json!({ "i": i })));
    }
    done(details(json!({ "n": n })))
}

/// Scope, operation and input of `probe_request` and `probe_post`. `raw` is sent as it is, `pad` makes the
/// input so many bytes larger.
fn operation(work: &Work, params: &Value) -> (u64, String, String) {
    let scope = params["scope"].as_u64().unwrap_or(work.session.identity.scope);
    let op = params["op"].as_str().unwrap_or_default().to_owned();
    if let Some(raw) = params["raw"].as_str() {
        return (scope, op, raw.to_owned());
    }
    let mut input = params["input"].clone();
    if input.is_null() {
        input = json!({});
    }
    if let Some(pad) = params["pad"].as_u64().and_then(|n| usize::try_from(n).ok()) {
        input["pad"] = "x".repeat(pad).into();
    }
    (scope, op, input.to_string())
}

/// A cancel drops the request (ABI-8).
async fn request(work: Work, params: Value) -> Result<Value, AbiError> {
    let (scope, op, input) = operation(&work, &params);
    let answer = tokio::select! {
        answer = work.host.request_json(scope, &op, input) => answer,
        () = work.cancelled.cancelled() => return done(details(json!({ "dropped": true }))),
    };
    done(details(match answer {
        Ok(json) => json!({ "answer": decode::<Value>(&op, &json)? }),
        Err(error) => json!({ "error": error }),
    }))
}

async fn post(work: Work, params: Value) -> Result<Value, AbiError> {
    let (scope, op, input) = operation(&work, &params);
    work.host.post_json(scope, &op, input);
    done(ToolResult::text("posted"))
}

fn panics(probe: &Arc<Probe>, call: &Invocation, params: &Value, session: Arc<Session>, reply: Responder) {
    match params["where"].as_str().unwrap_or("invoke") {
        "invoke" => panic!("probe: invoke"),
        "after_spawn" => {
            // Its late answer must not count: the call has failed by then. A cancel brings it.
            probe.start(call, reply, session, |work| async move {
                work.cancelled.cancelled().await;
                done(ToolResult::text("too late"))
            });
            panic!("probe: after spawn");
        }
        "spawned" => probe.start(call, reply, session, |_| async { panic!("probe: spawned") }),
        "thread" => probe.start(call, reply, session, |_| async {
            let thread = std::thread::spawn(|| panic!("probe: thread"));
            thread.join().map_err(|payload| panic_error("a thread", payload.as_ref()))?;
            done(ToolResult::text("the thread lived"))
        }),
        // Nobody catches it: the runtime drops the task, and with it the reply.
        "unfenced" => {
            let task = async move {
                let _reply = reply;
                panic!("probe: unfenced");
            };
            drop(identity::spawn_scoped_on(probe.runtime.handle(), Arc::clone(&session.identity), task));
        }
        "payload" => std::panic::panic_any(Grenade),
        entry => {
            lock(&session.armed).push(entry.to_owned());
            reply.finish(Ok(&ToolResult::text("armed")));
        }
    }
}

/// A panic's payload whose drop panics.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("probe: payload");
    }
}

fn usage(params: &Value) -> ToolResult {
    let spent = |model: &str, input, output| NestedUsage {
        provider: "probe".to_owned(),
        model: model.to_owned(),
        input,
        output,
        cache_read: 5,
        cache_write: 2,
        cost_usd: 0.25,
    };
    ToolResult {
        details: Some(json!({ "spent": true })),
        is_error: params["error"] == true,
        usage: vec![spent("small", 10, 1), spent("large", 20, 2)],
        structured_content: Some(json!({ "sum": 33 })),
        terminate: params["terminate"] == true,
        ..ToolResult::text("spent")
    }
}
