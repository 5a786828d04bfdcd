use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{
    extension::{Extension, HostHandle, Invocation, Responder},
    host::{CallTarget, ExtensionHandle, ReplySink},
    *,
};
use crate::{
    codes,
    info::{AttachSpec, Ctx},
    registration::Registrations,
};

/// ABI-11, ABI-15
#[test]
fn a_payload_is_read_or_refused_with_its_path() {
    let ctx = json!({ "cwd": "/", "mode": "print", "hasUi": false, "sessionId": "s", "idle": true });
    assert_eq!(decode::<Ctx>("ctx", &ctx.to_string()).unwrap().cwd, "/");
    assert_eq!(decode::<Value>("x", "[1,{\"a\":2}]").unwrap(), json!([1, { "a": 2 }]));

    let error = decode::<Vec<Ctx>>("list", &json!([ctx, { "cwd": "/", "mode": "loud" }]).to_string()).unwrap_err();
    assert_eq!(error.code, codes::BAD_PAYLOAD);
    assert!(error.message.starts_with("list: at [1].mode: unknown variant `loud`"), "{}", error.message);
    assert_eq!(error.details, Some(Box::new(json!({ "path": "[1].mode" }))));

    let error = decode::<Value>("x", "{} {}").unwrap_err();
    assert!(error.message.starts_with("x: trailing characters"), "{}", error.message);
    let deep = "[".repeat(100_000);
    assert!(decode::<Value>("x", &deep).unwrap_err().message.contains("recursion limit"));

    let fits = "x".repeat(MAX_PAYLOAD_BYTES - 2);
    assert_eq!(encode("x", &fits).unwrap().len(), MAX_PAYLOAD_BYTES);
    assert_eq!(encode("x", &(fits.clone() + "x")).unwrap_err().code, codes::TOO_LARGE);
    assert_eq!(decode::<Value>("x", &" ".repeat(MAX_PAYLOAD_BYTES + 1)).unwrap_err().code, codes::TOO_LARGE);
}

/// ABI-5, ABI-11: what is too large becomes that error on either side, also when it is an error itself.
#[test]
fn the_wire_carries_no_more_than_the_limit() {
    let big = "x".repeat(MAX_PAYLOAD_BYTES + 1);
    assert_eq!(from_wire(to_wire(Ok("1".to_owned()))).unwrap(), "1");
    assert_eq!(from_wire(to_wire(Err(AbiError::no_child("c")))).unwrap_err(), AbiError::no_child("c"));
    assert_eq!(from_wire(to_wire(Ok(big.clone()))).unwrap_err().code, codes::TOO_LARGE);
    assert_eq!(from_wire(to_wire(Err(AbiError::host(big.clone())))).unwrap_err().code, codes::TOO_LARGE);
    assert_eq!(from_wire(RResult::ROk(big.clone().into())).unwrap_err().code, codes::TOO_LARGE);
    assert_eq!(from_wire(RResult::RErr(big.into())).unwrap_err().code, codes::TOO_LARGE);
    assert_eq!(from_wire(RResult::RErr("plain words".into())).unwrap_err(), AbiError::host("plain words"));
}

/// An extension that does what a test's closure says.
struct Doing<F>(F);

impl<F: Fn(Invocation, Responder) + Send + Sync + 'static> Extension for Doing<F> {
    fn attach(&self, _: u64, _: AttachSpec) -> Result<Registrations, AbiError> {
        Ok(Registrations::default())
    }
    fn detach(&self, _: u64) {}
    fn invoke(&self, call: Invocation, reply: Responder) {
        (self.0)(call, reply);
    }
    fn cancel(&self, _: u64) {}
    fn notify(&self, _: u64, _: &str, _: &str) {}
    fn query(&self, _: u64, name: &str, _: &str) -> Result<String, AbiError> {
        Err(AbiError::unknown_op(name))
    }
}

type Heard = Arc<Mutex<Vec<String>>>;

/// Notes what it hears; does `then` at each progress.
struct Noting<F>(Heard, F);

impl<F: Fn() + Send + Sync + 'static> ReplySink for Noting<F> {
    fn progress(&self, json: &str) {
        self.0.lock().unwrap().push(json.to_owned());
        (self.1)();
    }
    fn finish(&self, result: Result<String, AbiError>) {
        self.0.lock().unwrap().push(match result {
            Ok(json) => format!("ok {json}"),
            Err(error) => format!("{}: {}", error.code, error.message),
        });
    }
}

fn heard_of(
    invoke: impl Fn(Invocation, Responder) + Send + Sync + 'static,
    then: impl Fn() + Send + Sync + 'static,
) -> Vec<String> {
    let heard = Heard::default();
    let target = CallTarget { scope: 1, call: 1, kind: "tool", name: "t" };
    ExtensionHandle::embed(Doing(invoke)).invoke(target, &json!({}), Noting(Arc::clone(&heard), then));
    heard.lock().unwrap().clone()
}

/// ABI-10
#[test]
fn only_the_first_answer_counts_and_nothing_follows_it() {
    let heard = heard_of(
        |_, reply| {
            reply.progress(&1);
            reply.finish(Ok(&2));
            reply.progress(&3);
            reply.finish::<u8>(Err(AbiError::no_child("c")));
        },
        || {},
    );
    assert_eq!(heard, ["1", "ok 2"]);
}

/// ABI-6: a call that panics after it answered keeps its answer; one that did not fails.
#[test]
fn a_panicking_call_has_one_answer() {
    crate::fence::install_host_hook();
    let answered = |_, reply: Responder| {
        reply.finish(Ok(&1));
        panic!("late");
    };
    assert_eq!(heard_of(answered, || {}), ["ok 1"]);
    let heard = heard_of(|_, _| panic!("early"), || {});
    assert_eq!(heard.len(), 1);
    assert!(heard[0].starts_with("PANIC: invoke panicked at ") && heard[0].ends_with(": early"), "{}", heard[0]);
}

/// A call whose reply is dropped fails, once the last clone is gone.
#[test]
fn a_dropped_reply_fails_the_call() {
    let heard = heard_of(
        |_, reply| {
            let kept = reply.clone();
            drop(reply);
            kept.progress(&1);
        },
        || {},
    );
    assert_eq!(heard, ["1", "HOST: the extension dropped the call without an answer"]);
}

/// A host may use the extension from within the progress of a call; the order holds, and nothing waits for
/// itself.
#[test]
fn a_host_may_come_back_from_within_a_progress() {
    let responder: Arc<Mutex<Option<Responder>>> = Arc::default();
    let (inner, outer) = (Arc::clone(&responder), Arc::clone(&responder));
    let heard = heard_of(
        move |_, reply| {
            *outer.lock().unwrap() = Some(reply.clone());
            reply.progress(&"first");
            reply.progress(&"not heard");
        },
        move || {
            let Some(reply) = inner.lock().unwrap().take() else { return };
            reply.progress(&"second");
            reply.finish(Ok(&"end"));
        },
    );
    assert_eq!(heard, ["\"first\"", "\"second\"", "ok \"end\""]);
}

/// ABI-10: threads that post at once lose nothing, and the answer comes last.
#[test]
fn progress_of_many_threads_is_whole() {
    let heard = heard_of(
        |_, reply| {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let reply = reply.clone();
                    scope.spawn(move || (0..500).for_each(|n| reply.progress(&(thread * 1000 + n))));
                }
            });
            reply.finish(Ok(&0));
        },
        || {},
    );
    assert_eq!((heard.len(), heard.last().map(String::as_str)), (2001, Some("ok 0")));
    for thread in 0..4 {
        let own: Vec<u32> = heard.iter().filter_map(|json| json.parse().ok()).filter(|n| n / 1000 == thread).collect();
        assert!(own.is_sorted() && own.len() == 500);
    }
}

/// ABI-11: a host that does not check is refused before the extension sees the call.
#[test]
fn a_call_that_is_too_large_is_not_seen() {
    let heard = Heard::default();
    let extension = ExtensionHandle::embed(Doing(|_, _| panic!("it should not be seen")));
    let target = CallTarget { scope: 1, call: 1, kind: "tool", name: "t" };
    extension.invoke_json(target, " ".repeat(MAX_PAYLOAD_BYTES + 1), Noting(Arc::clone(&heard), || {}));
    extension.invoke(target, &" ".repeat(MAX_PAYLOAD_BYTES), Noting(Arc::clone(&heard), || {}));
    let heard = heard.lock().unwrap();
    assert!(heard.len() == 2 && heard.iter().all(|answer| answer.starts_with(codes::TOO_LARGE)), "{heard:?}");
}

/// ABI-6: the objects of both sides are dropped by the other one, behind a fence.
#[test]
fn an_object_whose_drop_panics_is_held() {
    struct Mine;
    impl Drop for Mine {
        fn drop(&mut self) {
            panic!("mine");
        }
    }
    impl host::Host for Mine {
        fn post(&self, _: u64, _: &str, _: &str) {}
        fn request(&self, _: u64, op: &str, _: String) -> BoxFuture<Result<String, AbiError>> {
            Box::pin(std::future::ready(Err(AbiError::unknown_op(op))))
        }
    }
    crate::fence::install_host_hook();
    drop(HostHandle::new(Mine));
    let mine = Mine;
    drop(ExtensionHandle::embed(Doing(move |_, _| {
        let _ = &mine;
    })));
    let mine = Mine;
    heard_of(
        |_, reply| reply.finish(Ok(&1)),
        move || {
            let _ = &mine;
        },
    );
}
