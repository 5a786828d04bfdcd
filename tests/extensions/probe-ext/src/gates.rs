//! Gates that answer what a test told them, and remember what they were asked.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use host_abi::AbiError;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Work, lock};

/// The scripts of one session's gates.
#[derive(Default)]
pub struct Gates {
    scripts: Mutex<HashMap<String, (Script, CancellationToken)>>,
    asked: Mutex<Vec<Value>>,
}

/// How a gate answers until it is told otherwise: the parameters of `probe_gate`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Script {
    pub gate: String,
    pub answer: Value,
    /// `true`: until `release` or a cancel; a number: so many milliseconds.
    pub hold: Hold,
    pub panic: bool,
    /// Answers with this message as its error.
    pub err: Option<String>,
    /// Only for calls of this tool; for all others the gate changes nothing.
    pub tool: Option<String>,
    /// So many times, then the gate changes nothing.
    pub times: Option<u32>,
    /// Lets the gate go that is held by an earlier script, and leaves that script as it is.
    pub release: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub enum Hold {
    Until(bool),
    Millis(u64),
}

impl Default for Hold {
    fn default() -> Self {
        Self::Until(false)
    }
}

impl Gates {
    pub fn set(&self, script: Script) {
        let mut scripts = lock(&self.scripts);
        if script.release {
            if let Some((_, released)) = scripts.get(&script.gate) {
                released.cancel();
            }
        } else {
            scripts.insert(script.gate.clone(), (script, CancellationToken::new()));
        }
    }

    /// What was asked so far, oldest first: `{ gate, event, ctx, cancelled }`.
    pub fn asked(&self) -> Vec<Value> {
        lock(&self.asked).clone()
    }

    /// The script that holds for this question; one that does not changes nothing.
    fn script(&self, gate: &str, asked: &Value) -> (Script, CancellationToken) {
        let mut scripts = lock(&self.scripts);
        let Some((script, released)) = scripts.get_mut(gate) else { return Default::default() };
        let other_tool = script.tool.as_ref().is_some_and(|tool| asked["event"]["toolName"] != tool.as_str());
        if other_tool || script.times == Some(0) {
            return Default::default();
        }
        if let Some(times) = &mut script.times {
            *times -= 1;
        }
        (script.clone(), released.clone())
    }

    /// Notes a question and gives its place.
    fn note(&self, gate: &str, asked: &Value) -> usize {
        let mut all = lock(&self.asked);
        all.push(json!({ "gate": gate, "event": asked["event"], "ctx": asked["ctx"], "cancelled": false }));
        all.len() - 1
    }
}

pub async fn answer(work: Work, gate: String, asked: Value) -> Result<Value, AbiError> {
    let gates = &work.session.gates;
    let place = gates.note(&gate, &asked);
    let (script, released) = gates.script(&gate, &asked);
    assert!(!script.panic, "probe: gate {gate}");
    let held = async {
        match script.hold {
            Hold::Until(false) => {}
            Hold::Until(true) => released.cancelled().await,
            Hold::Millis(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    };
    tokio::select! {
        biased;
        () = held => {}
        () = work.cancelled.cancelled() => lock(&gates.asked)[place]["cancelled"] = json!(true),
    }
    match script.err {
        Some(message) => Err(AbiError::new("PROBE", message)),
        None => Ok(script.answer),
    }
}
