//! Which turn answers a request, and what it says: pure functions of the script and the messages.
//!
//! Nothing is counted on the side. How often a rule has answered in a session is found by going through the
//! session's messages again, so a resumed session goes on where it was, and a server that sees nothing but
//! messages plays a script the same way.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use super::script::{Repeat, Rule, Script, Turn, When};
use super::template::cut;
use crate::session_file::{Message, ToolResultMessage};

/// A request as far as a script looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub role: &'a str,
    pub name: &'a str,
    pub cwd: &'a str,
    pub session: &'a str,
    pub model: &'a str,
    pub messages: &'a [Message],
}

/// What is known at one request, for conditions and placeholders.
#[derive(Debug)]
pub struct Facts<'a> {
    pub scene: Scene<'a>,
    pub model: &'a str,
    /// The latest user or custom text.
    pub prompt: String,
    /// The first.
    pub task: String,
    pub results: Vec<&'a ToolResultMessage>,
    /// The latest message is a tool result.
    pub after_result: bool,
    /// Counted from 1.
    pub request: u64,
    /// Groups of the patterns of the rule that answers, by number and name. `prompt` wins over `task`, and
    /// `result` over both.
    pub captures: HashMap<String, String>,
}

/// The turn that answers, with what it is filled in from.
#[derive(Debug)]
pub struct Choice<'a> {
    pub turn: &'a Turn,
    pub facts: Facts<'a>,
}

/// An answer with everything filled in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub thinking: Option<String>,
    pub text: Option<String>,
    pub calls: Vec<AnswerCall>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AnswerCall {
    pub id: String,
    pub tool: String,
    pub arguments: Value,
}

/// Finds the turn for a request. The error says what the request was like.
pub fn choose<'a>(script: &'a Script, scene: Scene<'a>) -> Result<Choice<'a>, String> {
    let mut facts = Facts::new(scene);
    let mut used = vec![0; script.rules.len()];
    for message in scene.messages {
        match message {
            Message::User(user) => facts.prompted(user.content.text()),
            Message::Custom(custom) => facts.prompted(custom.content.text()),
            Message::ToolResult(result) => {
                facts.results.push(result);
                facts.after_result = true;
            }
            Message::Assistant(answer) => {
                if !answer.model.is_empty() {
                    facts.model = &answer.model;
                }
                if let Some((number, _)) = answering(script, &facts, &used) {
                    used[number] += 1;
                }
                facts.request += 1;
            }
            Message::System(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)
            | Message::Other(_) => {}
        }
    }
    facts.model = scene.model;
    if let Some((number, turn)) = answering(script, &facts, &used) {
        facts.captures = captures(&script.rules[number].when, &facts);
        return Ok(Choice { turn, facts });
    }
    match &script.otherwise {
        Some(turn) => Ok(Choice { turn, facts }),
        None => Err(format!(
            "the script {} has no turn for this request: role '{}', name '{}', request {}, prompt \"{}\"{}",
            script.source,
            scene.role,
            scene.name,
            facts.request,
            cut(&facts.prompt),
            facts
                .results
                .last()
                .filter(|_| facts.after_result)
                .map(|last| format!(", after a result of {}", last.tool_name))
                .unwrap_or_default(),
        )),
    }
}

impl Choice<'_> {
    /// Fills in the turn. The error names the place in the script.
    pub fn render(&self, script: &Script) -> Result<Answer, String> {
        let fill = |problem: String| format!("{}:{}: {problem}", script.source, self.turn.line);
        let text = |template: &Option<super::template::Template>| {
            template.as_ref().map(|template| template.render(&self.facts)).transpose().map_err(fill)
        };
        let mut calls = Vec::new();
        for (number, call) in self.turn.calls.iter().enumerate() {
            calls.push(AnswerCall {
                id: text(&call.id)?.unwrap_or_else(|| call_id(&self.facts, number + 1)),
                tool: call.tool.render(&self.facts).map_err(fill)?,
                arguments: call.arguments.render(&self.facts).map_err(fill)?,
            });
        }
        Ok(Answer { thinking: text(&self.turn.thinking)?, text: text(&self.turn.text)?, calls })
    }
}

impl<'a> Facts<'a> {
    fn new(scene: Scene<'a>) -> Facts<'a> {
        Facts {
            scene,
            model: scene.model,
            prompt: String::new(),
            task: String::new(),
            results: Vec::new(),
            after_result: false,
            request: 1,
            captures: HashMap::new(),
        }
    }

    fn prompted(&mut self, text: String) {
        if self.task.is_empty() {
            self.task.clone_from(&text);
        }
        self.prompt = text;
        self.after_result = false;
    }
}

/// The first rule that holds and has a turn left, with that turn.
fn answering<'a>(script: &'a Script, facts: &Facts<'_>, used: &[usize]) -> Option<(usize, &'a Turn)> {
    script.rules.iter().enumerate().find_map(|(number, rule)| {
        let turn = next_turn(rule, used[number])?;
        holds(&rule.when, facts).then_some((number, turn))
    })
}

fn next_turn(rule: &Rule, used: usize) -> Option<&Turn> {
    match rule.repeat {
        Repeat::Never => rule.turns.get(used),
        Repeat::Last => rule.turns.get(used).or(rule.turns.last()),
        Repeat::All => rule.turns.get(used % rule.turns.len()),
    }
}

fn holds(when: &When, facts: &Facts<'_>) -> bool {
    let one_of = |allowed: &[String], value: &str| allowed.is_empty() || allowed.iter().any(|name| name == value);
    let matches = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
    let result = facts.results.last().filter(|_| facts.after_result);
    one_of(&when.roles, facts.scene.role)
        && one_of(&when.names, facts.scene.name)
        && one_of(&when.models, facts.model)
        && when.request.is_none_or(|(first, last)| (first..=last).contains(&facts.request))
        && (when.tools.is_empty() || result.is_some_and(|result| one_of(&when.tools, &result.tool_name)))
        && matches(&when.prompt, &facts.prompt)
        && matches(&when.task, &facts.task)
        && when.result.as_ref().is_none_or(|pattern| result.is_some_and(|result| pattern.is_match(&result.text())))
}

fn captures(when: &When, facts: &Facts<'_>) -> HashMap<String, String> {
    let result = facts.results.last().map(|result| result.text()).unwrap_or_default();
    let mut all = HashMap::new();
    for (pattern, text) in [(&when.task, &facts.task), (&when.prompt, &facts.prompt), (&when.result, &result)] {
        let Some(pattern) = pattern else { continue };
        let Some(groups) = pattern.captures(text) else { continue };
        for (number, name) in pattern.capture_names().enumerate() {
            let Some(group) = groups.get(number) else { continue };
            for key in [Some(number.to_string()), name.map(str::to_owned)].into_iter().flatten() {
                all.insert(key, group.as_str().to_owned());
            }
        }
    }
    all
}

/// Different for every call of every session, and the same whenever a session is played again.
fn call_id(facts: &Facts<'_>, number: usize) -> String {
    let session: String = facts.scene.session.chars().rev().filter(char::is_ascii_alphanumeric).take(8).collect();
    let session: String = session.chars().rev().collect();
    format!("call_{}_{number}_{session}", facts.request).trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests;
