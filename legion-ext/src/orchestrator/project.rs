//! What is true about the children now: one look at the facts, one judgement, no side effect (LED-62 … LED-71, STA-1 …
//! STA-9).

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use super::{
    Orchestrator,
    command::StatusQuery,
    report::{ChildView, NodeView, Owner, Projection, Usage},
    shared::Shared,
    wait::{quiet, tool},
};
use crate::{
    clock,
    core::{
        display::display_status,
        liveness::{LedgerFact, Liveness, LivenessFacts, is_terminal_label, liveness},
        model::{Thinking, ThinkingLevel, model_label},
        naming::{ROOT, normalize_name},
        outcome::ExecutionStatus,
    },
    error::{Result, SubagentError},
    ledger::{
        LegionDb,
        nodes::{DEFAULT_SUBTREE_MAX_DEPTH, NodeRow, SubtreeRow, get_subtree},
        usage::UsageRow,
    },
    runs::{ChildRecord, ChildState, Owner as RunOwner, RunDir, owner_lives},
    session::transcript_tail,
};

/// Where facts about nodes come from. Gathered cheapest first (LED-93).
pub(super) struct Look<'a> {
    pub now: i64,
    pub stale_ms: i64,
    /// The children of this process; `None` outside of a session.
    pub shared: Option<&'a Shared>,
    /// The root run, beside which all runs of the tree lie.
    pub root_dir: Option<&'a RunDir>,
    /// Whether the process that owns a run lives, by run id; asked once each.
    pub owners: RefCell<HashMap<String, Option<bool>>>,
}

/// The judgement on one node.
pub(super) struct Judged {
    pub liveness: Liveness,
    /// Label of STA-6.
    pub state: String,
    pub owner: Owner,
}

impl Look<'_> {
    /// Judges a node by its row and its record; either may be missing.
    pub(super) fn judge(&self, row: Option<&NodeRow>, record: Option<&ChildRecord>, dead_here: bool) -> Judged {
        let session_file = row.and_then(|row| row.session_file.as_deref());
        let session_file = session_file.or_else(|| record.map(|record| record.session_file.as_path()));
        let kid = session_file.and_then(|file| self.shared?.kid(file));
        let in_memory = match kid {
            Some(kid) => Some(kid.label()),
            None if dead_here => Some("retired"),
            None => None,
        };
        let record_state = record.map(|record| record.state.as_str());
        let ended = record_state.is_some_and(is_terminal_label) || row.is_some_and(|row| row.status.is_terminal());
        let run = row.and_then(|row| row.run_id.as_deref());
        let owner_alive = if in_memory.is_some() { None } else { run.and_then(|run| self.owner_alive(run)) };
        // What has ended is judged without its owner (LED-93), which is told all the same.
        let pid_alive = owner_alive.filter(|_| !ended);
        let facts = LivenessFacts {
            in_memory,
            ledger: row.map(|row| LedgerFact::of(row.status, row.updated_at)),
            record: record_state,
            pid_alive,
            now: self.now,
            stale_ms: self.stale_ms,
        };
        let verdict = liveness(&facts);
        let owner = if owner_alive == Some(false) { Owner::PidGone } else { owner(&facts) };
        Judged { liveness: verdict, state: state_label(verdict, &facts), owner }
    }

    /// LED-91 for a node whose run another process owns: `Some(false)` once that process is gone.
    fn owner_alive(&self, run_id: &str) -> Option<bool> {
        let dir = self.root_dir?.beside(run_id);
        *self.owners.borrow_mut().entry(run_id.to_owned()).or_insert_with(|| match recorded_owner(&dir) {
            Some(owner) if owner == RunOwner::this_process() => None,
            Some(owner) if owner_lives(&owner) => None,
            Some(_) => Some(false),
            None => None,
        })
    }

    /// The rows of a subtree as views, in their order. `own` is the node that looks: it lives.
    pub(super) fn tree(&self, rows: &[SubtreeRow], own: Option<&str>, records: &Records) -> Vec<NodeView> {
        let view = |row: &SubtreeRow| {
            let node = &row.node;
            let judged = if own == Some(node.id.as_str()) {
                Judged { liveness: Liveness::Live, state: node.status.as_str().to_owned(), owner: Owner::Live }
            } else if node.id == ROOT {
                self.judge_root(node)
            } else {
                let record = records.by_node.get(&node.id).map(Arc::as_ref);
                self.judge(Some(node), record, records.dead_here.contains(&node.id))
            };
            NodeView {
                id: node.id.clone(),
                parent_id: node.parent_id.clone(),
                name: node.name.clone(),
                role: node.role.clone(),
                state: display_status(Some(&judged.state)).as_str().to_owned(),
                liveness: judged.liveness,
                phase: node.phase.clone(),
                depth: node.depth,
                model: node.model.clone(),
                usage: usage(&row.usage),
            }
        };
        rows.iter().map(view).collect()
    }

    /// The root is owned by the process of its own run.
    fn judge_root(&self, row: &NodeRow) -> Judged {
        let facts = LivenessFacts {
            in_memory: None,
            ledger: Some(LedgerFact::of(row.status, row.updated_at)),
            record: None,
            pid_alive: if row.status.is_terminal() {
                None
            } else {
                row.run_id.as_deref().and_then(|run| self.owner_alive(run))
            },
            now: self.now,
            stale_ms: self.stale_ms,
        };
        let verdict = liveness(&facts);
        Judged { liveness: verdict, state: state_label(verdict, &facts), owner: owner(&facts) }
    }

    /// One direct child. `activity` is there for a child of this process.
    pub(super) fn child(&self, row: Option<&SubtreeRow>, record: Option<&ChildRecord>, dead_here: bool) -> ChildView {
        let node = row.map(|row| &row.node);
        let judged = self.judge(node, record, dead_here);
        let session_file = record.map(|record| record.session_file.clone()).or_else(|| node?.session_file.clone());
        let alive = judged.liveness == Liveness::Live;
        let activity = session_file.as_deref().filter(|_| alive).and_then(|file| self.shared?.activity.get(file));
        let execution = record.and_then(|record| record.execution.as_ref());
        let model = record
            .and_then(|record| Some(model_label(record.model.as_deref()?, recorded_thinking(record))))
            .or_else(|| node?.model.clone());
        ChildView {
            name: record.map(|record| record.name.clone()).or_else(|| Some(node?.name.clone())).unwrap_or_default(),
            agent: record.map(|record| record.agent.clone()).or_else(|| Some(node?.role.clone())).unwrap_or_default(),
            node_id: record
                .and_then(|record| record.node_id.clone())
                .or_else(|| Some(node?.id.clone()))
                .unwrap_or_default(),
            state: judged.state,
            liveness: judged.liveness,
            supervisor: record.map_or_else(|| "unknown".to_owned(), |record| record.spawn_mode.clone()),
            owner: judged.owner,
            quiet_ms: activity.as_ref().and_then(|activity| quiet(activity, self.now)),
            turn: activity.as_ref().and_then(|activity| activity.turn),
            tool: activity.as_ref().and_then(|activity| tool(activity, self.now)),
            model,
            usage: row.map(|row| usage(&row.usage)).unwrap_or_default(),
            session_file: session_file.filter(|_| record.is_none_or(|record| record.state != ChildState::Queued)),
            execution: execution.and_then(|execution| execution_status(&execution.status)),
            reason: execution.and_then(|execution| execution.reason.clone()),
            delivered: false,
            round: record.map_or(0, |record| record.round),
        }
    }
}

/// What run records say, by node.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub by_node: HashMap<String, Arc<ChildRecord>>,
    /// Nodes that this process has seen end.
    pub dead_here: HashSet<String>,
}

impl Orchestrator {
    /// The children and what is below them.
    ///
    /// # Errors
    /// `NOT_FOUND` for a name without a record, `LEDGER` when the database cannot be read.
    pub fn project(&self, query: &StatusQuery) -> Result<Projection> {
        let own = self.node_id();
        let rows = match self.ledger() {
            Some(db) => db.read(|conn| get_subtree(conn, &own, DEFAULT_SUBTREE_MAX_DEPTH))?,
            None => Vec::new(),
        };
        let stale_ms = i64::try_from(self.settings().legion.orphan_stale_ms).unwrap_or(i64::MAX);
        let root_dir = self.root_dir();
        let look = Look {
            now: clock::now_ms(),
            stale_ms,
            shared: Some(&self.shared),
            root_dir: root_dir.as_ref(),
            owners: RefCell::default(),
        };
        let records = self.records();
        let tree = look.tree(&rows, Some(&own), &records);
        let by_id: HashMap<&str, &SubtreeRow> = rows.iter().map(|row| (row.node.id.as_str(), row)).collect();
        let owed = self.owed(&own);

        let run_records = self.run.get().map(|run| run.store.record());
        let mut children: Vec<ChildView> = Vec::new();
        let mut seen = HashSet::new();
        for record in run_records.iter().flat_map(|record| &record.children) {
            let row = record.node_id.as_deref().and_then(|id| by_id.get(id).copied());
            let dead_here = record.node_id.as_ref().is_some_and(|id| records.dead_here.contains(id));
            let mut view = look.child(row, Some(record), dead_here);
            view.delivered = view.round > 0 && !owed.contains(&view.node_id);
            seen.insert(view.node_id.clone());
            children.push(view);
        }
        // Rows of this node that no record knows, such as those of a run whose file was lost.
        for row in rows.iter().filter(|row| row.level == 1 && !seen.contains(&row.node.id)) {
            let mut view = look.child(Some(row), None, records.dead_here.contains(&row.node.id));
            view.delivered = !owed.contains(&view.node_id);
            children.push(view);
        }
        let projection = Projection { children, tree, single: false, transcript: None, all: query.all };
        match &query.name {
            Some(name) => self.narrow(projection, name, query, &look, &by_id),
            None => Ok(projection),
        }
    }

    /// The projection of one child, or of a descendant known by its id or its unique name (ORC-15, STA-8).
    fn narrow(
        &self,
        all: Projection,
        name: &str,
        query: &StatusQuery,
        look: &Look<'_>,
        by_id: &HashMap<&str, &SubtreeRow>,
    ) -> Result<Projection> {
        let lower = normalize_name(name);
        let own = all.children.iter().find(|child| child.name == lower || child.node_id == name);
        let view = match own {
            Some(child) => child.clone(),
            None => {
                let below: Vec<&NodeView> =
                    all.tree.iter().skip(1).filter(|node| node.id == name || node.name == lower).collect();
                match below.as_slice() {
                    [node] => {
                        let row = by_id.get(node.id.as_str()).copied();
                        let mut view = look.child(row, None, false);
                        view.supervisor = "inprocess".to_owned();
                        view
                    }
                    [] => return Err(self.unknown_child(&lower)),
                    several => {
                        let ids: Vec<&str> = several.iter().map(|node| node.id.as_str()).collect();
                        return Err(SubagentError::invalid(format!("'{lower}' is ambiguous: {}", ids.join(", "))));
                    }
                }
            }
        };
        let below = format!("{}/", view.node_id);
        let tree = all.tree.into_iter().filter(|node| node.id == view.node_id || node.id.starts_with(&below)).collect();
        let transcript = query.transcript_lines.map(|lines| transcript(view.session_file.as_deref(), lines));
        Ok(Projection { children: vec![view], tree, single: true, transcript, all: query.all })
    }

    /// Records of this session's children, and what this process saw end.
    pub(super) fn records(&self) -> Records {
        let mut records = Records::default();
        if let Some(run) = self.run.get() {
            for child in &run.store.record().children {
                if let Some(id) = &child.node_id {
                    records.by_node.insert(id.clone(), Arc::clone(child));
                }
            }
        }
        records.dead_here = self.kids.all().iter().filter(|kid| !kid.is_up()).map(|kid| kid.node_id.clone()).collect();
        records
    }

    /// Nodes whose results are owed to this session.
    fn owed(&self, own: &str) -> HashSet<String> {
        let owed = self.ledger().map(|db: LegionDb| db.undelivered(own));
        owed.and_then(Result::ok).into_iter().flatten().map(|owed| owed.artifact.node_id).collect()
    }

    pub(super) fn root_dir(&self) -> Option<RunDir> {
        if let Some(run) = self.run.get() {
            return Some(run.root_dir.clone());
        }
        Some(RunDir::at(&self.context().identity.child()?.root_run_dir))
    }
}

/// The end of a transcript, one item a line, with the lines that could not be read counted (STA-9).
pub(super) fn transcript(session_file: Option<&Path>, lines: usize) -> Vec<String> {
    let Some(path) = session_file else { return Vec::new() };
    match transcript_tail(path, lines) {
        Ok(view) => {
            let mut lines = view.lines;
            if view.unreadable > 0 {
                lines.push(format!("⚠ {} unreadable transcript lines skipped", view.unreadable));
            }
            lines
        }
        Err(error) => vec![format!("⚠ failed to read {}: {error}", path.display())],
    }
}

fn state_label(verdict: Liveness, facts: &LivenessFacts<'_>) -> String {
    let ledger = facts.ledger.map(|ledger| ledger.status);
    let ended = ledger.filter(|status| is_terminal_label(status));
    let record_ended = facts.record.filter(|state| is_terminal_label(state));
    let label = match verdict {
        Liveness::Live => facts.in_memory.or(facts.record).or(ledger).unwrap_or("unknown"),
        // A dead owner with a record that has not ended (STA-6).
        Liveness::Dead => ended.or(record_ended).unwrap_or("failed"),
        Liveness::Unknown if facts.record == Some("queued") => "queued",
        Liveness::Unknown => "unknown",
    };
    label.to_owned()
}

fn owner(facts: &LivenessFacts<'_>) -> Owner {
    match (facts.in_memory, facts.pid_alive, facts.ledger) {
        (Some(_), _, _) | (None, Some(true), _) => Owner::Live,
        (None, Some(false), _) => Owner::PidGone,
        (None, None, Some(ledger)) if !is_terminal_label(ledger.status) => {
            let age = facts.now.saturating_sub(ledger.updated_at);
            if age < facts.stale_ms {
                Owner::Live
            } else {
                Owner::HeartbeatOld { age_ms: u64::try_from(age).unwrap_or_default() }
            }
        }
        (None, None, Some(_) | None) => Owner::Unknown,
    }
}

fn recorded_owner(dir: &RunDir) -> Option<RunOwner> {
    #[derive(serde::Deserialize)]
    struct OwnerOnly {
        owner: RunOwner,
    }
    let bytes = std::fs::read(dir.run_json()).ok()?;
    serde_json::from_slice::<OwnerOnly>(&bytes).ok().map(|record| record.owner)
}

fn usage(row: &UsageRow) -> Usage {
    Usage { input: row.tokens_in, output: row.tokens_out, cost_usd: row.cost_usd, ..Usage::default() }
}

/// The recorded thinking, for a label.
pub(super) fn recorded_thinking(record: &ChildRecord) -> Option<Thinking> {
    match record.thinking.as_deref()? {
        "false" => Some(Thinking::Disabled),
        word => ThinkingLevel::parse(word).map(Thinking::Level),
    }
}

pub(super) fn execution_status(word: &str) -> Option<ExecutionStatus> {
    use ExecutionStatus::{Aborted, Blocked, Failed, Running, Success, Truncated, Unknown};
    [Success, Failed, Truncated, Aborted, Unknown, Running, Blocked].into_iter().find(|status| status.as_str() == word)
}
