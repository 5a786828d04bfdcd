//! Shared parts of the end-to-end tests: where the extension libraries are, and hosts to load them.

pub mod libraries;
pub mod mini_host;
pub mod native;
