//! The panic fence (ABI-6): an unwinding panic that reaches the boundary aborts the process, so every
//! body behind it runs in [`guard`], inside the library that may panic.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::{Once, OnceLock},
};

use crate::error::{AbiError, codes};

thread_local! {
    static FENCED: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

type Sink = Box<dyn Fn(&str) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Runs `body`; a panic becomes an error with code `PANIC` that names message and place.
///
/// # Errors
/// The error of `body`, or `PANIC`.
pub fn guard<T>(what: &str, body: impl FnOnce() -> Result<T, AbiError>) -> Result<T, AbiError> {
    FENCED.with(|depth| depth.set(depth.get() + 1));
    let result = catch_unwind(AssertUnwindSafe(body));
    FENCED.with(|depth| depth.set(depth.get() - 1));
    result.unwrap_or_else(|payload| Err(panic_error(what, payload.as_ref())))
}

/// The error for a panic that was caught elsewhere, such as in a spawned task.
pub fn panic_error(what: &str, payload: &(dyn std::any::Any + Send)) -> AbiError {
    let message = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned());
    let place = LAST.with(|last| last.borrow_mut().take()).map(|at| format!(" at {at}")).unwrap_or_default();
    AbiError::new(codes::PANIC, format!("{what} panicked{place}: {message}"))
        .with_hint("this is a fault of the extension or host; the session goes on")
}

/// Installs, once per library, a panic hook that is silent on the terminal and hands each panic as one line
/// to `sink`: an extension must never write to stdout or stderr (ABI-13).
pub fn install_silent_hook(sink: impl Fn(&str) + Send + Sync + 'static) {
    static ONCE: Once = Once::new();
    drop(SINK.set(Box::new(sink)));
    ONCE.call_once(|| {
        set_hook(Box::new(|info| {
            let at = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
            if let (Some(sink), text) = (SINK.get(), info.to_string()) {
                sink(&text.replace('\n', " "));
            }
            LAST.with(|last| *last.borrow_mut() = at);
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
            LAST.with(|last| *last.borrow_mut() = info.location().map(|l| format!("{}:{}", l.file(), l.line())));
            if FENCED.with(Cell::get) == 0 {
                former(info);
            }
        }));
    });
}
