//! For authors of extensions: implement [`Extension`], name it in
//! [`export_extension!`](crate::export_extension), talk to the host through [`HostHandle`].

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use abi_stable::{
    erased_types::TD_Opaque,
    std_types::{RResult, RStr, RString},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{check_limit, decode, encode, from_wire, to_wire};
use crate::{
    NO_SCOPE,
    error::AbiError,
    fence::{self, Guarded, guard},
    ffi::{self, ExtensionBox, HostBox, JsonResult, ReplyBox},
    info::{AttachSpec, ExtensionInfo, HostInfo},
    ops::{Log, LogLevel, Post, Request},
    registration::Registrations,
};

/// An extension library. Every method runs under the panic fence; none may wait for a request to the host.
pub trait Extension: Send + Sync + 'static {
    /// A session comes up.
    ///
    /// # Errors
    /// The session must not run with this extension; a host fails a child's start then.
    fn attach(&self, scope: u64, spec: AttachSpec) -> Result<Registrations, AbiError>;

    /// The session is gone.
    fn detach(&self, scope: u64);

    /// Work for the extension's runtime; returns at once.
    fn invoke(&self, call: Invocation, reply: Responder);

    /// Stop the work of a call, whether or not it began or ended.
    fn cancel(&self, call: u64);

    /// A one-way event; [`crate::events::Event::parse`] reads it.
    fn notify(&self, scope: u64, name: &str, json: &str);

    /// A synchronous question.
    ///
    /// # Errors
    /// The host falls back to plain text.
    fn query(&self, scope: u64, name: &str, json: &str) -> Result<String, AbiError>;
}

/// One call from the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub scope: u64,
    /// Names the call in `cancel`.
    pub call: u64,
    /// One of [`crate::calls::kinds`].
    pub kind: String,
    /// The tool, command or gate.
    pub name: String,
    pub json: String,
}

impl Invocation {
    /// Reads the payload.
    ///
    /// # Errors
    /// `BAD_PAYLOAD` naming kind and name.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, AbiError> {
        decode(&format!("{} '{}'", self.kind, self.name), &self.json)
    }
}

/// The way back for one call. Dropping the last clone of it unfinished fails the call in the host.
#[derive(Debug, Clone)]
pub struct Responder(Arc<Outbox>);

/// Progress and the answer of one call, sent in order. No lock is held while the host takes one, so that a
/// host may call the extension from there.
struct Outbox(Mutex<Outgoing>);

struct Outgoing {
    /// Away while a thread sends, and gone after the answer.
    reply: Option<ReplyBox>,
    waiting: VecDeque<Out>,
    answered: bool,
}

enum Out {
    Progress(String),
    Answer(Result<String, AbiError>),
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outbox")
    }
}

impl Outbox {
    fn new(reply: ReplyBox) -> Self {
        Self(Mutex::new(Outgoing { reply: Some(reply), waiting: VecDeque::new(), answered: false }))
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, out: Out) {
        let mut outgoing = self.lock();
        if outgoing.answered {
            return;
        }
        outgoing.answered = matches!(out, Out::Answer(_));
        outgoing.waiting.push_back(out);
        // Without the reply another thread, or a caller further up this one, is sending and takes this along.
        let Some(reply) = outgoing.reply.take() else { return };
        while let Some(out) = outgoing.waiting.pop_front() {
            drop(outgoing);
            match out {
                Out::Progress(json) => reply.progress(RString::from(json)),
                Out::Answer(result) => return reply.finish(to_wire(result)),
            }
            outgoing = self.lock();
        }
        outgoing.reply = Some(reply);
    }
}

impl Responder {
    /// A partial result. It is dropped after `finish`, and when it is above the size limit.
    pub fn progress<T: Serialize + ?Sized>(&self, partial: &T) {
        if let Ok(json) = encode("progress", partial) {
            self.0.push(Out::Progress(json));
        }
    }

    /// The answer. Only the first one counts.
    pub fn finish<T: Serialize + ?Sized>(&self, result: Result<&T, AbiError>) {
        self.finish_json(result.and_then(|value| encode("result", value)));
    }

    /// The answer as JSON text.
    pub fn finish_json(&self, result: Result<String, AbiError>) {
        self.0.push(Out::Answer(result));
    }
}

/// The host, as an extension sees it. Cheap to clone.
#[derive(Clone)]
pub struct HostHandle(Arc<HostBox>);

impl std::fmt::Debug for HostHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostHandle")
    }
}

impl HostHandle {
    /// A host object without a library between; for tests and for hosts that embed an extension.
    pub fn new(host: impl super::host::Host) -> Self {
        Self(Arc::new(super::host::boxed(host)))
    }

    /// Asks the host. Dropping the future cancels the work in the host.
    ///
    /// # Errors
    /// The host's error, or `BAD_PAYLOAD` for an answer of another shape.
    pub async fn request<R: Request>(&self, scope: u64, input: &R) -> Result<R::Answer, AbiError> {
        let json = self.request_json(scope, R::OP, encode(R::OP, input)?).await?;
        decode(R::OP, &json)
    }

    /// Asks the host by name, JSON in and out.
    ///
    /// # Errors
    /// The host's error.
    pub async fn request_json(&self, scope: u64, op: &str, json: String) -> Result<String, AbiError> {
        let future = self.0.request(scope, RStr::from_str(op), RString::from(json));
        from_wire(future.await)
    }

    /// Tells the host. A payload above the size limit is dropped: nobody waits for an answer.
    pub fn post<P: Post>(&self, scope: u64, input: &P) {
        if let Ok(json) = encode(P::OP, input) {
            self.post_json(scope, P::OP, json);
        }
    }

    /// Posts a request whose answer is not wanted.
    pub fn post_request<R: Request>(&self, scope: u64, input: &R) {
        if let Ok(json) = encode(R::OP, input) {
            self.post_json(scope, R::OP, json);
        }
    }

    /// Tells the host by name, with JSON text.
    pub fn post_json(&self, scope: u64, op: &str, json: String) {
        self.0.post(scope, RStr::from_str(op), RString::from(json));
    }
}

struct Fenced<E>(Guarded<E>);

impl<E: Extension> ffi::Extension for Fenced<E> {
    fn attach(&self, scope: u64, json: RString) -> JsonResult {
        to_wire(guard("attach", || {
            let spec: AttachSpec = decode("attach", &json)?;
            encode("registrations", &self.0.attach(scope, spec)?)
        }))
    }

    fn detach(&self, scope: u64) {
        drop(guard("detach", || {
            self.0.detach(scope);
            Ok(())
        }));
    }

    fn invoke(&self, scope: u64, call: u64, kind: RStr<'_>, name: RStr<'_>, json: RString, reply: ReplyBox) {
        let responder = Responder(Arc::new(Outbox::new(reply)));
        let outcome = guard("invoke", || {
            check_limit(&json)?;
            let call = Invocation {
                scope,
                call,
                kind: kind.as_str().to_owned(),
                name: name.as_str().to_owned(),
                json: json.into_string(),
            };
            self.0.invoke(call, responder.clone());
            Ok(())
        });
        if let Err(error) = outcome {
            responder.finish_json(Err(error));
        }
    }

    fn cancel(&self, call: u64) {
        drop(guard("cancel", || {
            self.0.cancel(call);
            Ok(())
        }));
    }

    fn notify(&self, scope: u64, name: RStr<'_>, json: RString) {
        drop(guard("notify", || {
            check_limit(&json)?;
            self.0.notify(scope, name.as_str(), &json);
            Ok(())
        }));
    }

    fn query(&self, scope: u64, name: RStr<'_>, json: RString) -> JsonResult {
        to_wire(guard("query", || {
            check_limit(&json)?;
            self.0.query(scope, name.as_str(), &json)
        }))
    }
}

/// Wraps an extension for the boundary; used by [`export_extension!`](crate::export_extension) and by tests
/// that run an extension without a library.
pub fn boxed(extension: impl Extension) -> ExtensionBox {
    ffi::Extension_TO::from_value(Fenced(Guarded::new(extension)), TD_Opaque)
}

#[doc(hidden)]
pub fn info_wire(info: impl FnOnce() -> ExtensionInfo) -> RString {
    fence::silence();
    RString::from(guard("info", || encode("info", &info())).unwrap_or_else(|error| error.to_json()))
}

#[doc(hidden)]
pub fn init_wire<E: Extension>(
    host: HostBox,
    json: &RString,
    init: impl FnOnce(HostHandle, HostInfo) -> Result<E, AbiError>,
) -> RResult<ExtensionBox, RString> {
    let host = HostHandle(Arc::new(host));
    let log = host.clone();
    fence::install_silent_hook(move |line| log_panic(&log, line));
    let result = guard("init", || {
        let info: HostInfo = decode("init", json)?;
        init(host, info)
    });
    match result {
        Ok(extension) => RResult::ROk(boxed(extension)),
        Err(error) => RResult::RErr(RString::from(error.to_json())),
    }
}

fn log_panic(host: &HostHandle, line: &str) {
    let (target, message) = ("panic".to_owned(), line.to_owned());
    host.post(NO_SCOPE, &Log { level: LogLevel::Error, target, message, fields: serde_json::Value::Null });
}

/// Makes a `cdylib` an extension: `export_extension!(info = my_info, init = my_init)`, with
/// `fn my_info() -> ExtensionInfo` and `fn my_init(HostHandle, HostInfo) -> Result<impl Extension, AbiError>`.
///
/// The exported symbol has one name for all extensions, so two crates that use this macro cannot be linked into one
/// program, not even as plain Rust libraries; a program that needs the parts of two takes them from crates below.
///
/// The library's panic hook is silenced before either runs; each panic is posted to the host as a `log` of level
/// `error` (ABI-13), until the extension installs a sink of its own by [`crate::fence::install_silent_hook`].
#[macro_export]
macro_rules! export_extension {
    (info = $info:path, init = $init:path) => {
        const _: () = {
            use $crate::__private::{ExtensionBox, ExtensionMod, ExtensionModRef, HostBox, RResult, RString, library};

            extern "C" fn __info() -> RString {
                $crate::__private::info_wire($info)
            }

            extern "C" fn __init(host: HostBox, json: RString) -> RResult<ExtensionBox, RString> {
                $crate::__private::init_wire(host, &json, $init)
            }

            fn module() -> ExtensionModRef {
                $crate::__private::leak_module(ExtensionMod { info: __info, init: __init })
            }

            extern "C" fn erased() -> library::RootModuleResult {
                library::__call_root_module_loader(module)
            }

            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            static ROOT_MODULE_LOADER: library::LibHeader = unsafe {
                library::LibHeader::from_constructor::<ExtensionModRef>(erased, library::CheckTypeLayout::Yes)
            };
        };
    };
}
