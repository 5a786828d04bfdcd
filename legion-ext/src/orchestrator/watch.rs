//! The watch of a child: follows its turns, judges each from the transcript, records it and recycles the child
//! (ORC-82, ORC-83, ORC-105 … ORC-115, ORC-178, ORC-182).
//!
//! ```text
//! working ─ settled ─▶ recording ─┬─ interim (work of its own is under way) ─▶ working
//!    ▲                            ├─ empty report, asked once ─▶ working
//!    │                            └─ recorded ─▶ recycled, or kept
//!    └──────────── a turn of its own ──────────────────────┘
//! ```
//!
//! A crash before the settlement is written leaves the row live and the transcript whole: a later session judges it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::future::FutureExt as _;
use host_abi::ops::LogLevel;

use super::{
    Orchestrator, acceptance,
    kid::{Kid, Life, Round, Turn},
    report::{ArtifactRef, Usage},
    run::Run,
};
use crate::{
    cards::Output,
    clock,
    core::{
        outcome::{ExecutionStatus, Outcome, derive_outcome},
        usage::TokenUsage,
    },
    ledger::{
        artifacts::{NewArtifact, register},
        nodes,
        settle::{self, Settlement, record_settled},
        usage::UsageRow,
    },
    runs::{
        AcceptanceRecord, ChildState, ExecutionRecord, Verdict,
        artifacts::{copy_output, write_artifact},
    },
    session::TranscriptTail,
    supervisor::{RetireOptions, SettleResult},
};

/// How often a child after an interim turn is looked at again; its own activity wakes the watch at once.
const INTERIM_LOOK: Duration = Duration::from_secs(2);
/// How long the host's own retry of a lost connection is waited for, and how often it is looked at (ORC-85).
const TRANSIENT_WAIT: Duration = Duration::from_secs(30);
const TRANSIENT_LOOK: Duration = Duration::from_millis(250);

/// What an empty report is answered with, once per round (ORC-109).
pub(super) const ASK_FOR_REPORT: &str =
    "Your last message had no text. Report now what you did, what you found and what is left.";

/// Signs of a lost connection that the host tries again (ORC-85).
const TRANSIENT: [&str; 12] = [
    "connection reset",
    "econnreset",
    "timeout",
    "timed out",
    "connection refused",
    "econnrefused",
    "socket hang up",
    "fetch failed",
    "429",
    "502",
    "503",
    "529",
];

/// A turn that is over, as the transcript tells.
struct Judged {
    outcome: Outcome,
    usage: Option<TokenUsage>,
}

impl Orchestrator {
    /// Follows a live child to its end. A panic on the way ends the child, so that nobody waits for it in vain.
    pub(super) async fn watch(self: Arc<Self>, run: Arc<Run>, kid: Arc<Kid>, tail: TranscriptTail) {
        let following = AssertUnwindSafe(self.follow(&run, &kid, tail)).catch_unwind().await;
        if following.is_err() {
            self.host
                .log(LogLevel::Error, &format!("legion: the watch of '{}' panicked; the child is retired", kid.name));
            kid.modify(|stage| {
                stage.turn = Turn::Working;
                true
            });
            let ended = self.end(&kid, RetireOptions { graceful: true }).await;
            drop(ended);
        }
    }

    async fn follow(self: &Arc<Self>, run: &Run, kid: &Arc<Kid>, mut tail: TranscriptTail) {
        let mut before = tail.facts().usage;
        let mut asked = false;
        loop {
            let settled = match self.supervisor.wait_settled(&kid.name, None, None).await {
                Ok(settled) => settled,
                Err(_) => SettleResult::abnormal("child session ended"),
            };
            if !begin_recording(kid) {
                return;
            }
            let judged = self.judge(kid, &mut tail, &settled).await;
            if self.goes_on(kid) {
                continue;
            }
            if !settled.abnormal && self.is_interim(run, kid, &judged.outcome).await {
                match self.await_own_work(run, kid).await {
                    Interim::NextTurn => continue,
                    Interim::NothingLeft => {}
                    Interim::TakenDown => return,
                }
                // Its last words may have come meanwhile.
                let _ = tail.poll();
                if !begin_recording(kid) {
                    return;
                }
            }
            if !asked && self.asks_for_report(kid, &judged.outcome).await {
                asked = true;
                continue;
            }
            let judged = self.judge(kid, &mut tail, &settled).await;
            let usage = judged.usage.unwrap_or(before);
            self.record(run, kid, judged, before, asked).await;
            (before, asked) = (usage, false);
            if self.recycles(run, kid) {
                self.recycle(run, kid).await;
                self.tell_settled(&kid.name);
                return;
            }
            kid.keep();
            self.tell_settled(&kid.name);
            let ended = kid.until(|stage| matches!(stage.life, Life::Ending | Life::Dead));
            tokio::select! {
                () = ended => return,
                next = self.supervisor.next_turn(&kid.name) => if next.is_err() { return },
            }
            if !self.begin_turn(run, kid).await {
                return;
            }
        }
    }

    /// The outcome of the last turn; a transient failure that the host is still retrying is waited for (ORC-85).
    async fn judge(&self, kid: &Kid, tail: &mut TranscriptTail, settled: &SettleResult) -> Judged {
        let deadline = tokio::time::sleep(TRANSIENT_WAIT);
        tokio::pin!(deadline);
        loop {
            let judged = read(tail, settled);
            let transient = judged.outcome.status == ExecutionStatus::Failed
                && judged.outcome.reason.as_deref().is_some_and(is_transient);
            // A child that its host calls idle has no retry to come.
            let retries = transient && self.supervisor.stats(&kid.name).await.is_some_and(|stats| !stats.idle);
            if !retries {
                return judged;
            }
            tokio::select! {
                () = &mut deadline => return judged,
                () = tokio::time::sleep(TRANSIENT_LOOK) => {}
            }
        }
    }

    /// Whether a text, or a notice of the child's own, began the next turn before this one was read: then the two are
    /// one, since the transcript's last turn is not the one that ended.
    fn goes_on(&self, kid: &Kid) -> bool {
        let goes_on = self.supervisor.state(&kid.name) == Some("running");
        if goes_on {
            kid.modify(|stage| {
                stage.turn = Turn::Working;
                true
            });
        }
        goes_on
    }

    /// Whether the turn is interim: the child has work of its own under way (ORC-178).
    async fn is_interim(&self, run: &Run, kid: &Kid, outcome: &Outcome) -> bool {
        outcome.status != ExecutionStatus::Aborted && self.has_own_work(run, kid).await
    }

    /// First the ledger, then the session: a notice is marked sent only after the host took it, so one of the two looks
    /// sees it.
    async fn has_own_work(&self, run: &Run, kid: &Kid) -> bool {
        // A utility child is a leaf (ORC-76).
        if kid.agent.utility {
            return false;
        }
        let live = run.db.read(|conn| nodes::count_live_children(conn, &kid.node_id)).unwrap_or_default();
        let owed = run.db.undelivered(&kid.node_id).is_ok_and(|owed| !owed.is_empty());
        let launching = self.shared.session(&kid.session_file).is_some_and(|session| session.has_active());
        if live > 0 || owed || launching {
            return true;
        }
        self.supervisor.stats(&kid.name).await.is_some_and(|stats| !stats.idle)
    }

    async fn await_own_work(&self, run: &Run, kid: &Kid) -> Interim {
        if !kid.modify(|stage| {
            let live = stage.life == Life::Live;
            if live {
                stage.turn = Turn::Interim;
            }
            live
        }) {
            return Interim::TakenDown;
        }
        run.store.update_child(&kid.name, |record| record.state = ChildState::Awaiting);
        loop {
            let ended = kid.until(|stage| matches!(stage.life, Life::Ending | Life::Dead));
            tokio::select! {
                () = ended => return Interim::TakenDown,
                next = self.supervisor.next_turn(&kid.name) => {
                    if next.is_err() || !self.begin_turn(run, kid).await {
                        return Interim::TakenDown;
                    }
                    return Interim::NextTurn;
                }
                () = tokio::time::sleep(INTERIM_LOOK) => {
                    // Work that ended without a word to the child, such as children that someone else took down.
                    if !self.has_own_work(run, kid).await {
                        return Interim::NothingLeft;
                    }
                }
            }
        }
    }

    /// A turn of a live child begins; a row that had ended runs again (S13).
    async fn begin_turn(&self, run: &Run, kid: &Kid) -> bool {
        let mut was_recorded = false;
        let live = kid.modify(|stage| {
            let live = stage.life == Life::Live;
            if live {
                was_recorded = stage.turn == Turn::Recorded;
                stage.turn = Turn::Working;
                stage.kept = false;
            }
            live
        });
        if !live {
            return false;
        }
        if was_recorded {
            kid.begin_round(clock::now_ms());
            let node_id = kid.node_id.clone();
            let woken = run.db.write_async(move |tx| settle::mark_woken(tx, &node_id, clock::now_ms())).await;
            if let Err(error) = woken {
                tracing::warn!(child = %kid.name, %error, "a woken child is not running in the ledger");
            }
        }
        run.store.update_child(&kid.name, |record| record.state = ChildState::Working);
        true
    }

    /// The first check of CARD-49; `true` when the child was asked and goes on.
    async fn asks_for_report(&self, kid: &Kid, outcome: &Outcome) -> bool {
        let empty = outcome.status == ExecutionStatus::Success && outcome.output.trim().is_empty();
        if !empty || !kid.agent.completion_guard || !self.supervisor.is_alive(&kid.name) {
            return false;
        }
        if self.supervisor.follow_up(&kid.name, ASK_FOR_REPORT).await.is_err() {
            return false;
        }
        kid.modify(|stage| {
            stage.turn = Turn::Working;
            true
        })
    }

    /// Writes the turn down: result file, then row, status, event and usage in one transaction, then the record.
    async fn record(&self, run: &Run, kid: &Arc<Kid>, judged: Judged, before: TokenUsage, asked: bool) {
        let Judged { outcome, usage } = judged;
        let former = run.store.child(&kid.name).map_or(0, |record| record.round);
        let text = &outcome.output;
        let mut warnings = Vec::new();
        if asked && outcome.status == ExecutionStatus::Success && text.trim().is_empty() {
            warnings.push("reported nothing".to_owned());
        }
        let file = write_artifact(&run.dir, &kid.name, former + 1, text);
        let (round, artifact, unsaved) = match file {
            Ok(file) => (file.round, Some(file), None),
            Err(error) => (former, None, Some((text.clone(), error.to_string()))),
        };
        if let Some(Output::File(output)) = &kid.agent.output
            && let Err(error) = copy_output(&run.dir, output, text)
        {
            warnings.push(error.to_string());
        }
        let settlement = OwnedSettlement {
            node_id: kid.node_id.clone(),
            parent_id: self.node_id(),
            name: kid.name.clone(),
            execution: outcome.status,
            reason: outcome.reason.clone(),
            round,
            usage: usage.map(|total| UsageRow {
                tokens_in: total.tokens_in(),
                tokens_out: total.output,
                cost_usd: total.cost_usd,
            }),
            artifact: artifact.as_ref().map(|file| (file.path.display().to_string(), file.bytes)),
        };
        let written = run.db.write_async(move |tx| settlement.write(tx, clock::now_ms())).await;
        let id = match written {
            Ok(id) => id,
            Err(error) => {
                // The transcript holds the turn; a later session records it.
                warnings.push(format!("not recorded in the ledger: {error}"));
                None
            }
        };
        let verdict = acceptance::verdict(text);
        let accepted = acceptance::judge(&kid.acceptance, verdict);
        let now = clock::now_ms();
        let record = run.store.update_child(&kid.name, |record| {
            record.state = ChildState::Awaiting;
            record.round = round;
            record.settled_at = Some(clock::iso(now));
            record.verdict = verdict.map(|ok| Verdict { ok });
            record.execution = Some(ExecutionRecord {
                status: outcome.status.as_str().to_owned(),
                reason: outcome.reason.clone(),
                stop_reason: outcome.stop_reason.clone(),
            });
            record.acceptance = accepted.as_ref().map(|result| AcceptanceRecord {
                level: result.level.to_owned(),
                status: result.status.to_owned(),
                pending: result.pending.clone(),
                verification: None,
            });
        });
        kid.settled(Arc::new(Round {
            status: outcome.status,
            reason: outcome.reason,
            round,
            duration_ms: u64::try_from(now - kid.round_began()).ok(),
            usage: usage.map(|total| since(total, before)).unwrap_or_default(),
            model: record.and_then(|record| record.model.clone()),
            artifact: artifact.map(|file| ArtifactRef { id, path: file.path, bytes: file.bytes }),
            unsaved,
            acceptance: accepted,
            verdict,
            warnings,
        }));
    }

    /// Whether a recorded child goes (ORC-114): not while it has children of its own.
    fn recycles(&self, run: &Run, kid: &Kid) -> bool {
        let live = run.db.read(|conn| nodes::count_live_children(conn, &kid.node_id));
        live.is_ok_and(|live| live == 0)
    }
}

enum Interim {
    /// Something woke the child.
    NextTurn,
    /// There is nothing under way any more, and the child said nothing about it.
    NothingLeft,
    TakenDown,
}

/// A settlement that can cross into a blocking thread.
struct OwnedSettlement {
    node_id: String,
    parent_id: String,
    name: String,
    execution: ExecutionStatus,
    reason: Option<String>,
    round: u32,
    usage: Option<UsageRow>,
    artifact: Option<(String, u64)>,
}

impl OwnedSettlement {
    /// Answers the id of the result's row.
    fn write(&self, tx: &crate::ledger::Tx<'_>, now: i64) -> crate::ledger::LResult<Option<i64>> {
        let id = match &self.artifact {
            Some((path, bytes)) => {
                let artifact = NewArtifact {
                    node_id: &self.node_id,
                    parent_id: &self.parent_id,
                    name: &self.name,
                    round: self.round,
                    path,
                    bytes: *bytes,
                };
                Some(register(tx, &artifact, now)?)
            }
            None => None,
        };
        let settlement = Settlement {
            node_id: &self.node_id,
            execution: self.execution,
            reason: self.reason.as_deref(),
            round: self.round,
            usage: self.usage,
        };
        record_settled(tx, &settlement, now)?;
        Ok(id)
    }
}

/// The end of a turn is being recorded from now on; `false` when a take-down came first.
fn begin_recording(kid: &Kid) -> bool {
    kid.modify(|stage| {
        let live = stage.life == Life::Live;
        if live {
            stage.turn = Turn::Recording;
        }
        live
    })
}

/// Reads what the transcript gained and derives the outcome. An unreadable one is `unknown`, with the reason.
fn read(tail: &mut TranscriptTail, settled: &SettleResult) -> Judged {
    let read = tail.poll();
    let facts = tail.facts();
    let outcome = match &read {
        Ok(_) => derive_outcome(&facts.parsed),
        Err(error) => Outcome {
            status: ExecutionStatus::Unknown,
            reason: Some(format!("failed to read {}: {error}", tail.path().display())),
            stop_reason: None,
            output: String::new(),
            last_entry_id: None,
        },
    };
    let outcome = match settled.reason.as_deref().filter(|_| settled.abnormal) {
        Some(reason) => outcome.with_settle_reason(reason),
        None => outcome,
    };
    Judged { outcome, usage: read.is_ok().then_some(facts.usage) }
}

fn is_transient(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    TRANSIENT.iter().any(|sign| reason.contains(sign))
}

fn since(total: TokenUsage, before: TokenUsage) -> Usage {
    Usage {
        input: total.input.saturating_sub(before.input),
        output: total.output.saturating_sub(before.output),
        cache_read: total.cache_read.saturating_sub(before.cache_read),
        cache_write: total.cache_write.saturating_sub(before.cache_write),
        cost_usd: (total.cost_usd - before.cost_usd).max(0.0),
    }
}
