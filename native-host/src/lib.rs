//! A headless agent host: sessions, tools, providers and the ABI for extensions.

pub mod provider;
pub mod session_file;
pub mod tools;
