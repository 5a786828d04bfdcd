//! Texts with `{{…}}` in them: parsed when the script is read, filled in when a turn is played. Pure.

use regex::Regex;
use serde_json::Value;

use super::play::Facts;

/// A text with placeholders.
#[derive(Debug, Clone, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A JSON value whose texts are templates, such as the arguments of a tool call.
#[derive(Debug, Clone)]
pub enum JsonTemplate {
    Text(Template),
    List(Vec<JsonTemplate>),
    /// Keys are taken as they are.
    Object(Vec<(String, JsonTemplate)>),
    Plain(Value),
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Place { variable: Variable, pick: Option<Regex>, written: String },
}

/// What a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Variable {
    Prompt,
    Task,
    LastResult,
    /// Counted from 1 over the session.
    Result(usize),
    /// The last result of this tool.
    ResultOf(String),
    /// A group of the rule's patterns, by number or name.
    Capture(String),
    Name,
    Role,
    Cwd,
    Model,
    Session,
    Request,
}

/// The placeholders, for messages and the reference page.
pub const VARIABLES: &str = "prompt, task, last_result, result.<n>, result.<tool>, match.<n>, match.<name>, name, role, \
                             cwd, model, session, request";

impl Template {
    /// Reads a text. The error says what was expected.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            if let Some(before) = rest[..at].strip_suffix('\\') {
                plain.push_str(before);
                plain.push_str("{{");
                rest = &rest[at + 2..];
                continue;
            }
            plain.push_str(&rest[..at]);
            let inner_end = rest[at..].find("}}").ok_or("expected '}}' after '{{' (write \\{{ for plain braces)")? + at;
            // A pattern may itself end with a brace, as in `{{last_result | /\w{3}/}}`.
            let inner_end = inner_end + rest[inner_end + 2..].chars().take_while(|char| *char == '}').count();
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(place(&rest[at + 2..inner_end])?);
            rest = &rest[inner_end + 2..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// The text with everything filled in. The error names the placeholder that has no value.
    pub fn render(&self, facts: &Facts<'_>) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Place { variable, pick, written } => {
                    let value =
                        value_of(variable, facts).ok_or_else(|| format!("{{{{{written}}}}} has no value here"))?;
                    match pick {
                        None => text.push_str(&value),
                        Some(pattern) => {
                            let groups = pattern.captures(&value).ok_or_else(|| {
                                format!("{{{{{written}}}}}: the pattern does not match \"{}\"", cut(&value))
                            })?;
                            text.push_str(groups.get(1).or(groups.get(0)).map_or("", |group| group.as_str()));
                        }
                    }
                }
            }
        }
        Ok(text)
    }
}

impl JsonTemplate {
    pub fn parse(value: Value) -> Result<JsonTemplate, String> {
        Ok(match value {
            Value::String(text) => JsonTemplate::Text(Template::parse(&text)?),
            Value::Array(list) => {
                JsonTemplate::List(list.into_iter().map(JsonTemplate::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(object) => JsonTemplate::Object(
                object
                    .into_iter()
                    .map(|(key, value)| Ok((key, JsonTemplate::parse(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            plain => JsonTemplate::Plain(plain),
        })
    }

    pub fn render(&self, facts: &Facts<'_>) -> Result<Value, String> {
        Ok(match self {
            JsonTemplate::Text(template) => Value::String(template.render(facts)?),
            JsonTemplate::List(list) => {
                Value::Array(list.iter().map(|item| item.render(facts)).collect::<Result<_, _>>()?)
            }
            JsonTemplate::Object(object) => Value::Object(
                object
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.render(facts)?)))
                    .collect::<Result<_, String>>()?,
            ),
            JsonTemplate::Plain(value) => value.clone(),
        })
    }
}

/// Reads `variable` or `variable | /pattern/`.
fn place(written: &str) -> Result<Piece, String> {
    let (name, pick) = match written.split_once('|') {
        None => (written.trim(), None),
        Some((name, filter)) => {
            let pattern = filter.trim().strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
            let pattern = pattern.ok_or_else(|| format!("expected /pattern/ after '|' in {{{{{written}}}}}"))?;
            (name.trim(), Some(Regex::new(pattern).map_err(|error| pattern_fault(&error))?))
        }
    };
    let variable =
        variable(name).ok_or_else(|| format!("unknown placeholder {{{{{name}}}}}; expected one of {VARIABLES}"))?;
    Ok(Piece::Place { variable, pick, written: written.trim().to_owned() })
}

fn variable(name: &str) -> Option<Variable> {
    Some(match name {
        "prompt" => Variable::Prompt,
        "task" => Variable::Task,
        "last_result" => Variable::LastResult,
        "name" => Variable::Name,
        "role" => Variable::Role,
        "cwd" => Variable::Cwd,
        "model" => Variable::Model,
        "session" => Variable::Session,
        "request" => Variable::Request,
        _ => match name.split_once('.')? {
            (_, "") => return None,
            ("match", group) => Variable::Capture(group.to_owned()),
            ("result", which) => match which.parse() {
                Ok(0) => return None,
                Ok(number) => Variable::Result(number),
                Err(_) => Variable::ResultOf(which.to_owned()),
            },
            _ => return None,
        },
    })
}

fn value_of(variable: &Variable, facts: &Facts<'_>) -> Option<String> {
    let scene = facts.scene;
    Some(match variable {
        Variable::Prompt => facts.prompt.clone(),
        Variable::Task => facts.task.clone(),
        Variable::LastResult => facts.results.last()?.text(),
        Variable::Result(number) => facts.results.get(number - 1)?.text(),
        Variable::ResultOf(tool) => facts.results.iter().rev().find(|result| result.tool_name == *tool)?.text(),
        Variable::Capture(group) => facts.captures.get(group)?.clone(),
        Variable::Name => scene.name.to_owned(),
        Variable::Role => scene.role.to_owned(),
        Variable::Cwd => scene.cwd.to_owned(),
        Variable::Model => facts.model.to_owned(),
        Variable::Session => scene.session.to_owned(),
        Variable::Request => facts.request.to_string(),
    })
}

/// The last line of a pattern's fault; the lines before draw the pattern.
pub(super) fn pattern_fault(error: &regex::Error) -> String {
    let text = error.to_string();
    let cause = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("expected a regular expression: {cause}")
}

/// The beginning of a text, for messages.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
