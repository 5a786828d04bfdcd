//! An extension whose `init` errs.

use host_abi::{
    AbiError,
    info::{AttachSpec, ExtensionInfo, HostInfo},
    registration::Registrations,
    sdk::extension::{Extension, HostHandle, Invocation, Responder},
};

/// Never made.
enum Never {}

impl Extension for Never {
    fn attach(&self, _: u64, _: AttachSpec) -> Result<Registrations, AbiError> {
        match *self {}
    }
    fn detach(&self, _: u64) {
        match *self {}
    }
    fn invoke(&self, _: Invocation, _: Responder) {
        match *self {}
    }
    fn cancel(&self, _: u64) {
        match *self {}
    }
    fn notify(&self, _: u64, _: &str, _: &str) {
        match *self {}
    }
    fn query(&self, _: u64, _: &str, _: &str) -> Result<String, AbiError> {
        match *self {}
    }
}

fn info() -> ExtensionInfo {
    ExtensionInfo {
        name: "init-errs".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        abi: host_abi::VERSION.to_owned(),
        ops: vec![],
        events: vec![],
    }
}

fn init(_: HostHandle, _: HostInfo) -> Result<Never, AbiError> {
    Err(AbiError::new("NO_LICENCE", "the licence file is missing").with_hint("run `setup`"))
}

host_abi::export_extension!(info = info, init = init);
