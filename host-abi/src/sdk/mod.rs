//! Ordinary Rust on both sides of the boundary: typed calls, with the fence, the size limit and the JSON in
//! one place. [`extension`] is for authors of extensions, [`host`] for authors of hosts.

pub mod extension;
pub mod host;

use serde::{Serialize, de::DeserializeOwned};

use crate::{MAX_PAYLOAD_BYTES, error::AbiError, ffi::JsonResult};
use abi_stable::std_types::{RResult, RString};

/// A boxed future, as hosts and extensions give it to the boundary.
pub type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// JSON text of a payload.
///
/// # Errors
/// `BAD_PAYLOAD` when it cannot be written, `TOO_LARGE` above [`MAX_PAYLOAD_BYTES`].
pub fn encode<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String, AbiError> {
    let text = serde_json::to_string(value).map_err(|error| AbiError::bad_payload(what, &error))?;
    within_limit(text)
}

/// Reads a payload.
///
/// # Errors
/// `BAD_PAYLOAD` with the place in the text, `TOO_LARGE` above [`MAX_PAYLOAD_BYTES`].
pub fn decode<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, AbiError> {
    if json.len() > MAX_PAYLOAD_BYTES {
        return Err(AbiError::too_large(json.len()));
    }
    serde_json::from_str(json).map_err(|error| AbiError::bad_payload(what, &error))
}

fn within_limit(text: String) -> Result<String, AbiError> {
    if text.len() > MAX_PAYLOAD_BYTES { Err(AbiError::too_large(text.len())) } else { Ok(text) }
}

pub(crate) fn to_wire(result: Result<String, AbiError>) -> JsonResult {
    match result.and_then(within_limit) {
        Ok(json) => RResult::ROk(RString::from(json)),
        Err(error) => RResult::RErr(RString::from(error.to_json())),
    }
}

pub(crate) fn from_wire(result: JsonResult) -> Result<String, AbiError> {
    match result {
        RResult::ROk(json) => Ok(json.into_string()),
        RResult::RErr(json) => Err(AbiError::from_json(&json)),
    }
}
