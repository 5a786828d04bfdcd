//! Tests of the transcript reader, on files written line by line.

mod outcomes;
mod tail;
mod view;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A session file in the making: entries follow each other unless told otherwise.
struct Script {
    lines: Vec<Vec<u8>>,
    leaf: Option<String>,
    next: u32,
}

impl Script {
    fn new() -> Self {
        let header = json!({"type": "session", "version": 3, "id": "s-1", "timestamp": "t", "cwd": "/w"});
        Self { lines: vec![header.to_string().into_bytes()], leaf: None, next: 1 }
    }

    /// Appends an entry after the leaf and returns its id.
    fn entry(&mut self, mut entry: Value) -> String {
        let id = format!("e{}", self.next);
        self.next += 1;
        entry["id"] = json!(id);
        entry["parentId"] = json!(self.leaf);
        entry["timestamp"] = json!("2026-01-01T00:00:00.000Z");
        self.lines.push(entry.to_string().into_bytes());
        self.leaf = Some(id.clone());
        id
    }

    fn message(&mut self, message: Value) -> String {
        self.entry(json!({"type": "message", "message": message}))
    }

    fn user(&mut self, text: &str) -> String {
        self.message(json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}))
    }

    fn assistant(&mut self, stop: &str, text: &str) -> String {
        self.message(json!({
            "role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}],
            "stopReason": stop, "usage": usage(100, 20, 7, 5, 0.25)
        }))
    }

    /// A call of a tool and its result.
    fn tool(&mut self, name: &str, arguments: Value, result: &str, is_error: bool) {
        let call = format!("call-{}", self.next);
        self.message(json!({
            "role": "assistant", "stopReason": "toolUse", "usage": usage(1, 1, 0, 0, 0.0),
            "content": [{"type": "toolCall", "id": call, "name": name, "arguments": arguments}]
        }));
        self.message(json!({
            "role": "toolResult", "toolCallId": call, "toolName": name, "isError": is_error,
            "content": [{"type": "text", "text": result}]
        }));
    }

    fn notice(&mut self, kind: &str, text: &str) -> String {
        self.entry(json!({
            "type": "custom_message", "customType": "subagent-notify", "content": text, "display": true,
            "details": {"schema": "legion.notice/1", "kind": kind, "children": []}
        }))
    }

    fn damaged(&mut self, bytes: &[u8]) {
        self.lines.push(bytes.to_vec());
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
    }

    fn save(&self) -> (TempDir, PathBuf) {
        save(&self.bytes())
    }

    fn facts(&self) -> SessionFacts {
        let (_dir, path) = self.save();
        read_session(&path).unwrap()
    }
}

fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64, total: f64) -> Value {
    json!({
        "input": input, "output": output, "cacheRead": cache_read, "cacheWrite": cache_write,
        "totalTokens": input + output, "cost": {"input": 0.0, "output": 0.0, "total": total}
    })
}

fn save(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("child.jsonl");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn append(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}
