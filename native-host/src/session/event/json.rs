//! A session's events as pi writes them, one JSON value a line.

use serde_json::{Value, json};

use super::SessionEvent;
use crate::provider::Delta;
use crate::session_file::{Block, Message, ToolResultMessage};
use crate::tools::ToolOutput;

impl SessionEvent {
    /// One line of pi's event stream; `None` for what that stream does not have.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            SessionEvent::SessionStart { .. } | SessionEvent::SessionEnd => return None,
            SessionEvent::AgentStart => json!({ "type": "agent_start" }),
            SessionEvent::AgentEnd { messages } => json!({ "type": "agent_end", "messages": messages }),
            SessionEvent::AgentSettled { aborted, .. } => json!({ "type": "agent_settled", "aborted": aborted }),
            SessionEvent::TurnStart { .. } => json!({ "type": "turn_start" }),
            SessionEvent::TurnEnd { message, tool_results, .. } => {
                json!({ "type": "turn_end", "message": message.clone().map(Message::Assistant), "toolResults": as_messages(tool_results) })
            }
            SessionEvent::MessageStart { message } => json!({ "type": "message_start", "message": message }),
            SessionEvent::MessageUpdate { message, delta } => {
                let message = Message::Assistant(message.clone());
                let event = delta_json(delta, &message);
                json!({ "type": "message_update", "assistantMessageEvent": event, "message": message })
            }
            SessionEvent::MessageEnd { message } => json!({ "type": "message_end", "message": message }),
            SessionEvent::ToolStart { call } => {
                json!({ "type": "tool_execution_start", "toolCallId": call.id, "toolName": call.name, "args": call.arguments })
            }
            SessionEvent::ToolUpdate { call, partial } => json!({
                "type": "tool_execution_update", "toolCallId": call.id, "toolName": call.name,
                "args": call.arguments, "partialResult": output_json(partial),
            }),
            SessionEvent::ToolEnd { call, output } => json!({
                "type": "tool_execution_end", "toolCallId": call.id, "toolName": call.name,
                "result": output_json(output), "isError": output.is_error,
            }),
            SessionEvent::QueueUpdate { steering, follow_up } => {
                json!({ "type": "queue_update", "steering": steering, "followUp": follow_up })
            }
            SessionEvent::RetryStart { attempt, max, delay_ms, error } => json!({
                "type": "auto_retry_start", "attempt": attempt, "maxAttempts": max, "delayMs": delay_ms, "errorMessage": error,
            }),
            SessionEvent::RetryEnd { success, attempt, error } => {
                let mut event = json!({ "type": "auto_retry_end", "success": success, "attempt": attempt });
                if let Some(error) = error {
                    event["finalError"] = json!(error);
                }
                event
            }
            SessionEvent::Compacted => {
                json!({ "type": "compaction_end", "reason": "manual", "aborted": false, "willRetry": false })
            }
        })
    }
}

fn as_messages(results: &[ToolResultMessage]) -> Vec<Message> {
    results.iter().cloned().map(Message::ToolResult).collect()
}

fn output_json(output: &ToolOutput) -> Value {
    let mut value = json!({ "content": output.content });
    if let Some(details) = &output.details {
        value["details"] = details.clone();
    }
    if let Some(structured) = &output.structured_content {
        value["structuredContent"] = structured.clone();
    }
    value
}

fn delta_json(delta: &Delta, partial: &Message) -> Value {
    let (kind, index, rest) = match delta {
        Delta::TextStart { index } => ("text_start", index, Value::Null),
        Delta::Text { index, text } => ("text_delta", index, json!({ "delta": text })),
        Delta::TextEnd { index } => ("text_end", index, json!({ "content": block_text(partial, *index) })),
        Delta::ThinkingStart { index } => ("thinking_start", index, Value::Null),
        Delta::Thinking { index, text } => ("thinking_delta", index, json!({ "delta": text })),
        Delta::ThinkingEnd { index } => ("thinking_end", index, json!({ "content": block_text(partial, *index) })),
        Delta::ToolCallStart { index, .. } => ("toolcall_start", index, Value::Null),
        Delta::ToolCallArguments { index, json } => ("toolcall_delta", index, json!({ "delta": json })),
        Delta::ToolCallEnd { index, .. } => ("toolcall_end", index, json!({ "toolCall": block(partial, *index) })),
    };
    let mut event = json!({ "type": kind, "contentIndex": index });
    if let (Some(event), Value::Object(rest)) = (event.as_object_mut(), rest) {
        event.extend(rest);
    }
    event
}

fn block(partial: &Message, index: usize) -> Option<&Block> {
    match partial {
        Message::Assistant(answer) => answer.content.get(index),
        _ => None,
    }
}

fn block_text(partial: &Message, index: usize) -> &str {
    match block(partial, index) {
        Some(Block::Text { text, .. }) => text,
        Some(Block::Thinking { thinking, .. }) => thinking,
        _ => "",
    }
}
