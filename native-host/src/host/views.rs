//! Asks the extensions of a session how to show what is theirs (ABI-34, ABI-42), and for completions (ABI-31).
//!
//! This host draws nothing by itself; who shows its sessions asks here. A renderer that errs makes the plain
//! text stand, and no line is wider than asked.

use std::sync::Arc;

use host_abi::AbiError;
use host_abi::calls::{
    Complete, Completion, ComponentInput, ComponentRender, InputOutcome, Lines, RenderCustom, RenderTool, queries,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::extensions::Attached;
use crate::session::Session;

/// The views of one session.
#[derive(Debug, Clone)]
pub struct Views(Arc<Session>);

impl Views {
    pub fn new(session: Arc<Session>) -> Views {
        Views(session)
    }

    /// A custom message.
    pub fn message(&self, message: RenderCustom) -> Vec<String> {
        let plain = message.content.clone().unwrap_or_default();
        let draws = |extension: &Attached| extension.registered.renderers.contains(&message.custom_type);
        self.render(queries::RENDER_MESSAGE, draws, &message, message.width, &plain)
    }

    /// An entry outside the model's context.
    pub fn entry(&self, entry: RenderCustom) -> Vec<String> {
        let plain = entry.data.as_ref().map(plain_text).unwrap_or_default();
        let draws = |extension: &Attached| extension.registered.entry_renderers.contains(&entry.custom_type);
        self.render(queries::RENDER_ENTRY, draws, &entry, entry.width, &plain)
    }

    /// A tool call.
    pub fn call(&self, call: RenderTool) -> Vec<String> {
        let params = call.params.as_ref().map(Value::to_string).unwrap_or_default();
        let plain = format!("{} {params}", call.tool);
        let draws = |extension: &Attached| tool(extension, &call.tool).is_some_and(|def| def.render_call);
        self.render(queries::RENDER_CALL, draws, &call, call.width, plain.trim_end())
    }

    /// A tool result.
    pub fn result(&self, result: RenderTool) -> Vec<String> {
        let texts = result.content.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
        let plain = texts.collect::<Vec<_>>().join("\n");
        let draws = |extension: &Attached| tool(extension, &result.tool).is_some_and(|def| def.render_result);
        self.render(queries::RENDER_RESULT, draws, &result, result.width, &plain)
    }

    /// The lines of a component; none when it errs.
    pub fn component(&self, render: &ComponentRender) -> Vec<String> {
        let lines = self.component_query::<Lines>(queries::COMPONENT_RENDER, &render.id, render);
        lines.map(|lines| cut(lines.lines, render.width)).unwrap_or_default()
    }

    /// A key for a component; one that errs has not handled it.
    pub fn input(&self, id: &str, data: &str) -> InputOutcome {
        let input = ComponentInput { id: id.to_owned(), data: Some(data.to_owned()) };
        self.component_query(queries::COMPONENT_INPUT, id, &input).unwrap_or_default()
    }

    /// Tells a component that it is shown, or not any more.
    pub fn mount(&self, id: &str, mounted: bool) {
        let name = if mounted { queries::COMPONENT_MOUNT } else { queries::COMPONENT_UNMOUNT };
        // Its answer means nothing.
        let _ = self.component_query::<Value>(name, id, &ComponentInput { id: id.to_owned(), data: None });
    }

    /// Completions of a command's arguments; none when its extension errs.
    pub fn complete(&self, command: &str, prefix: &str) -> Vec<Completion> {
        let completes =
            |extension: &Attached| extension.registered.commands.iter().any(|def| def.name == command && def.completes);
        let query = json!(Complete { command: command.to_owned(), prefix: prefix.to_owned() });
        let asked = self.find(completes).map(|extension| ask(extension, queries::COMPLETE, &query));
        asked.and_then(Result::ok).unwrap_or_default()
    }

    fn render(
        &self,
        query: &str,
        draws: impl Fn(&Attached) -> bool,
        payload: &impl Serialize,
        width: u16,
        plain: &str,
    ) -> Vec<String> {
        let drawn = self.find(draws).and_then(|extension| ask::<Lines>(extension, query, payload).ok());
        let lines = drawn.map(|drawn| drawn.lines);
        cut(lines.unwrap_or_else(|| plain.lines().map(str::to_owned).collect()), width)
    }

    fn component_query<A: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        id: &str,
        payload: &impl Serialize,
    ) -> Option<A> {
        let extension = self.find(|extension| extension.registered.components.iter().any(|known| known == id))?;
        ask(extension, name, payload).ok()
    }

    fn find(&self, wanted: impl Fn(&Attached) -> bool) -> Option<&Attached> {
        let extensions = &self.0.teller()?.extensions;
        extensions.iter().map(AsRef::as_ref).find(|extension| wanted(extension))
    }
}

fn ask<A: serde::de::DeserializeOwned>(
    extension: &Attached,
    name: &str,
    payload: &(impl Serialize + ?Sized),
) -> Result<A, AbiError> {
    let answer = extension.library.handle.query(extension.scope, name, payload);
    answer.inspect_err(|error| {
        tracing::warn!(extension = extension.library.name(), name, "a query failed: {error}");
    })
}

fn tool<'a>(extension: &'a Attached, name: &str) -> Option<&'a host_abi::registration::ToolDef> {
    extension.registered.tools.iter().find(|def| def.name == name)
}

fn plain_text(data: &Value) -> String {
    data.get("text")
        .or(Some(data))
        .map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned))
        .unwrap_or_default()
}

/// Characters stand for columns: who draws wide characters measures them itself.
fn cut(lines: Vec<String>, width: u16) -> Vec<String> {
    let cut = |line: String| match line.char_indices().nth(usize::from(width)) {
        Some((at, _)) => line[..at].to_owned(),
        None => line,
    };
    lines.into_iter().map(cut).collect()
}
