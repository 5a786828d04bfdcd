//! Shared parts of the end-to-end tests: where the programs and extension libraries are, and hosts to load them.

pub mod legion;
pub mod legion_world;
pub mod libraries;
pub mod mini_host;
pub mod native;
