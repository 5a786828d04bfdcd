//! From a session's context to the messages of one model request. Pure.

use crate::session_file::{Block, Message, StopReason, ToolResultMessage};

/// The messages to send: without answers that failed or were aborted, and with a result for every call, since
/// providers refuse a call that has none.
pub fn request_messages(context: Vec<Message>, now_ms: i64) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::with_capacity(context.len());
    let mut open: Vec<(String, String)> = Vec::new();
    for message in context {
        match &message {
            Message::Assistant(answer) if matches!(answer.stop_reason, StopReason::Error | StopReason::Aborted) => {
                continue;
            }
            Message::ToolResult(result) => open.retain(|(id, _)| *id != result.tool_call_id),
            _ => close(&mut messages, &mut open, now_ms),
        }
        if let Message::Assistant(answer) = &message {
            open = answer.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
        }
        messages.push(message);
    }
    close(&mut messages, &mut open, now_ms);
    messages
}

fn close(messages: &mut Vec<Message>, open: &mut Vec<(String, String)>, now_ms: i64) {
    messages.extend(open.drain(..).map(|(tool_call_id, tool_name)| {
        Message::ToolResult(ToolResultMessage {
            tool_call_id,
            tool_name,
            content: vec![Block::text("The call was not run to its end; there is no result.")],
            is_error: true,
            timestamp: now_ms,
            ..ToolResultMessage::default()
        })
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_file::{AssistantMessage, ToolCall};

    fn answer(text: &str, calls: &[&str], stop_reason: StopReason) -> Message {
        let calls = calls
            .iter()
            .map(|id| Block::ToolCall(ToolCall { id: (*id).into(), name: "read".into(), ..ToolCall::default() }));
        let content = std::iter::once(Block::text(text)).chain(calls).collect();
        Message::Assistant(AssistantMessage { content, stop_reason, ..AssistantMessage::default() })
    }

    fn result(id: &str) -> Message {
        Message::ToolResult(ToolResultMessage { tool_call_id: id.into(), ..ToolResultMessage::default() })
    }

    fn show(messages: &[Message]) -> Vec<String> {
        let show = |message: &Message| match message {
            Message::ToolResult(result) if result.is_error => format!("lost {}", result.tool_call_id),
            Message::ToolResult(result) => format!("result {}", result.tool_call_id),
            Message::Assistant(answer) => answer.text(),
            other => other.role().to_owned(),
        };
        messages.iter().map(show).collect()
    }

    #[test]
    fn failed_answers_are_left_out_and_open_calls_are_closed() {
        let context = vec![
            Message::user("hi", 0),
            answer("broken", &["x"], StopReason::Error),
            answer("calls", &["a", "b"], StopReason::ToolUse),
            result("a"),
            answer("aborted", &[], StopReason::Aborted),
            Message::user("go on", 0),
            answer("more", &["c"], StopReason::ToolUse),
        ];
        let messages = request_messages(context, 0);
        assert_eq!(show(&messages), ["user", "calls", "result a", "lost b", "user", "more", "lost c"]);
    }

    #[test]
    fn a_whole_conversation_stays_as_it_is() {
        let context = vec![Message::user("hi", 0), answer("calls", &["a"], StopReason::ToolUse), result("a")];
        assert_eq!(request_messages(context.clone(), 0), context);
    }
}
