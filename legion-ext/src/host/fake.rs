//! A recording host for tests: answers by script, remembers every call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use host_abi::{
    AbiError,
    ops::Request,
    sdk::{BoxFuture, encode, extension::HostHandle, host::Host},
};
use serde_json::Value;
use tokio::sync::Notify;

use super::SessionHost;

/// One call that arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub scope: u64,
    pub op: String,
    pub input: Value,
}

type Handler = Arc<dyn Fn(u64, Value) -> BoxFuture<Result<Value, AbiError>> + Send + Sync>;

#[derive(Default)]
struct State {
    calls: Mutex<Vec<Recorded>>,
    handlers: Mutex<HashMap<String, Handler>>,
    arrived: Notify,
}

/// The fake. Clones share everything.
#[derive(Clone, Default)]
pub struct RecordingHost(Arc<State>);

impl std::fmt::Debug for RecordingHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RecordingHost").field(&self.calls(None).len()).finish()
    }
}

impl RecordingHost {
    /// The port of a session with this scope.
    pub fn session(&self, scope: u64) -> SessionHost {
        SessionHost::new(HostHandle::new(self.clone()), scope)
    }

    /// Answers `R::OP` with `answer` each time.
    pub fn answer<R: Request>(&self, answer: impl Fn(u64, R) -> Result<R::Answer, AbiError> + Send + Sync + 'static) {
        self.handle::<R, _>(move |scope, input| {
            let result = answer(scope, input);
            Box::pin(async move { result })
        });
    }

    /// Answers `R::OP` with a future each time.
    pub fn handle<R, F>(&self, answer: F)
    where
        R: Request + 'static,
        F: Fn(u64, R) -> BoxFuture<Result<R::Answer, AbiError>> + Send + Sync + 'static,
    {
        let handler: Handler = Arc::new(move |scope, input| {
            let input = serde_json::from_value(input).map_err(|error| AbiError::bad_payload(R::OP, &error));
            let future = input.map(|input| answer(scope, input));
            Box::pin(async move {
                let answer = future?.await?;
                serde_json::to_value(answer).map_err(|error| AbiError::bad_payload(R::OP, &error))
            })
        });
        self.0.handlers.lock().unwrap_or_else(PoisonError::into_inner).insert(R::OP.to_owned(), handler);
    }

    /// Calls so far, all or of one operation.
    pub fn calls(&self, op: Option<&str>) -> Vec<Recorded> {
        let calls = self.0.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|call| op.is_none_or(|op| call.op == op)).cloned().collect()
    }

    /// Waits until `op` was called `n` times.
    pub async fn until(&self, op: &str, n: usize) -> Vec<Recorded> {
        loop {
            let arrived = self.0.arrived.notified();
            let calls = self.calls(Some(op));
            if calls.len() >= n {
                return calls;
            }
            arrived.await;
        }
    }

    fn record(&self, scope: u64, op: &str, input: Value) {
        let call = Recorded { scope, op: op.to_owned(), input };
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        self.0.arrived.notify_waiters();
    }
}

impl Host for RecordingHost {
    fn post(&self, scope: u64, op: &str, json: &str) {
        self.record(scope, op, serde_json::from_str(json).unwrap_or(Value::Null));
    }

    fn request(&self, scope: u64, op: &str, json: String) -> BoxFuture<Result<String, AbiError>> {
        let input: Value = serde_json::from_str(&json).unwrap_or(Value::Null);
        self.record(scope, op, input.clone());
        let handler = self.0.handlers.lock().unwrap_or_else(PoisonError::into_inner).get(op).cloned();
        let op = op.to_owned();
        Box::pin(async move {
            let handler = handler.ok_or_else(|| AbiError::unknown_op(&op))?;
            encode(&op, &handler(scope, input).await?)
        })
    }
}
