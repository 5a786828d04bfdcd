//! The operations of the host (01 §4), for the session of one scope.
//!
//! Requests come on the extensions' threads and their futures are polled there, without a runtime of this
//! crate around them: what needs one (files, timers) is spawned on the host's.

mod child;
mod models;

use std::path::Path;
use std::sync::Arc;

use host_abi::AbiError;
use host_abi::ops::{self, Done, Post, Request};
use host_abi::sdk::{BoxFuture, decode, encode};

use crate::extensions::{ScopeOps, scopes};
use crate::host::core::Core;
use crate::session::Session;

/// A session as its extensions reach it.
#[derive(Debug)]
pub struct ScopeSession {
    pub core: Arc<Core>,
    pub session: Arc<Session>,
}

/// Operations that are not offered: there is no screen, no visible terminal, and no RPC mode in this build.
const MISSING: [&str; 11] = [
    ops::RpcCommand::OP,
    ops::TerminalCommand::OP,
    ops::UiNotify::OP,
    ops::UiSetStatus::OP,
    ops::UiSetWidget::OP,
    ops::UiInvalidate::OP,
    ops::UiConfirm::OP,
    ops::UiSelect::OP,
    ops::UiInput::OP,
    ops::UiOpen::OP,
    ops::GetTheme::OP,
];

/// The operations of `host.info`.
pub fn offered() -> Vec<&'static str> {
    ops::ALL.iter().filter(|op| !MISSING.contains(op)).copied().collect()
}

type Answer = BoxFuture<Result<String, AbiError>>;

impl ScopeOps for ScopeSession {
    fn post(&self, library: &Path, op: &str, json: &str) {
        let outcome = match op {
            ops::Print::OP => decode::<ops::Print>(op, json).map(|print| self.core.print(print.stream, &print.line)),
            ops::Log::OP => decode::<ops::Log>(op, json).map(|record| scopes::log(library, &record)),
            ops::SetDeltas::OP => decode::<ops::SetDeltas>(op, json).map(|deltas| self.set_deltas(library, deltas.on)),
            ops::ChildKill::OP => decode::<ops::ChildKill>(op, json).map(|kill| child::kill(self, &kill.child)),
            // In the order in which they were posted.
            ops::SendMessage::OP => decode::<ops::SendMessage>(op, json).map(|message| self.session.post(message)),
            // There is neither a screen nor a bus.
            ops::UiNotify::OP
            | ops::UiSetStatus::OP
            | ops::UiSetWidget::OP
            | ops::UiInvalidate::OP
            | ops::BusEmit::OP => Ok(()),
            _ => {
                let work = self.request(op, json.to_owned());
                let op = op.to_owned();
                self.core.runtime.spawn(async move {
                    if let Err(error) = work.await {
                        tracing::warn!(op, "a posted request failed: {error}");
                    }
                });
                Ok(())
            }
        };
        if let Err(error) = outcome {
            tracing::warn!(op, "a post was dropped: {error}");
        }
    }

    fn request(&self, op: &str, json: String) -> Answer {
        let entry = self.core.requests.enter(self.session.scope(), op);
        let (scope, gone) = (self.session.scope(), self.session.shared.gone.clone());
        let work = self.dispatch(op, json);
        Box::pin(async move {
            let answer = gone.run_until_cancelled(work).await;
            drop(entry);
            answer.unwrap_or_else(|| Err(AbiError::scope_gone(scope)))
        })
    }
}

impl ScopeSession {
    fn dispatch(&self, op: &str, json: String) -> Answer {
        let session = Arc::clone(&self.session);
        match op {
            ops::GetHostInfo::OP => now::<ops::GetHostInfo>(&json, |_| Ok(self.core.info())),
            ops::GetSessionInfo::OP => now::<ops::GetSessionInfo>(&json, |_| Ok(session.shared.info())),
            ops::GetEntries::OP => later(json, async move |query: ops::GetEntries| {
                Ok(ops::Entries { entries: session.entries(query).await? })
            }),
            ops::SendMessage::OP => later(json, async move |message: ops::SendMessage| session.send(message).await),
            ops::SendUserMessage::OP => later(json, async move |message: ops::SendUserMessage| {
                let prompted = session.prompt(message.content, "extension", message.deliver_as).await?;
                Ok(ops::Sent { disposition: prompted.disposition })
            }),
            ops::AppendEntry::OP => {
                later(json, async move |entry: ops::AppendEntry| session.append_entry(entry).await.map(|()| Done {}))
            }
            ops::SetActiveTools::OP => later(json, async move |choice: ops::SetActiveTools| {
                session.set_active_tools(choice.tools).await.map(|()| Done {})
            }),
            ops::AbortSession::OP => now::<ops::AbortSession>(&json, |_| {
                session.abort(false);
                Ok(Done {})
            }),
            ops::CompactSession::OP => {
                later(json, async move |_: ops::CompactSession| session.compact().await.map(|()| Done {}))
            }
            ops::ListModels::OP => now::<ops::ListModels>(&json, |_| Ok(models::list(&self.core.models))),
            ops::ResolveModel::OP => now::<ops::ResolveModel>(&json, |query| models::resolve(&self.core.models, query)),
            ops::ListExtensions::OP => now::<ops::ListExtensions>(&json, |_| Ok(self.extensions())),
            // Posts that are asked as requests.
            ops::Print::OP | ops::SetDeltas::OP | ops::Log::OP | ops::ChildKill::OP | ops::BusEmit::OP => {
                self.post(Path::new(""), op, &json);
                ready(Ok("{}".to_owned()))
            }
            ops::RpcCommand::OP => ready(Err(AbiError::new(
                host_abi::codes::UNKNOWN_OP,
                "RPC children are not available in this build of native-host",
            ))),
            ops::TerminalCommand::OP
            | ops::UiConfirm::OP
            | ops::UiSelect::OP
            | ops::UiInput::OP
            | ops::UiOpen::OP
            | ops::GetTheme::OP
            | ops::UiNotify::OP
            | ops::UiSetStatus::OP
            | ops::UiSetWidget::OP
            | ops::UiInvalidate::OP => ready(Err(AbiError::no_ui(op))),
            _ if op.starts_with("child.") => child::dispatch(self, op, json),
            _ => ready(Err(AbiError::unknown_op(op))),
        }
    }

    fn set_deltas(&self, library: &Path, on: bool) {
        let extensions = self.session.teller().into_iter().flat_map(|teller| &teller.extensions);
        for extension in extensions.filter(|extension| extension.library.path() == library) {
            extension.set_deltas(on);
        }
    }

    /// The session's extensions but the two libraries, which every session gets by itself.
    fn extensions(&self) -> ops::Extensions {
        let own: Vec<_> = [self.core.legion(), self.core.guard()].into_iter().flatten().flatten().collect();
        let all = self.session.teller().into_iter().flat_map(|teller| &teller.extensions);
        let others = all.filter(|extension| !own.iter().any(|library| library.path() == extension.library.path()));
        let entry = |library: &crate::extensions::Library| ops::ExtensionEntry {
            entry: library.entry.clone(),
            path: Some(library.path().to_string_lossy().into_owned()),
            package_name: None,
        };
        ops::Extensions { extensions: others.map(|extension| entry(&extension.library)).collect() }
    }
}

fn ready(answer: Result<String, AbiError>) -> Answer {
    Box::pin(std::future::ready(answer))
}

/// An operation that is answered on the spot.
fn now<R: Request>(json: &str, answer: impl FnOnce(R) -> Result<R::Answer, AbiError>) -> Answer {
    ready(decode(R::OP, json).and_then(answer).and_then(|answer| encode(R::OP, &answer)))
}

/// An operation that takes time.
fn later<R, F>(json: String, work: impl FnOnce(R) -> F + Send + 'static) -> Answer
where
    R: Request + 'static,
    F: Future<Output = Result<R::Answer, AbiError>> + Send,
{
    Box::pin(async move {
        let input = decode(R::OP, &json)?;
        let answer = work(input).await?;
        encode(R::OP, &answer)
    })
}
