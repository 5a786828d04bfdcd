//! Built with a newer minor version of host-abi: it is refused by its version, though its layout fits.

#[path = "../../patch-abi-ext/src/versioned.rs"]
mod versioned;

const BUILT_WITH: &str = "0.2.0";
