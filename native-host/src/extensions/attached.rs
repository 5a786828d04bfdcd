//! An extension in one session: what it registered, and which events and gates reach it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use host_abi::AbiError;
use host_abi::events::{self, Event};
use host_abi::gates::CallInput;
use host_abi::info::AttachSpec;
use host_abi::registration::{Registrations, Section};
use serde_json::Value;

use super::library::Library;

/// An extension that is attached to a session.
#[derive(Debug)]
pub struct Attached {
    pub library: Library,
    pub scope: u64,
    pub registered: Registrations,
    events: HashSet<&'static str>,
    deltas: AtomicBool,
}

/// An extension that refused a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extension '{name}' refused the session: {error}")]
pub struct AttachError {
    pub name: String,
    pub error: AbiError,
}

impl Attached {
    pub fn attach(library: Library, scope: u64, spec: &AttachSpec) -> Result<Attached, AttachError> {
        let registered = library
            .handle
            .attach(scope, spec)
            .map_err(|error| AttachError { name: library.name().to_owned(), error })?;
        let wanted = |name: &&&str| registered.events.iter().any(|event| event == **name);
        let events = events::names::ALL.iter().filter(wanted).copied().collect();
        Ok(Attached { library, scope, registered, events, deltas: AtomicBool::new(false) })
    }

    pub fn detach(&self) {
        self.library.handle.detach(self.scope);
    }

    /// Whether it asked for this event. Deltas need to be switched on besides (ABI-12).
    pub fn wants(&self, event: &str) -> bool {
        self.events.contains(event) && (event != events::names::MESSAGE_UPDATE || self.deltas.load(Ordering::Relaxed))
    }

    pub fn set_deltas(&self, on: bool) {
        self.deltas.store(on, Ordering::Relaxed);
    }

    /// Tells the event if it was asked for.
    pub fn tell(&self, event: &Event) {
        if self.wants(event.name()) {
            self.library.handle.notify(self.scope, event);
        }
    }

    pub fn has_gate(&self, gate: &str) -> bool {
        self.registered.gates.iter().any(|name| name == gate)
    }

    /// Whether calls of `tool` reach it with their whole input (ABI-55).
    pub fn sees_input_of(&self, tool: &str) -> bool {
        self.registered.input_for.iter().any(|name| name == tool)
    }

    /// A call's input as this extension gets it.
    pub fn input_of(&self, tool: &str, input: &Value) -> CallInput {
        CallInput::of(input, self.sees_input_of(tool))
    }

    /// Its part of the system prompt, if that has a valid id and a text.
    pub fn section(&self) -> Option<&Section> {
        self.registered.system_prompt.as_ref().filter(|section| Section::valid_id(&section.id))
    }
}
