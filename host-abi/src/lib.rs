//! The stable boundary between agent hosts and their native extensions.
//!
//! A host loads an extension library, attaches it to each of its sessions and is asked for operations by
//! name; payloads are JSON. The crate holds the frozen traits ([`ffi`]), the loader ([`load`]), the panic
//! fence ([`fence`]) and the types of every payload. It has no policy, no runtime and no database.
//! `docs/abi.md` lists what crosses; `docs/writing-a-host.md` has a smallest host and extension.

pub mod calls;
pub mod docs;
pub mod error;
pub mod events;
pub mod fence;
pub mod ffi;
pub mod gates;
pub mod info;
mod load;
pub mod ops;
pub mod registration;
pub mod scope;
pub mod sdk;

pub use error::{AbiError, codes};
pub use load::{LoadError, LoadedExtension, find, library_file_name, load};

/// Payloads above this are refused with `TOO_LARGE` (ABI-11).
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// The scope of what belongs to no session: `host.info`, `log` and `print` take it (ABI-1).
pub const NO_SCOPE: u64 = 0;

/// Version of this crate; patch versions load each other, a different minor below 1.0 does not (ABI-25).
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[doc(hidden)]
pub mod __private {
    pub use abi_stable::{
        library,
        std_types::{RResult, RString},
    };

    pub use crate::{
        ffi::{ExtensionBox, ExtensionMod, ExtensionModRef, HostBox},
        sdk::extension::{info_wire, init_wire},
    };

    pub fn leak_module(module: ExtensionMod) -> ExtensionModRef {
        use abi_stable::prefix_type::PrefixTypeTrait as _;
        module.leak_into_prefix()
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        error::AbiError,
        info::{AttachSpec, ExtensionInfo, HostInfo},
        registration::Registrations,
        scope::{ChildBudget, ToolBlock, budget_from_env, budget_to_env},
        sdk::extension::{Extension, HostHandle, Invocation, Responder},
    };
    use proptest::prelude::*;

    struct Nothing;

    impl Extension for Nothing {
        fn attach(&self, _: u64, _: AttachSpec) -> Result<Registrations, AbiError> {
            Ok(Registrations::default())
        }
        fn detach(&self, _: u64) {}
        fn invoke(&self, _: Invocation, _: Responder) {}
        fn cancel(&self, _: u64) {}
        fn notify(&self, _: u64, _: &str, _: &str) {}
        fn query(&self, _: u64, name: &str, _: &str) -> Result<String, AbiError> {
            Err(AbiError::unknown_op(name))
        }
    }

    fn info() -> ExtensionInfo {
        ExtensionInfo {
            name: "nothing".into(),
            version: "0".into(),
            abi: crate::VERSION.into(),
            ops: vec![],
            events: vec![],
        }
    }

    fn init(_: HostHandle, _: HostInfo) -> Result<Nothing, AbiError> {
        Ok(Nothing)
    }

    crate::export_extension!(info = info, init = init);

    /// The macro names the symbol as a literal, the loader asks abi_stable for it.
    #[test]
    fn the_exported_symbol_is_the_one_that_abi_stable_looks_for() {
        assert_eq!("_1as_0lib_1header_0root_bmodule_bloader", abi_stable::library::ROOT_MODULE_LOADER_NAME);
    }

    /// ABI-25, part of 01-T7: a newer host refuses an older extension as soon as one of these has another member,
    /// so they stay as they are; what is new gets a name or an optional JSON member.
    #[test]
    fn the_frozen_traits_are_as_they_were() {
        let source = include_str!("ffi.rs");
        let members = source.lines().map(str::trim).filter(|line| {
            line.starts_with("pub trait")
                || line.starts_with("fn ")
                || line.contains("extern \"C\" fn")
                || line.contains("last_prefix")
        });
        let members: Vec<&str> = members.collect();
        assert_eq!(members, FROZEN);
    }

    const FROZEN: &[&str] = &[
        "pub trait Host: Send + Sync {",
        "fn post(&self, scope: u64, op: RStr<'_>, json: RString);",
        "#[sabi(last_prefix_field)]",
        "fn request(&self, scope: u64, op: RStr<'_>, json: RString) -> FfiFuture<JsonResult>;",
        "pub trait Reply: Send + Sync {",
        "fn progress(&self, json: RString);",
        "#[sabi(last_prefix_field)]",
        "fn finish(&self, result: JsonResult);",
        "pub trait Extension: Send + Sync {",
        "fn attach(&self, scope: u64, json: RString) -> JsonResult;",
        "fn detach(&self, scope: u64);",
        "fn invoke(&self, scope: u64, call: u64, kind: RStr<'_>, name: RStr<'_>, json: RString, reply: ReplyBox);",
        "fn cancel(&self, call: u64);",
        "fn notify(&self, scope: u64, name: RStr<'_>, json: RString);",
        "#[sabi(last_prefix_field)]",
        "fn query(&self, scope: u64, name: RStr<'_>, json: RString) -> JsonResult;",
        "pub info: extern \"C\" fn() -> RString,",
        "#[sabi(last_prefix_field)]",
        "pub init: extern \"C\" fn(host: HostBox, json: RString) -> RResult<ExtensionBox, RString>,",
    ];

    proptest! {
        /// GUARD-19: `budget_from_env(budget_to_env(b)) == b`, a missing soft step included.
        #[test]
        fn a_budget_survives_the_environment(
            max_depth in proptest::option::of(any::<u32>()), allow_nested: bool,
            hard in proptest::option::of(1..u32::MAX), turns in proptest::option::of(1..u32::MAX),
            timeout in proptest::option::of(1..u64::MAX),
            soft in proptest::option::of(1..u32::MAX), turn_soft in proptest::option::of(1..u32::MAX),
            names in proptest::option::of(proptest::collection::vec("[a-z]{1,8}", 1..4)),
        ) {
            let budget = ChildBudget {
                max_depth, allow_nested, max_tool_calls: hard, max_turns: turns, tool_timeout_ms: timeout,
                tool_soft: soft, tool_block: names.map_or(ToolBlock::All, ToolBlock::Names), turn_soft,
            };
            let env: std::collections::HashMap<String, String> =
                budget_to_env(&budget).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let (read, warnings) = budget_from_env(&env);
            prop_assert_eq!(read, budget);
            prop_assert!(warnings.is_empty());
        }
    }
}
