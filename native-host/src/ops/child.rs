//! The `child.*` operations (ABI-40, ABI-41, ABI-57, ABI-58).

use std::sync::Arc;

use host_abi::AbiError;
use host_abi::ops::{self, ChildCreated, Done, Request};
use tokio::sync::oneshot;

use super::{Answer, ScopeSession, later, now, ready};
use crate::host::children;
use crate::host::core::Core;
use crate::session::Session;

pub fn dispatch(scope: &ScopeSession, op: &str, json: String) -> Answer {
    let find = finder(scope);
    match op {
        ops::ChildSpec::OP => create(scope, json),
        ops::ChildPrompt::OP => later(json, async move |prompt: ops::ChildPrompt| {
            let child = find(&prompt.child)?;
            gone(&prompt.child, child.prompt(prompt.text, "extension", prompt.deliver_as).await)
        }),
        ops::ChildWaitIdle::OP => later(json, async move |wait: ops::ChildWaitIdle| {
            let child = find(&wait.child)?;
            gone(&wait.child, child.wait_idle(wait.run).await)
        }),
        ops::ChildSteer::OP => later(json, async move |steer: ops::ChildSteer| {
            let child = find(&steer.child)?;
            gone(&steer.child, child.steer(steer.text).await)
        }),
        ops::ChildFollowUp::OP => later(json, async move |follow_up: ops::ChildFollowUp| {
            let child = find(&follow_up.child)?;
            gone(&follow_up.child, child.follow_up(follow_up.text).await)
        }),
        ops::ChildAbort::OP => later(json, async move |abort: ops::ChildAbort| {
            let child = find(&abort.child)?;
            child.abort(true);
            // A run that the host could not bring to its end is over all the same.
            let _ = child.wait_idle(None).await;
            Ok(Done {})
        }),
        ops::ChildDispose::OP => {
            let (core, runtime) = (Arc::clone(&scope.core), scope.core.runtime.clone());
            later(json, async move |dispose: ops::ChildDispose| {
                let child = find(&dispose.child)?;
                // Begun is begun: a child must not stay half-disposed when its parent stops waiting.
                let task = runtime.spawn(async move { children::dispose(&core, &child, "dispose").await });
                task.await.map_err(|error| AbiError::host(format!("failed to dispose of the child: {error}")))?;
                Ok(Done {})
            })
        }
        ops::GetChildStats::OP => now::<ops::GetChildStats>(&json, |query| Ok(find(&query.child)?.shared.stats())),
        ops::GetChildMessages::OP => later(json, async move |query: ops::GetChildMessages| {
            let messages = gone(&query.child, find(&query.child)?.messages(query.limit).await)?;
            Ok(ops::ChildMessages { messages })
        }),
        ops::GetChildLastText::OP => later(json, async move |query: ops::GetChildLastText| {
            let last = gone(&query.child, find(&query.child)?.last_answer().await)?;
            Ok(ops::LastText { text: last.text })
        }),
        _ => ready(Err(AbiError::unknown_op(op))),
    }
}

/// Ends a child without an answer; one that is gone already needs no end.
pub fn kill(scope: &ScopeSession, id: &str) {
    if let Ok(child) = finder(scope)(id) {
        let core = Arc::clone(&scope.core);
        scope.core.runtime.spawn(async move { children::dispose(&core, &child, "dispose").await });
    }
}

fn finder(scope: &ScopeSession) -> impl Fn(&str) -> Result<Arc<Session>, AbiError> + Send + Sync + 'static {
    let (core, owner) = (Arc::clone(&scope.core), Arc::clone(&scope.session));
    move |id| core.child(&owner.shared.identity.agent_id, id)
}

/// A session that goes away in the middle of an operation is no child any more.
fn gone<T>(child: &str, result: Result<T, AbiError>) -> Result<T, AbiError> {
    result.map_err(|error| if error.code == host_abi::codes::SCOPE_GONE { AbiError::no_child(child) } else { error })
}

/// Makes a child on the host's runtime. When nobody takes the answer, the child is taken down again.
fn create(scope: &ScopeSession, json: String) -> Answer {
    let (core, owner) = (Arc::clone(&scope.core), Arc::clone(&scope.session));
    later(json, async move |spec: ops::ChildSpec| {
        let (sender, made) = oneshot::channel();
        let runtime = core.runtime.clone();
        runtime.spawn(async move {
            let made =
                children::create(&core, &owner, spec).map(|created| Untaken { core, owner, created: Some(created) });
            // Untaken takes the child down when the receiver is gone.
            let _ = sender.send(made);
        });
        let made = made.await.map_err(|_| AbiError::new(host_abi::codes::PANIC, "making the child panicked"))?;
        made?.take()
    })
}

/// A child whose maker has not got it yet.
struct Untaken {
    core: Arc<Core>,
    owner: Arc<Session>,
    created: Option<ChildCreated>,
}

impl Untaken {
    fn take(mut self) -> Result<ChildCreated, AbiError> {
        self.created.take().ok_or_else(|| AbiError::host("the child was taken twice"))
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        let Some(created) = self.created.take() else { return };
        if let Ok(child) = self.core.child(&self.owner.shared.identity.agent_id, &created.child) {
            let core = Arc::clone(&self.core);
            self.core.runtime.spawn(async move { children::dispose(&core, &child, "dispose").await });
        }
    }
}
