//! The panic fence (ABI-6): an unwinding panic that reaches the boundary aborts the process, so every
//! body behind it runs in [`guard`] or [`guard_future`], inside the library that may panic.
//!
//! Two things no fence can hold: a panic in a `Drop` that runs because of another panic, and a panic inside
//! the panic hook. Both end the process, so a `Drop` must not panic and neither may a hook's sink.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook},
    pin::Pin,
    sync::{Arc, Once, PoisonError, RwLock},
    task::{Context, Poll},
};

use crate::{
    error::{AbiError, codes},
    sdk::BoxFuture,
};

#[cfg(test)]
mod tests;

/// Bytes of a panic's report that reach a sink, so that a huge message still crosses the boundary.
const REPORT_BYTES: usize = 4096;

thread_local! {
    static FENCED: Cell<u32> = const { Cell::new(0) };
    /// Message and place of this thread's latest panic.
    static LATEST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Runs `body`; a panic becomes an error with code `PANIC` that names message and place.
///
/// # Errors
/// The error of `body`, or `PANIC`.
pub fn guard<T>(what: &str, body: impl FnOnce() -> Result<T, AbiError>) -> Result<T, AbiError> {
    let _inside = Inside::enter();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let error = panic_error(what, payload.as_ref());
        discard(payload);
        Err(error)
    })
}

/// Polls and drops `future` under the fence: what [`guard`] is for a body that returns, this is for a task.
pub fn guard_future<T>(what: impl Into<String>, future: BoxFuture<Result<T, AbiError>>) -> GuardedFuture<T> {
    GuardedFuture { what: what.into(), inner: Some(future) }
}

/// Made by [`guard_future`].
pub struct GuardedFuture<T> {
    what: String,
    inner: Option<BoxFuture<Result<T, AbiError>>>,
}

impl<T> std::fmt::Debug for GuardedFuture<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedFuture").field("what", &self.what).finish_non_exhaustive()
    }
}

impl<T> GuardedFuture<T> {
    fn end(&mut self) {
        let rest = self.inner.take();
        drop_guarded("the end of a future", rest);
    }
}

impl<T> Future for GuardedFuture<T> {
    type Output = Result<T, AbiError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(inner) = this.inner.as_mut() else {
            return Poll::Ready(Err(AbiError::host(format!("'{}' was polled after its end", this.what))));
        };
        let poll = match guard(&this.what, || Ok(inner.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(error) => Err(error),
        };
        this.end();
        Poll::Ready(poll)
    }
}

impl<T> Drop for GuardedFuture<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A value whose drop runs under the fence, for objects that the other side of the boundary drops.
pub(crate) struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> std::ops::Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the value is taken out by drop alone")
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        drop_guarded("the drop of an object", self.0.take());
    }
}

fn drop_guarded<T>(what: &str, value: Option<T>) {
    drop(guard(what, || {
        drop(value);
        Ok(())
    }));
}

/// The error for a panic that was caught elsewhere, such as the payload of a failed join. It names the place
/// when this thread is the one that panicked.
pub fn panic_error(what: &str, payload: &(dyn Any + Send)) -> AbiError {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or(NO_TEXT);
    let latest = LATEST.try_with(|latest| latest.borrow_mut().take()).ok().flatten();
    // A panic that went on by `resume_unwind`, or that another thread had, calls no hook here: the noted
    // place would be that of an older panic.
    let place = latest.filter(|(noted, _)| noted == message).map(|(_, at)| format!(" at {at}")).unwrap_or_default();
    AbiError::new(codes::PANIC, format!("{what} panicked{place}: {message}"))
        .with_hint("this is a fault of the extension or host; the session goes on")
}

const NO_TEXT: &str = "a value that is no text";

/// The drop of a panic's payload may panic, with a payload whose drop may panic too: that one is leaked.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// While it lives, panics of this thread are caught by a fence.
struct Inside;

impl Inside {
    fn enter() -> Self {
        FENCED.with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        FENCED.with(|depth| depth.set(depth.get() - 1));
    }
}

type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// Where the hooks of this library report to. Replaced whole, so that a hook never waits for a sink.
static SINK: RwLock<Option<Sink>> = RwLock::new(None);

fn set_sink(sink: impl Fn(&str) + Send + Sync + 'static) {
    let sink: Sink = Arc::new(sink);
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = Some(sink);
}

fn note(info: &PanicHookInfo<'_>) {
    let Some(place) = info.location().map(|at| format!("{}:{}", at.file(), at.line())) else { return };
    let message = info.payload_as_str().unwrap_or(NO_TEXT).to_owned();
    // A panic of a thread-local's drop may come when this one is gone; then the place is not known.
    let _ = LATEST.try_with(|latest| *latest.borrow_mut() = Some((message, place)));
}

fn report(info: &PanicHookInfo<'_>) {
    let sink = SINK.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(sink) = sink {
        let mut line = info.to_string().replace('\n', " ");
        line.truncate(line.floor_char_boundary(REPORT_BYTES));
        sink(&line);
    }
}

/// Installs, once per library, a panic hook that is silent on the terminal and hands each panic as one line
/// to `sink`: an extension must never write to stdout or stderr (ABI-13). A later call replaces the sink.
///
/// [`export_extension!`](crate::export_extension) does this with a sink that posts `log`. The sink runs
/// inside the hook, where a panic ends the process, and must not wait for a lock that panicking code may hold.
/// Only for libraries: in a program it would silence the whole program.
pub fn install_silent_hook(sink: impl Fn(&str) + Send + Sync + 'static) {
    set_sink(sink);
    silence();
}

/// The silent hook without a sink, for the time before there is a host.
pub(crate) fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_hook(Box::new(|info| {
            note(info);
            report(info);
        }));
    });
}

/// Installs, once per process, a hook for hosts: panics inside the fence are noted, all others keep the
/// former hook's behaviour.
pub fn install_host_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let former = take_hook();
        set_hook(Box::new(move |info| {
            note(info);
            if FENCED.with(Cell::get) == 0 {
                former(info);
            } else {
                report(info);
            }
        }));
    });
}

/// [`install_host_hook`] for a host with a log: panics inside the fence go to `log` as one line each. A post's
/// panic is seen nowhere else, since a post has no answer. The limits of [`install_silent_hook`]'s sink hold.
pub fn install_host_hook_with_log(log: impl Fn(&str) + Send + Sync + 'static) {
    set_sink(log);
    install_host_hook();
}
