//! A library that is no extension: it exports a symbol, but no root module.

/// What a plugin of some other program might export.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_version() -> u32 {
    1
}
