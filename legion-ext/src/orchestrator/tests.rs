//! The orchestrator against the recording host, its children by script (03, 04).

mod launch;
mod lifecycle;
mod nested;
mod results;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use host_abi::{
    info::{AttachSpec, Mode},
    scope::ExtensionScope,
};
use tokio_util::sync::CancellationToken;

use super::{
    command::{
        CallCx, Collect, Command, Dispatch, Launch, LaunchItem, StatusQuery, TakeDown, TakeDownWording, Target, Wait,
    },
    ports::{Hold, Inbox, Outbox, Ports, Taken},
    report::{Item, MailText, Projection, Report, Settled, Started},
    *,
};
use crate::{
    context::{Identity, spawn_scoped},
    host::fake::RecordingHost,
    ledger::nodes::{self, NodeRow},
    supervisor::fake::{FakeChild, FakeChildren, Plan},
};

/// A host, a project and everything a process holds once.
struct World {
    host: RecordingHost,
    fake: FakeChildren,
    shared: Arc<Shared>,
    dir: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
    mail: Arc<FakeMail>,
}

impl World {
    fn new() -> Self {
        let host = RecordingHost::default();
        let world = Self {
            fake: FakeChildren::install(&host),
            host,
            shared: Arc::default(),
            dir: tempfile::tempdir().unwrap(),
            told: Arc::default(),
            mail: Arc::default(),
        };
        std::fs::create_dir_all(world.project().join(".pi/agents")).unwrap();
        std::fs::create_dir_all(world.dir.path().join("agent")).unwrap();
        world
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A project card; `front` is its front matter without the name and the description.
    fn card(&self, name: &str, front: &str) {
        let text = format!("---\nname: {name}\ndescription: a {name}\n{front}\n---\nYou are a {name}.\n");
        std::fs::write(self.project().join(format!(".pi/agents/{name}.md")), text).unwrap();
    }

    /// The project's `subagents` settings.
    fn settings(&self, subagents: &str) {
        std::fs::write(self.project().join(".pi/settings.json"), format!("{{\"subagents\":{subagents}}}")).unwrap();
    }

    fn attach(&self, agent: &str, identity: Identity) -> Arc<Orchestrator> {
        let session_file = match &identity {
            Identity::Root => self.dir.path().join(format!("{agent}.jsonl")),
            Identity::Child(scope) => PathBuf::from(&scope.session_file),
        };
        let spec = AttachSpec {
            agent_id: agent.to_owned(),
            session_id: format!("session-{agent}"),
            session_file: Some(session_file.display().to_string()),
            cwd: self.project().display().to_string(),
            mode: Mode::Print,
            has_ui: false,
            project_trusted: true,
            extension_scope: None,
        };
        let orchestrator = Orchestrator::new(OrchestratorDeps {
            host: self.host.session(1),
            context: Arc::new(SessionContext::new(spec, identity)),
            shared: Arc::clone(&self.shared),
            agent_dir: self.dir.path().join("agent"),
        });
        orchestrator.connect(Ports {
            inbox: Arc::new(Arc::clone(&self.mail)),
            outbox: Arc::new(FakeOutbox(Arc::clone(&self.told))),
        });
        orchestrator
    }

    fn root(&self) -> Arc<Orchestrator> {
        self.attach("root", Identity::Root)
    }

    /// The orchestrator of a child's own session, as its host would attach it.
    fn session_of(&self, child: &Arc<FakeChild>) -> Arc<Orchestrator> {
        let scope = ExtensionScope::parse(child.scope()).unwrap();
        self.attach(&child.spec.agent_id, Identity::Child(Box::new(scope)))
    }
}

struct FakeOutbox(Arc<Mutex<Vec<String>>>);

impl Outbox for FakeOutbox {
    fn settled(&self, name: &str) {
        self.0.lock().unwrap().push(name.to_owned());
    }
}

/// A mailbox that a test fills.
#[derive(Default)]
struct FakeMail {
    waiting: Mutex<Vec<MailText>>,
    arrived: tokio::sync::Notify,
    /// Holds that are open.
    holds: std::sync::atomic::AtomicUsize,
    returned: Mutex<Vec<String>>,
}

impl FakeMail {
    fn put(&self, text: &str) {
        self.waiting.lock().unwrap().push(MailText {
            id: 7,
            from: "w".into(),
            kind: "question".into(),
            urgency: "action-needed".into(),
            subject: "which?".into(),
            text: text.into(),
        });
        self.arrived.notify_waiters();
    }

    fn open(&self) -> usize {
        self.holds.load(std::sync::atomic::Ordering::SeqCst)
    }
}

struct FakeHold(Arc<FakeMail>);

impl Inbox for Arc<FakeMail> {
    fn hold(&self) -> Box<dyn Hold> {
        self.holds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Box::new(FakeHold(Arc::clone(self)))
    }
}

#[async_trait::async_trait]
impl Hold for FakeHold {
    async fn arrived(&mut self) {
        loop {
            let arrived = self.0.arrived.notified();
            if !self.0.waiting.lock().unwrap().is_empty() {
                return;
            }
            arrived.await;
        }
    }

    async fn take(&mut self, _: usize) -> Taken {
        Taken { mail: std::mem::take(&mut self.0.waiting.lock().unwrap()), left: 0 }
    }

    fn returned(&mut self, tool_call_id: &str) {
        self.0.returned.lock().unwrap().push(tool_call_id.to_owned());
    }
}

impl Drop for FakeHold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
}

fn cx() -> CallCx {
    CallCx { tool_call_id: "call".into(), cancel: CancellationToken::new(), progress: Arc::new(|_| {}) }
}

fn item(agent: &str, name: Option<&str>) -> LaunchItem {
    LaunchItem {
        agent: Some(agent.into()),
        task: format!("work as {agent}"),
        name: name.map(str::to_owned),
        ..LaunchItem::default()
    }
}

fn launch(items: Vec<LaunchItem>) -> Launch {
    Launch { dispatch: Dispatch::Subagent, items, run_async: None, timeout_ms: None }
}

impl Orchestrator {
    async fn go(&self, command: Command) -> Report {
        self.run(command, &cx()).await
    }

    async fn start_async(&self, items: Vec<LaunchItem>) -> Report {
        self.go(Command::Launch(launch(items))).await
    }

    async fn start_sync(&self, items: Vec<LaunchItem>) -> Report {
        self.go(Command::Launch(Launch { run_async: Some(false), ..launch(items) })).await
    }

    async fn wait_all(&self) -> Report {
        self.go(Command::Wait(Wait { names: vec![], timeout_ms: None })).await
    }

    async fn collect_one(&self, name: &str) -> Report {
        self.go(Command::Collect(Collect { names: vec![name.into()], timeout_ms: None, page: None })).await
    }

    async fn stop(&self, names: &[&str]) -> Report {
        let target = Target::Names(names.iter().map(|name| (*name).to_owned()).collect());
        self.go(Command::TakeDown(TakeDown { target, wording: TakeDownWording::Stop, force: false })).await
    }

    fn row(&self, id: &str) -> Option<NodeRow> {
        self.ledger().unwrap().read(|conn| nodes::get(conn, id)).unwrap()
    }

    fn status_of(&self, id: &str) -> String {
        self.row(id).map_or_else(|| "none".into(), |row| row.status.to_string())
    }

    fn look(&self) -> Projection {
        self.project(&StatusQuery { all: true, ..StatusQuery::default() }).unwrap()
    }
}

/// One word per item, with what matters of it.
fn lines(report: &Report) -> Vec<String> {
    report.items.iter().map(line).collect()
}

fn line(item: &Item) -> String {
    match item {
        Item::Started(started) => format!("> {} ({})", started.name, started.agent),
        Item::Refused { label, error } => format!("x {label}: {}", error.message),
        Item::Settled(settled) => {
            format!("{} {} r{}: {}", settled.status.as_str(), settled.name, settled.round, settled.text)
        }
        Item::Running(snapshot) => format!("running {} ({})", snapshot.name, snapshot.reason),
        Item::TakenDown(taken) => format!("down {} {:?} also {:?}", taken.name, taken.how, taken.also),
    }
}

fn started(report: &Report, at: usize) -> &Started {
    match &report.items[at] {
        Item::Started(started) => started,
        other => panic!("{other:?}"),
    }
}

fn settled(report: &Report, at: usize) -> &Settled {
    match &report.items[at] {
        Item::Settled(settled) => settled,
        other => panic!("{other:?}"),
    }
}

fn replies(fake: &FakeChildren) {
    fake.plan(|spec| Plan::replies(&format!("{} is done", spec.name)));
}

/// Lets every ready task run.
async fn settle_tasks() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const SECOND: Duration = Duration::from_secs(1);
