//! One child's start after its reservation: transcript, record, candidates, and the way back (ORC-38 … ORC-54).
//!
//! What a crash means: with the row `starting` nothing is known to run, and the orphan scan fails it; once the row is
//! `running` the transcript is there and a later session judges it.

use std::{sync::Arc, time::Duration};

use host_abi::ops::ExtensionEntry;

use super::{
    Orchestrator,
    kid::{Kid, Life},
    launch::{Former, SpawnCount, in_process_limits},
    plan::Plan,
    report::Started,
    run::Run,
    spec::{SpecInput, child_spec},
};
use crate::{
    cards::DefinitionRoots,
    clock,
    context::{ProcessEnv, spawn_scoped},
    core::{
        model::{HOST_DEFAULT_MODEL, SpawnModel, Thinking, ThinkingLevel, split_thinking_suffix},
        node_status::NodeStatus,
        outcome::ExecutionStatus,
    },
    error::{Code, Result, SubagentError},
    ledger::{
        launch::{LaunchFailure, Reserved, Started as StartedRow, mark_running, roll_back},
        nodes, settle,
    },
    runs::{ChildRecord, ChildState, ExecutionRecord},
    session::TranscriptTail,
    settings::Settings,
    supervisor::{CHILD_RETIRED, Reservation, RetireOptions, STOPPED_BEFORE_START, SpawnHandle, SpawnInput, SpawnMode},
};

/// A child to start: named, with its slot and its row.
pub(super) struct Job {
    pub run: Arc<Run>,
    pub settings: Arc<Settings>,
    pub inherited: Arc<Vec<ExtensionEntry>>,
    pub roots: Arc<DefinitionRoots>,
    pub kid: Arc<Kid>,
    pub former: Former,
    pub plan: Plan,
    pub reserved: Reserved,
    /// For the first candidate; later ones take a slot of their own.
    pub reservation: Option<Reservation>,
    pub count: SpawnCount,
}

/// A start that succeeded.
struct Spawned {
    handle: SpawnHandle,
    candidate: usize,
    warnings: Vec<String>,
}

impl Orchestrator {
    /// Starts the child of `job`, and its watch; answers when it was accepted.
    pub(super) async fn start(self: Arc<Self>, mut job: Job) -> Result<Started> {
        let kid = Arc::clone(&job.kid);
        // Before the spawn, so that no crash can lose the transcript (ORC-38).
        if let Err(error) = job.run.dir.create_session_file(&kid.name) {
            let error = SubagentError::internal(format!("failed to create {}: {error}", kid.session_file.display()));
            self.undo(job, &error).await;
            return Err(error);
        }
        // What the transcript of a revived name holds already belongs to earlier rounds.
        let mut tail = TranscriptTail::new(&kid.session_file);
        if job.former.record.is_some() {
            // An unreadable transcript is judged at the end of the turn.
            let _ = tail.poll();
        }
        let spawned = match self.try_candidates(&mut job).await {
            Ok(spawned) => spawned,
            Err(error) => {
                self.undo(job, &error).await;
                return Err(error);
            }
        };
        if let Err(error) = self.mark_started(&job, &spawned).await {
            // The child runs and the ledger does not say so: it goes, so that both say the same.
            let gone = self.supervisor.retire_child(&kid.name, RetireOptions { graceful: true }).await;
            drop(gone);
            self.undo(job, &error).await;
            return Err(error);
        }
        let alive = kid.modify(|stage| {
            let alive = stage.life == Life::Launching;
            if alive {
                stage.life = Life::Live;
            }
            alive
        });
        if !alive {
            // Stopped in the very moment of its acceptance (ORC-179).
            let gone = self.supervisor.retire_child(&kid.name, RetireOptions { graceful: true }).await;
            drop(gone);
            let error = SubagentError::new(Code::StartFailed, STOPPED_BEFORE_START);
            self.undo(job, &error).await;
            return Err(error);
        }
        let started = started(&job, spawned);
        job.count.keep();
        spawn_scoped(Arc::clone(&self).watch(job.run, kid, tail));
        Ok(started)
    }

    /// The record of a child that is about to start; those of one call are made in its order.
    pub(super) fn put_record(&self, job: &Job) {
        let (kid, run) = (&job.kid, &job.run);
        let now = clock::iso(kid.launched_at);
        let mode = SpawnMode::InProcess.as_str();
        let (agent, task) = (&kid.agent.name, &job.plan.task);
        let mut record = ChildRecord::new(&kid.name, agent, task, ChildState::Launching, mode, &kid.session_file, now);
        if let Some(former) = &job.former.record {
            record.round = former.round;
            record.renewals = former.renewals;
            record.unknown = former.unknown.clone();
        }
        record.node_id = Some(kid.node_id.clone());
        record.acceptance_role = kid.acceptance.role.map(|role| role.as_str().to_owned());
        record.acceptance_spec = serde_json::to_value(&kid.acceptance).ok();
        record.warnings = job.plan.warnings.clone();
        run.store.put_child(record);
    }

    /// Tries the candidates in order; the next one only after `START_FAILED` (FALL-2, FALL-3).
    async fn try_candidates(&self, job: &mut Job) -> Result<Spawned> {
        let candidates = job.plan.candidates.clone();
        let mut failures: Vec<(String, String)> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            if job.kid.is_ending() {
                break;
            }
            let (input, mut warnings) = self.spawn_input(job, candidate, at);
            match self.supervisor.spawn_child(input).await {
                Ok(handle) => {
                    if let Some((first, reason)) = failures.first() {
                        let model = label(candidate);
                        warnings.push(format!("started on fallback model '{model}' ('{first}' failed: {reason})"));
                    }
                    return Ok(Spawned { handle, candidate: at, warnings });
                }
                // Whatever the attempt ended with, it is the stop that ends the launch (ORC-179).
                Err(_) if job.kid.is_ending() => break,
                Err(error) if error.code == Code::StartFailed => {
                    if candidates.len() == 1 {
                        return Err(error);
                    }
                    failures.push((label(candidate), error.message));
                }
                Err(error) => return Err(error),
            }
        }
        if job.kid.is_ending() {
            return Err(SubagentError::new(Code::StartFailed, STOPPED_BEFORE_START));
        }
        let each: Vec<String> = failures.iter().map(|(model, reason)| format!("'{model}' failed: {reason}")).collect();
        Err(SubagentError::new(Code::StartFailed, format!("no model could be started: {}", each.join("; "))))
    }

    fn spawn_input(&self, job: &mut Job, candidate: &SpawnModel, at: usize) -> (SpawnInput, Vec<String>) {
        let kid = &job.kid;
        let context = self.context();
        let spec = SpecInput {
            context: &context,
            run: &job.run,
            roots: &job.roots,
            inherited: &job.inherited,
            serial: self.shared.serial(),
            name: &kid.name,
            node_id: &kid.node_id,
            session_file: &kid.session_file,
            agent: &kid.agent,
            acceptance: &kid.acceptance,
        };
        let (child, warnings) = child_spec(&spec, &ProcessEnv);
        // Only an unchanged model keeps the pin of the former record, and only the first candidate (PIN-5, PIN-6).
        let former = job.former.record.as_ref().filter(|record| at == 0 && record.model == candidate.model);
        let input = SpawnInput {
            name: kid.name.clone(),
            mode: SpawnMode::InProcess,
            task: job.plan.task.clone(),
            child,
            model: candidate.model.as_deref().map(|model| split_thinking_suffix(model).0.to_owned()),
            provider: former.and_then(|record| record.model_provider.clone()),
            thinking: thinking(candidate).map(|level| level.as_str().to_owned()),
            limits: in_process_limits(&job.settings),
            reservation: job.reservation.take(),
            start_timeout: Duration::from_millis(job.settings.inprocess.spawn_start_timeout_ms),
        };
        (input, warnings)
    }

    /// S2 in the ledger, then the record (ORC-41).
    async fn mark_started(&self, job: &Job, spawned: &Spawned) -> Result<()> {
        let kid = &job.kid;
        let candidate = &job.plan.candidates[spawned.candidate];
        let model = candidate.model.clone().or_else(|| spawned.handle.model.clone());
        let row_model = model.as_deref().map(|model| split_thinking_suffix(model).0.to_owned());
        let (node_id, session_file) = (kid.node_id.clone(), kid.session_file.clone());
        let marked = job.run.db.write_async(move |tx| {
            let started = StartedRow {
                resumed: None,
                session_file: &session_file,
                worktree_path: None,
                model: row_model.as_deref(),
                team: None,
                supervisor: SpawnMode::InProcess.as_str(),
            };
            mark_running(tx, &node_id, &started, clock::now_ms())
        });
        marked.await?;
        let recorded = match job.plan.step.recorded_thinking {
            Some(Thinking::Level(level)) => Some(level.as_str()),
            Some(Thinking::Disabled) => Some("false"),
            None => None,
        };
        job.run.store.update_child(&kid.name, |record| {
            record.state = ChildState::Working;
            record.model = model;
            record.model_provider = spawned.handle.provider.clone().filter(|_| spawned.candidate == 0);
            record.thinking = recorded.map(str::to_owned);
            record.warnings.extend(spawned.warnings.iter().chain(&spawned.handle.warnings).cloned());
        });
        job.run.store.update(|record| record.budget.spawned += 1);
        Ok(())
    }

    /// The way back of a start that failed (ORC-43, ORC-44, ORC-179).
    async fn undo(&self, job: Job, error: &SubagentError) {
        let Job { run, kid, former, reserved, .. } = job;
        let stopped = kid.is_ending();
        let refused = error.code != Code::StartFailed;
        let (reason, round) = (error.message.clone(), former.record.as_ref().map_or(0, |record| record.round));
        let rolled_back = run.db.write_async(move |tx| {
            let now = clock::now_ms();
            let started = nodes::require(tx, &reserved.node_id)?.status != NodeStatus::Starting;
            if started || (stopped && reserved.former.is_none()) {
                return settle::retire(tx, &reserved.node_id, CHILD_RETIRED, round, now).map(drop);
            }
            let failure = if refused { LaunchFailure::Refused } else { LaunchFailure::StartFailed(&reason) };
            roll_back(tx, &reserved, failure, now)
        });
        if let Err(fault) = rolled_back.await {
            self.host.warn(format!("legion: the failed launch of '{}' stays in the ledger: {fault}", kid.name));
        }
        match &former.record {
            Some(record) => run.store.put_child(ChildRecord::clone(record)),
            None if refused => drop(run.store.remove_child(&kid.name)),
            None => drop(run.store.update_child(&kid.name, |record| {
                record.state = if stopped { ChildState::Retired } else { ChildState::Exited };
                record.retired_at = stopped.then(|| clock::iso(clock::now_ms()));
                record.execution = Some(ExecutionRecord {
                    status: ExecutionStatus::Failed.as_str().to_owned(),
                    reason: Some(error.message.clone()),
                    stop_reason: None,
                });
            })),
        }
        // A transcript without a message is of no use to anybody.
        if former.record.is_none() && is_without_messages(&kid.session_file) {
            let _ = std::fs::remove_file(&kid.session_file);
        }
        if refused {
            self.forget_name(&kid, &former);
        } else {
            self.shared.remove_kid(&kid);
            kid.modify(|stage| {
                stage.life = Life::Dead;
                stage.start_error = Some(error.clone());
                true
            });
            // Its name is free again, whoever holds the record (ORC-54).
        }
        self.tell_settled(&kid.name);
    }
}

/// Whether a transcript holds nothing but a header.
fn is_without_messages(path: &std::path::Path) -> bool {
    let mut tail = TranscriptTail::new(path);
    tail.poll().is_ok()
        && tail.facts().parsed.last_turn.begin_entry_id.is_none()
        && tail.facts().parsed.damaged_lines == 0
}

/// The level that a candidate asks for, in its reference or beside it.
fn thinking(candidate: &SpawnModel) -> Option<ThinkingLevel> {
    candidate.model.as_deref().and_then(|model| split_thinking_suffix(model).1).or(candidate.thinking)
}

fn label(candidate: &SpawnModel) -> String {
    candidate.model.clone().unwrap_or_else(|| HOST_DEFAULT_MODEL.to_owned())
}

fn started(job: &Job, spawned: Spawned) -> Started {
    let kid = &job.kid;
    let candidate = &job.plan.candidates[spawned.candidate];
    let mut warnings = job.plan.warnings.clone();
    warnings.extend(spawned.warnings);
    warnings.extend(spawned.handle.warnings);
    Started {
        name: kid.name.clone(),
        agent: kid.agent.name.clone(),
        node_id: kid.node_id.clone(),
        supervisor: spawned.handle.mode.as_str(),
        model: candidate.model.clone().or(spawned.handle.model),
        thinking: job.plan.step.recorded_thinking.and_then(Thinking::level).map(|level| level.as_str().to_owned()),
        session_file: kid.session_file.clone(),
        warnings,
    }
}
