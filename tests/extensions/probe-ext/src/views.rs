//! Renderers, components and completions: the synchronous queries (ABI-31, ABI-34, ABI-42).

use std::{collections::BTreeMap, sync::Mutex};

use host_abi::{
    AbiError,
    calls::{
        Complete, Completion, ComponentInput, ComponentRender, InputOutcome, Lines, RenderCustom, RenderTool, queries,
    },
    sdk::{decode, encode},
};
use serde_json::json;

use crate::{lock, tools::COMMANDS};

/// Message and entry types with a renderer: one that works, one that errs, one that panics.
pub const CUSTOM_TYPES: &[&str] = &["probe.ok", "probe.err", "probe.panic"];
/// Components of the same three kinds.
pub const COMPONENTS: &[&str] = &["probe.ok", "probe.err", "probe.panic"];

/// What the components of one session went through.
#[derive(Default)]
pub struct Views(Mutex<BTreeMap<String, Seen>>);

#[derive(Debug, Clone, Default)]
struct Seen {
    mounted: u32,
    unmounted: u32,
    keys: Vec<String>,
}

impl Views {
    /// A test's view of the counts: `{ id: { mounted, unmounted, keys } }`.
    pub fn seen(&self) -> serde_json::Value {
        let views = lock(&self.0);
        views
            .iter()
            .map(|(id, seen)| {
                (id.clone(), json!({ "mounted": seen.mounted, "unmounted": seen.unmounted, "keys": seen.keys }))
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn at<R>(&self, id: &str, act: impl FnOnce(&mut Seen) -> R) -> R {
        act(lock(&self.0).entry(id.to_owned()).or_default())
    }
}

/// Errs or panics for the names that say so.
fn misbehave(name: &str) -> Result<(), AbiError> {
    assert!(!name.ends_with("panic"), "probe: {name}");
    if name.ends_with("err") { Err(AbiError::new("PROBE", format!("'{name}' errs as asked"))) } else { Ok(()) }
}

pub fn query(views: &Views, name: &str, json: &str) -> Result<String, AbiError> {
    match name {
        queries::RENDER_MESSAGE | queries::RENDER_ENTRY => {
            let custom: RenderCustom = decode(name, json)?;
            misbehave(&custom.custom_type)?;
            let data = custom.data.map(|data| data.to_string());
            let body = custom.content.or(data).unwrap_or_default();
            let facts = format!("{name} {} w={} expanded={}", custom.custom_type, custom.width, custom.expanded);
            encode(name, &Lines { lines: vec![facts, body] })
        }
        queries::RENDER_CALL | queries::RENDER_RESULT => {
            let tool: RenderTool = decode(name, json)?;
            let wish = tool.params.as_ref().or(tool.details.as_ref()).and_then(|value| value.get("render")?.as_str());
            misbehave(wish.unwrap_or_default())?;
            let facts = format!(
                "{name} {} w={} expanded={} error={} partial={}",
                tool.tool, tool.width, tool.expanded, tool.is_error, tool.is_partial
            );
            encode(name, &Lines { lines: vec![facts] })
        }
        queries::COMPONENT_RENDER => {
            let render: ComponentRender = decode(name, json)?;
            misbehave(&render.id)?;
            let height = render.height.map_or("none".to_owned(), |rows| rows.to_string());
            let keys = views.at(&render.id, |seen| seen.keys.join(""));
            let facts = format!("{} w={} h={height} keys={keys}", render.id, render.width);
            encode(name, &Lines { lines: vec![facts, "─".repeat(usize::from(render.width) + 5)] })
        }
        queries::COMPONENT_INPUT => {
            let input: ComponentInput = decode(name, json)?;
            let data = input.data.unwrap_or_default();
            misbehave(match data.as_str() {
                "e" => "err",
                "p" => "panic",
                _ => "",
            })?;
            let keys = views.at(&input.id, |seen| {
                seen.keys.push(data.clone());
                seen.keys.len()
            });
            let close = data == "q";
            let result = close.then(|| json!({ "keys": keys }));
            encode(name, &InputOutcome { handled: close || data == "x", close, result })
        }
        queries::COMPONENT_MOUNT | queries::COMPONENT_UNMOUNT => {
            let component: ComponentInput = decode(name, json)?;
            views.at(&component.id, |seen| {
                *if name == queries::COMPONENT_MOUNT { &mut seen.mounted } else { &mut seen.unmounted } += 1;
            });
            encode(name, &json!({}))
        }
        queries::COMPLETE => {
            let complete: Complete = decode(name, json)?;
            let fitting = COMMANDS.iter().filter(|(word, _)| word.starts_with(&complete.prefix));
            let completions: Vec<_> = fitting
                .map(|(word, about)| Completion { value: (*word).to_owned(), description: Some((*about).to_owned()) })
                .collect();
            encode(name, &completions)
        }
        _ => Err(AbiError::unknown_op(name)),
    }
}
