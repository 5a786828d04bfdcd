//! Children by script, for tests: a host whose child sessions write real transcripts and end when the test says so.

use std::{
    collections::HashMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use host_abi::{AbiError, ops};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::host::fake::RecordingHost;

/// How one child behaves.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// `child.create` fails with this.
    pub create_error: Option<AbiError>,
    pub prompt: OnPrompt,
    /// Each run ends at once with this text.
    pub reply: Option<String>,
    /// `child.dispose` is never answered.
    pub dispose_hangs: bool,
}

impl Plan {
    /// A child that answers every prompt with `text` at once.
    pub fn replies(text: &str) -> Self {
        Self { reply: Some(text.to_owned()), ..Self::default() }
    }
}

/// What becomes of prompts.
#[derive(Debug, Clone, Default)]
pub enum OnPrompt {
    #[default]
    Accept,
    /// Refused before acceptance.
    Fail(AbiError),
    /// The prompt is not answered until [`FakeChild::answer_prompt`].
    Hang,
    Handled,
}

type Planner = dyn Fn(&ops::ChildSpec) -> Plan + Send + Sync;

/// The children of a [`RecordingHost`].
#[derive(Clone)]
pub struct FakeChildren(Arc<Shared>);

struct Shared {
    planner: Mutex<Arc<Planner>>,
    children: Mutex<Vec<Arc<FakeChild>>>,
    arrived: Notify,
}

/// One child session.
pub struct FakeChild {
    pub id: String,
    pub spec: ops::ChildSpec,
    plan: Plan,
    state: watch::Sender<FakeState>,
    prompts: Mutex<Vec<String>>,
    answer: Mutex<Option<Result<(), AbiError>>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct FakeState {
    runs: u64,
    /// Runs that are over.
    ended: u64,
    aborted: bool,
    gone: bool,
    wait_error: Option<AbiError>,
    /// Counts answers to hanging prompts.
    answers: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeChildren {
    /// Answers the `child.*` operations of `host`, and `models.resolve`, `extensions.list` and `session.info`.
    pub fn install(host: &RecordingHost) -> Self {
        let shared = Shared {
            planner: Mutex::new(Arc::new(|_| Plan::default())),
            children: Mutex::default(),
            arrived: Notify::new(),
        };
        let fake = Self(Arc::new(shared));
        fake.answer_children(host);
        fake.answer_lives(host);
        host.answer::<ops::ResolveModel>(|_, input| {
            let (provider, id) = input.model.split_once('/').unwrap_or(("fake", &input.model));
            let thinking = input.thinking.unwrap_or_else(|| "off".to_owned());
            Ok(ops::ResolvedModel { provider: provider.into(), id: id.into(), thinking, warning: None })
        });
        host.answer::<ops::ListExtensions>(|_, _| Ok(ops::Extensions::default()));
        host.answer::<ops::GetSessionInfo>(|_, _| {
            Ok(ops::SessionInfo {
                session_id: "s".into(),
                session_file: None,
                model: Some("fake/parent".into()),
                thinking: "off".into(),
                idle: false,
                pending_messages: 0,
                context_usage: None,
                tools: Vec::new(),
            })
        });
        fake
    }

    /// How children behave from now on.
    pub fn plan(&self, planner: impl Fn(&ops::ChildSpec) -> Plan + Send + Sync + 'static) {
        *lock(&self.0.planner) = Arc::new(planner);
    }

    /// The newest child of this name.
    pub fn get(&self, name: &str) -> Option<Arc<FakeChild>> {
        lock(&self.0.children).iter().rev().find(|child| child.spec.name == name).cloned()
    }

    /// Waits for a child of this name that has been prompted.
    pub async fn prompted(&self, name: &str) -> Arc<FakeChild> {
        loop {
            let arrived = self.0.arrived.notified();
            if let Some(child) = self.get(name).filter(|child| !lock(&child.prompts).is_empty()) {
                return child;
            }
            arrived.await;
        }
    }

    /// As [`Self::prompted`], for a child that does not answer its prompt.
    pub async fn prompted_hanging(&self, name: &str) -> Arc<FakeChild> {
        loop {
            if let Some(child) = self.get(name).filter(|child| !lock(&child.prompts).is_empty()) {
                return child;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Children that were made, in order.
    pub fn made(&self) -> Vec<String> {
        lock(&self.0.children).iter().map(|child| child.spec.name.clone()).collect()
    }

    /// Children that are not disposed of.
    pub fn living(&self) -> Vec<String> {
        let living = |child: &&Arc<FakeChild>| !child.state.borrow().gone;
        lock(&self.0.children).iter().filter(living).map(|child| child.spec.name.clone()).collect()
    }

    fn child(&self, id: &str) -> Result<Arc<FakeChild>, AbiError> {
        let found = lock(&self.0.children).iter().find(|child| child.id == id).cloned();
        found.filter(|child| !child.state.borrow().gone).ok_or_else(|| AbiError::no_child(id))
    }

    fn answer_children(&self, host: &RecordingHost) {
        let fake = self.clone();
        host.answer::<ops::ChildSpec>(move |_, spec| {
            let planner = Arc::clone(&lock(&fake.0.planner));
            let plan = planner(&spec);
            if let Some(error) = plan.create_error {
                return Err(error);
            }
            let id = format!("child-{}", lock(&fake.0.children).len());
            let file = spec.session_file.clone().unwrap_or_default();
            let model = spec.model.as_ref().map(|model| format!("{}/{}", model.provider, model.id));
            let child = FakeChild {
                id: id.clone(),
                spec,
                plan,
                state: watch::Sender::default(),
                prompts: Mutex::default(),
                answer: Mutex::default(),
            };
            child.begin_file();
            lock(&fake.0.children).push(Arc::new(child));
            Ok(ops::ChildCreated {
                child: id.clone(),
                scope: 100,
                session_file: file,
                session_id: id,
                tools: Vec::new(),
                model,
                thinking: "off".into(),
                warning: None,
                errors: Vec::new(),
            })
        });
        let fake = self.clone();
        host.handle::<ops::ChildPrompt, _>(move |_, input| {
            let fake = fake.clone();
            Box::pin(async move {
                let child = fake.child(&input.child)?;
                let answer = child.prompted(&input.text).await;
                fake.0.arrived.notify_waiters();
                answer
            })
        });
        let fake = self.clone();
        host.handle::<ops::ChildWaitIdle, _>(move |_, input| {
            let fake = fake.clone();
            Box::pin(async move {
                let child = fake.child(&input.child)?;
                let mut state = child.state.subscribe();
                let over = |state: &FakeState| {
                    state.gone || state.wait_error.is_some() || state.ended >= input.run.unwrap_or(state.runs)
                };
                let state = state.wait_for(over).await.expect("the child holds the sender").clone();
                match state.wait_error {
                    Some(error) => Err(error),
                    None if state.gone => Err(AbiError::no_child(&input.child)),
                    None => Ok(ops::Idle { aborted: state.aborted }),
                }
            })
        });
    }

    fn answer_lives(&self, host: &RecordingHost) {
        let fake = self.clone();
        host.handle::<ops::ChildDispose, _>(move |_, input| {
            let fake = fake.clone();
            Box::pin(async move {
                let child = fake.child(&input.child)?;
                if child.plan.dispose_hangs {
                    std::future::pending::<()>().await;
                }
                child.state.send_modify(|state| state.gone = true);
                Ok(ops::Done {})
            })
        });
        let fake = self.clone();
        host.answer::<ops::ChildAbort>(move |_, input| {
            let child = fake.child(&input.child)?;
            child.append(&assistant("", "aborted", Some("aborted")));
            child.state.send_modify(|state| {
                state.aborted = true;
                state.ended = state.runs;
            });
            Ok(ops::Done {})
        });
        let fake = self.clone();
        host.answer::<ops::GetChildStats>(move |_, input| {
            let state = fake.child(&input.child)?.state.borrow().clone();
            Ok(ops::ChildStats { idle: state.ended == state.runs, runs: state.runs, ..ops::ChildStats::default() })
        });
    }
}

impl FakeChild {
    pub fn session_file(&self) -> PathBuf {
        PathBuf::from(self.spec.session_file.clone().unwrap_or_default())
    }

    pub fn scope(&self) -> &Value {
        self.spec.extension_scope.as_ref().unwrap_or(&Value::Null)
    }

    /// Texts that were given to the child.
    pub fn prompts(&self) -> Vec<String> {
        lock(&self.prompts).clone()
    }

    /// The present run ends with an answer.
    pub fn reply(&self, text: &str) {
        self.end(&assistant(text, "stop", None));
    }

    /// The present run ends with this entry.
    pub fn end(&self, entry: &Value) {
        self.append(entry);
        self.idle();
    }

    /// The present run ends without an entry.
    pub fn idle(&self) {
        self.state.send_modify(|state| state.ended = state.runs);
    }

    /// `child.wait_idle` fails.
    pub fn fail_wait(&self, error: AbiError) {
        self.state.send_modify(|state| state.wait_error = Some(error));
    }

    /// A run that the child began by itself.
    pub fn begin_run(&self, text: &str) {
        self.append(&user(text));
        self.state.send_modify(|state| state.runs += 1);
    }

    /// Answers a prompt that hangs.
    pub fn answer_prompt(&self, answer: Result<(), AbiError>) {
        *lock(&self.answer) = Some(answer);
        self.state.send_modify(|state| state.answers += 1);
    }

    /// Appends an entry to the transcript.
    pub fn append(&self, entry: &Value) {
        append(&self.session_file(), entry);
    }

    async fn prompted(&self, text: &str) -> Result<ops::Prompted, AbiError> {
        lock(&self.prompts).push(text.to_owned());
        match &self.plan.prompt {
            OnPrompt::Accept => {}
            OnPrompt::Fail(error) => return Err(error.clone()),
            OnPrompt::Handled => return Ok(ops::Prompted { disposition: ops::Disposition::Handled, run: None }),
            OnPrompt::Hang => {
                let mut state = self.state.subscribe();
                state.wait_for(|state| state.answers > 0).await.expect("the child holds the sender");
                if let Some(Err(error)) = lock(&self.answer).clone() {
                    return Err(error);
                }
            }
        }
        self.append(&user(text));
        let mut disposition = ops::Disposition::Queued;
        self.state.send_modify(|state| {
            state.aborted = false;
            if state.ended == state.runs {
                state.runs += 1;
                disposition = ops::Disposition::Started;
            }
        });
        let run = self.state.borrow().runs;
        if let Some(reply) = &self.plan.reply {
            self.reply(reply);
        }
        Ok(ops::Prompted { disposition, run: Some(run) })
    }

    fn begin_file(&self) {
        let path = self.session_file();
        if !path.as_os_str().is_empty() && fs::metadata(&path).map_or(0, |meta| meta.len()) == 0 {
            append(&path, &json!({ "type": "session", "version": 3, "id": self.id, "timestamp": "t", "cwd": "/" }));
        }
    }
}

impl std::fmt::Debug for FakeChild {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeChild").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

/// A user message as an entry.
pub fn user(text: &str) -> Value {
    entry(json!({ "role": "user", "content": [{ "type": "text", "text": text }] }))
}

/// An answer as an entry, with ten tokens in and five out.
pub fn assistant(text: &str, stop: &str, error: Option<&str>) -> Value {
    let content = if text.is_empty() { json!([]) } else { json!([{ "type": "text", "text": text }]) };
    let usage = json!({ "input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15,
        "cost": { "input": 0.1, "output": 0.1, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.2 } });
    let mut message = json!({ "role": "assistant", "content": content, "usage": usage, "stopReason": stop });
    if let Some(error) = error {
        message["errorMessage"] = error.into();
    }
    entry(message)
}

fn entry(message: Value) -> Value {
    json!({ "type": "message", "message": message })
}

/// Appends `entry`, with an id and a parent, to a session file.
pub fn append(path: &Path, entry: &Value) {
    static NEXT: Mutex<Option<HashMap<PathBuf, u64>>> = Mutex::new(None);
    let mut entry = entry.clone();
    if entry["type"] != "session" {
        let mut next = lock(&NEXT);
        let n = next.get_or_insert_default().entry(path.to_owned()).or_default();
        entry["parentId"] = if *n == 0 { Value::Null } else { format!("e{n}").into() };
        *n += 1;
        entry["id"] = format!("e{n}").into();
        entry["timestamp"] = "2026-01-01T00:00:00.000Z".into();
    }
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{entry}\n").as_bytes()).unwrap();
}
