//! From the sessions' events to what a person reads on the way. Pure but for what was shown already.

use std::collections::{HashMap, HashSet};

use legion_ext::core::display;
use legion_ext::core::text::clean_line;
use serde_json::Value;

use crate::session::event::{HostEvent, SessionEvent};
use crate::session_file::{Message, ToolCall};
use crate::tools::ToolOutput;

/// Longest text of a line, in bytes.
const TEXT_BYTES: usize = 160;

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beat {
    /// It stays.
    Line(Line),
    /// What a child is at now; the next one takes its place where there is room for one line a child.
    Activity { who: String, text: String },
    /// The child's run is over; what it said last.
    Ended { who: String, text: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub who: String,
    pub kind: Kind,
    pub text: String,
}

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The root speaks.
    Says,
    /// The root acts.
    Acts,
    /// A mail was sent.
    Mail,
    /// A call was refused or failed.
    Fault,
    /// A result reached the parent.
    Good,
    /// A result that is no success did.
    Bad,
}

impl Kind {
    pub const fn mark(self) -> &'static str {
        match self {
            Kind::Says => "»",
            Kind::Acts => "▶",
            Kind::Mail => "✉",
            Kind::Fault => "!",
            Kind::Good => "✓",
            Kind::Bad => "✗",
        }
    }
}

/// Tells the tour.
#[derive(Debug, Default)]
pub struct Narrator {
    /// Child and round of each result that was told.
    told: HashSet<(String, u64)>,
    /// The first line of each child's latest answer.
    answers: HashMap<String, String>,
}

impl Narrator {
    /// What `event` gives to show.
    pub fn tell(&mut self, event: &HostEvent) -> Vec<Beat> {
        let who = &*event.name;
        let line = |kind, text: &str| Beat::Line(Line { who: who.to_owned(), kind, text: short(text) });
        let activity = |text: String| Beat::Activity { who: who.to_owned(), text: short(&text) };
        match &*event.event {
            SessionEvent::MessageEnd { message: Message::Assistant(answer) } => {
                let text = answer.text();
                match text.trim().lines().next() {
                    Some(first) if event.root => vec![line(Kind::Says, first)],
                    Some(first) => {
                        self.answers.insert(who.to_owned(), short(first));
                        Vec::new()
                    }
                    None => Vec::new(),
                }
            }
            SessionEvent::MessageEnd { message: Message::Custom(notice) } if event.root => {
                self.results(notice.details.as_ref().map(|details| &details["children"]))
            }
            SessionEvent::ToolStart { call } => match (event.root, is_wait(call)) {
                (true, false) => vec![line(Kind::Acts, &call_text(call))],
                (true, true) => Vec::new(),
                (false, _) => vec![activity(call_text(call))],
            },
            SessionEvent::ToolEnd { call, output } => {
                let mut beats = Vec::new();
                match call.name.as_str() {
                    "legion_mail" if !output.is_error => beats.push(line(Kind::Mail, &mail_text(call))),
                    _ if output.is_error && !is_wait(call) => {
                        beats.push(line(Kind::Fault, &fault_text(call, output)));
                    }
                    "subagent" | "vexillatio" => {
                        beats.extend(self.results(output.details.as_ref().map(|details| &details["results"])));
                    }
                    _ => {}
                }
                beats
            }
            SessionEvent::AgentSettled { .. } if !event.root => {
                let text = self.answers.remove(who).unwrap_or_default();
                vec![Beat::Ended { who: who.to_owned(), text }]
            }
            _ => Vec::new(),
        }
    }

    /// The results in a call's answer or in a notice, but for those that were told already.
    fn results(&mut self, results: Option<&Value>) -> Vec<Beat> {
        let mut beats = Vec::new();
        for result in results.and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| result[key].as_str().unwrap_or_default();
            let (name, status) = (text("name").to_owned(), text("status"));
            if !self.told.insert((name.clone(), result["round"].as_u64().unwrap_or_default())) {
                continue;
            }
            let verdict = result["verdict"]["ok"].as_bool();
            let good = status == "success" && verdict != Some(false);
            let mut said = format!("{status} ({})", text("agent"));
            if verdict == Some(false) {
                said.push_str(", and says it is not done");
            }
            if let Some(ms) = result["durationMs"].as_i64() {
                said.push_str(&format!(" · {}", display::duration(ms)));
            }
            let kind = if good { Kind::Good } else { Kind::Bad };
            beats.push(Beat::Line(Line { who: name, kind, text: said }));
        }
        beats
    }
}

/// The root waits all the time; that is no news.
fn is_wait(call: &ToolCall) -> bool {
    call.name == "subagent" && call.arguments["action"] == "wait"
}

/// A call in a few words.
fn call_text(call: &ToolCall) -> String {
    let argument = |name: &str| call.arguments[name].as_str().unwrap_or_default();
    match call.name.as_str() {
        "bash" => format!("$ {}", argument("command")),
        "grep" | "find" => format!("{} {}", call.name, argument("pattern")),
        "legion_mail" => format!("mail to {}", argument("to")),
        "subagent" => {
            let action = Some(argument("action")).filter(|action| !action.is_empty()).unwrap_or("launch");
            match (call.arguments["tasks"].as_array(), call.arguments["names"].as_array()) {
                (Some(tasks), _) => format!("{action} {}", display::plural(tasks.len(), "child", "children")),
                (None, Some(names)) => format!("{action} {}", display::plural(names.len(), "result", "results")),
                (None, None) => format!("{action} {}", argument("name")),
            }
        }
        name => format!("{name} {}", argument("path")),
    }
}

fn mail_text(call: &ToolCall) -> String {
    let argument = |name: &str| call.arguments[name].as_str().unwrap_or_default();
    let question = if argument("kind") == "question" { "question: " } else { "" };
    format!("to {}: {question}{}", argument("to"), argument("subject"))
}

/// Of a failed test run the first test that failed, else the first line.
fn fault_text(call: &ToolCall, output: &ToolOutput) -> String {
    let text = output.content.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>().join("\n");
    let line = text.lines().find(|line| line.starts_with("not ok")).or(text.lines().next()).unwrap_or_default();
    format!("{}: {line}", call.name)
}

fn short(text: &str) -> String {
    clean_line(text, TEXT_BYTES)
}
