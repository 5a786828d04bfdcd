//! Calls that wait: `collect`, `wait`, and launches that return results (03 §10, §11).
//!
//! They look at children and touch none. Whatever ends the waiting - all settled, budgets, mail, the parent's own turn -
//! the children and their watches go on.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    Orchestrator,
    command::{CallCx, Collect, Page, Wait},
    kid::{Kid, Round},
    ports::{Hold, Taken},
    report::{Body, Decision, Item, Progress, ProgressLine, ReadMark, Report, Settled, Snapshot},
};
use crate::{
    clock,
    core::{caps::mail_bytes, naming::normalize_name},
    error::{Code, SubagentError},
    runs::artifacts::read_page,
    supervisor::activity::Activity,
};

/// Further periods that `collect` gives a child whose transcript grows (ORC-84).
pub const COLLECT_GRACE_EXTENSIONS: u32 = 2;
/// Over which growth is seen.
const GROWTH_LOOK: Duration = Duration::from_secs(1);
/// ORC-86.
pub(super) const DEADLINE_REASON: &str = "collect deadline reached; the child is still running";
/// Wait budget that a decision offers where the role has none (ORC-74, ORC-81).
const DEFAULT_BUDGET_MS: u64 = 1_800_000;
/// Partial results come at most this often (LINE-10).
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// A child that a call waits for.
pub(super) struct Target {
    /// Which item of the report it replaces; `None` adds one.
    at: Option<usize>,
    kid: Arc<Kid>,
    budget_ms: Option<u64>,
    /// Of its launch.
    warnings: Vec<String>,
}

impl Target {
    /// A child that this call launched, with the item that stands for it.
    pub(super) fn new(at: usize, kid: Arc<Kid>, budget_ms: Option<u64>, warnings: Vec<String>) -> Self {
        Self { at: Some(at), kid, budget_ms, warnings }
    }
}

/// What to wait for, and how.
pub(super) struct Waiting {
    pub targets: Vec<Target>,
    /// Whether mail ends the wait (ORC-96).
    pub take_mail: bool,
    /// Whether growing children get further periods (ORC-84).
    pub grace: bool,
}

/// Why the waiting ended.
enum End {
    /// Everything settled or ran out of its budget.
    All,
    Cancelled,
    Mail(Taken),
}

impl Orchestrator {
    pub(super) async fn collect(&self, call: Collect, cx: &CallCx) -> Report {
        let mut report = Report::default();
        let targets = self.targets(&call.names, call.timeout_ms, &mut report);
        if !targets.is_empty() {
            self.wait_into(Waiting { targets, take_mail: true, grace: true }, &mut report, cx).await;
        }
        let settled = report.items.iter().all(|item| matches!(item, Item::Settled(_)));
        match (call.page, call.names.first()) {
            (Some(page), Some(name)) if settled && !report.interrupted && report.mail.is_empty() => {
                self.page(name, page, report)
            }
            _ => report,
        }
    }

    pub(super) async fn wait(&self, call: Wait, cx: &CallCx) -> Report {
        let mut report = Report::default();
        let targets = if call.names.is_empty() {
            let active = self.kids.all().into_iter().filter(|kid| !kid.is_done());
            active
                .map(|kid| Target { at: None, budget_ms: call.timeout_ms.or(kid.budget_ms), kid, warnings: vec![] })
                .collect()
        } else {
            self.targets(&call.names, call.timeout_ms, &mut report)
        };
        if targets.is_empty() {
            if call.names.is_empty() {
                report.body = Body::NothingToWaitFor;
            }
            return report;
        }
        self.wait_into(Waiting { targets, take_mail: true, grace: false }, &mut report, cx).await;
        report
    }

    /// The named children; those that cannot be waited for are answered at once, in their place.
    fn targets(&self, names: &[String], timeout_ms: Option<u64>, report: &mut Report) -> Vec<Target> {
        let mut targets = Vec::new();
        for name in names {
            let name = normalize_name(name);
            let Some(kid) = self.kids.get(&name) else {
                report.items.push(self.recorded_item(&name));
                continue;
            };
            if let Some(error) = kid.stage().start_error {
                report.items.push(Item::Refused { label: name, error });
                continue;
            }
            // A place in the order of the call, filled when the wait ends.
            let at = Some(report.items.len());
            let running = Item::Running(Box::new(self.snapshot_of(&kid, DEADLINE_REASON)));
            report.items.push(running);
            targets.push(Target { at, budget_ms: timeout_ms.or(kid.budget_ms), kid, warnings: vec![] });
        }
        targets
    }

    /// Waits, and puts what became of each target into the report.
    pub(super) async fn wait_into(&self, waiting: Waiting, report: &mut Report, cx: &CallCx) {
        let end = self.wait_for(&waiting, cx).await;
        let ended_early = !matches!(end, End::All);
        match end {
            End::All => {}
            End::Cancelled => report.interrupted = true,
            End::Mail(taken) => {
                report.mail = taken.mail;
                report.mail_left = taken.left;
            }
        }
        let mut dropped = Vec::new();
        for target in waiting.targets {
            let Target { at, kid, warnings, .. } = target;
            let item = if let Some(error) = kid.stage().start_error {
                Item::Refused { label: kid.name.clone(), error }
            } else if let Some(round) = kid.last().filter(|_| kid.is_done()) {
                let first_delivery = kid.deliver();
                Item::Settled(Box::new(Settled { first_delivery, ..self.settled_of(&kid, &round, warnings) }))
            } else if ended_early {
                report.still_running.push(kid.name.clone());
                // A launched child keeps its line; a collected one is named among those still running.
                if let Some(at) = at.filter(|at| matches!(report.items.get(*at), Some(Item::Running(_)))) {
                    dropped.push(at);
                }
                continue;
            } else {
                report.timed_out = true;
                Item::Running(Box::new(self.snapshot_of(&kid, DEADLINE_REASON)))
            };
            match at.and_then(|at| report.items.get_mut(at)) {
                Some(place) => *place = item,
                None => report.items.push(item),
            }
        }
        for at in dropped.into_iter().rev() {
            report.items.remove(at);
        }
    }

    async fn wait_for(&self, waiting: &Waiting, cx: &CallCx) -> End {
        let began = clock::now_ms();
        let all = join_all(waiting.targets.iter().map(|target| self.wait_for_one(target, waiting.grace)));
        tokio::pin!(all);
        let mut hold: Option<Box<dyn Hold>> =
            self.ports.get().filter(|_| waiting.take_mail).map(|ports| ports.inbox.hold());
        loop {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return End::Cancelled,
                _ = &mut all => return End::All,
                taken = take_mail(&mut hold, waiting.targets.len()) => {
                    if !taken.mail.is_empty() {
                        if let Some(hold) = &mut hold {
                            hold.returned(&cx.tool_call_id);
                        }
                        return End::Mail(taken);
                    }
                }
                () = tokio::time::sleep(PROGRESS_EVERY) => (cx.progress)(self.progress(&waiting.targets, began)),
            }
        }
    }

    /// Until the child is done, or its budget has passed; a growing one gets further periods where asked for (ORC-84).
    async fn wait_for_one(&self, target: &Target, grace: bool) {
        let kid = &target.kid;
        let Some(budget) = target.budget_ms.map(Duration::from_millis) else {
            return kid.until_done().await;
        };
        let mut extensions = if grace { COLLECT_GRACE_EXTENSIONS } else { 0 };
        loop {
            if tokio::time::timeout(budget, kid.until_done()).await.is_ok() || extensions == 0 {
                return;
            }
            extensions -= 1;
            let before = size(kid);
            if tokio::time::timeout(GROWTH_LOOK, kid.until_done()).await.is_ok() || size(kid) <= before {
                return;
            }
        }
    }

    /// A piece of a stored result (CAP-5).
    fn page(&self, name: &str, page: Page, mut report: Report) -> Report {
        let name = normalize_name(name);
        let artifact = report.items.iter().find_map(|item| match item {
            Item::Settled(settled) => settled.artifact.clone(),
            Item::Started(_) | Item::Refused { .. } | Item::Running(_) | Item::TakenDown(_) => None,
        });
        let Some(artifact) = artifact else {
            let error = SubagentError::new(Code::NotFound, format!("child '{name}' has no stored result"));
            return Report { refused: Some(error), ..Report::default() };
        };
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        match read_page(&artifact.path, page.offset, limit) {
            Ok(read) => {
                report.items.clear();
                let mark = artifact.id.map(|artifact| ReadMark { artifact, from: read.from, to: read.to });
                report.body =
                    Body::Page { name, text: read.text, from: read.from, to: read.to, total: read.total, read: mark };
                report
            }
            Err(error) => {
                let error = SubagentError::new(Code::NotFound, error.to_string());
                Report { refused: Some(error), ..Report::default() }
            }
        }
    }

    /// A recorded round as a report shows it, apart from whether this delivers it first.
    pub(super) fn settled_of(&self, kid: &Kid, round: &Round, launch_warnings: Vec<String>) -> Settled {
        let mut warnings = launch_warnings;
        warnings.extend(round.warnings.iter().cloned());
        let (text, unsaved) = match (&round.unsaved, &round.artifact) {
            (Some((text, error)), _) => (text.clone(), Some(error.clone())),
            (None, Some(artifact)) => (read_text(&artifact.path, &mut warnings), None),
            (None, None) => (String::new(), None),
        };
        Settled {
            name: kid.name.clone(),
            agent: kid.agent.name.clone(),
            node_id: kid.node_id.clone(),
            status: round.status,
            reason: round.reason.clone(),
            round: round.round,
            duration_ms: round.duration_ms,
            usage: round.usage,
            model: round.model.clone(),
            text,
            artifact: round.artifact.clone(),
            unsaved,
            acceptance: round.acceptance.clone(),
            verdict: round.verdict,
            warnings,
            first_delivery: false,
        }
    }

    /// A child that is still at work (ORC-86, LINE-8).
    pub(super) fn snapshot_of(&self, kid: &Kid, reason: &str) -> Snapshot {
        let now = clock::now_ms();
        let activity = self.activity_of(kid);
        Snapshot {
            name: kid.name.clone(),
            agent: kid.agent.name.clone(),
            node_id: kid.node_id.clone(),
            reason: reason.to_owned(),
            turn: activity.as_ref().and_then(|activity| activity.turn),
            tool: activity.as_ref().and_then(|activity| tool(activity, now)),
            quiet_ms: activity.as_ref().and_then(|activity| quiet(activity, now)),
            extend_ms: kid.agent.timeout_ms.unwrap_or(DEFAULT_BUDGET_MS),
            // `extend` and `steer` are not in this build; every decision that is offered is one that is taken (ORC-87).
            decisions: vec![Decision::Stop, Decision::ForceStop],
        }
    }

    pub(super) fn activity_of(&self, kid: &Kid) -> Option<Activity> {
        self.shared.activity.get(&kid.session_file)
    }

    fn progress(&self, targets: &[Target], began: i64) -> Progress {
        let now = clock::now_ms();
        let line = |target: &Target| {
            let kid = &target.kid;
            ProgressLine {
                name: kid.name.clone(),
                agent: kid.agent.name.clone(),
                state: kid
                    .last()
                    .filter(|_| kid.is_done())
                    .map_or(kid.label(), |round| round.status.as_str())
                    .to_owned(),
                tool: self.activity_of(kid).and_then(|activity| tool(&activity, now)),
                elapsed_ms: u64::try_from(now - began).unwrap_or_default(),
            }
        };
        Progress { targets: targets.iter().map(line).collect() }
    }
}

/// Resolves when there was mail to take; never without a hold.
async fn take_mail(hold: &mut Option<Box<dyn Hold>>, targets: usize) -> Taken {
    let Some(hold) = hold else { return std::future::pending().await };
    hold.arrived().await;
    hold.take(mail_bytes(targets)).await
}

fn size(kid: &Kid) -> u64 {
    std::fs::metadata(&kid.session_file).map_or(0, |meta| meta.len())
}

pub(super) fn read_text(path: &std::path::Path, warnings: &mut Vec<String>) -> String {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            warnings.push(format!("artifact missing: {}", path.display()));
            String::new()
        }
        Err(error) => {
            warnings.push(format!("failed to read {}: {error}", path.display()));
            String::new()
        }
    }
}

/// The innermost tool and its time in milliseconds.
pub(super) fn tool(activity: &Activity, now: i64) -> Option<(String, u64)> {
    let tool = activity.in_flight_tool()?;
    Some((tool.name, u64::try_from(now - tool.since).unwrap_or_default()))
}

pub(super) fn quiet(activity: &Activity, now: i64) -> Option<u64> {
    u64::try_from(now - activity.last_event_at?).ok()
}
