use std::{
    future::{pending, ready},
    panic::{panic_any, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::Waker,
};

use super::*;

/// A panic payload whose drop panics too, `depth` times over.
struct Grenade(u32);

impl Drop for Grenade {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Grenade(self.0 - 1));
        }
    }
}

/// Panics when it is dropped.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("mine");
    }
}

fn poll_once<T>(future: &mut GuardedFuture<T>) -> Poll<Result<T, AbiError>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn boxed<T>(future: impl Future<Output = Result<T, AbiError>> + Send + 'static) -> BoxFuture<Result<T, AbiError>> {
    Box::pin(future)
}

/// ABI-6
#[test]
fn a_panic_becomes_an_error_with_message_and_place() {
    install_host_hook();
    let error = guard::<()>("work", || panic!("no {}", "luck")).unwrap_err();
    assert_eq!(error.code, codes::PANIC);
    let place = format!("{}:{}", file!(), line!() - 2);
    assert_eq!(error.message, format!("work panicked at {place}: no luck"));
    assert_eq!(guard("work", || Ok(7)).unwrap(), 7, "the next one works");
}

/// ABI-6
#[test]
fn an_error_of_the_body_passes_unchanged() {
    assert_eq!(guard::<()>("work", || Err(AbiError::no_child("x"))).unwrap_err(), AbiError::no_child("x"));
}

/// ABI-6: the place of an older panic is never taken for that of a payload which came without a hook.
#[test]
fn a_resumed_or_foreign_panic_names_no_wrong_place() {
    install_host_hook();
    drop(catch_unwind(|| panic!("first")));
    let resumed = guard::<()>("work", || resume_unwind(Box::new("second"))).unwrap_err();
    assert_eq!(resumed.message, "work panicked: second");
    let joined = std::thread::spawn(|| drop(guard::<()>("inner", || panic!("third")))).join();
    joined.unwrap();
    assert_eq!(panic_error("task", &"third").message, "task panicked: third");
}

/// ABI-6
#[test]
fn a_payload_whose_drop_panics_is_held() {
    install_host_hook();
    for depth in 0..4 {
        let error = guard::<()>("work", || panic_any(Grenade(depth))).unwrap_err();
        assert!(error.message.ends_with(NO_TEXT), "{}", error.message);
    }
}

/// ABI-6
#[test]
fn a_future_that_panics_fails_and_stays_ended() {
    install_host_hook();
    let mut future = guard_future::<()>("task", boxed(async { panic!("in a poll") }));
    let Poll::Ready(Err(error)) = poll_once(&mut future) else { panic!("it should have ended") };
    assert_eq!(error.code, codes::PANIC);
    assert!(error.message.contains("in a poll"), "{}", error.message);
    let Poll::Ready(Err(error)) = poll_once(&mut future) else { panic!("it should stay ended") };
    assert_eq!(error.code, codes::HOST);
}

/// ABI-6, ABI-8: a request is dropped by the other side of the boundary, where a panic would abort.
#[test]
fn the_drop_of_a_future_is_fenced_before_and_after_its_end() {
    install_host_hook();
    let mine = Mine;
    let mut waiting = guard_future::<()>(
        "task",
        boxed(async move {
            let _mine = mine;
            pending().await
        }),
    );
    assert!(poll_once(&mut waiting).is_pending());
    drop(waiting);

    struct Ends(Mine);
    impl Future for Ends {
        type Output = Result<u8, AbiError>;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            Poll::Ready(Ok(1))
        }
    }
    let mut ended = guard_future("task", Box::pin(Ends(Mine)));
    assert_eq!(poll_once(&mut ended), Poll::Ready(Ok(1)), "the answer is not lost to a bad drop");
    drop(Guarded::new(Mine));
}

/// ABI-6
#[test]
fn a_future_passes_its_answer() {
    assert_eq!(poll_once(&mut guard_future("task", boxed(ready(Ok(3))))), Poll::Ready(Ok(3)));
}

/// ABI-6, ABI-13: one hook for all threads; each fenced panic is reported once, as one line, and its error
/// names the place of its own panic.
#[test]
fn the_hook_serves_many_threads_at_once() {
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    install_host_hook_with_log(|line| LINES.lock().unwrap().push(line.to_owned()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let id = NEXT.fetch_add(1, Ordering::Relaxed);
                    let error = guard::<()>("work", || panic!("storm <{id}>\nsecond line")).unwrap_err();
                    assert!(error.message.contains(&format!("<{id}>")), "{}", error.message);
                    assert!(error.message.contains(&format!("at {}:", file!())), "{}", error.message);
                }
            });
        }
    });
    let lines = LINES.lock().unwrap();
    for id in 0..400 {
        let own: Vec<_> = lines.iter().filter(|line| line.contains(&format!("<{id}>"))).collect();
        assert_eq!(own.len(), 1);
        assert!(own[0].contains(file!()) && !own[0].contains('\n'), "{}", own[0]);
    }
}
