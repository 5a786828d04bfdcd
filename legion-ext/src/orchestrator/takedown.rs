//! Taking children down: by call, after a collect, and at the end of the session (03 §14, ORC-167 … ORC-170, ORC-180).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};
use host_abi::ops::LogLevel;
use tokio_util::sync::CancellationToken;

use super::{
    Orchestrator,
    command::{TakeDown, TakeDownWording, Target},
    kid::{Kid, Life, Round, Turn},
    report::{Item, Report, TakenDown, TakenDownHow, Usage},
    run::Run,
};
use crate::{
    clock,
    context::{Identity, spawn_scoped},
    core::{naming::normalize_name, outcome::ExecutionStatus},
    error::{Code, Result, SubagentError},
    ledger::settle,
    runs::{ChildRecord, ChildState},
    supervisor::{CHILD_RETIRED, RetireOptions},
};

/// What a shutdown waits for first.
#[derive(Debug, Clone)]
pub enum Drain {
    /// Nothing: children are taken down at once (ORC-169, MODE-4).
    Skip,
    /// Children at work may end, until `cut` or their budgets (ORC-168).
    Until { cut: CancellationToken },
}

impl Orchestrator {
    pub(super) async fn take_down(&self, call: TakeDown) -> Report {
        let names = match &call.target {
            Target::Names(names) => names.clone(),
            Target::All => self.kids.all().iter().filter(|kid| kid.is_up()).map(|kid| kid.name.clone()).collect(),
        };
        let tasks: Vec<_> = names
            .into_iter()
            .map(|name| {
                let (this, call) = (self.this(), call.clone());
                let label = name.clone();
                // A task of its own: an interrupted call takes nobody half-way down.
                (label, spawn_scoped(async move { this.take_down_one(&name, &call).await }))
            })
            .collect();
        let items = join_all(tasks.into_iter().map(|(label, task)| async move {
            match task.await {
                Ok(Ok(taken)) => Item::TakenDown(taken),
                Ok(Err(error)) => Item::Refused { label, error },
                Err(_) => Item::Refused { error: SubagentError::internal("the take-down panicked"), label },
            }
        }))
        .await;
        Report { items, ..Report::default() }
    }

    async fn take_down_one(self: &Arc<Self>, name: &str, call: &TakeDown) -> Result<TakenDown> {
        let name = normalize_name(name);
        let name = name.as_str();
        let record = self.run.get().and_then(|run| run.store.child(name));
        let kid = self.kids.get(name);
        let how = match (call.wording, call.force) {
            (TakeDownWording::Retire, _) => TakenDownHow::Retired,
            (TakeDownWording::Stop, false) => TakenDownHow::Stopped,
            (TakeDownWording::Stop, true) => TakenDownHow::ForceStopped,
        };
        if let Some(kid) = kid.filter(|kid| kid.is_up()) {
            let also = self.end(&kid, RetireOptions { graceful: !call.force }).await?;
            let agent = kid.agent.name.clone();
            return Ok(TakenDown { name: kid.name.clone(), agent, node_id: kid.node_id.clone(), how, also });
        }
        let (Some(record), Some(run)) = (record, self.run.get()) else {
            return match self.parent_of_descendant(name)? {
                Some((parent, kid)) => {
                    let also = parent.end(&kid, RetireOptions { graceful: !call.force }).await?;
                    let agent = kid.agent.name.clone();
                    Ok(TakenDown { name: kid.name.clone(), agent, node_id: kid.node_id.clone(), how, also })
                }
                None => Err(self.unknown_child(name)),
            };
        };
        let node_id = record.node_id.clone().unwrap_or_default();
        let taken =
            |how| TakenDown { name: record.name.clone(), agent: record.agent.clone(), node_id, how, also: vec![] };
        match record.state {
            ChildState::Retired | ChildState::Exited => Ok(taken(TakenDownHow::AlreadyRetired)),
            // Left by a process that is gone: there is nothing to signal (ORC-122).
            ChildState::Queued
            | ChildState::Launching
            | ChildState::Working
            | ChildState::Awaiting
            | ChildState::Blocked => {
                self.mark_retired(run, &record).await;
                Ok(taken(how))
            }
        }
    }

    /// A live descendant by its node id or its unique name, with the session that launched it (ORC-15).
    fn parent_of_descendant(&self, name: &str) -> Result<Option<(Arc<Self>, Arc<Kid>)>> {
        let mut found = Vec::new();
        let mut open: Vec<Arc<Self>> = vec![self.this()];
        while let Some(session) = open.pop() {
            for kid in session.kids.all().into_iter().filter(|kid| kid.is_up()) {
                open.extend(self.shared.session(&kid.session_file));
                if kid.node_id == name || kid.name == name {
                    found.push((Arc::clone(&session), kid));
                }
            }
        }
        match found.as_slice() {
            [] | [_] => Ok(found.pop()),
            several => {
                let ids: Vec<&str> = several.iter().map(|(_, kid)| kid.node_id.as_str()).collect();
                Err(SubagentError::invalid(format!("'{name}' is ambiguous: {}", ids.join(", "))))
            }
        }
    }

    /// Takes a child down with everything below it, and answers the names of what went with it, deepest first
    /// (ORC-117). Several callers share one take-down (ORC-73).
    pub(super) fn end<'a>(
        self: &'a Arc<Self>,
        kid: &'a Arc<Kid>,
        options: RetireOptions,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        async move {
            let Some(before) = begin_end(kid).await else {
                kid.until(|stage| stage.life == Life::Dead).await;
                return Ok(Vec::new());
            };
            let also = match self.shared.session(&kid.session_file) {
                Some(session) => session.close_and_end(options).await,
                None => Vec::new(),
            };
            let retired = self.supervisor.retire_child(&kid.name, options).await;
            match retired {
                Ok(()) => {}
                // The launch is between two attempts; it sees the mark and ends by itself (ORC-179).
                Err(error) if error.code == Code::NotFound => {}
                Err(error) => {
                    kid.modify(|stage| {
                        stage.life = Life::Live;
                        true
                    });
                    return Err(error);
                }
            }
            if before == Life::Launching {
                // The launch takes itself back.
                kid.until(|stage| stage.life == Life::Dead).await;
                return Ok(also);
            }
            if let Some(run) = self.run.get() {
                self.bury(run, kid, Some(CHILD_RETIRED)).await;
            }
            self.tell_settled(&kid.name);
            Ok(also)
        }
        .boxed()
    }

    /// Frees the name and slot of a child whose round is recorded; its transcript stays (ORC-114).
    pub(super) async fn recycle(self: &Arc<Self>, run: &Run, kid: &Arc<Kid>) {
        if begin_end(kid).await.is_none() {
            kid.until(|stage| stage.life == Life::Dead).await;
            return;
        }
        if let Some(session) = self.shared.session(&kid.session_file) {
            session.close_and_end(RetireOptions { graceful: true }).await;
        }
        let retired = self.supervisor.retire_child(&kid.name, RetireOptions { graceful: true }).await;
        if let Err(error) = retired.or_else(|error| if error.code == Code::NotFound { Ok(()) } else { Err(error) }) {
            self.host.warn(format!("legion: '{}' could not be retired after its result: {error}", kid.name));
        }
        self.bury(run, kid, None).await;
    }

    /// The child is gone: ledger first, then the record, then whoever waits. `reason` is there for a turn that nobody
    /// recorded.
    async fn bury(&self, run: &Run, kid: &Arc<Kid>, reason: Option<&str>) {
        let round = run.store.child(&kid.name).map_or(0, |record| record.round);
        let node_id = kid.node_id.clone();
        let retired = run.db.write_async(move |tx| settle::retire(tx, &node_id, CHILD_RETIRED, round, clock::now_ms()));
        if let Err(error) = retired.await {
            self.host.log(LogLevel::Warn, &format!("legion: '{}' is not retired in the ledger: {error}", kid.name));
        }
        let now = clock::now_ms();
        let record = run.store.update_child(&kid.name, |record| {
            record.state = ChildState::Retired;
            record.retired_at = Some(clock::iso(now));
        });
        self.shared.remove_kid(kid);
        kid.modify(|stage| {
            let unrecorded = stage.turn != Turn::Recorded;
            if let Some(reason) = reason.filter(|_| unrecorded) {
                stage.last = Some(Arc::new(ended_round(kid, reason, record.as_deref(), now)));
                stage.turn = Turn::Recorded;
            }
            stage.life = Life::Dead;
            true
        });
    }

    /// A child of a process that is gone.
    async fn mark_retired(&self, run: &Run, record: &ChildRecord) {
        if let Some(node_id) = record.node_id.clone() {
            let round = record.round;
            let retired =
                run.db.write_async(move |tx| settle::retire(tx, &node_id, CHILD_RETIRED, round, clock::now_ms()));
            if let Err(error) = retired.await {
                self.host
                    .log(LogLevel::Warn, &format!("legion: '{}' is not retired in the ledger: {error}", record.name));
            }
        }
        run.store.update_child(&record.name, |record| {
            record.state = ChildState::Retired;
            record.retired_at = Some(clock::iso(clock::now_ms()));
        });
    }

    /// Starts nothing any more, and takes every child down, all at once; answers their names, deepest first.
    pub(super) fn close_and_end(self: Arc<Self>, options: RetireOptions) -> BoxFuture<'static, Vec<String>> {
        async move {
            self.closed.store(true, Ordering::Release);
            // Under the lock that names children: whoever was named before is seen here, and nobody is named after.
            let up: Vec<Arc<Kid>> = self.kids.all().into_iter().filter(|kid| kid.is_up()).collect();
            let ended = join_all(up.iter().map(|kid| async {
                let also = self.end(kid, options).await;
                let mut names = also.unwrap_or_default();
                names.push(kid.name.clone());
                names
            }));
            ended.await.into_iter().flatten().collect()
        }
        .boxed()
    }

    /// The end of the session: waits for children at work where it may, then takes its own branch down and closes its
    /// run. Afterwards no child is launching or live (ORC-167 … ORC-170, ORC-180).
    pub async fn shutdown(&self, drain: Drain) {
        if let Drain::Until { cut } = drain {
            self.drain(&cut).await;
            let left: Vec<String> =
                self.kids.all().iter().filter(|kid| kid.is_active()).map(|kid| kid.name.clone()).collect();
            if !left.is_empty() {
                let (n, names) = (left.len(), left.join(", "));
                self.host.warn(format!("legion: drain ended; retiring {n} children ({names})"));
            }
        }
        self.this().close_and_end(RetireOptions { graceful: true }).await;
        let Some(run) = self.run.get() else { return };
        if matches!(self.context().identity, Identity::Root)
            && let Err(error) = run.db.write_async(|tx| settle::close_root(tx, clock::now_ms())).await
        {
            self.host.log(LogLevel::Warn, &format!("legion: the tree is not closed in the ledger: {error}"));
        }
        run.store.update(|record| record.closed_at = Some(clock::iso(clock::now_ms())));
        if let Err(error) = run.store.flush() {
            self.host.warn(format!("legion: {error}"));
        }
    }

    /// Waits until no child is at work, or every one that is has passed its budget (ORC-168).
    async fn drain(&self, cut: &CancellationToken) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let now = clock::now_ms();
            let active: Vec<Arc<Kid>> = self.kids.all().into_iter().filter(|kid| kid.is_active()).collect();
            let waiting: Vec<Option<i64>> =
                active.iter().map(|kid| kid.budget_ends_at()).filter(|end| end.is_none_or(|end| end > now)).collect();
            if waiting.is_empty() {
                return;
            }
            let next = waiting.into_iter().flatten().min();
            let budget = async {
                match next {
                    Some(end) => tokio::time::sleep(Duration::from_millis(u64::try_from(end - now).unwrap_or(0))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cut.cancelled() => return,
                _ = changes.changed() => {}
                () = budget => {}
            }
        }
    }
}

/// Marks the begin of a take-down, once a recording that is under way is over (ORC-182), and answers what the child was
/// before; `None` when another take-down has begun, or the child is dead.
async fn begin_end(kid: &Kid) -> Option<Life> {
    loop {
        kid.until(|stage| stage.turn != Turn::Recording || matches!(stage.life, Life::Ending | Life::Dead)).await;
        let mut before = None;
        kid.modify(|stage| {
            let over = matches!(stage.life, Life::Ending | Life::Dead);
            let free = !over && stage.turn != Turn::Recording;
            before = (over || free).then_some(stage.life);
            if free {
                stage.life = Life::Ending;
            }
            free
        });
        match before {
            None => {}
            Some(Life::Ending | Life::Dead) => return None,
            Some(life @ (Life::Launching | Life::Live)) => return Some(life),
        }
    }
}

/// What a waiting call is told of a turn that its parent ended: no result, no artifact (LED-75).
fn ended_round(kid: &Kid, reason: &str, record: Option<&ChildRecord>, now: i64) -> Round {
    Round {
        status: ExecutionStatus::Aborted,
        reason: Some(reason.to_owned()),
        round: 0,
        duration_ms: u64::try_from(now - kid.round_began()).ok(),
        usage: Usage::default(),
        model: record.and_then(|record| record.model.clone()),
        artifact: None,
        unsaved: None,
        acceptance: None,
        verdict: None,
        warnings: Vec::new(),
    }
}
