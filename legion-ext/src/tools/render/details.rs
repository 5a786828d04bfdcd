//! `details` of results (09 §2.2): the same facts for programs, under the names of DET-1.

use serde_json::{Map, Value, json};

use super::{
    Shown,
    items::{DECISIONS, decision_call, decision_word},
};
use crate::{
    core::{caps, liveness::Liveness, outcome::ExecutionStatus, text::clean_block},
    error::SubagentError,
    mail::SentMail,
    orchestrator::report::{
        Body, ChildView, Item, NodeView, Progress, Projection, Report, RoleView, Settled, Snapshot, Started, TakenDown,
        TakenDownHow, Usage,
    },
    tools::params::CallHead,
    ui::tree::Placed,
};

/// Version of the object.
const SCHEMA: &str = "legion.result/1";

/// An object whose absent members are left out, never null.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn new(head: &CallHead, ok: bool) -> Self {
        let mut object = Self::default();
        object.set("schema", SCHEMA).set("tool", head.tool).maybe("action", head.action).set("ok", ok);
        object
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn maybe(&mut self, key: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.set(key, value);
        }
        self
    }

    fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        if value { self.set(key, true) } else { self }
    }

    fn list(&mut self, key: &str, values: impl IntoIterator<Item = impl Into<Value>>) -> &mut Self {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        if values.is_empty() { self } else { self.set(key, values) }
    }

    fn value(self) -> Value {
        Value::Object(self.0)
    }
}

/// `details` of the answer to a command.
pub(super) fn of_report(head: &CallHead, report: &Report, ok: bool, shown: &[Option<Shown>]) -> Value {
    let mut details = Object::new(head, ok);
    details.maybe("runId", report.run_id.as_deref());
    match &report.body {
        Body::Items | Body::NothingToWaitFor => {}
        Body::Status(projection) => status(&mut details, projection),
        Body::Roles { roles, children, .. } => {
            details.set("roles", roles.iter().map(role).collect::<Vec<_>>());
            details.list("children", children.iter().map(child));
        }
        Body::Page { name, .. } => {
            let mut result = Object::default();
            result.set("name", name.as_str());
            result.maybe("text", shown.first().copied().flatten().map(text));
            details.set("results", vec![result.value()]);
        }
    }
    details.list("children", report.items.iter().filter_map(item_child));
    let results = report.items.iter().enumerate().filter_map(|(at, item)| match item {
        Item::Settled(settled) => Some(self::result(settled, shown.get(at).copied().flatten())),
        Item::Started(_) | Item::Refused { .. } | Item::Running(_) | Item::TakenDown(_) => None,
    });
    details.list("results", results.collect::<Vec<_>>());
    details.flag("interrupted", report.interrupted).flag("timedOut", report.timed_out);
    details.list("stillRunning", report.still_running.iter().map(String::as_str));
    details.list("notStarted", report.not_started.iter().map(String::as_str));
    details.list("decisions", report.items.iter().flat_map(decisions));
    let mail = report.mail.iter().map(|mail| {
        json!({ "id": mail.id, "from": mail.from, "kind": mail.kind, "urgency": mail.urgency, "subject": mail.subject })
    });
    details.list("mail", mail);
    details.list("ignored", head.ignored.iter().copied());
    details.list("warnings", head.warnings.iter().map(String::as_str));
    bounded(details)
}

/// `details` of a refused call.
pub(super) fn of_refusal(head: &CallHead, refused: &SubagentError) -> Value {
    let mut details = Object::new(head, false);
    details.list("ignored", head.ignored.iter().copied()).set("error", error(refused));
    bounded(details)
}

/// `details` of `legion_tree`.
pub(super) fn of_tree(head: &CallHead, placed: &[Placed<'_>]) -> Value {
    let mut details = Object::new(head, true);
    let nodes = placed.iter().map(|one| {
        let mut node = node(one.node);
        node.maybe("model", one.node.model.as_deref()).maybe("usage", usage(&one.node.usage));
        node.value()
    });
    details.set("tree", nodes.collect::<Vec<_>>());
    bounded(details)
}

/// `details` of `legion_mail`.
pub(super) fn of_mail(head: &CallHead, sent: &SentMail) -> Value {
    let mut details = Object::new(head, true);
    let rows = sent.sent.iter().map(|to| json!({ "id": to.id, "to": to.to, "nodeId": to.node_id }));
    details.set("sent", rows.collect::<Vec<_>>()).maybe("warning", sent.warning.as_deref());
    bounded(details)
}

/// `details` of a partial result.
pub(super) fn of_progress(progress: &Progress) -> Value {
    let mut details = Object::default();
    details.set("schema", SCHEMA).set("partial", true);
    let children = progress.targets.iter().map(|target| {
        let mut child = Object::default();
        child.set("name", target.name.as_str()).set("agent", target.agent.as_str());
        child.set("state", target.state.as_str()).set("elapsedMs", target.elapsed_ms);
        child.maybe("tool", target.tool.as_ref().map(|(name, _)| name.as_str()));
        child.value()
    });
    details.list("children", children);
    bounded(details)
}

/// One entry of `results`; `shown` is what the text holds of it.
pub(super) fn result(settled: &Settled, shown: Option<Shown>) -> Value {
    let mut result = Object::default();
    result.set("name", settled.name.as_str()).set("agent", settled.agent.as_str());
    result.set("status", settled.status.as_str()).maybe("reason", settled.reason.as_deref());
    result.set("round", settled.round).maybe("durationMs", settled.duration_ms).maybe("usage", usage(&settled.usage));
    if let Some(artifact) = &settled.artifact {
        let path = artifact.path.to_string_lossy();
        result.set("artifact", json!({ "path": path, "bytes": artifact.bytes }));
    }
    let total = settled.text.len() as u64;
    result.set("text", text(shown.unwrap_or(Shown { bytes: 0, total, next_offset: Some(0).filter(|_| total > 0) })));
    if !settled.text.is_empty() {
        let preview: String = clean_block(&settled.text).chars().take(caps::PREVIEW_CHARS).collect();
        result.set("preview", preview);
    }
    if let Some(acceptance) = &settled.acceptance {
        let mut object = Object::default();
        object.set("level", acceptance.level).set("status", acceptance.status);
        object.list("pending", acceptance.pending.iter().map(String::as_str));
        result.set("acceptance", object.value());
    }
    result.maybe("verdict", settled.verdict.map(|ok| json!({ "ok": ok })));
    result.list("warnings", settled.warnings.iter().map(String::as_str));
    result.value()
}

fn text(shown: Shown) -> Value {
    let mut text = Object::default();
    text.set("shown", shown.bytes).set("total", shown.total).maybe("nextOffset", shown.next_offset);
    text.value()
}

fn status(details: &mut Object, projection: &Projection) {
    let count = |liveness| projection.children.iter().filter(|child| child.liveness == liveness).count();
    details.set("children", projection.children.iter().map(child).collect::<Vec<_>>());
    details.list("tree", projection.tree.iter().map(|one| node(one).value()));
    details.set("live", count(Liveness::Live)).set("dead", count(Liveness::Dead));
    details.set("unknown", count(Liveness::Unknown));
}

fn child(view: &ChildView) -> Value {
    let mut child = Object::default();
    child.set("name", view.name.as_str()).set("agent", view.agent.as_str()).set("nodeId", view.node_id.as_str());
    child.set("supervisor", view.supervisor.as_str()).set("state", view.state.as_str());
    child.set("liveness", view.liveness.as_str()).maybe("model", view.model.as_deref());
    child.maybe("execution", view.execution.map(|status| execution(status, view.reason.as_deref())));
    child.maybe("usage", usage(&view.usage));
    child.maybe("sessionFile", view.session_file.as_ref().map(|file| file.to_string_lossy().into_owned()));
    child.value()
}

fn execution(status: ExecutionStatus, reason: Option<&str>) -> Value {
    let mut execution = Object::default();
    execution.set("status", status.as_str()).maybe("reason", reason);
    execution.value()
}

fn role(view: &RoleView) -> Value {
    let mut role = Object::default();
    role.set("name", view.name.as_str()).set("source", view.source).set("description", view.description.as_str());
    role.set("model", view.model.as_str()).maybe("modelSource", view.model_source);
    role.set("flags", view.flags.clone());
    role.value()
}

fn node(view: &NodeView) -> Object {
    let mut node = Object::default();
    node.set("id", view.id.as_str()).maybe("parentId", view.parent_id.as_deref());
    node.set("name", view.name.as_str()).set("role", view.role.as_str()).set("state", view.state.as_str());
    node.maybe("phase", view.phase.as_deref()).set("depth", view.depth);
    node
}

fn item_child(item: &Item) -> Option<Value> {
    match item {
        Item::Started(started) => Some(started_child(started)),
        Item::Refused { label, error: refused } => {
            let mut child = Object::default();
            child.maybe("name", Some(label.as_str()).filter(|label| !label.is_empty())).set("error", error(refused));
            Some(child.value())
        }
        Item::Running(snapshot) => Some(running_child(snapshot)),
        Item::TakenDown(taken) => Some(taken_down_child(taken)),
        Item::Settled(_) => None,
    }
}

fn started_child(started: &Started) -> Value {
    let mut child = Object::default();
    child.set("name", started.name.as_str()).set("agent", started.agent.as_str());
    child.set("nodeId", started.node_id.as_str()).set("supervisor", started.supervisor).set("state", "working");
    child.set("execution", execution(ExecutionStatus::Running, None));
    child.maybe("model", started.model.as_deref()).maybe("thinking", started.thinking.as_deref());
    child.set("sessionFile", started.session_file.to_string_lossy().into_owned());
    child.list("warnings", started.warnings.iter().map(String::as_str));
    child.value()
}

fn running_child(snapshot: &Snapshot) -> Value {
    let mut child = Object::default();
    child.set("name", snapshot.name.as_str()).set("agent", snapshot.agent.as_str());
    child.set("nodeId", snapshot.node_id.as_str()).set("state", "working");
    child.set("execution", execution(ExecutionStatus::Running, Some(&snapshot.reason)));
    child.value()
}

fn taken_down_child(taken: &TakenDown) -> Value {
    let mut child = Object::default();
    child.set("name", taken.name.as_str()).set("agent", taken.agent.as_str()).set("nodeId", taken.node_id.as_str());
    child.set("state", "retired").flag("forced", taken.how == TakenDownHow::ForceStopped);
    child.list("alsoStopped", taken.also.iter().map(String::as_str));
    child.value()
}

fn decisions(item: &Item) -> Vec<Value> {
    let Item::Running(snapshot) = item else { return Vec::new() };
    DECISIONS
        .into_iter()
        .filter(|decision| snapshot.decisions.contains(decision))
        .map(|decision| {
            let call = decision_call(decision, snapshot);
            json!({ "name": snapshot.name, "decision": decision_word(decision), "call": call })
        })
        .collect()
}

fn error(refused: &SubagentError) -> Value {
    let mut error = Object::default();
    error.set("code", refused.code.as_str()).set("message", refused.message.as_str());
    error.maybe("gate", refused.gate).maybe("hint", refused.hint.as_deref());
    error.value()
}

/// Absent when nothing is known.
fn usage(usage: &Usage) -> Option<Value> {
    (*usage != Usage::default()).then(|| {
        let Usage { input, output, cache_read, cache_write, cost_usd } = usage;
        json!({ "input": input, "output": output, "cacheRead": cache_read, "cacheWrite": cache_write, "costUsd": cost_usd })
    })
}

/// Lists that give way, in this order, when everything else did (DET-5).
const SHORTENED: [&str; 8] =
    ["tree", "decisions", "children", "results", "roles", "mail", "stillRunning", "notStarted"];
/// Longest text of an object that is still too large.
const LONG_TEXT_BYTES: usize = 1_024;

/// Keeps the object to its size (DET-5): previews go, then the oldest results shrink, then lists lose their ends.
fn bounded(mut details: Object) -> Value {
    if size(&details.0) <= caps::DETAILS_BYTES {
        return details.value();
    }
    details.set("truncated", true);
    let count = details.0.get("results").and_then(Value::as_array).map_or(0, Vec::len);
    for_each_result(&mut details.0, count, |result| {
        result.shift_remove("preview");
    });
    let mut reduced = 0;
    while size(&details.0) > caps::DETAILS_BYTES && reduced < count {
        // In steps, so that a thousand results do not mean a thousand serializations.
        reduced = (reduced + count.div_ceil(16)).min(count);
        for_each_result(&mut details.0, reduced, |result| {
            result.retain(|key, _| KEPT_OF_RESULT.contains(&key.as_str()))
        });
    }
    if size(&details.0) > caps::DETAILS_BYTES {
        details.0.values_mut().for_each(shorten_texts);
    }
    for key in SHORTENED {
        while size(&details.0) > caps::DETAILS_BYTES {
            let Some(Value::Array(list)) = details.0.get_mut(key) else { break };
            if list.is_empty() {
                break;
            }
            list.truncate(list.len() * 3 / 4);
        }
    }
    details.value()
}

/// What stays of a result that gave way.
const KEPT_OF_RESULT: [&str; 3] = ["name", "status", "artifact"];

fn for_each_result(details: &mut Map<String, Value>, first: usize, change: impl Fn(&mut Map<String, Value>)) {
    let Some(Value::Array(results)) = details.get_mut("results") else { return };
    results.iter_mut().take(first).filter_map(Value::as_object_mut).for_each(change);
}

fn shorten_texts(value: &mut Value) {
    match value {
        Value::String(text) => crate::core::text::cut_to(text, LONG_TEXT_BYTES),
        Value::Array(values) => values.iter_mut().for_each(shorten_texts),
        Value::Object(map) => map.values_mut().for_each(shorten_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn size(details: &Map<String, Value>) -> usize {
    serde_json::to_string(details).map_or(usize::MAX, |text| text.len())
}
