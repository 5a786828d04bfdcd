//! A working extension whose root module says that it was built with `super::BUILT_WITH` of host-abi.

use abi_stable::{
    StableAbi,
    abi_stability::get_static_equivalent::GetStaticEquivalent_,
    declare_root_module_statics,
    library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModule, RootModuleResult},
    pointer_trait::{GetPointerKind, PK_Reference},
    prefix_type::PrefixRefTrait,
    sabi_types::VersionStrings,
    std_types::{RResult, RStr, RString},
    type_layout::TypeLayout,
};
use host_abi::{
    __private::{info_wire, init_wire, leak_module},
    AbiError,
    ffi::{ExtensionBox, ExtensionMod, ExtensionModRef, HostBox},
    info::{AttachSpec, ExtensionInfo, HostInfo},
    registration::Registrations,
    sdk::extension::{Extension, HostHandle, Invocation, Responder},
};

/// The real root module under another version.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Versioned(ExtensionModRef);

// SAFETY: a transparent wrapper has the layout and the kind of what it wraps.
unsafe impl GetStaticEquivalent_ for Versioned {
    type StaticEquivalent = <ExtensionModRef as GetStaticEquivalent_>::StaticEquivalent;
}
// SAFETY: as above.
unsafe impl StableAbi for Versioned {
    type IsNonZeroType = <ExtensionModRef as StableAbi>::IsNonZeroType;
    const LAYOUT: &'static TypeLayout = <ExtensionModRef as StableAbi>::LAYOUT;
}
// SAFETY: as above.
unsafe impl GetPointerKind for Versioned {
    type PtrTarget = <ExtensionModRef as GetPointerKind>::PtrTarget;
    type Kind = PK_Reference;
}
// SAFETY: as above.
unsafe impl PrefixRefTrait for Versioned {
    type PrefixFields = <ExtensionModRef as PrefixRefTrait>::PrefixFields;
}

impl RootModule for Versioned {
    declare_root_module_statics! {Versioned}
    const BASE_NAME: &'static str = ExtensionModRef::BASE_NAME;
    const NAME: &'static str = ExtensionModRef::NAME;
    const VERSION_STRINGS: VersionStrings = VersionStrings { version: RStr::from_str(super::BUILT_WITH) };
}

struct Quiet;

impl Extension for Quiet {
    fn attach(&self, _: u64, _: AttachSpec) -> Result<Registrations, AbiError> {
        Ok(Registrations::default())
    }
    fn detach(&self, _: u64) {}
    fn invoke(&self, call: Invocation, reply: Responder) {
        reply.finish_json(Ok(call.json));
    }
    fn cancel(&self, _: u64) {}
    fn notify(&self, _: u64, _: &str, _: &str) {}
    fn query(&self, _: u64, name: &str, _: &str) -> Result<String, AbiError> {
        Err(AbiError::unknown_op(name))
    }
}

fn facts() -> ExtensionInfo {
    ExtensionInfo {
        name: "versioned".to_owned(),
        version: super::BUILT_WITH.to_owned(),
        abi: super::BUILT_WITH.to_owned(),
        ops: vec![],
        events: vec![],
    }
}

fn start(_: HostHandle, _: HostInfo) -> Result<Quiet, AbiError> {
    Ok(Quiet)
}

extern "C" fn info() -> RString {
    info_wire(facts)
}

extern "C" fn init(host: HostBox, json: RString) -> RResult<ExtensionBox, RString> {
    init_wire(host, &json, start)
}

fn module() -> ExtensionModRef {
    leak_module(ExtensionMod { info, init })
}

extern "C" fn erased() -> RootModuleResult {
    __call_root_module_loader(module)
}

#[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
static HEADER: LibHeader =
    // SAFETY: the constructor gives an `ExtensionModRef`, of which `Versioned` is a transparent wrapper.
    unsafe { LibHeader::from_constructor::<Versioned>(erased, CheckTypeLayout::Yes) };
