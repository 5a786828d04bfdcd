//! Between the words of the ABI, of the run state and of the session file. Pure, but for the time of a new message.

use host_abi::gates as abi;
use host_abi::ops::{DeliverAs, Disposition};
use legion_ext::clock;

use super::run_state::{Queue, Route};
use super::tool_batch::Finished;
use crate::session_file::{Block, Content, CustomMessage, EntryBody, Extra, Message, SessionFile, ToolResultMessage};

pub fn queue_of(deliver: DeliverAs) -> Queue {
    match deliver {
        DeliverAs::Steer => Queue::Steer,
        DeliverAs::FollowUp => Queue::FollowUp,
        DeliverAs::NextTurn => Queue::NextTurn,
    }
}

pub fn disposition(route: Route) -> Disposition {
    match route {
        Route::Started => Disposition::Started,
        Route::Queued => Disposition::Queued,
        Route::Appended => Disposition::Appended,
    }
}

pub fn custom(message: abi::CustomMessage) -> Message {
    let abi::CustomMessage { custom_type, content, display, details } = message;
    let content = Content::Text(content);
    Message::Custom(CustomMessage {
        custom_type,
        content,
        display,
        details,
        timestamp: clock::now_ms(),
        extra: Extra::new(),
    })
}

pub fn result_message(finished: Finished) -> ToolResultMessage {
    let Finished { call, output } = finished;
    let content = if output.content.is_empty() { vec![Block::text("(no output)")] } else { output.content };
    ToolResultMessage {
        tool_call_id: call.id,
        tool_name: call.name,
        content,
        details: output.details,
        usage: output.usage,
        is_error: output.is_error,
        timestamp: clock::now_ms(),
        extra: Extra::new(),
    }
}

pub fn messages_from(file: &SessionFile, from: usize) -> Vec<Message> {
    let entries = file.entries().iter().skip(from);
    entries
        .filter_map(|entry| match &entry.body {
            EntryBody::Message { message } => Some(message.clone()),
            EntryBody::CustomMessage { custom_type, content, display, details } => {
                Some(Message::Custom(CustomMessage {
                    custom_type: custom_type.clone(),
                    content: content.clone(),
                    display: *display,
                    details: details.clone(),
                    ..CustomMessage::default()
                }))
            }
            _ => None,
        })
        .collect()
}
