//! The header that a library built with an abi_stable of another minor version would export.

/// The first bytes of every version's header: what a loader reads before it trusts the rest.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    magic: [u8; 32],
    major: u32,
    minor: u32,
}

#[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
pub static HEADER: Header = Header { magic: *b"abi stable library for Rust     ", major: 0, minor: 10 };
