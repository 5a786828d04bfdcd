//! What the children of this process are doing, as their sessions tell (SUP-12).
//!
//! A child's own instance of the extension receives the events of its session; its parent's supervisor wants to know
//! them. Both live in one process, so they meet here: `process` writes, supervisors and views read. The key is the
//! child's session file, which is unique where names and node ids are not.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use host_abi::events::Event;
use tokio::sync::watch;

use super::InFlightTool;
use crate::context::SessionContext;

/// The children of this process; one per process.
#[derive(Debug, Default)]
pub struct ActivityBoard {
    children: Mutex<HashMap<PathBuf, Arc<ChildActivity>>>,
}

/// One child's part of the board.
#[derive(Debug, Default)]
pub struct ChildActivity {
    state: watch::Sender<Activity>,
}

/// What is known about a child's activity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Milliseconds since the epoch.
    pub last_event_at: Option<i64>,
    /// A run is under way.
    pub running: bool,
    /// Runs that began so far.
    pub begun: u64,
    /// Turn of the present run, counted from 1.
    pub turn: Option<u32>,
    tools: Vec<RunningTool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RunningTool {
    call: String,
    name: String,
    since: i64,
}

impl ActivityBoard {
    /// Notes an event of the session that `context` belongs to. A session that is nobody's child is not on the board.
    pub fn note(&self, context: &SessionContext, event: &Event, now: i64) {
        let Some(scope) = context.identity.child() else { return };
        let child = self.lock().get(Path::new(&scope.session_file)).cloned();
        if let Some(child) = child {
            child.state.send_modify(|activity| activity.apply(event, now));
        }
    }

    /// The child's part, made when it is asked for first.
    pub fn of(&self, session_file: &Path) -> Arc<ChildActivity> {
        Arc::clone(self.lock().entry(session_file.to_owned()).or_default())
    }

    /// What is known about the child of this session file.
    pub fn get(&self, session_file: &Path) -> Option<Activity> {
        self.lock().get(session_file).map(|child| child.now())
    }

    /// The child is gone.
    pub fn forget(&self, session_file: &Path) {
        self.lock().remove(session_file);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Arc<ChildActivity>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChildActivity {
    pub fn now(&self) -> Activity {
        self.state.borrow().clone()
    }

    /// Told of every event.
    pub fn subscribe(&self) -> watch::Receiver<Activity> {
        self.state.subscribe()
    }
}

impl Activity {
    fn apply(&mut self, event: &Event, now: i64) {
        self.last_event_at = Some(now);
        match event {
            Event::AgentStart => {
                if !self.running {
                    self.begun += 1;
                }
                self.running = true;
            }
            Event::AgentSettled(_) => {
                self.running = false;
                self.turn = None;
                self.tools.clear();
            }
            Event::TurnStart(turn) => self.turn = Some(turn.turn.saturating_add(1)),
            Event::ToolExecutionStart(start) => self.tools.push(RunningTool {
                call: start.tool_call_id.clone(),
                name: start.tool_name.clone(),
                since: now,
            }),
            Event::ToolExecutionEnd(end) => self.tools.retain(|tool| tool.call != end.tool_call_id),
            Event::SessionStart(_)
            | Event::AgentEnd
            | Event::TurnEnd(_)
            | Event::MessageEnd(_)
            | Event::MessageUpdate(_)
            | Event::MessageProgress
            | Event::SessionCompacted
            | Event::ModelChanged(_)
            | Event::ThemeChanged => {}
        }
    }

    /// The tool that started last and has not ended (SUP-11).
    pub fn in_flight_tool(&self) -> Option<InFlightTool> {
        let depth = u32::try_from(self.tools.len()).unwrap_or(u32::MAX);
        let tool = self.tools.last()?;
        Some(InFlightTool { name: tool.name.clone(), since: tool.since, depth })
    }
}

#[cfg(test)]
mod tests {
    use host_abi::{
        events::{AgentSettled, ToolExecutionEnd, ToolExecutionStart, Turn},
        gates::CallInput,
    };

    use super::*;

    fn start(call: &str, name: &str) -> Event {
        let input = CallInput::Cut(String::new());
        Event::ToolExecutionStart(ToolExecutionStart { tool_call_id: call.into(), tool_name: name.into(), input })
    }

    fn end(call: &str) -> Event {
        Event::ToolExecutionEnd(ToolExecutionEnd {
            tool_call_id: call.into(),
            tool_name: String::new(),
            is_error: false,
        })
    }

    /// SUP-11, SUP-12
    #[test]
    fn the_innermost_tool_is_the_last_one_that_has_not_ended() {
        let mut activity = Activity::default();
        activity.apply(&Event::AgentStart, 1);
        activity.apply(&Event::TurnStart(Turn { turn: 0 }), 2);
        activity.apply(&start("a", "bash"), 3);
        activity.apply(&start("b", "read"), 4);
        assert_eq!(activity.in_flight_tool(), Some(InFlightTool { name: "read".into(), since: 4, depth: 2 }));
        activity.apply(&end("b"), 5);
        assert_eq!(activity.in_flight_tool(), Some(InFlightTool { name: "bash".into(), since: 3, depth: 1 }));
        assert_eq!((activity.turn, activity.begun), (Some(1), 1));
        // A retry begins the agent again within the same run.
        activity.apply(&Event::AgentStart, 6);
        activity.apply(&Event::AgentSettled(AgentSettled { aborted: true }), 7);
        assert_eq!(activity.in_flight_tool(), None);
        assert_eq!((activity.running, activity.begun, activity.last_event_at), (false, 1, Some(7)));
        activity.apply(&Event::AgentStart, 8);
        assert_eq!(activity.begun, 2);
    }
}
