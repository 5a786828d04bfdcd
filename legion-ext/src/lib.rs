//! pi-legion: one session commands many child agents.
//!
//! This file declares the modules and exports the root module; everything else lives in them.
//! Imports point downwards only, in the order of the declarations below (`docs/architecture.md`).

pub mod clock;
pub mod context;
pub mod core;
pub mod error;
pub mod host;

pub mod cards;
pub mod ledger;
pub mod session;
pub mod settings;

pub mod runs;

pub mod supervisor;

pub mod orchestrator;

pub mod mail;

pub mod ui;

pub mod tools;

mod process;

host_abi::export_extension!(info = process::extension_info, init = process::start);
