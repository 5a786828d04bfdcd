//! A launch, from the call to its answer (03 §3, §5, §9): plan, admit, name, reserve, start, and wait where asked.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::join_all;

use super::{
    Orchestrator,
    command::{CallCx, Dispatch, Launch},
    kid::{Kid, Life, NewKid},
    plan::{CallPlan, Plan, SHUTTING_DOWN},
    report::{Item, Report, Started},
    run::Run,
    start::Job,
    wait::{Target, Waiting},
};
use crate::{
    clock,
    context::spawn_scoped,
    core::{
        admission::{AdmissionVerdict, InProcessLimits, OrchestratorLimits, depth_ceiling, evaluate_orchestrator},
        budget::{TreeCounts, TreeLimits},
        naming::{allocate_name, node_id_for_child},
    },
    error::{Code, Result, SubagentError},
    ledger::{
        launch::{NewNode, Reserve, Reserved, reserve},
        nodes,
    },
    runs::ChildRecord,
    settings::Settings,
    supervisor::{
        Reservation, RetireOptions,
        pool::{Ask, TreeAsk},
    },
};

/// A plan that holds its slot.
struct Admitted {
    at: usize,
    plan: Plan,
    reservation: Reservation,
    count: SpawnCount,
}

/// An admitted plan with its name: its child is in the session's list and `launching`.
struct Named {
    admitted: Admitted,
    kid: Arc<Kid>,
    /// What the name stood for before.
    former: Former,
}

/// What a name stood for before a launch took it.
#[derive(Debug, Clone, Default)]
pub(super) struct Former {
    pub kid: Option<Arc<Kid>>,
    pub record: Option<Arc<ChildRecord>>,
}

/// One of the spawns of this session; given back unless it is kept (ORC-175).
pub(super) struct SpawnCount(Option<Arc<Orchestrator>>);

impl SpawnCount {
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for SpawnCount {
    fn drop(&mut self) {
        if let Some(orchestrator) = self.0.take() {
            orchestrator.book().spawned -= 1;
        }
    }
}

/// What became of one item.
enum Outcome {
    Refused {
        label: String,
        error: SubagentError,
    },
    Started {
        started: Started,
        waits: bool,
    },
    /// The call was interrupted before its launch was through.
    UnderWay(String),
}

impl Orchestrator {
    pub(super) async fn launch(&self, launch: Launch, cx: &CallCx) -> Report {
        let call = match self.plan_call(&launch).await {
            Ok(call) => call,
            Err(error) => return Report { refused: Some(error), ..Report::default() },
        };
        let (outcomes, interrupted) = self.start_items(&call, &launch, cx).await;
        self.answer(outcomes, interrupted, &launch, cx).await
    }

    /// Starts all items side by side and returns what became of each, in their order.
    async fn start_items(&self, call: &CallPlan, launch: &Launch, cx: &CallCx) -> (Vec<Outcome>, bool) {
        let mut outcomes: Vec<Option<Outcome>> = launch.items.iter().map(|_| None).collect();
        let refused = |label: &str, error| Some(Outcome::Refused { label: label.to_owned(), error });
        let mut admitted = Vec::new();
        // Read once: what this call adds itself, the pool counts.
        let tree = self.tree_counts();
        for (at, item) in launch.items.iter().enumerate() {
            let label = item.name.clone().or_else(|| item.agent.clone()).unwrap_or_default();
            let plan = match self.plan_item(call, launch, item) {
                Ok(plan) => plan,
                Err(error) => {
                    outcomes[at] = refused(&label, error);
                    continue;
                }
            };
            let label = plan.label.clone();
            match self.admit(&call.settings, &tree, at, plan) {
                Ok(one) => admitted.push(one),
                Err(error) => outcomes[at] = refused(&label, error),
            }
        }
        let jobs = match self.reserve_all(call, admitted, &mut outcomes).await {
            Ok(jobs) => jobs,
            Err((error, labels)) => {
                for (at, label) in labels {
                    outcomes[at] = refused(&label, error.clone());
                }
                Vec::new()
            }
        };
        for (_, job) in &jobs {
            self.put_record(job);
        }
        // Launches are tasks of their own: an interrupted call leaves them on their way (ORC-98).
        let tasks: Vec<_> = jobs
            .into_iter()
            .map(|(at, job)| {
                let (kid, label, waits) = (Arc::clone(&job.kid), job.plan.label.clone(), job.plan.waits);
                (at, kid, label, waits, spawn_scoped(self.this().start(job)))
            })
            .collect();
        let mut interrupted = false;
        let ends = join_all(tasks.into_iter().map(|(at, kid, label, waits, mut task)| async move {
            let ended = tokio::select! {
                biased;
                ended = &mut task => Some(ended),
                () = cx.cancel.cancelled() => None,
            };
            let outcome = match ended {
                Some(Ok(Ok(started))) => Outcome::Started { started, waits },
                Some(Ok(Err(error))) => Outcome::Refused { label, error },
                Some(Err(_)) => Outcome::Refused { label, error: self.launch_panicked(&kid).await },
                None => Outcome::UnderWay(kid.name.clone()),
            };
            (at, outcome)
        }))
        .await;
        for (at, outcome) in ends {
            interrupted |= matches!(outcome, Outcome::UnderWay(_));
            outcomes[at] = Some(outcome);
        }
        (outcomes.into_iter().flatten().collect(), interrupted)
    }

    /// A fault of ours in a start: the child is not there, whatever had begun; the orphan scan ends its row.
    async fn launch_panicked(&self, kid: &Arc<Kid>) -> SubagentError {
        let error = SubagentError::internal(format!("the launch of '{}' panicked", kid.name));
        let retired = self.supervisor.retire_child(&kid.name, RetireOptions { graceful: true }).await;
        drop(retired);
        self.shared.remove_kid(kid);
        kid.modify(|stage| {
            stage.life = Life::Dead;
            stage.start_error = Some(error.clone());
            true
        });
        error
    }

    /// The gates that need no run: the orchestrator's, then those of the pool with the tree's as far as it is known.
    /// The slot is taken in the same step (ADM-23).
    fn admit(&self, settings: &Settings, tree: &Result<Option<TreeCounts>>, at: usize, plan: Plan) -> Result<Admitted> {
        let context = self.context();
        let depth = context.identity.depth();
        let own_budget = context.identity.child().and_then(|scope| scope.budget.as_ref()?.max_depth);
        let limits = OrchestratorLimits {
            max_depth: depth_ceiling(settings.legion.max_depth, own_budget, plan.agent.max_subagent_depth),
            max_spawns: settings.max_subagent_spawns_per_session,
        };
        let count = {
            let mut book = self.book();
            admitted(evaluate_orchestrator(depth, book.spawned, &limits))?;
            book.spawned += 1;
            SpawnCount(Some(self.this()))
        };
        let parent_id = self.node_id();
        let tree = tree.as_ref().map_err(Clone::clone)?.map(|counts| TreeAsk {
            parent_id: &parent_id,
            counts,
            limits: tree_limits(settings),
        });
        let parent = self.in_process.parent().clone();
        let ask = Ask {
            parent: &parent,
            name: &plan.label,
            depth,
            spawn_count: self.in_process.spawn_count(),
            limits: in_process_limits(settings),
            tree,
        };
        let reservation = match self.shared.pool.admit(&ask) {
            Ok(reservation) => reservation,
            // The ledger's own check says the same in its transaction, and writes the event (ORC-68): there is no queue
            // to hold the launch in until then.
            Err(verdict) if is_of_ledger(&verdict) => {
                self.shared.pool.admit(&Ask { tree: None, ..ask }).map_err(refusal)?
            }
            Err(verdict) => return Err(refusal(verdict)),
        };
        Ok(Admitted { at, plan, reservation, count })
    }

    /// What the tree holds now; `None` before there is a run.
    fn tree_counts(&self) -> Result<Option<TreeCounts>> {
        let Some(run) = self.run.get() else { return Ok(None) };
        let parent_id = self.node_id();
        let counts = run.db.read(|conn| {
            Ok(TreeCounts {
                parent_depth: nodes::get(conn, &parent_id)?.map(|row| row.depth),
                live_children: nodes::count_live_children(conn, &parent_id)?,
                active_nodes: nodes::count_active_nodes(conn)?,
            })
        })?;
        Ok(Some(counts))
    }

    /// Names the admitted plans and reserves their rows, all of a call in one transaction.
    async fn reserve_all(
        &self,
        call: &CallPlan,
        admitted: Vec<Admitted>,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<Vec<(usize, Job)>, (SubagentError, Vec<(usize, String)>)> {
        if admitted.is_empty() {
            return Ok(Vec::new());
        }
        let labels: Vec<(usize, String)> = admitted.iter().map(|one| (one.at, one.plan.label.clone())).collect();
        let run = match self.open_run().await {
            Ok(run) => run,
            Err(error) => return Err((error, labels)),
        };
        let inherited = self.inherited_extensions().await.to_vec();
        let (inherited, roots) = (Arc::new(inherited), Arc::new(self.roots()));
        // A take-down of the same name comes to its end first (ORC-183).
        for one in &admitted {
            let ending = one.plan.name.as_deref().and_then(|name| self.kids.get(name));
            if let Some(kid) = ending.filter(|kid| kid.life() == Life::Ending) {
                kid.until(|stage| stage.life == Life::Dead).await;
            }
        }
        let named = self.name_all(&run, admitted, outcomes);
        let rows = self.reserve_rows(&run, &call.settings, &named).await;
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => {
                named.iter().for_each(|one| self.forget_name(&one.kid, &one.former));
                return Err((error, labels));
            }
        };
        let mut jobs = Vec::new();
        for (mut one, row) in named.into_iter().zip(rows) {
            let reserved = match row {
                Ok(reserved) => reserved,
                Err(error) => {
                    self.forget_name(&one.kid, &one.former);
                    let label = one.admitted.plan.label;
                    outcomes[one.admitted.at] = Some(Outcome::Refused { label, error });
                    continue;
                }
            };
            one.admitted.reservation.row_written();
            let Admitted { at, plan, reservation, count } = one.admitted;
            let job = Job {
                run: Arc::clone(&run),
                settings: Arc::clone(&call.settings),
                inherited: Arc::clone(&inherited),
                roots: Arc::clone(&roots),
                kid: one.kid,
                former: one.former,
                plan,
                reserved,
                reservation: Some(reservation),
                count,
            };
            jobs.push((at, job));
        }
        Ok(jobs)
    }

    /// Gives every plan its name and puts its child into the list (ORC-8 … ORC-12), under one lock, so that two launches
    /// in flight never get the same name.
    fn name_all(&self, run: &Run, admitted: Vec<Admitted>, outcomes: &mut [Option<Outcome>]) -> Vec<Named> {
        let own = self.node_id();
        let now = clock::now_ms();
        // Given back after the locks: a spawn count takes one of them itself.
        let mut refused = Vec::new();
        let mut kids = self.kids.lock();
        let mut book = self.book();
        let mut named = Vec::with_capacity(admitted.len());
        for one in admitted {
            let name = match &one.plan.name {
                Some(name) => name.clone(),
                None => allocate_name(&one.plan.agent.name, |name| book.names.contains(name)),
            };
            let kid = kids.get(&name).cloned();
            let refusal = if self.is_closed() {
                Some(SubagentError::new(Code::Disabled, SHUTTING_DOWN))
            } else if kid.as_ref().is_some_and(|kid| kid.is_up()) {
                Some(name_taken(&name))
            } else {
                None
            };
            if let Some(error) = refusal {
                outcomes[one.at] = Some(Outcome::Refused { label: one.plan.label.clone(), error });
                refused.push(one);
                continue;
            }
            let former = Former { kid, record: run.store.child(&name) };
            let session_file = match &former.record {
                Some(record) => record.session_file.clone(),
                None => run.dir.session_file(&name),
            };
            let kid = Arc::new(Kid::new(NewKid {
                node_id: node_id_for_child(&own, &name),
                session_file,
                agent: Arc::clone(&one.plan.agent),
                acceptance: one.plan.acceptance.clone(),
                launched_at: now,
                budget_ms: one.plan.budget_ms,
                changes: self.changes.clone(),
                name: name.clone(),
            }));
            self.shared.add_kid(&kid);
            kids.insert(name.clone(), Arc::clone(&kid));
            book.names.insert(name);
            named.push(Named { admitted: one, kid, former });
        }
        drop((book, kids));
        named
    }

    /// The reservation of every named child, in one transaction (ORC-39, ORC-69).
    async fn reserve_rows(&self, run: &Run, settings: &Settings, named: &[Named]) -> Result<Vec<Result<Reserved>>> {
        struct Row {
            name: String,
            role: String,
            task: String,
            session_file: PathBuf,
        }
        let rows: Vec<Row> = named
            .iter()
            .map(|one| Row {
                name: one.kid.name.clone(),
                role: one.kid.agent.name.clone(),
                task: one.admitted.plan.task.clone(),
                session_file: one.kid.session_file.clone(),
            })
            .collect();
        let (parent_id, run_id) = (self.node_id(), run.id());
        let limits = tree_limits(settings);
        let answers = run.db.write_async(move |tx| {
            let now = clock::now_ms();
            rows.iter()
                .map(|row| {
                    let node = NewNode {
                        parent_id: &parent_id,
                        name: &row.name,
                        role: &row.role,
                        run_id: &run_id,
                        session_file: &row.session_file,
                        team: None,
                        phase: None,
                        task: &row.task,
                    };
                    reserve(tx, &node, &limits, now)
                })
                .collect::<Result<Vec<_>, _>>()
        });
        let answers = answers.await?.into_iter().zip(named);
        Ok(answers
            .map(|(answer, one)| match answer {
                Reserve::Reserved(reserved) => Ok(reserved),
                Reserve::Refused(refusal) => {
                    Err(SubagentError::new(Code::BudgetExceeded, refusal.message).with_gate(refusal.gate))
                }
                Reserve::Alive(_) => Err(name_taken(&one.kid.name)),
            })
            .collect())
    }

    /// Takes a child that never began out of the list again; what the name stood for before is back.
    pub(super) fn forget_name(&self, kid: &Arc<Kid>, former: &Former) {
        self.shared.remove_kid(kid);
        let mut kids = self.kids.lock();
        if kids.get(&kid.name).is_some_and(|known| Arc::ptr_eq(known, kid)) {
            match &former.kid {
                Some(before) => drop(kids.insert(kid.name.clone(), Arc::clone(before))),
                None => drop(kids.shift_remove(&kid.name)),
            }
        }
        drop(kids);
        if former.kid.is_none() && former.record.is_none() {
            self.book().names.remove(&kid.name);
        }
        kid.modify(|stage| {
            stage.life = Life::Dead;
            true
        });
    }

    /// The report of a launch; waits for those children that are to be waited for.
    async fn answer(&self, outcomes: Vec<Outcome>, interrupted: bool, launch: &Launch, cx: &CallCx) -> Report {
        let mut report = Report { interrupted, ..Report::default() };
        let mut targets = Vec::new();
        for outcome in outcomes {
            match outcome {
                Outcome::Refused { label, error } => report.items.push(Item::Refused { label, error }),
                Outcome::UnderWay(name) => report.still_running.push(name),
                Outcome::Started { started, waits: true } => {
                    if let Some(kid) = self.kids.get(&started.name) {
                        let budget = launch.timeout_ms.or(kid.budget_ms);
                        targets.push(Target::new(report.items.len(), kid, budget, started.warnings.clone()));
                    }
                    report.items.push(Item::Started(started));
                }
                Outcome::Started { started, waits: false } => {
                    report.background = true;
                    report.items.push(Item::Started(started));
                }
            }
        }
        if !targets.is_empty() {
            let waiting = Waiting { targets, take_mail: false, grace: launch.dispatch == Dispatch::Subagent };
            self.wait_into(waiting, &mut report, cx).await;
        } else if interrupted {
            report.still_running.extend(report.items.iter().filter_map(|item| match item {
                Item::Started(started) => Some(started.name.clone()),
                Item::Refused { .. } | Item::Settled(_) | Item::Running(_) | Item::TakenDown(_) => None,
            }));
        }
        report
    }
}

fn name_taken(name: &str) -> SubagentError {
    SubagentError::new(Code::NameTaken, format!("child is already alive: '{name}'"))
}

fn is_of_ledger(verdict: &AdmissionVerdict) -> bool {
    match verdict {
        AdmissionVerdict::Admitted => false,
        AdmissionVerdict::Queue { gate, .. } => gate.is_of_ledger(),
        AdmissionVerdict::Refuse { gate, .. } => gate.is_of_ledger(),
    }
}

fn admitted(verdict: AdmissionVerdict) -> Result<()> {
    match verdict {
        AdmissionVerdict::Admitted => Ok(()),
        verdict @ (AdmissionVerdict::Queue { .. } | AdmissionVerdict::Refuse { .. }) => Err(refusal(verdict)),
    }
}

/// A verdict as a refusal; a queueable one too, since this build has no queue.
fn refusal(verdict: AdmissionVerdict) -> SubagentError {
    let (gate, message) = match verdict {
        AdmissionVerdict::Queue { gate, message } => (gate.as_str(), message),
        AdmissionVerdict::Refuse { gate, message } => (gate.as_str(), message),
        AdmissionVerdict::Admitted => ("other", "refused".to_owned()),
    };
    SubagentError::new(Code::BudgetExceeded, message).with_gate(gate)
}

pub(super) fn in_process_limits(settings: &Settings) -> InProcessLimits {
    InProcessLimits {
        max_depth: settings.inprocess.max_depth,
        max_children_per_node: settings.inprocess.max_children_per_node,
        max_active: settings.inprocess.max_active,
        max_spawns_per_session: settings.inprocess.max_spawns_per_session,
    }
}

pub(super) fn tree_limits(settings: &Settings) -> TreeLimits {
    TreeLimits {
        max_depth: settings.legion.max_depth,
        max_children_per_node: settings.legion.max_children_per_node,
        max_active_nodes: settings.legion.max_active_nodes,
    }
}
