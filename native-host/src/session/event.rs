//! What a session tells: to its extensions as events of the ABI, to viewers in this process as
//! [`SessionEvent`]s, whose JSON is that of pi's event stream.

mod json;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use host_abi::events::{
    AgentSettled, Event, MessageEnd, MessageUpdate, SessionStart, ToolExecutionEnd, ToolExecutionStart, Turn, names,
};
use legion_ext::clock;
use tokio::sync::mpsc;

use crate::extensions::Attached;
use crate::provider::Delta;
use crate::session_file::{AssistantMessage, Message, StopReason, ToolCall, ToolResultMessage};
use crate::tools::ToolOutput;

use super::shared::Shared;

/// The least time between two `message_progress` of a session (ABI-35).
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// An event of one session, for viewers.
#[derive(Debug, Clone)]
pub struct HostEvent {
    pub scope: u64,
    pub agent_id: Arc<str>,
    /// The child's own name; `root` for a first session.
    pub name: Arc<str>,
    pub root: bool,
    pub event: Arc<SessionEvent>,
}

/// What happened in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    SessionStart {
        reason: String,
    },
    AgentStart,
    /// With the messages since the model loop began.
    AgentEnd {
        messages: Vec<Message>,
    },
    /// The run is over and the session idle.
    AgentSettled {
        run: u64,
        aborted: bool,
    },
    TurnStart {
        turn: u32,
    },
    TurnEnd {
        turn: u32,
        message: Option<AssistantMessage>,
        tool_results: Vec<ToolResultMessage>,
    },
    MessageStart {
        message: Message,
    },
    /// `message` is what has come so far.
    MessageUpdate {
        message: AssistantMessage,
        delta: Delta,
    },
    MessageEnd {
        message: Message,
    },
    ToolStart {
        call: ToolCall,
    },
    ToolUpdate {
        call: ToolCall,
        partial: ToolOutput,
    },
    ToolEnd {
        call: ToolCall,
        output: ToolOutput,
    },
    QueueUpdate {
        steering: Vec<String>,
        follow_up: Vec<String>,
    },
    RetryStart {
        attempt: u32,
        max: u32,
        delay_ms: u64,
        error: String,
    },
    RetryEnd {
        success: bool,
        attempt: u32,
        error: Option<String>,
    },
    Compacted,
    /// The session is gone.
    SessionEnd,
}

/// Viewers of all sessions of a host.
#[derive(Debug, Default)]
pub struct Bus {
    viewers: RwLock<Vec<mpsc::UnboundedSender<HostEvent>>>,
}

impl Bus {
    /// All events from now on. Nothing waits for a slow viewer: events pile up in the channel.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<HostEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.viewers.write().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    fn watched(&self) -> bool {
        !self.viewers.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn send(&self, event: &HostEvent) {
        let lost = |viewer: &mpsc::UnboundedSender<HostEvent>| viewer.send(event.clone()).is_err();
        let any_lost =
            self.viewers.read().unwrap_or_else(PoisonError::into_inner).iter().filter(|v| lost(v)).count() > 0;
        if any_lost {
            self.viewers.write().unwrap_or_else(PoisonError::into_inner).retain(|viewer| !viewer.is_closed());
        }
    }
}

/// Tells everything that a session has to tell.
#[derive(Debug)]
pub struct Teller {
    shared: Arc<Shared>,
    pub extensions: Vec<Arc<Attached>>,
    bus: Arc<Bus>,
    agent_id: Arc<str>,
    name: Arc<str>,
    last_progress: Mutex<Option<Instant>>,
}

impl Teller {
    pub fn new(shared: Arc<Shared>, extensions: Vec<Arc<Attached>>, bus: Arc<Bus>) -> Teller {
        let (agent_id, name) = (shared.identity.agent_id.as_str().into(), shared.identity.name.as_str().into());
        Teller { shared, extensions, bus, agent_id, name, last_progress: Mutex::default() }
    }

    pub fn session_start(&self, reason: &str) {
        self.tell(&Event::SessionStart(SessionStart { reason: reason.to_owned() }));
        self.show(|| SessionEvent::SessionStart { reason: reason.to_owned() });
    }

    pub fn session_end(&self) {
        self.show(|| SessionEvent::SessionEnd);
    }

    pub fn agent_start(&self) {
        self.tell(&Event::AgentStart);
        self.show(|| SessionEvent::AgentStart);
    }

    pub fn agent_end(&self, messages: impl FnOnce() -> Vec<Message>) {
        self.tell(&Event::AgentEnd);
        self.show(|| SessionEvent::AgentEnd { messages: messages() });
    }

    pub fn agent_settled(&self, run: u64, aborted: bool) {
        self.tell(&Event::AgentSettled(AgentSettled { aborted }));
        self.show(|| SessionEvent::AgentSettled { run, aborted });
    }

    pub fn turn_start(&self, turn: u32) {
        self.tell(&Event::TurnStart(Turn { turn }));
        self.show(|| SessionEvent::TurnStart { turn });
    }

    pub fn turn_end(&self, turn: u32, content: impl FnOnce() -> (Option<AssistantMessage>, Vec<ToolResultMessage>)) {
        self.tell(&Event::TurnEnd(Turn { turn }));
        self.show(|| {
            let (message, tool_results) = content();
            SessionEvent::TurnEnd { turn, message, tool_results }
        });
    }

    pub fn message_start(&self, message: &Message) {
        self.show(|| SessionEvent::MessageStart { message: message.clone() });
    }

    /// `duration` is the time of a model answer.
    pub fn message_end(&self, message: &Message, duration: Option<Duration>) {
        if self.extensions.iter().any(|extension| extension.wants(names::MESSAGE_END)) {
            self.tell(&Event::MessageEnd(message_end(message, duration)));
        }
        self.touch();
        self.show(|| SessionEvent::MessageEnd { message: message.clone() });
    }

    /// A piece of an answer came; `so_far` is the message up to it.
    pub fn delta(&self, delta: &Delta, so_far: impl FnOnce() -> AssistantMessage) {
        self.progress();
        if let Some(text) = delta_text(delta)
            && self.extensions.iter().any(|extension| extension.wants(names::MESSAGE_UPDATE))
        {
            self.tell(&Event::MessageUpdate(MessageUpdate { delta: text.to_owned() }));
        }
        self.show(|| SessionEvent::MessageUpdate { message: so_far(), delta: delta.clone() });
    }

    pub fn tool_start(&self, call: &ToolCall) {
        for extension in self.extensions.iter().filter(|extension| extension.wants(names::TOOL_EXECUTION_START)) {
            extension.tell(&Event::ToolExecutionStart(ToolExecutionStart {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                input: extension.input_of(&call.name, &call.arguments),
            }));
        }
        self.touch();
        self.show(|| SessionEvent::ToolStart { call: call.clone() });
    }

    pub fn tool_update(&self, call: &ToolCall, partial: &ToolOutput) {
        self.touch();
        self.show(|| SessionEvent::ToolUpdate { call: call.clone(), partial: partial.clone() });
    }

    pub fn tool_end(&self, call: &ToolCall, output: &ToolOutput) {
        self.tell(&Event::ToolExecutionEnd(ToolExecutionEnd {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            is_error: output.is_error,
        }));
        self.show(|| SessionEvent::ToolEnd { call: call.clone(), output: output.clone() });
    }

    pub fn queue_update(&self, queues: impl FnOnce() -> (Vec<String>, Vec<String>)) {
        self.show(|| {
            let (steering, follow_up) = queues();
            SessionEvent::QueueUpdate { steering, follow_up }
        });
    }

    pub fn retry_start(&self, attempt: u32, max: u32, delay_ms: u64, error: &str) {
        self.show(|| SessionEvent::RetryStart { attempt, max, delay_ms, error: error.to_owned() });
    }

    pub fn retry_end(&self, success: bool, attempt: u32, error: Option<&str>) {
        self.show(|| SessionEvent::RetryEnd { success, attempt, error: error.map(str::to_owned) });
    }

    pub fn compacted(&self) {
        self.tell(&Event::SessionCompacted);
        self.show(|| SessionEvent::Compacted);
    }

    fn progress(&self) {
        let now = clock::instant();
        let due = {
            let mut last = self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
            let due = last.is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
            if due {
                *last = Some(now);
            }
            due
        };
        if due {
            self.touch();
            self.tell(&Event::MessageProgress);
        }
    }

    fn touch(&self) {
        self.shared.live().last_event_at = Some(clock::now_ms());
    }

    fn tell(&self, event: &Event) {
        self.extensions.iter().for_each(|extension| extension.tell(event));
    }

    fn show(&self, event: impl FnOnce() -> SessionEvent) {
        if self.bus.watched() {
            self.bus.send(&HostEvent {
                scope: self.shared.identity.scope,
                agent_id: Arc::clone(&self.agent_id),
                name: Arc::clone(&self.name),
                root: self.shared.identity.root,
                event: Arc::new(event()),
            });
        }
    }
}

fn message_end(message: &Message, duration: Option<Duration>) -> MessageEnd {
    let (stop_reason, usage) = match message {
        Message::Assistant(answer) => (Some(stop_text(&answer.stop_reason)), Some(&answer.usage)),
        Message::ToolResult(result) => (None, result.usage.as_ref()),
        _ => (None, None),
    };
    MessageEnd {
        role: message.role().to_owned(),
        stop_reason,
        usage: usage.and_then(|usage| serde_json::to_value(usage).ok()),
        duration_ms: duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
    }
}

fn stop_text(reason: &StopReason) -> String {
    serde_json::to_value(reason).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The text of a delta as `message_update` has it.
fn delta_text(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Text { text, .. } | Delta::Thinking { text, .. } => Some(text),
        Delta::ToolCallArguments { json, .. } => Some(json),
        Delta::TextStart { .. }
        | Delta::TextEnd { .. }
        | Delta::ThinkingStart { .. }
        | Delta::ThinkingEnd { .. }
        | Delta::ToolCallStart { .. }
        | Delta::ToolCallEnd { .. } => None,
    }
}
