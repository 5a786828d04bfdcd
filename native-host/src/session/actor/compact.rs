//! Compaction in a session's task: on demand when idle, and before a model request at the edge of the window.

use futures_util::future::BoxFuture;
use host_abi::AbiError;
use host_abi::ops::Idle;
use tokio_util::sync::CancellationToken;

use super::{Actor, Done, answer, compaction_in_progress};
use crate::provider::{ModelRequest, RequestSession};
use crate::session::command::Ack;
use crate::session::compaction::{self, Summary};

impl Actor {
    pub(super) fn compact(&mut self, ack: Ack<Result<(), AbiError>>) {
        if self.compacting.is_some() {
            return answer(Some(ack), Err(compaction_in_progress()));
        }
        self.compacting = Some(ack);
        if self.state.abort(false) {
            self.cancel.cancel();
        } else {
            self.summarize();
        }
    }

    /// A summary before the next model request, when the context has come to the edge of the model's window.
    pub(super) fn make_room(&mut self) -> Option<BoxFuture<'static, Done>> {
        let (tokens, window) = {
            let live = self.shared.live();
            (live.context_tokens?, live.model.context_window)
        };
        if !self.compaction.due(tokens, window) || self.cancel.is_cancelled() {
            return None;
        }
        let summary = self.summary();
        self.making_room = summary.is_some();
        summary
    }

    pub(super) fn summarize(&mut self) {
        self.cancel = CancellationToken::new();
        match self.summary() {
            Some(work) => self.set_work(work),
            None => self.summarized(Err("nothing to compact: the session is too small".to_owned())),
        }
    }

    /// Has the model write a summary; nothing when there is nothing to leave out.
    fn summary(&self) -> Option<BoxFuture<'static, Done>> {
        let live = self.shared.live().clone();
        let model = live.model.model_ref();
        let identity = &self.shared.identity;
        let plan = compaction::plan(&self.file.branch(), live.context_tokens, self.compaction.keep_tokens)?;
        let request = ModelRequest {
            model: model.clone(),
            thinking: live.thinking,
            system_prompt: compaction::SYSTEM_PROMPT.to_owned(),
            messages: Vec::new(),
            tools: Vec::new(),
            session: RequestSession {
                id: identity.session_id.clone(),
                role: identity.role.clone(),
                name: identity.name.clone(),
                cwd: identity.cwd.to_string_lossy().into_owned(),
            },
            cancel: self.cancel.clone(),
        };
        let provider = self.provider(&model);
        Some(Box::pin(async move { Done::Summarized(compaction::summarize(plan, provider, request).await) }))
    }

    pub(super) fn summarized(&mut self, summary: Result<Summary, String>) {
        let written = summary.and_then(|summary| {
            let usage = summary.usage.clone();
            self.file.append(summary.into_entry()).map_err(|error| error.to_string())?;
            self.shared.live().usage.add(&usage);
            self.shared.live().context_tokens = None;
            Ok(())
        });
        match &written {
            Ok(()) => self.teller.compacted(),
            Err(error) => tracing::warn!(name = self.shared.identity.name, "failed to compact the session: {error}"),
        }
        if std::mem::take(&mut self.making_room) {
            // Without room the provider has the last word.
            let work = self.ask_model();
            return self.set_work(work);
        }
        answer(self.compacting.take(), written.map_err(AbiError::host));
        for waiter in self.waiters.extract_if(.., |waiter| waiter.run.is_none()).collect::<Vec<_>>() {
            let run = self.state.run();
            answer(Some(waiter.ack), Ok(Idle { aborted: self.state.ended(run).unwrap_or(false) }));
        }
    }
}
