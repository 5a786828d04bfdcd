//! For authors of hosts: implement [`Host`], [`crate::load`] a library, drive it through [`ExtensionHandle`].

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use abi_stable::{
    erased_types::TD_Opaque,
    std_types::{RStr, RString},
};
use async_ffi::{FfiFuture, FutureExt as _};
use serde::{Serialize, de::DeserializeOwned};

use super::{BoxFuture, decode, encode, from_wire, to_wire};
use crate::{
    error::AbiError,
    events::Event,
    fence::{Guarded, guard, guard_future},
    ffi::{self, ExtensionBox, HostBox, JsonResult, ReplyBox},
    info::AttachSpec,
    registration::Registrations,
};

/// A host's side of the boundary. The bodies run on the extension's threads.
pub trait Host: Send + Sync + 'static {
    /// Fire and forget; must not block.
    fn post(&self, scope: u64, op: &str, json: &str);

    /// Work on behalf of the extension; dropping the future must end it.
    fn request(&self, scope: u64, op: &str, json: String) -> BoxFuture<Result<String, AbiError>>;
}

/// Where the answer of one call goes. The bodies run on the extension's threads and must not block.
pub trait ReplySink: Send + Sync + 'static {
    /// A partial result, in order, before `finish`. One above the size limit is left out.
    fn progress(&self, json: &str);
    /// Called exactly once, also when the extension dropped the call.
    fn finish(&self, result: Result<String, AbiError>);
}

struct FencedHost<H>(Guarded<H>);

impl<H: Host> ffi::Host for FencedHost<H> {
    fn post(&self, scope: u64, op: RStr<'_>, json: RString) {
        if json.len() > crate::MAX_PAYLOAD_BYTES {
            return;
        }
        drop(guard("host post", || {
            self.0.post(scope, op.as_str(), &json);
            Ok(())
        }));
    }

    fn request(&self, scope: u64, op: RStr<'_>, json: RString) -> FfiFuture<JsonResult> {
        if json.len() > crate::MAX_PAYLOAD_BYTES {
            let error = AbiError::too_large(json.len());
            return async move { to_wire(Err(error)) }.into_ffi();
        }
        match guard("host request", || Ok(self.0.request(scope, op.as_str(), json.into_string()))) {
            Ok(future) => {
                let future = guard_future(op.as_str(), future);
                async move { to_wire(future.await) }.into_ffi()
            }
            Err(error) => async move { to_wire(Err(error)) }.into_ffi(),
        }
    }
}

/// Wraps a host for the boundary.
pub fn boxed(host: impl Host) -> HostBox {
    ffi::Host_TO::from_value(FencedHost(Guarded::new(host)), TD_Opaque)
}

struct SinkReply<S: ReplySink> {
    sink: Guarded<S>,
    done: AtomicBool,
}

impl<S: ReplySink> SinkReply<S> {
    fn end(&self, what: &str, result: Result<String, AbiError>) {
        if !self.done.swap(true, Ordering::AcqRel) {
            drop(guard(what, || {
                self.sink.finish(result);
                Ok(())
            }));
        }
    }
}

impl<S: ReplySink> ffi::Reply for SinkReply<S> {
    fn progress(&self, json: RString) {
        if self.done.load(Ordering::Acquire) || json.len() > crate::MAX_PAYLOAD_BYTES {
            return;
        }
        drop(guard("reply progress", || {
            self.sink.progress(&json);
            Ok(())
        }));
    }

    fn finish(&self, result: JsonResult) {
        self.end("reply finish", from_wire(result));
    }
}

impl<S: ReplySink> Drop for SinkReply<S> {
    fn drop(&mut self) {
        self.end("reply drop", Err(AbiError::host("the extension dropped the call without an answer")));
    }
}

fn reply_box(sink: impl ReplySink) -> ReplyBox {
    ffi::Reply_TO::from_value(SinkReply { sink: Guarded::new(sink), done: false.into() }, TD_Opaque)
}

/// A running extension, as a host sees it. Cheap to clone.
#[derive(Clone)]
pub struct ExtensionHandle(Arc<ExtensionBox>);

impl std::fmt::Debug for ExtensionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExtensionHandle")
    }
}

impl ExtensionHandle {
    pub(crate) fn new(extension: ExtensionBox) -> Self {
        Self(Arc::new(extension))
    }

    /// An extension without a library between; for tests.
    pub fn embed(extension: impl super::extension::Extension) -> Self {
        Self::new(super::extension::boxed(extension))
    }

    /// Tells the extension of a session.
    ///
    /// # Errors
    /// The extension's error, or `BAD_PAYLOAD` for registrations of another shape.
    pub fn attach(&self, scope: u64, spec: &AttachSpec) -> Result<Registrations, AbiError> {
        decode("registrations", &self.attach_json(scope, encode("attach", spec)?)?)
    }

    /// [`ExtensionHandle::attach`] for a host that has the payload as JSON text.
    ///
    /// # Errors
    /// The extension's error.
    pub fn attach_json(&self, scope: u64, json: String) -> Result<String, AbiError> {
        from_wire(self.0.attach(scope, RString::from(json)))
    }

    /// The session is gone.
    pub fn detach(&self, scope: u64) {
        self.0.detach(scope);
    }

    /// Starts a call. A payload that cannot cross fails it at once.
    pub fn invoke<T: Serialize + ?Sized>(&self, target: CallTarget<'_>, payload: &T, sink: impl ReplySink) {
        match encode(target.kind, payload) {
            Ok(json) => self.invoke_json(target, json, sink),
            Err(error) => sink.finish(Err(error)),
        }
    }

    /// [`ExtensionHandle::invoke`] for a host that has the payload as JSON text.
    pub fn invoke_json(&self, target: CallTarget<'_>, json: String, sink: impl ReplySink) {
        self.0.invoke(
            target.scope,
            target.call,
            RStr::from_str(target.kind),
            RStr::from_str(target.name),
            RString::from(json),
            reply_box(sink),
        );
    }

    /// Asks the extension to stop a call.
    pub fn cancel(&self, call: u64) {
        self.0.cancel(call);
    }

    /// Tells an event.
    pub fn notify(&self, scope: u64, event: &Event) {
        self.notify_json(scope, event.name(), event.payload());
    }

    /// Tells an event whose payload is JSON already. One above the size limit is left out.
    pub fn notify_json(&self, scope: u64, name: &str, json: String) {
        self.0.notify(scope, RStr::from_str(name), RString::from(json));
    }

    /// Asks synchronously.
    ///
    /// # Errors
    /// The extension's error, or `BAD_PAYLOAD` for an answer of another shape.
    pub fn query<T: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        scope: u64,
        name: &str,
        payload: &T,
    ) -> Result<A, AbiError> {
        decode(name, &self.query_json(scope, name, encode(name, payload)?)?)
    }

    /// [`ExtensionHandle::query`], JSON text in and out.
    ///
    /// # Errors
    /// The extension's error.
    pub fn query_json(&self, scope: u64, name: &str, json: String) -> Result<String, AbiError> {
        from_wire(self.0.query(scope, RStr::from_str(name), RString::from(json)))
    }
}

/// What a call is for.
#[derive(Debug, Clone, Copy)]
pub struct CallTarget<'a> {
    pub scope: u64,
    /// Chosen by the host, never used twice.
    pub call: u64,
    /// One of [`crate::calls::kinds`].
    pub kind: &'a str,
    /// The tool, command or gate.
    pub name: &'a str,
}
