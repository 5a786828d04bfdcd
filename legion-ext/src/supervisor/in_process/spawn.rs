//! The start of an in-process child, from the limit check to acceptance, and the way back (04 §3.3).

use std::{
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use host_abi::{
    AbiError,
    ops::{ChildKill, ChildPrompt, ModelRef, Prompted, ResolveModel},
};
use tokio::sync::oneshot;

use super::{
    super::{STOPPED_BEFORE_START, SettleResult, SpawnHandle, SpawnInput, SpawnMode, pool::Reservation},
    Entry, Inner,
    child::{Child, State, Target, follow},
};
use crate::{
    context::spawn_scoped,
    core::admission::{AdmissionVerdict, Inflight, evaluate_in_process_admission},
    error::{Code, Result, SubagentError},
};

/// How long a prompt may stay unanswered before the transcript is looked at (SUP-40).
const LOOK_AFTER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Starts a child; answers at acceptance, or when the start time is over.
pub(super) async fn spawn(inner: &Arc<Inner>, mut input: SpawnInput) -> Result<SpawnHandle> {
    if input.mode != SpawnMode::InProcess {
        let mode = input.mode.as_str();
        return Err(SubagentError::new(
            Code::NotAvailable,
            format!("the {mode} backend is not available in this build"),
        ));
    }
    let reservation = input.reservation.take();
    let child = register(inner, &input, reservation)?;
    let undo = Undo { inner: Arc::clone(inner), child: Some(Arc::clone(&child)) };
    let started = tokio::select! {
        biased;
        () = child.ending() => Err(stopped()),
        started = start(inner, &child, input) => started,
    };
    // A take-down that began in the very moment of acceptance may have seen a child that was still starting.
    let started = if child.is_ending() { started.and(Err(stopped())) } else { started };
    match started {
        Ok(handle) => {
            undo.keep();
            spawn_scoped(follow(Arc::clone(inner), child));
            Ok(handle)
        }
        Err(error) => {
            undo.roll_back().await;
            Err(error)
        }
    }
}

fn stopped() -> SubagentError {
    SubagentError::new(Code::StartFailed, STOPPED_BEFORE_START)
}

/// Checks the limits and takes name and slot, in one step.
fn register(inner: &Arc<Inner>, input: &SpawnInput, reservation: Option<Reservation>) -> Result<Arc<Child>> {
    let name = &input.name;
    let session_file = PathBuf::from(input.child.session_file.clone().unwrap_or_default());
    let mut registry = inner.lock();
    if matches!(registry.children.get(name), Some(Entry::Here(_))) {
        return Err(SubagentError::new(Code::NameTaken, format!("child is already alive: '{name}'")));
    }
    let counts = inner.counts(name, input.limits, registry.spawned);
    let reservation = match (evaluate_in_process_admission(&counts, Inflight::default()), reservation) {
        (AdmissionVerdict::Admitted, Some(reservation)) => Ok(reservation),
        (AdmissionVerdict::Admitted, None) => inner.deps.pool.admit(&inner.ask(name, input.limits, registry.spawned)),
        (refused, _) => Err(refused),
    };
    let reservation = reservation.map_err(|verdict| {
        let error = refusal(verdict);
        inner.deps.observer.refused(name, &error.message);
        error
    })?;
    let activity = inner.deps.activity.of(&session_file);
    let child = Arc::new(Child::new(name.clone(), session_file, activity, reservation.commit()));
    registry.children.insert(name.clone(), Entry::Here(Arc::clone(&child)));
    registry.spawned += 1;
    Ok(child)
}

/// The error of a verdict that is not `Admitted`.
fn refusal(verdict: AdmissionVerdict) -> SubagentError {
    let (gate, message) = match verdict {
        AdmissionVerdict::Queue { gate, message } => (gate.as_str(), message),
        AdmissionVerdict::Refuse { gate, message } => (gate.as_str(), message),
        AdmissionVerdict::Admitted => ("other", "refused".to_owned()),
    };
    SubagentError::new(Code::BudgetExceeded, message).with_gate(gate)
}

async fn start(inner: &Arc<Inner>, child: &Arc<Child>, input: SpawnInput) -> Result<SpawnHandle> {
    let SpawnInput { name, task, child: mut spec, model, provider, thinking, start_timeout, .. } = input;
    let host = &inner.deps.host;
    let mut warnings = Vec::new();
    match model {
        Some(model) => {
            let resolve = ResolveModel { model, provider, thinking };
            let resolved = host.request(&resolve).await.map_err(|error| {
                SubagentError::new(Code::StartFailed, format!("inprocess model resolve failed: {error}"))
            })?;
            warnings.extend(resolved.warning);
            spec.model = Some(ModelRef { provider: resolved.provider, id: resolved.id });
            spec.thinking = Some(resolved.thinking);
        }
        None => spec.thinking = thinking,
    }
    let provider = spec.model.as_ref().map(|model| model.provider.clone());
    let chosen = spec.model.as_ref().map(|model| format!("{}/{}", model.provider, model.id));
    let session_file = child.session_file.clone();
    // Before the session writes anything, so that every entry beyond it is this turn's.
    let size = std::fs::metadata(&session_file).map_or(0, |meta| meta.len());
    let created = host.request(&spec).await.map_err(start_failed)?;
    warnings.extend(created.warning.filter(|warning| !warnings.contains(warning)));
    warnings.extend(created.errors);
    child.id.set(created.child.clone()).expect("a child is created once");

    let mut answer = prompt(inner, child, ChildPrompt { child: created.child, text: task, deliver_as: None });
    match acceptance(&mut answer, &session_file, size, start_timeout).await {
        Acceptance::Answered(Ok(prompted)) => accept(child, &prompted),
        Acceptance::Answered(Err(error)) => return Err(start_failed(error)),
        Acceptance::Seen => child.accepted(Target::Unnamed),
        Acceptance::Late => {
            child.accepted(Target::Unnamed);
            inner.deps.observer.delayed(&name, start_timeout);
            warnings.push(format!("not accepted after {}s; still starting", start_timeout.as_secs()));
        }
    }
    Ok(SpawnHandle {
        name,
        mode: SpawnMode::InProcess,
        session_file,
        pid: None,
        model: created.model.or(chosen),
        provider,
        thinking: Some(created.thinking).filter(|level| !level.is_empty()),
        warnings,
    })
}

fn start_failed(error: AbiError) -> SubagentError {
    let failed = SubagentError::new(Code::StartFailed, error.message);
    match error.hint {
        Some(hint) => failed.with_hint(hint),
        None => failed,
    }
}

fn accept(child: &Child, prompted: &Prompted) {
    match prompted.run {
        Some(run) => child.accepted(Target::Run(run)),
        None => {
            child.accepted(Target::Unnamed);
            // An input handler took the prompt (SUP-69).
            child.settle(Target::Unnamed, SettleResult::abnormal("prompt was handled without a run"));
        }
    }
}

/// Sends the first prompt from a task of its own. An answer that nobody awaits any more tells the child itself: a run
/// is followed, a late refusal is a failed turn (SUP-44, SUP-45).
fn prompt(
    inner: &Arc<Inner>,
    child: &Arc<Child>,
    prompt: ChildPrompt,
) -> oneshot::Receiver<Result<Prompted, AbiError>> {
    let (sender, receiver) = oneshot::channel();
    let (inner, child) = (Arc::clone(inner), Arc::clone(child));
    spawn_scoped(async move {
        let answer = tokio::select! {
            () = child.ending() => return,
            answer = inner.deps.host.request(&prompt) => answer,
        };
        match sender.send(answer) {
            Ok(()) => {}
            Err(Ok(prompted)) => accept(&child, &prompted),
            Err(Err(error)) => {
                let reason = format!("child turn failed: {error}");
                inner.deps.observer.refused(&child.name, &reason);
                child.settle(Target::Unnamed, SettleResult::abnormal(reason));
            }
        }
    });
    receiver
}

enum Acceptance {
    Answered(Result<Prompted, AbiError>),
    /// The transcript holds the prompt (SUP-40).
    Seen,
    /// The start time is over; not an error (SUP-41).
    Late,
}

async fn acceptance(
    answer: &mut oneshot::Receiver<Result<Prompted, AbiError>>,
    session_file: &Path,
    size: u64,
    start_timeout: Duration,
) -> Acceptance {
    let seen = async {
        tokio::time::sleep(LOOK_AFTER).await;
        while !holds_user_entry(session_file, size) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let early = tokio::select! {
        biased;
        answer = &mut *answer => return Acceptance::Answered(answered(answer)),
        () = seen => Acceptance::Seen,
        () = tokio::time::sleep(start_timeout) => Acceptance::Late,
    };
    // From here on the prompting task sees that nobody listens; an answer that crossed is taken now.
    answer.close();
    match answer.try_recv() {
        Ok(answer) => Acceptance::Answered(answer),
        Err(_) => early,
    }
}

fn answered<E>(answer: Result<Result<Prompted, AbiError>, E>) -> Result<Prompted, AbiError> {
    // The prompting task is only dropped with the runtime, or by a take-down that ends this wait too.
    answer.unwrap_or_else(|_| Err(AbiError::host(STOPPED_BEFORE_START)))
}

/// Whether the transcript has a user entry beyond its first `from` bytes.
fn holds_user_entry(session_file: &Path, from: u64) -> bool {
    let Ok(mut file) = std::fs::File::open(session_file) else { return false };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return false;
    }
    BufReader::new(file).lines().map_while(Result::ok).any(|line| {
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        entry["type"] == "message" && entry["message"]["role"] == "user"
    })
}

/// Undoes a spawn: kept, rolled back, or dropped half-way (SUP-39, SUP-43).
struct Undo {
    inner: Arc<Inner>,
    child: Option<Arc<Child>>,
}

impl Undo {
    fn keep(mut self) {
        self.child = None;
    }

    async fn roll_back(mut self) {
        if let Some(child) = self.child.clone() {
            self.inner.dispose(&child).await;
            self.child = None;
            roll_back(&self.inner, &child);
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        if let Some(id) = child.id.get() {
            self.inner.deps.host.post(&ChildKill { child: id.clone() });
        }
        roll_back(&self.inner, &child);
    }
}

fn roll_back(inner: &Inner, child: &Arc<Child>) {
    inner.lock().spawned -= 1;
    inner.finish(child, State::Exited, SettleResult::abnormal(STOPPED_BEFORE_START));
}
