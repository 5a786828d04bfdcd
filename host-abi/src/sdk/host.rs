//! For authors of hosts: implement [`Host`], [`crate::load`] a library, drive it through [`ExtensionHandle`].

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
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
    fence::{guard, panic_error},
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

/// Where the answer of one call goes.
pub trait ReplySink: Send + Sync + 'static {
    /// A partial result, in order, before `finish`.
    fn progress(&self, json: &str);
    /// Called exactly once, also when the extension dropped the call.
    fn finish(&self, result: Result<String, AbiError>);
}

struct FencedHost<H>(H);

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
        let name = op.as_str().to_owned();
        match guard("host request", || Ok(self.0.request(scope, op.as_str(), json.into_string()))) {
            Ok(future) => async move { to_wire(FencedFuture { what: name, inner: Some(future) }.await) }.into_ffi(),
            Err(error) => async move { to_wire(Err(error)) }.into_ffi(),
        }
    }
}

/// Polls under the fence: a panic in the host's body must not unwind into the extension's runtime.
struct FencedFuture {
    what: String,
    inner: Option<BoxFuture<Result<String, AbiError>>>,
}

impl Future for FencedFuture {
    type Output = Result<String, AbiError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(inner) = this.inner.as_mut() else {
            return Poll::Ready(Err(AbiError::host(format!("'{}' was polled after its end", this.what))));
        };
        match std::panic::catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => {
                this.inner = None;
                Poll::Ready(result)
            }
            Err(payload) => {
                let error = panic_error(&this.what, payload.as_ref());
                // The half-run future may panic again when it is dropped.
                let rest = this.inner.take();
                drop(std::panic::catch_unwind(AssertUnwindSafe(|| drop(rest))));
                Poll::Ready(Err(error))
            }
        }
    }
}

/// Wraps a host for the boundary.
pub fn boxed(host: impl Host) -> HostBox {
    ffi::Host_TO::from_value(FencedHost(host), TD_Opaque)
}

struct SinkReply<S: ReplySink> {
    sink: S,
    done: std::sync::atomic::AtomicBool,
}

impl<S: ReplySink> SinkReply<S> {
    fn first(&self) -> bool {
        !self.done.swap(true, std::sync::atomic::Ordering::AcqRel)
    }
}

impl<S: ReplySink> ffi::Reply for SinkReply<S> {
    fn progress(&self, json: RString) {
        if self.done.load(std::sync::atomic::Ordering::Acquire) {
            return;
        }
        drop(guard("reply progress", || {
            self.sink.progress(&json);
            Ok(())
        }));
    }

    fn finish(&self, result: JsonResult) {
        if self.first() {
            drop(guard("reply finish", || {
                self.sink.finish(from_wire(result));
                Ok(())
            }));
        }
    }
}

impl<S: ReplySink> Drop for SinkReply<S> {
    fn drop(&mut self) {
        if self.first() {
            drop(guard("reply drop", || {
                self.sink.finish(Err(AbiError::host("the extension dropped the call without an answer")));
                Ok(())
            }));
        }
    }
}

fn reply_box(sink: impl ReplySink) -> ReplyBox {
    ffi::Reply_TO::from_value(SinkReply { sink, done: false.into() }, TD_Opaque)
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
        let json = encode("attach", spec)?;
        decode("registrations", &from_wire(self.0.attach(scope, RString::from(json)))?)
    }

    /// The session is gone.
    pub fn detach(&self, scope: u64) {
        self.0.detach(scope);
    }

    /// Starts a call. A payload that cannot cross fails it at once.
    pub fn invoke<T: Serialize + ?Sized>(&self, target: CallTarget<'_>, payload: &T, sink: impl ReplySink) {
        match encode(target.kind, payload) {
            Ok(json) => self.0.invoke(
                target.scope,
                target.call,
                RStr::from_str(target.kind),
                RStr::from_str(target.name),
                RString::from(json),
                reply_box(sink),
            ),
            Err(error) => sink.finish(Err(error)),
        }
    }

    /// Asks the extension to stop a call.
    pub fn cancel(&self, call: u64) {
        self.0.cancel(call);
    }

    /// Tells an event.
    pub fn notify(&self, scope: u64, event: &Event) {
        self.notify_json(scope, event.name(), event.payload());
    }

    /// Tells an event whose payload is JSON already.
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
        let json = encode(name, payload)?;
        decode(name, &from_wire(self.0.query(scope, RStr::from_str(name), RString::from(json)))?)
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
