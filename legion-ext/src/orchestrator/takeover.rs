//! Taking over the run of a process that is gone: what had finished is recorded, the rest has ended (ORC-172).

use std::path::PathBuf;

use super::{
    Orchestrator, acceptance,
    project::execution_status,
    report::{AcceptanceResult, ArtifactRef, Item, Settled, Usage},
    run::Run,
    wait::read_text,
};
use crate::{
    clock,
    core::outcome::{ExecutionStatus, MISSING_REPLY, Outcome, derive_outcome},
    error::Result,
    ledger::{
        artifacts::{self, ArtifactRow, NewArtifact, register},
        nodes::{self, NodeRow},
        orphans,
        settle::{Settlement, record_settled},
        usage::UsageRow,
    },
    runs::{AcceptanceRecord, ChildRecord, ChildState, ExecutionRecord, Verdict, artifacts::write_artifact},
    session::read_session,
    supervisor::SpawnMode,
};

impl Orchestrator {
    /// Loads the records of a run that was opened again, and judges those that nobody runs any more.
    pub(super) async fn restore(&self, run: &Run) -> Result<()> {
        let own = self.node_id();
        let rows = run.db.read(|conn| nodes::children(conn, &own))?;
        let record = run.store.record();
        {
            let mut book = self.book();
            book.names.extend(rows.iter().map(|row| row.name.clone()));
            book.names.extend(record.children.iter().map(|child| child.name.clone()));
        }
        if !run.taken_over {
            return Ok(());
        }
        // The record is written a little behind the ledger, and a crash may have come between (ORC-148).
        for row in rows.iter().filter(|row| run.store.child(&row.name).is_none()) {
            run.store.put_child(record_of(row, run));
        }
        for child in &run.store.record().children {
            match child.state {
                ChildState::Launching | ChildState::Working | ChildState::Blocked | ChildState::Awaiting => {
                    self.judge_left_over(run, child).await?;
                }
                // A lost queue stays as it is (05 §13).
                ChildState::Queued | ChildState::Retired | ChildState::Exited => {}
            }
        }
        Ok(())
    }

    /// A child of a dead process: a last turn that has ended and is not recorded is recorded now; anything else ends as
    /// it is, so that its row fills no slot.
    async fn judge_left_over(&self, run: &Run, child: &ChildRecord) -> Result<()> {
        let Some(node_id) = child.node_id.clone() else { return Ok(()) };
        let facts = read_session(&child.session_file).ok();
        let outcome = facts.as_ref().map(|facts| derive_outcome(&facts.parsed));
        let ended = outcome.clone().filter(|outcome| {
            let cut = outcome.reason.as_deref() == Some(MISSING_REPLY);
            matches!(outcome.status, ExecutionStatus::Success | ExecutionStatus::Failed | ExecutionStatus::Truncated)
                && !cut
                && outcome.stop_reason.as_deref() != Some("toolUse")
        });
        let now = clock::now_ms();
        let (row, latest) =
            run.db.read(|conn| Ok((nodes::get(conn, &node_id)?, artifacts::latest(conn, &node_id)?)))?;
        let recorded = row.as_ref().is_some_and(|row| row.status.is_terminal());
        let news = latest.filter(|latest| recorded && latest.round > child.round);
        if let (Some(outcome), Some(latest)) = (&outcome, news) {
            // The ledger has the end of this turn, and the record has it not yet.
            record_end(run, child, outcome, latest.round, latest.created_at);
            return Ok(());
        }
        let below = run.db.read(|conn| nodes::get_subtree(conn, &node_id, nodes::DEFAULT_SUBTREE_MAX_DEPTH))?;
        let live = below.iter().map(|row| &row.node).filter(|node| node.id != node_id && node.status.is_live());
        let below: Vec<String> = live.map(|node| node.id.clone()).collect();
        // A turn that ended with work of its own under way was no end (ORC-178).
        let interim = !below.is_empty() || !run.db.undelivered(&node_id)?.is_empty();
        let Some(outcome) = ended.filter(|_| !recorded && !interim) else {
            // Whoever it had sent died with it.
            let gone = below.into_iter().chain([node_id]);
            run.db
                .write_async(move |tx| {
                    gone.into_iter().try_for_each(|node| orphans::converge_orphan(tx, &node, now, 0).map(drop))
                })
                .await?;
            run.store.update_child(&child.name, |record| record.state = ChildState::Exited);
            return Ok(());
        };
        let file = write_artifact(&run.dir, &child.name, child.round + 1, &outcome.output);
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                self.host.warn(format!("legion: the result of '{}' is not saved: {error}", child.name));
                return Ok(());
            }
        };
        let usage = facts.map(|facts| UsageRow {
            tokens_in: facts.usage.tokens_in(),
            tokens_out: facts.usage.output,
            cost_usd: facts.usage.cost_usd,
        });
        let (parent_id, name) = (self.node_id(), child.name.clone());
        let (path, round, bytes) = (file.path.display().to_string(), file.round, file.bytes);
        let (execution, reason) = (outcome.status, outcome.reason.clone());
        let write = run.db.write_async(move |tx| {
            let artifact =
                NewArtifact { node_id: &node_id, parent_id: &parent_id, name: &name, round, path: &path, bytes };
            register(tx, &artifact, now)?;
            let settlement = Settlement { node_id: &node_id, execution, reason: reason.as_deref(), round, usage };
            record_settled(tx, &settlement, now).map(drop)
        });
        write.await?;
        record_end(run, child, &outcome, round, now);
        Ok(())
    }

    /// What a waiting call says of a name that no child of this process has: its record, or that there is none.
    pub(super) fn recorded_item(&self, name: &str) -> Item {
        let record = self.run.get().and_then(|run| run.store.child(name));
        match record {
            Some(record) => Item::Settled(Box::new(self.settled_of_record(&record))),
            None => Item::Refused { label: name.to_owned(), error: self.unknown_child(name) },
        }
    }

    /// The last round of a child that an earlier process ran.
    fn settled_of_record(&self, record: &ChildRecord) -> Settled {
        let node_id = record.node_id.clone().unwrap_or_default();
        let artifact = self.ledger().and_then(|db| {
            db.read(|conn| artifacts::of_round(conn, &node_id, record.round))
                .ok()
                .flatten()
                .filter(|_| record.round > 0)
        });
        let mut warnings = Vec::new();
        let text = artifact.as_ref().map(|row| read_text(row.path.as_ref(), &mut warnings)).unwrap_or_default();
        let execution = record.execution.as_ref();
        let status = execution.and_then(|execution| execution_status(&execution.status));
        let ended = "ended without a recorded turn";
        Settled {
            name: record.name.clone(),
            agent: record.agent.clone(),
            node_id,
            status: status.unwrap_or(ExecutionStatus::Aborted),
            reason: match execution {
                Some(execution) => execution.reason.clone(),
                None => Some(ended.to_owned()),
            },
            round: record.round,
            duration_ms: None,
            usage: Usage::default(),
            model: record.model.clone(),
            text,
            artifact: artifact.map(artifact_ref),
            unsaved: None,
            acceptance: record.acceptance.as_ref().map(accepted),
            verdict: record.verdict.map(|verdict| verdict.ok),
            warnings,
            first_delivery: false,
        }
    }

    /// A registered round of a child that this process does not know.
    pub(super) fn settled_of_artifact(&self, artifact: &ArtifactRow) -> Settled {
        let record = self.run.get().and_then(|run| run.store.child(&artifact.name));
        let record = record.filter(|record| record.round == artifact.round);
        if let Some(record) = record {
            return self.settled_of_record(&record);
        }
        let mut warnings = Vec::new();
        Settled {
            name: artifact.name.clone(),
            agent: String::new(),
            node_id: artifact.node_id.clone(),
            status: ExecutionStatus::Unknown,
            reason: Some("an earlier round".to_owned()),
            round: artifact.round,
            duration_ms: None,
            usage: Usage::default(),
            model: None,
            text: read_text(artifact.path.as_ref(), &mut warnings),
            artifact: Some(artifact_ref(artifact.clone())),
            unsaved: None,
            acceptance: None,
            verdict: None,
            warnings,
            first_delivery: false,
        }
    }
}

/// What the ledger knows of a child that no record tells of.
fn record_of(row: &NodeRow, run: &Run) -> ChildRecord {
    let task = row.task_summary.clone().unwrap_or_default();
    let file = row.session_file.clone().unwrap_or_else(|| run.dir.session_file(&row.name));
    let (mode, spawned) = (SpawnMode::InProcess.as_str(), clock::iso(row.created_at));
    let mut record = ChildRecord::new(&row.name, &row.role, task, ChildState::Working, mode, file, spawned);
    record.node_id = Some(row.id.clone());
    record.model.clone_from(&row.model);
    record
}

/// Writes the end of a child's last turn into its record. `at` is in milliseconds since the epoch.
fn record_end(run: &Run, child: &ChildRecord, outcome: &Outcome, round: u32, at: i64) {
    let verdict = acceptance::verdict(&outcome.output);
    let spec = child.acceptance_spec.clone().and_then(|spec| serde_json::from_value(spec).ok()).unwrap_or_default();
    let accepted = acceptance::judge(&spec, verdict);
    run.store.update_child(&child.name, |record| {
        record.state = ChildState::Exited;
        record.round = round;
        record.settled_at = Some(clock::iso(at));
        record.verdict = verdict.map(|ok| Verdict { ok });
        record.execution = Some(ExecutionRecord {
            status: outcome.status.as_str().to_owned(),
            reason: outcome.reason.clone(),
            stop_reason: outcome.stop_reason.clone(),
        });
        record.acceptance = accepted.map(|result| AcceptanceRecord {
            level: result.level.to_owned(),
            status: result.status.to_owned(),
            pending: result.pending,
            verification: None,
        });
    });
}

fn artifact_ref(row: ArtifactRow) -> ArtifactRef {
    ArtifactRef { id: Some(row.id), path: PathBuf::from(row.path), bytes: row.bytes }
}

fn accepted(record: &AcceptanceRecord) -> AcceptanceResult {
    let known = |word: &str, words: &[&'static str]| words.iter().find(|known| **known == word).copied();
    AcceptanceResult {
        level: known(&record.level, &["attested", "verified"]).unwrap_or("none"),
        status: known(&record.status, &["accepted", "rejected"]).unwrap_or("pending"),
        pending: record.pending.clone(),
    }
}
