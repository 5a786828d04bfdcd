//! The script file: reading it, and saying what is wrong with it. Pure.
//!
//! A script is a list of rules. Each has conditions and turns; see `docs/reference/scripts.md`.

use std::fmt;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::SCRIPTED;
use super::template::{JsonTemplate, Template, pattern_fault};
use crate::provider::model::{ModelInfo, ThinkingLevel};
use crate::session_file::{Cost, StopReason};

/// A script that has been read and checked.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file's name, for messages.
    pub source: String,
    /// Empty: every model id of the provider exists.
    pub models: Vec<ModelInfo>,
    pub rules: Vec<Rule>,
    /// Answers when no rule does.
    pub otherwise: Option<Turn>,
}

/// Turns and when they are played.
#[derive(Debug, Clone)]
pub struct Rule {
    pub line: u64,
    pub when: When,
    /// One for each request that the rule answers in a session, in their order. Never empty.
    pub turns: Vec<Turn>,
    pub repeat: Repeat,
}

/// Conditions on a request; all that are given must hold.
#[derive(Debug, Clone, Default)]
pub struct When {
    pub roles: Vec<String>,
    pub names: Vec<String>,
    pub models: Vec<String>,
    /// On the latest user or custom text.
    pub prompt: Option<Regex>,
    /// On the first user or custom text of the session.
    pub task: Option<Regex>,
    /// On the latest tool result; holds only while it is the latest message.
    pub result: Option<Regex>,
    /// The tool of the latest result; holds only while that is the latest message.
    pub tools: Vec<String>,
    /// The number of the request in its session, first and last, counted from 1.
    pub request: Option<(u64, u64)>,
}

/// What a rule does when its turns are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeat {
    /// It holds no more in that session.
    #[default]
    Never,
    /// Its last turn answers on.
    Last,
    /// Its turns begin again.
    All,
}

/// One answer of the model.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub line: u64,
    pub thinking: Option<Template>,
    pub text: Option<Template>,
    pub calls: Vec<Call>,
    /// Milliseconds before the answer begins.
    pub delay_ms: u64,
    /// Milliseconds before each further delta.
    pub between_ms: u64,
    /// Characters of a delta; 0 is all of a block at once.
    pub chunk: usize,
    pub usage: Option<ScriptUsage>,
    pub stop_reason: Option<StopReason>,
    pub fault: Option<Fault>,
    /// The answer begins when so many requests wait at the barrier of this name.
    pub barrier: Option<Barrier>,
    /// The answer begins when this file exists.
    pub until_file: Option<Template>,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub tool: Template,
    /// One is made when there is none.
    pub id: Option<Template>,
    pub arguments: JsonTemplate,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ScriptUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    pub name: String,
    pub count: usize,
}

/// How a turn goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    Http {
        status: u16,
        body: Template,
        retry_after_ms: Option<u64>,
        times: u64,
    },
    /// The stream ends after so many characters.
    Broken {
        after_chars: usize,
        message: Template,
        times: u64,
    },
    /// Nothing comes after so many characters until the request is cancelled.
    Silence {
        after_chars: usize,
        times: u64,
    },
}

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    pub source: String,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub message: String,
}

impl Script {
    /// Reads YAML or JSON. `source` names the text in messages.
    pub fn parse(source: &str, text: &str) -> Result<Script, ScriptError> {
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        let raw: RawScript = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            // The library ends its text with the place, which stands in front here.
            let message = error.without_snippet().to_string();
            let message = match message.split(" at line ").next().unwrap_or_default().trim() {
                "invalid u16" | "invalid u64" | "invalid usize" => "expected a whole number",
                "invalid f64" => "expected a number",
                message => message,
            };
            fault_at(source, error.location(), message.to_owned())
        })?;
        let read = Reader { source };
        if raw.rules.is_empty() && raw.otherwise.is_none() {
            return Err(fault_at(source, None, "expected 'rules' with at least one rule, or 'otherwise'".to_owned()));
        }
        let otherwise = raw.otherwise.map(|turn| read.turn(turn)).transpose()?;
        Ok(Script {
            source: source.to_owned(),
            models: raw.models.into_iter().map(model).collect(),
            rules: raw.rules.into_iter().map(|rule| read.rule(rule)).collect::<Result<_, _>>()?,
            otherwise,
        })
    }
}

impl Fault {
    /// How many attempts of the same request fail.
    pub fn times(&self) -> u64 {
        match self {
            Fault::Http { times, .. } | Fault::Broken { times, .. } | Fault::Silence { times, .. } => *times,
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScriptError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    models: Vec<RawModel>,
    #[serde(default)]
    rules: Vec<Spanned<RawRule>>,
    #[serde(default)]
    otherwise: Option<Spanned<RawTurn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawModel {
    id: String,
    name: Option<String>,
    thinking: Option<Vec<ThinkingLevel>>,
    context_window: Option<u64>,
    max_tokens: Option<u64>,
    #[serde(default)]
    cost: RawCost,
    #[serde(default)]
    images: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct RawCost {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(rename = "match", default)]
    when: RawWhen,
    turns: Vec<Spanned<RawTurn>>,
    #[serde(default)]
    repeat: Repeat,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawWhen {
    role: OneOrMany,
    name: OneOrMany,
    model: OneOrMany,
    prompt: Option<Spanned<String>>,
    task: Option<Spanned<String>>,
    result: Option<Spanned<String>>,
    tool: OneOrMany,
    request: Option<Spanned<RawRequest>>,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawRequest {
    Number(u64),
    Range(String),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct RawTurn {
    thinking: Option<Spanned<String>>,
    text: Option<Spanned<String>>,
    calls: Vec<Spanned<RawCall>>,
    delay_ms: u64,
    between_ms: u64,
    chunk: Option<usize>,
    usage: Option<ScriptUsage>,
    stop_reason: Option<Spanned<String>>,
    error: Option<RawHttp>,
    broken: Option<RawBroken>,
    silence: Option<RawSilence>,
    barrier: Option<Barrier>,
    until_file: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: String,
    id: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawHttp {
    status: u16,
    #[serde(default)]
    body: Option<Spanned<String>>,
    retry_after_ms: Option<u64>,
    times: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawBroken {
    #[serde(default)]
    after_chars: usize,
    message: Option<Spanned<String>>,
    times: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawSilence {
    #[serde(default)]
    after_chars: usize,
    times: Option<u64>,
}

/// Turns raw parts into checked ones.
struct Reader<'a> {
    source: &'a str,
}

impl Reader<'_> {
    fn rule(&self, raw: Spanned<RawRule>) -> Result<Rule, ScriptError> {
        let at = raw.referenced;
        let RawRule { when, turns, repeat } = raw.value;
        if turns.is_empty() {
            return Err(self.fault(at, "expected at least one turn in 'turns'"));
        }
        let turns = turns.into_iter().map(|turn| self.turn(turn)).collect::<Result<_, _>>()?;
        Ok(Rule { line: at.line(), when: self.when(when)?, turns, repeat })
    }

    fn when(&self, raw: RawWhen) -> Result<When, ScriptError> {
        let pattern = |raw: Option<Spanned<String>>| {
            raw.map(|raw| Regex::new(&raw.value).map_err(|error| self.fault(raw.referenced, pattern_fault(&error))))
                .transpose()
        };
        Ok(When {
            roles: raw.role.into(),
            names: raw.name.into(),
            models: raw.model.into(),
            prompt: pattern(raw.prompt)?,
            task: pattern(raw.task)?,
            result: pattern(raw.result)?,
            tools: raw.tool.into(),
            request: raw.request.map(|raw| self.request(&raw)).transpose()?,
        })
    }

    fn request(&self, raw: &Spanned<RawRequest>) -> Result<(u64, u64), ScriptError> {
        let range = match &raw.value {
            RawRequest::Number(number) => Some((*number, *number)),
            RawRequest::Range(text) => text.split_once('-').and_then(|(first, last)| {
                let last = if last.trim().is_empty() { Some(u64::MAX) } else { last.trim().parse().ok() };
                Some((first.trim().parse().ok()?, last?))
            }),
        };
        range
            .filter(|(first, last)| *first >= 1 && first <= last)
            .ok_or_else(|| self.fault(raw.referenced, "expected a number from 1 or a range such as \"2-4\" or \"2-\""))
    }

    fn turn(&self, raw: Spanned<RawTurn>) -> Result<Turn, ScriptError> {
        let at = raw.referenced;
        let raw = raw.value;
        let faults = [raw.error.is_some(), raw.broken.is_some(), raw.silence.is_some()];
        if faults.into_iter().filter(|given| *given).count() > 1 {
            return Err(self.fault(at, "expected only one of 'error', 'broken' and 'silence' in a turn"));
        }
        let fault = match (raw.error, raw.broken, raw.silence) {
            (Some(http), ..) => {
                if !(400..=599).contains(&http.status) {
                    return Err(self.fault(at, "expected an error status from 400 to 599"));
                }
                Some(Fault::Http {
                    status: http.status,
                    body: self.template(http.body)?.unwrap_or_default(),
                    retry_after_ms: http.retry_after_ms,
                    times: http.times.unwrap_or(u64::MAX),
                })
            }
            (_, Some(broken), _) => Some(Fault::Broken {
                after_chars: broken.after_chars,
                message: match self.template(broken.message)? {
                    Some(message) => message,
                    None => self.checked(at, Template::parse("The stream ended before the answer did"))?,
                },
                times: broken.times.unwrap_or(u64::MAX),
            }),
            (.., Some(silence)) => {
                Some(Fault::Silence { after_chars: silence.after_chars, times: silence.times.unwrap_or(u64::MAX) })
            }
            (None, None, None) => None,
        };
        let calls = raw.calls.into_iter().map(|call| self.call(call)).collect::<Result<Vec<_>, _>>()?;
        if raw.text.is_none() && raw.thinking.is_none() && calls.is_empty() && fault.is_none() {
            return Err(self.fault(at, "expected at least one of 'text', 'thinking', 'calls' or a fault in a turn"));
        }
        if raw.barrier.as_ref().is_some_and(|barrier| barrier.count == 0) {
            return Err(self.fault(at, "expected a 'count' of at least 1 in 'barrier'"));
        }
        Ok(Turn {
            line: at.line(),
            thinking: self.template(raw.thinking)?,
            text: self.template(raw.text)?,
            calls,
            delay_ms: raw.delay_ms,
            between_ms: raw.between_ms,
            chunk: raw.chunk.unwrap_or(if raw.between_ms > 0 { 24 } else { 0 }),
            usage: raw.usage,
            stop_reason: raw.stop_reason.map(|reason| self.stop_reason(reason)).transpose()?,
            fault,
            barrier: raw.barrier,
            until_file: self.template(raw.until_file)?,
        })
    }

    fn call(&self, raw: Spanned<RawCall>) -> Result<Call, ScriptError> {
        let at = raw.referenced;
        let RawCall { tool, id, arguments } = raw.value;
        let arguments = arguments.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        Ok(Call {
            tool: self.checked(at, Template::parse(&tool))?,
            id: id.map(|id| self.checked(at, Template::parse(&id))).transpose()?,
            arguments: self.checked(at, JsonTemplate::parse(arguments))?,
        })
    }

    fn stop_reason(&self, raw: Spanned<String>) -> Result<StopReason, ScriptError> {
        match raw.value.as_str() {
            "stop" => Ok(StopReason::Stop),
            "length" => Ok(StopReason::Length),
            "toolUse" => Ok(StopReason::ToolUse),
            "error" => Ok(StopReason::Error),
            "aborted" => Ok(StopReason::Aborted),
            other => Err(self.fault(
                raw.referenced,
                format!("unknown stopReason '{other}'; expected stop, length, toolUse, error or aborted"),
            )),
        }
    }

    fn template(&self, raw: Option<Spanned<String>>) -> Result<Option<Template>, ScriptError> {
        raw.map(|raw| self.checked(raw.referenced, Template::parse(&raw.value))).transpose()
    }

    fn checked<T>(&self, at: Location, result: Result<T, String>) -> Result<T, ScriptError> {
        result.map_err(|message| self.fault(at, message))
    }

    fn fault(&self, at: Location, message: impl Into<String>) -> ScriptError {
        fault_at(self.source, Some(at), message.into())
    }
}

impl From<OneOrMany> for Vec<String> {
    fn from(raw: OneOrMany) -> Self {
        match raw {
            OneOrMany::None => Vec::new(),
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

fn fault_at(source: &str, at: Option<Location>, message: String) -> ScriptError {
    let known = |number: u64| (number > 0).then_some(number);
    ScriptError {
        source: source.to_owned(),
        line: at.and_then(|at| known(at.line())),
        column: at.and_then(|at| known(at.column())),
        message,
    }
}

fn model(raw: RawModel) -> ModelInfo {
    let RawCost { input, output, cache_read, cache_write } = raw.cost;
    ModelInfo {
        name: raw.name.unwrap_or_else(|| raw.id.clone()),
        thinking_levels: raw.thinking.unwrap_or_else(|| ThinkingLevel::ALL.to_vec()),
        context_window: raw.context_window.unwrap_or(DEFAULT_CONTEXT_WINDOW),
        max_tokens: raw.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        cost: Cost { input, output, cache_read, cache_write, total: 0.0 },
        images: raw.images,
        ..any_model(&raw.id)
    }
}

const DEFAULT_CONTEXT_WINDOW: u64 = 200_000;
const DEFAULT_MAX_TOKENS: u64 = 32_000;

/// A model of which the script says nothing.
pub(super) fn any_model(id: &str) -> ModelInfo {
    ModelInfo {
        provider: SCRIPTED.to_owned(),
        id: id.to_owned(),
        name: id.to_owned(),
        thinking_levels: ThinkingLevel::ALL.to_vec(),
        context_window: DEFAULT_CONTEXT_WINDOW,
        max_tokens: DEFAULT_MAX_TOKENS,
        cost: Cost::default(),
        images: true,
        has_credentials: true,
    }
}

#[cfg(test)]
mod tests;
