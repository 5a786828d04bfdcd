//! The only reader of the process environment, for a session that has no `extensionScope` (GUARD-12).

use host_abi::scope::Env;

/// The variables of this process. A value that is no Unicode is read with replacement characters, so that it is
/// reported as malformed and not taken for unset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessEnv;

impl Env for ProcessEnv {
    #[expect(clippy::disallowed_methods, reason = "this module is the crate's reader of the environment")]
    fn var(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }
}
