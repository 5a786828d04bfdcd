use std::{path::PathBuf, sync::atomic::AtomicU32};

use host_abi::{
    events::{AgentSettled, Event},
    info::{AttachSpec, Mode},
    ops::ChildSpec,
    scope::ExtensionScope,
};
use serde_json::json;

use super::*;
use crate::{
    context::{Identity, SessionContext},
    core::admission::ROOT_PARENT_KEY,
    host::fake::RecordingHost,
    supervisor::{
        SpawnMode,
        fake::{FakeChildren, OnPrompt, Plan, user},
        pool::SlotReleased,
    },
};

const LIMITS: InProcessLimits =
    InProcessLimits { max_depth: 4, max_children_per_node: 8, max_active: 30, max_spawns_per_session: None };
const START: Duration = Duration::from_secs(15);

#[derive(Default)]
struct Seen {
    delayed: AtomicU32,
    refused: Mutex<Vec<String>>,
}

impl SpawnObserver for Seen {
    fn delayed(&self, _: &str, _: Duration) {
        self.delayed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }

    fn refused(&self, _: &str, message: &str) {
        self.refused.lock().unwrap().push(message.to_owned());
    }
}

struct World {
    host: RecordingHost,
    fake: FakeChildren,
    pool: Arc<Pool>,
    activity: Arc<ActivityBoard>,
    seen: Arc<Seen>,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let host = RecordingHost::default();
        Self {
            fake: FakeChildren::install(&host),
            host,
            pool: Arc::default(),
            activity: Arc::default(),
            seen: Arc::default(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn session(&self, agent: &str, depth: u32) -> InProcess {
        InProcess::new(InProcessDeps {
            host: self.host.session(1),
            pool: Arc::clone(&self.pool),
            activity: Arc::clone(&self.activity),
            parent: ParentKey { session: agent.into(), label: ROOT_PARENT_KEY.into() },
            depth,
            observer: Arc::clone(&self.seen) as _,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(format!("{name}.jsonl"));
        std::fs::File::options().append(true).create(true).open(&path).unwrap();
        path
    }

    fn input(&self, name: &str) -> SpawnInput {
        let child = ChildSpec {
            agent_id: name.into(),
            name: name.into(),
            cwd: "/".into(),
            session_file: Some(self.file(name).display().to_string()),
            session_dir: None,
            session_id: None,
            parent_session: None,
            system_prompt: None,
            append_system_prompt: None,
            tools: None,
            exclude_tools: Vec::new(),
            model: None,
            thinking: None,
            extensions: Vec::new(),
            skills: Vec::new(),
            context_files: false,
            host_skills: false,
            extension_scope: None,
        };
        SpawnInput {
            name: name.into(),
            mode: SpawnMode::InProcess,
            task: "do it".into(),
            child,
            model: Some("fake/small".into()),
            provider: None,
            thinking: None,
            limits: LIMITS,
            reservation: None,
            start_timeout: START,
        }
    }
}

fn gone(error: &SubagentError) -> bool {
    error.code == Code::NotFound
}

/// SUP-2, SUP-7, SUP-39, SUP-40, part of 04-T1: the spawn returns while the turn runs.
#[tokio::test]
async fn a_spawn_returns_at_acceptance_and_a_wait_at_the_end_of_the_turn() {
    let world = World::new();
    let sup = world.session("a", 0);
    let handle = sup.spawn_child(world.input("w")).await.unwrap();
    assert_eq!((handle.model.as_deref(), handle.provider.as_deref()), (Some("fake/small"), Some("fake")));
    assert_eq!(sup.state("w"), Some("running"));
    let early = sup.wait_settled("w", Some(Duration::from_millis(1)), None).await.unwrap();
    assert_eq!(early, SettleResult::unsettled(TIMED_OUT));
    world.fake.get("w").unwrap().reply("done");
    assert_eq!(sup.wait_settled("w", None, None).await.unwrap(), SettleResult::ok());
    assert_eq!((sup.state("w"), sup.is_alive("w")), (Some("idle"), true));
    assert_eq!(sup.wait_settled("w", None, None).await.unwrap(), SettleResult::ok());
    let ops: Vec<String> = world.host.calls(None).into_iter().map(|call| call.op).collect();
    assert_eq!(&ops[..3], ["models.resolve", "child.create", "child.prompt"]);
}

/// 04-T1, SUP-40, SUP-41: acceptance seen in the transcript, and none within the start time.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_answered_late_still_yields_a_handle() {
    let world = World::new();
    let sup = world.session("a", 0);
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });

    let handle = sup.spawn_child(world.input("slow")).await.unwrap();
    assert_eq!(handle.warnings, ["not accepted after 15s; still starting"]);
    assert_eq!(world.seen.delayed.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!(sup.state("slow"), Some("running"));
    let slow = world.fake.get("slow").unwrap();
    slow.answer_prompt(Ok(()));
    world.host.until("child.wait_idle", 1).await;
    slow.reply("late");
    assert_eq!(sup.wait_settled("slow", None, None).await.unwrap(), SettleResult::ok());

    let before = tokio::time::Instant::now();
    let mut input = world.input("quiet");
    crate::supervisor::fake::append(&world.file("quiet"), &user("an older turn"));
    input.task = "seen".into();
    let (spawned, ()) = tokio::join!(sup.spawn_child(input), async {
        let child = world.fake.prompted_hanging("quiet").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        child.append(&user("seen"));
    });
    assert_eq!(spawned.unwrap().warnings, Vec::<String>::new());
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    assert_eq!(world.seen.delayed.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// SUP-42, SUP-43, SUP-46, part of 04-T2: nothing is left of a spawn that the host refused.
#[tokio::test]
async fn a_refusal_before_acceptance_is_rolled_back() {
    let world = World::new();
    let sup = world.session("a", 0);
    let released = Arc::new(Mutex::new(Vec::<SlotReleased>::new()));
    let heard = Arc::clone(&released);
    let _subscription = world.pool.subscribe(move |slot| heard.lock().unwrap().push(slot.clone()));

    let refusals = ["no model", "No API key found for fake", "compaction in progress"];
    for (n, text) in refusals.into_iter().enumerate() {
        world.fake.plan(move |_| Plan { prompt: OnPrompt::Fail(AbiError::host(text)), ..Plan::default() });
        let error = sup.spawn_child(world.input("w")).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (Code::StartFailed, text));
        assert_eq!(released.lock().unwrap().len(), n + 1);
        assert_eq!((sup.is_alive("w"), sup.spawn_count(), world.pool.active()), (false, 0, 0));
        assert!(world.fake.living().is_empty());
    }
    world.fake.plan(|_| Plan { create_error: Some(AbiError::host("no room")), ..Plan::default() });
    assert_eq!(sup.spawn_child(world.input("w")).await.unwrap_err().message, "no room");
    world.host.answer::<host_abi::ops::ResolveModel>(|_, _| Err(AbiError::host("no such model")));
    let error = sup.spawn_child(world.input("w")).await.unwrap_err();
    assert_eq!(error.message, "inprocess model resolve failed: no such model");
    assert!(released.lock().unwrap().iter().all(|slot| slot.state == "exited"));
    assert_eq!(sup.retire_child("w", RetireOptions { graceful: true }).await, Ok(()));

    world.fake.plan(|_| Plan::replies("ok"));
    let mut input = world.input("w");
    input.model = None;
    sup.spawn_child(input).await.unwrap();
    assert_eq!(sup.spawn_count(), 1);
}

/// 04-T3, SUP-44, SUP-45
#[tokio::test(start_paused = true)]
async fn a_failure_after_acceptance_is_a_failed_turn() {
    let world = World::new();
    let sup = world.session("a", 0);
    sup.spawn_child(world.input("w")).await.unwrap();
    world.fake.get("w").unwrap().fail_wait(AbiError::host("the stream broke"));
    let settled = sup.wait_settled("w", None, None).await.unwrap();
    assert_eq!(settled, SettleResult::abnormal("child turn failed: the stream broke"));
    assert!(sup.is_alive("w"));

    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    sup.spawn_child(world.input("late")).await.unwrap();
    world.fake.get("late").unwrap().answer_prompt(Err(AbiError::host("no key")));
    let settled = sup.wait_settled("late", None, None).await.unwrap();
    assert_eq!(settled, SettleResult::abnormal("child turn failed: no key"));
    assert_eq!(*world.seen.refused.lock().unwrap(), ["child turn failed: no key"]);
}

/// SUP-69
#[tokio::test]
async fn a_handled_prompt_is_a_settled_turn_without_a_run() {
    let world = World::new();
    let sup = world.session("a", 0);
    world.fake.plan(|_| Plan { prompt: OnPrompt::Handled, ..Plan::default() });
    sup.spawn_child(world.input("w")).await.unwrap();
    let settled = sup.wait_settled("w", None, None).await.unwrap();
    assert_eq!(settled, SettleResult::abnormal("prompt was handled without a run"));
}

/// 04-T4, SUP-47 … SUP-50
#[tokio::test]
async fn each_limit_has_its_text_and_the_preflight_changes_nothing() {
    let world = World::new();
    let sup = world.session("a", 4);
    let deep = world.input("w");
    let error = sup.spawn_child(deep).await.unwrap_err();
    let text = "inprocess nesting limit reached (depth 4, max 4); \
                raise subagents.inprocess.maxDepth to allow deeper nesting";
    assert_eq!(
        (error.code, error.message.as_str(), error.gate),
        (Code::BudgetExceeded, text, Some("inprocess.maxDepth"))
    );
    assert_eq!(*world.seen.refused.lock().unwrap(), [text]);

    let sup = world.session("b", 0);
    let spawn = |name: &str, limits| {
        let mut input = world.input(name);
        input.limits = limits;
        sup.spawn_child(input)
    };
    spawn("w", LIMITS).await.unwrap();
    assert_eq!(spawn("w", LIMITS).await.unwrap_err().message, "child is already alive: 'w'");
    let rows = [
        (
            InProcessLimits { max_spawns_per_session: Some(1), max_active: 1, max_children_per_node: 1, ..LIMITS },
            "inprocess spawn budget exhausted (1/1); raise subagents.inprocess.maxSpawnsPerSession to allow more",
        ),
        (
            InProcessLimits { max_active: 1, max_depth: 0, max_children_per_node: 1, ..LIMITS },
            "inprocess maxActive reached (1/1); raise subagents.inprocess.maxActive to allow more",
        ),
        (
            InProcessLimits { max_depth: 0, max_children_per_node: 1, ..LIMITS },
            "inprocess nesting limit reached (depth 0, max 0); raise subagents.inprocess.maxDepth to allow deeper nesting",
        ),
        (
            InProcessLimits { max_children_per_node: 1, ..LIMITS },
            "inprocess maxChildrenPerNode reached for '<root>' (1/1)",
        ),
    ];
    for (limits, text) in rows {
        let before = sup.admission_counts("x", limits);
        let (AdmissionVerdict::Queue { message, .. } | AdmissionVerdict::Refuse { message, .. }) =
            sup.preflight_admission("x", limits)
        else {
            panic!("{text}: not admitted");
        };
        assert_eq!(message, text);
        assert_eq!(sup.admission_counts("x", limits), before);
        assert_eq!(spawn("x", limits).await.unwrap_err().message, text);
        assert_eq!(sup.state("x"), None);
    }
}

/// 04-T5, SUP-10, SUP-52, SUP-55, SUP-122: the slot goes with the end of a child, not with the end of a turn.
#[tokio::test]
async fn a_slot_is_released_once_at_the_end_and_not_on_idle() {
    let world = World::new();
    let sup = world.session("a", 0);
    let released = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&released);
    let _bad = world.pool.subscribe(|_| panic!("a listener's fault"));
    let _good = world.pool.subscribe(move |slot| heard.lock().unwrap().push(slot.state));
    sup.spawn_child(world.input("w")).await.unwrap();
    world.fake.get("w").unwrap().reply("done");
    sup.wait_settled("w", None, None).await.unwrap();
    assert_eq!((released.lock().unwrap().len(), world.pool.active()), (0, 1));

    world.host.answer::<ChildPrompt>(|_, _| Err(AbiError::host("busy")));
    assert!(!gone(&sup.prompt("w", "more").await.unwrap_err()));
    let options = RetireOptions { graceful: true };
    let (one, two) = tokio::join!(sup.retire_child("w", options), sup.retire_child("w", options));
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert_eq!(world.host.calls(Some("child.dispose")).len(), 1);
    assert_eq!(sup.retire_child("w", options).await, Ok(()));
    assert_eq!((sup.state("w"), world.pool.active()), (Some("retired"), 0));
    assert!(gone(&sup.prompt("w", "more").await.unwrap_err()));
    assert!(gone(&sup.retire_child("nobody", options).await.unwrap_err()));

    world.fake.plan(|_| Plan { create_error: Some(AbiError::host("no")), ..Plan::default() });
    sup.spawn_child(world.input("x")).await.unwrap_err();
    assert_eq!(*released.lock().unwrap(), ["retired", "exited"]);
}

/// 04-T9, SUP-4 … SUP-6
#[tokio::test(start_paused = true)]
async fn waiters_end_by_themselves() {
    let world = World::new();
    let sup = world.session("a", 0);
    sup.spawn_child(world.input("w")).await.unwrap();
    let cancel = CancellationToken::new();
    let other = {
        let sup = sup.clone();
        spawn_scoped(async move { sup.wait_settled("w", None, None).await })
    };
    let (cancelled, ()) = tokio::join!(sup.wait_settled("w", Some(Duration::from_secs(60)), Some(&cancel)), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(cancelled.unwrap(), SettleResult::unsettled(ABORTED_BY_PARENT));
    let at = tokio::time::Instant::now();
    let again = sup.wait_settled("w", None, Some(&cancel)).await.unwrap();
    assert_eq!(again, SettleResult::unsettled(ABORTED_BY_PARENT));
    let timed_out = sup.wait_settled("w", Some(Duration::from_secs(3)), None).await.unwrap();
    assert_eq!((timed_out, at.elapsed()), (SettleResult::unsettled(TIMED_OUT), Duration::from_secs(3)));
    assert!(!other.is_finished());
    world.fake.get("w").unwrap().reply("done");
    assert_eq!(other.await.unwrap().unwrap(), SettleResult::ok());
}

/// SUP-8, SUP-9, ABI-57: which run a text goes into decides what is awaited.
#[tokio::test]
async fn a_text_to_an_idle_child_begins_a_turn_and_abort_keeps_the_session() {
    let world = World::new();
    let sup = world.session("a", 0);
    sup.spawn_child(world.input("w")).await.unwrap();
    let child = world.fake.get("w").unwrap();
    assert_eq!(sup.steer("w", "left").await.unwrap(), Disposition::Queued);
    child.reply("one");
    sup.wait_settled("w", None, None).await.unwrap();
    assert_eq!(sup.follow_up("w", "again").await.unwrap(), Disposition::Started);
    assert_eq!(sup.state("w"), Some("running"));
    sup.abort("w").await.unwrap();
    assert_eq!(sup.wait_settled("w", None, None).await.unwrap(), SettleResult::ok());
    assert_eq!((sup.is_alive("w"), world.pool.active()), (true, 1));
    assert_eq!(child.prompts(), ["do it", "left", "again"]);
    let modes: Vec<_> = world.host.calls(Some("child.prompt")).iter().map(|c| c.input["deliverAs"].clone()).collect();
    assert_eq!(modes, [json!(null), json!("steer"), json!("followUp")]);
}

/// SUP-124: a turn that the child began by itself is seen by its activity.
#[tokio::test]
async fn the_next_turn_of_an_idle_child_is_seen() {
    let world = World::new();
    let sup = world.session("a", 0);
    sup.spawn_child(world.input("lead")).await.unwrap();
    let child = world.fake.get("lead").unwrap();
    let context = child_context(&world.file("lead"));
    let note = |event: &Event| world.activity.note(&context, event, 1);
    note(&Event::AgentStart);
    note(&Event::AgentSettled(AgentSettled { aborted: false }));
    child.reply("waiting for my children");
    sup.wait_settled("lead", None, None).await.unwrap();

    let woken = {
        let sup = sup.clone();
        spawn_scoped(async move { sup.next_turn("lead").await })
    };
    tokio::task::yield_now().await;
    assert!(!woken.is_finished());
    child.begin_run("a notice");
    note(&Event::AgentStart);
    woken.await.unwrap().unwrap();
    assert_eq!(sup.state("lead"), Some("running"));
    child.reply("all done");
    assert_eq!(sup.wait_settled("lead", None, None).await.unwrap(), SettleResult::ok());
}

fn child_context(session_file: &std::path::Path) -> SessionContext {
    let scope = ExtensionScope {
        schema: host_abi::scope::SCOPE_SCHEMA.into(),
        name: "lead".into(),
        role: "lead".into(),
        node_id: "root/lead".into(),
        db_path: "/x".into(),
        session_file: session_file.display().to_string(),
        run_dir: "/".into(),
        root_run_dir: "/".into(),
        parent_path: vec!["root".into()],
        depth: 1,
        spawn_mode: "inprocess".into(),
        team: None,
        acceptance_role: None,
        utility: false,
        budget: None,
        phases: None,
    };
    let spec = AttachSpec {
        agent_id: "lead".into(),
        session_id: "lead".into(),
        session_file: None,
        cwd: "/".into(),
        mode: Mode::Print,
        has_ui: false,
        project_trusted: true,
        extension_scope: None,
    };
    SessionContext::new(spec, Identity::Child(Box::new(scope)))
}

/// 04-T26 (its supervisor half), SUP-123
#[tokio::test]
async fn equal_names_under_two_parents_never_meet() {
    let world = World::new();
    let (one, two) = (world.session("a", 0), world.session("b", 1));
    let mut first = world.input("worker-0");
    first.child.session_file = Some(world.file("one").display().to_string());
    one.spawn_child(first).await.unwrap();
    let child_one = world.fake.get("worker-0").unwrap();
    let mut second = world.input("worker-0");
    second.child.session_file = Some(world.file("two").display().to_string());
    two.spawn_child(second).await.unwrap();
    let child_two = world.fake.get("worker-0").unwrap();
    assert_eq!((world.pool.active(), one.admission_counts("x", LIMITS).siblings), (2, 1));

    one.steer("worker-0", "to one").await.unwrap();
    two.steer("worker-0", "to two").await.unwrap();
    assert_eq!(child_one.prompts()[1], "to one");
    assert_eq!(child_two.prompts()[1], "to two");
    child_two.reply("two is done");
    assert_eq!(two.wait_settled("worker-0", None, None).await.unwrap(), SettleResult::ok());
    assert_eq!((one.state("worker-0"), two.state("worker-0")), (Some("running"), Some("idle")));
    two.retire_child("worker-0", RetireOptions { graceful: true }).await.unwrap();
    assert!(one.is_alive("worker-0") && !two.is_alive("worker-0"));
}

/// 04-T27, SUP-56, SUP-122: retire is bounded, whatever the child does.
#[tokio::test(start_paused = true)]
async fn a_disposal_that_hangs_frees_the_slot_all_the_same() {
    let world = World::new();
    let sup = world.session("a", 0);
    world.fake.plan(|_| Plan { dispose_hangs: true, ..Plan::default() });
    sup.spawn_child(world.input("w")).await.unwrap();
    let waiter = {
        let sup = sup.clone();
        spawn_scoped(async move { sup.wait_settled("w", None, None).await })
    };
    tokio::task::yield_now().await;
    let before = tokio::time::Instant::now();
    sup.retire_child("w", RetireOptions { graceful: false }).await.unwrap();
    assert_eq!(before.elapsed(), DISPOSE_TIMEOUT);
    assert_eq!(waiter.await.unwrap().unwrap(), SettleResult::abnormal(CHILD_RETIRED));
    assert_eq!((world.pool.active(), sup.state("w")), (0, Some("retired")));
    assert_eq!(world.host.calls(Some("child.kill")).len(), 1);
    sup.spawn_child(world.input("w")).await.unwrap();
}

/// ORC-179, SUP-39: a spawn that is stopped, or dropped, on its way leaves nothing.
#[tokio::test]
async fn a_spawn_on_its_way_can_be_stopped_and_dropped() {
    let world = World::new();
    let sup = world.session("a", 0);
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    let spawn = {
        let (sup, input) = (sup.clone(), world.input("w"));
        spawn_scoped(async move { sup.spawn_child(input).await })
    };
    world.host.until("child.prompt", 1).await;
    sup.retire_child("w", RetireOptions { graceful: true }).await.unwrap();
    let error = spawn.await.unwrap().unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::StartFailed, STOPPED));
    assert!(world.fake.living().is_empty());
    assert_eq!((world.pool.active(), sup.spawn_count()), (0, 0));

    let spawn = {
        let (sup, input) = (sup.clone(), world.input("w"));
        spawn_scoped(async move { sup.spawn_child(input).await })
    };
    world.host.until("child.prompt", 2).await;
    spawn.abort();
    world.host.until("child.kill", 1).await;
    assert_eq!((world.pool.active(), sup.spawn_count(), sup.is_alive("w")), (0, 0, false));
}

const STOPPED: &str = crate::supervisor::STOPPED_BEFORE_START;

/// SUP-3: a session that went away by itself frees its slot and settles its waiters.
#[tokio::test]
async fn a_child_that_is_gone_is_found_out() {
    let world = World::new();
    let sup = world.session("a", 0);
    sup.spawn_child(world.input("w")).await.unwrap();
    world.fake.get("w").unwrap().fail_wait(AbiError::no_child("child-0"));
    let settled = sup.wait_settled("w", None, None).await.unwrap();
    assert!(settled.settled && settled.abnormal);
    assert!(!sup.is_alive("w"));
    assert_eq!(world.pool.active(), 0);
}
