//! Ordinary Rust on both sides of the boundary: typed calls, with the fence, the size limit and the JSON in
//! one place. [`extension`] is for authors of extensions, [`host`] for authors of hosts.

pub mod extension;
pub mod host;

#[cfg(test)]
mod tests;

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
/// `BAD_PAYLOAD` with the JSON path in message and details, `TOO_LARGE` above [`MAX_PAYLOAD_BYTES`].
pub fn decode<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, AbiError> {
    check_limit(json)?;
    serde_json::from_str(json).map_err(|error| bad_payload::<T>(what, json, &error))
}

/// Reads a second time, noting the path: a payload that is right pays nothing for it.
fn bad_payload<T: DeserializeOwned>(what: &str, json: &str, error: &serde_json::Error) -> AbiError {
    let mut reader = serde_json::Deserializer::from_str(json);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => AbiError::bad_payload_at(what, &error.path().to_string(), error.inner()),
        // The value is right and something follows it.
        Ok(_) => AbiError::bad_payload(what, error),
    }
}

fn check_limit(text: &str) -> Result<(), AbiError> {
    if text.len() > MAX_PAYLOAD_BYTES { Err(AbiError::too_large(text.len())) } else { Ok(()) }
}

fn within_limit(text: String) -> Result<String, AbiError> {
    check_limit(&text).map(|()| text)
}

pub(crate) fn to_wire(result: Result<String, AbiError>) -> JsonResult {
    let error = match result.and_then(within_limit) {
        Ok(json) => return RResult::ROk(RString::from(json)),
        Err(error) => error.to_json(),
    };
    let error = within_limit(error).unwrap_or_else(|error| error.to_json());
    RResult::RErr(RString::from(error))
}

pub(crate) fn from_wire(result: JsonResult) -> Result<String, AbiError> {
    match result {
        RResult::ROk(json) => within_limit(json.into_string()),
        RResult::RErr(json) => Err(check_limit(&json).err().unwrap_or_else(|| AbiError::from_json(&json))),
    }
}
