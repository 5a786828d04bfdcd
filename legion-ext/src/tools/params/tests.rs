use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    cards::{AcceptanceLevel, AcceptanceRole},
    core::{
        caps,
        mail::{MailKind, Urgency},
        model::ThinkingLevel,
    },
    mail::text::To,
    orchestrator::command::{
        CardScope, Collect, Dispatch, Launch, ListQuery, Page, StatusQuery, TakeDown, TakeDownWording, Target, Wait,
    },
    tools::{Action, action::LAUNCH_ONLY},
};

fn ask(params: Value) -> Command {
    match parse(schema::SUBAGENT, &params) {
        (_, Ok(Ask::Orchestrator(command))) => command,
        (_, other) => panic!("{params}: {other:?}"),
    }
}

fn launch(params: Value) -> Launch {
    match ask(params) {
        Command::Launch(launch) => launch,
        other => panic!("{other:?}"),
    }
}

fn refused(tool: &str, params: Value) -> (Code, String) {
    match parse(tool, &params) {
        (_, Err(error)) => (error.code, error.message),
        (_, Ok(asked)) => panic!("{params}: {asked:?}"),
    }
}

fn invalid(params: Value) -> String {
    let (code, message) = refused(schema::SUBAGENT, params);
    assert_eq!(code, Code::InvalidParams, "{message}");
    message
}

/// SUB-1, SUB-3, SUB-5, MODEL-4
#[test]
fn items_take_what_the_call_says_for_all() {
    let launch = launch(json!({
        "agent": "worker", "model": "a/b", "thinking": "high", "worktree": true, "async": false, "timeoutMs": 5000,
        "acceptance": { "level": "attested" },
        "tasks": [
            { "task": " one ", "name": "W-One" },
            { "task": "two", "agent": "scout", "model": " ", "preset": "", "thinking": "off", "worktree": false },
        ]
    }));
    assert_eq!((launch.dispatch, launch.run_async, launch.timeout_ms), (Dispatch::Subagent, Some(false), Some(5000)));
    let [one, two] = launch.items.as_slice() else { panic!("{launch:?}") };
    assert_eq!((one.task.as_str(), one.name.as_deref(), one.agent.as_deref()), ("one", Some("w-one"), Some("worker")));
    assert_eq!(
        (one.model.as_deref(), one.thinking, one.worktree),
        (Some("a/b"), Some(ThinkingLevel::High), Some(true))
    );
    assert_eq!((two.agent.as_deref(), two.model.as_deref()), (Some("scout"), Some("a/b")));
    assert_eq!((two.thinking, two.worktree), (Some(ThinkingLevel::Off), Some(false)));
    assert_eq!(two.acceptance.as_ref().unwrap().level, AcceptanceLevel::Attested);
}

/// Absent and `null` are the same, and a blank text says nothing (SUB-3).
#[test]
fn blanks_are_absent() {
    let launch =
        launch(json!({ "task": "x", "agent": "worker", "name": null, "model": "", "team": " ", "names": null }));
    assert_eq!(launch.items[0].name, None);
    assert_eq!(launch.items[0].model, None);
    assert_eq!(launch.run_async, None);
    // A blank task beside tasks is a form that was filled out, not a second task.
    assert_eq!(self::launch(json!({ "task": "", "tasks": [{ "task": "x" }] })).items.len(), 1);
    // Whose role is missing is told with the roster, by the orchestrator.
    assert_eq!(self::launch(json!({ "task": "x", "agent": " " })).items[0].agent, None);
}

/// Bad-input rows of 09: `task` and `tasks`, empty task, repeated name.
#[test]
fn a_wrong_combination_refuses_the_whole_call() {
    let rows = [
        (json!({ "task": "x", "tasks": [{ "task": "y" }] }), "give task or tasks, not both"),
        (json!({ "agent": "worker" }), "launch needs task or tasks"),
        (json!({}), "launch needs task or tasks"),
        (json!({ "task": "  \n" }), "task is empty"),
        (json!({ "tasks": [{ "task": "a" }, { "task": " " }] }), "tasks[1]: task is empty"),
        (json!({ "name": "w", "tasks": [{ "task": "a" }] }), "name applies to a single task; set tasks[].name"),
        (json!({ "tasks": [] }), "tasks: expected at least 1 and at most 64 entries, got 0"),
        (json!({ "action": "collect" }), "collect needs name or names"),
        (json!({ "action": "retire" }), "retire needs name"),
        (json!({ "action": "stop" }), "stop needs name, names or all: true"),
        (json!({ "action": "stop", "all": false }), "stop needs name, names or all: true"),
        (json!({ "action": "stop", "name": "a", "all": true }), "stop needs name, names or all: true"),
        (json!({ "action": "stop", "name": "a", "names": ["b"] }), "stop needs name, names or all: true"),
        (json!({ "action": "status", "view": "transcript" }), "view \"transcript\" needs name"),
        (json!({ "action": "collect", "names": ["a", "b"], "offset": 5 }), "offset and limit need exactly one name"),
        (
            json!({ "action": "collect", "name": "a", "names": ["b"], "limit": 5 }),
            "offset and limit need exactly one name",
        ),
    ];
    for (call, want) in rows {
        assert_eq!(invalid(call.clone()), want, "{call}");
    }
}

/// Bad-input row of 09: an unknown action or a wrong type, in words that name the field.
#[test]
fn wrong_types_name_their_field() {
    let rows = [
        (json!({ "action": "renew", "name": "a" }), "action: expected one of \"launch\", "),
        (json!({ "action": 7 }), "action: expected one of "),
        (json!({ "task": 7 }), "task: expected a text, got 7"),
        (json!({ "task": "x", "async": "yes" }), "async: expected true or false, got \"yes\""),
        (json!({ "tasks": { "task": "x" } }), "tasks: expected a list, got {\"task\":\"x\"}"),
        (json!({ "tasks": ["x"] }), "tasks[0]: expected an object, got \"x\""),
        (json!({ "tasks": [{ "task": "x" }, {}] }), "tasks[1].task: required, but missing"),
        (json!({ "task": "x", "thinking": "huge" }), "thinking: expected one of \"off\", "),
        (json!({ "action": "wait", "timeoutMs": 0 }), "timeoutMs: expected a whole number of at least 1, got 0"),
        (json!({ "action": "wait", "timeoutMs": -5 }), "timeoutMs: expected a whole number of at least 1, got -5"),
        (json!({ "action": "wait", "timeoutMs": 1.5 }), "timeoutMs: expected a whole number of at least 1, got 1.5"),
        (json!({ "action": "wait", "timeoutMs": "9" }), "timeoutMs: expected integer, got \"9\""),
        (
            json!({ "action": "status", "name": "a", "view": "transcript", "lines": 501 }),
            "lines: expected a whole number from 1 to 500, got 501",
        ),
        (json!({ "action": "collect", "names": ["a", 5] }), "names[1]: expected a text, got 5"),
        (json!(["task"]), "arguments: expected an object, got [\"task\"]"),
    ];
    for (call, want) in rows {
        let got = invalid(call.clone());
        assert!(got.starts_with(want), "{call}: {got}");
    }
}

/// Bad-input row of 09: a huge `timeoutMs` is clamped with a line.
#[test]
fn a_huge_timeout_is_clamped() {
    for (given, line) in [
        (json!(2_147_483_647_u64), None),
        (json!(2_147_483_648_u64), Some("timeoutMs 2147483648 is above the limit; 2147483647 is used")),
        (json!(1e30), Some("timeoutMs 18446744073709551615 is above the limit; 2147483647 is used")),
    ] {
        let (head, asked) = parse(schema::SUBAGENT, &json!({ "action": "wait", "timeoutMs": given }));
        let Ok(Ask::Orchestrator(Command::Wait(wait))) = asked else { panic!("{asked:?}") };
        assert_eq!(wait.timeout_ms, Some(MAX_TIMEOUT_MS));
        assert_eq!(head.warnings.first().map(String::as_str), line);
    }
    // A whole number may come as one with a point.
    let (_, asked) = parse(schema::SUBAGENT, &json!({ "action": "wait", "timeoutMs": 600000.0 }));
    assert_eq!(asked, Ok(Ask::Orchestrator(Command::Wait(Wait { names: vec![], timeout_ms: Some(600_000) }))));
}

/// SUB-14, 09-T21: near misses and foreign keys, in every tool and every nested object.
#[test]
fn unknown_parameters_are_refused_with_what_was_meant() {
    let near = |key: &str, meant: &str| format!("unknown parameter '{key}'; did you mean '{meant}'?");
    let rows = [
        (schema::SUBAGENT, json!({ "task": "x", "phase": [] }), near("phase", "phases")),
        (schema::SUBAGENT, json!({ "taskss": [] }), near("taskss", "tasks")),
        (schema::SUBAGENT, json!({ "task": "x", "Model": "a/b" }), near("Model", "model")),
        (schema::SUBAGENT, json!({ "tasks": [{ "task": "x" }, { "task": "y", "Model": "m" }] }), near("tasks[1].Model", "model")),
        (schema::SUBAGENT, json!({ "task": "x", "acceptance": { "levle": "none" } }), near("acceptance.levle", "level")),
        (
            schema::SUBAGENT,
            json!({ "tasks": [{ "task": "x", "acceptance": { "criteria": [{ "text": "t", "comand": "make" }] } }] }),
            near("tasks[0].acceptance.criteria[0].comand", "command"),
        ),
        (schema::VEXILLATIO, json!({ "taskss": [] }), near("taskss", "tasks")),
        (schema::VEXILLATIO, json!({ "tasks": [{ "task": "x", "Model": "m" }] }), near("tasks[0].Model", "model")),
        (schema::LEGION_MAIL, json!({ "to": "parent", "subject": "s", "bodyy": "b" }), near("bodyy", "body")),
        (schema::LEGION_TREE, json!({ "nodes": "a" }), near("nodes", "node")),
        (
            schema::LEGION_TREE,
            json!({ "colour": 1 }),
            "unknown parameter 'colour'; legion_tree takes: node, depth, show".to_owned(),
        ),
        (
            schema::SUBAGENT,
            json!({ "tasks": [{ "task": "x", "placement": 1 }] }),
            "unknown parameter 'tasks[0].placement'; tasks[] takes: task, agent, name, model, preset, thinking, worktree, acceptance"
                .to_owned(),
        ),
        (
            schema::SUBAGENT,
            json!({ "task": "x", "acceptance": { "placement": 1 } }),
            "unknown parameter 'acceptance.placement'; acceptance takes: level, role, criteria".to_owned(),
        ),
    ];
    for (tool, call, want) in rows {
        assert_eq!(refused(tool, call.clone()), (Code::InvalidParams, want), "{tool} {call}");
    }
    // Several are named in one message, and a hostile call does not make it long.
    let message = invalid(json!({ "taskss": 1, "phase": 1 }));
    assert_eq!(message.lines().count(), 2, "{message}");
    let many: Map<String, Value> = (0..5_000).map(|n| (format!("zzzzzzzzz{n}\u{1b}[2J"), json!(1))).collect();
    let message = invalid(Value::Object(many));
    assert!(
        message.len() < 16_384 && message.ends_with("… 4990 more") && !message.contains('\u{1b}'),
        "{}",
        message.len()
    );
}

/// SUB-2, ORC-3, 09-T21: what belongs to `launch` or `stop` alone refuses every other action.
#[test]
fn parameters_of_one_action_refuse_the_others() {
    for action in Action::ALL.into_iter().filter(|action| *action != Action::Launch) {
        for parameter in LAUNCH_ONLY {
            let value = match parameter {
                "phases" => json!([]),
                "worktree" | "async" => json!(false),
                "acceptance" => json!({}),
                _ => json!("x"),
            };
            let call = json!({ "action": action.as_str(), "name": "a", "message": "m", parameter: value });
            assert_eq!(invalid(call), format!("{parameter} is only valid with action \"launch\""));
        }
    }
    for action in Action::ALL.into_iter().filter(|action| *action != Action::Stop) {
        let call = json!({ "action": action.as_str(), "task": "x", "name": "a", "message": "m", "force": true });
        assert_eq!(invalid(call), "force is only valid with action \"stop\"");
    }
}

/// SUB-2, 09-T21: a known parameter that the action does not use is reported.
#[test]
fn unused_parameters_are_reported() {
    let (head, asked) = parse(schema::SUBAGENT, &json!({ "action": "list", "lines": 5, "name": "a", "model": " " }));
    assert!(asked.is_ok());
    assert_eq!(head.ignored, ["name", "lines"]);
    let (head, _) = parse(schema::SUBAGENT, &json!({ "action": "status", "name": "a", "lines": 5 }));
    assert_eq!(head.ignored, ["lines"]);
    let (head, _) = parse(schema::SUBAGENT, &json!({ "task": "x", "message": "m", "names": ["a"] }));
    assert_eq!(head.ignored, ["names", "message"]);
}

/// What this build cannot serve says so and starts nothing.
#[test]
fn missing_parts_answer_clearly() {
    let rows = [
        (json!({ "task": "x", "phases": [{}] }), "parameter 'phases' is not available in this build"),
        (json!({ "task": "x", "start": "a" }), "parameter 'start' is not available in this build"),
        (json!({ "task": "x", "team": "t" }), "parameter 'team' is not available in this build"),
        (json!({ "task": "x", "preset": "p" }), "parameter 'preset' is not available in this build"),
        (
            json!({ "tasks": [{ "task": "x" }, { "task": "y", "preset": "p" }] }),
            "parameter 'tasks[1].preset' is not available in this build",
        ),
        (json!({ "action": "steer", "name": "a", "message": "m" }), "action 'steer' is not available in this build"),
    ];
    for (call, want) in rows {
        assert_eq!(refused(schema::SUBAGENT, call), (Code::NotAvailable, want.to_owned()));
    }
    let phase = refused("legion_phase", json!({ "to": "done" }));
    assert_eq!(phase, (Code::NotAvailable, "tool 'legion_phase' is not available in this build".to_owned()));
}

/// CARD-77, part of 09-T25: acceptance at the top and in a task, in the words of a card.
#[test]
fn acceptance_is_read_like_a_cards() {
    let launch = launch(json!({ "tasks": [
        { "task": "a", "acceptance": { "role": "read-only", "criteria": [{ "text": "tests pass", "command": "make" }] } },
        { "task": "b" },
    ], "acceptance": { "level": "verified" } }));
    let of = |at: usize| launch.items[at].acceptance.as_ref().unwrap();
    assert_eq!(of(0).role, Some(AcceptanceRole::ReadOnly));
    assert_eq!(of(0).criteria[0].command.as_deref(), Some("make"));
    assert_eq!(of(1).level, AcceptanceLevel::Verified);

    let message = invalid(json!({ "tasks": [{ "task": "a", "acceptance": { "level": "gold" } }] }));
    assert!(message.starts_with("tasks[0].acceptance.level: "), "{message}");
    let message = invalid(json!({ "task": "a", "acceptance": { "criteria": [{ "id": "x" }] } }));
    assert!(message.starts_with("acceptance.criteria[0].text: "), "{message}");
}

/// ORC-8: names are looked up in lower case, each once.
#[test]
fn actions_become_commands() {
    let rows = [
        (
            json!({ "action": "wait", "name": "B", "names": ["A", "b", " "] }),
            Command::Wait(Wait { names: vec!["a".into(), "b".into()], timeout_ms: None }),
        ),
        (
            json!({ "action": "collect", "name": "a", "offset": 10 }),
            Command::Collect(Collect {
                names: vec!["a".into()],
                timeout_ms: None,
                page: Some(Page { offset: 10, limit: caps::PAGE_BYTES }),
            }),
        ),
        (
            json!({ "action": "collect", "names": ["a", "b"], "timeoutMs": 7 }),
            Command::Collect(Collect { names: vec!["a".into(), "b".into()], timeout_ms: Some(7), page: None }),
        ),
        (
            json!({ "action": "status", "name": "a", "view": "transcript" }),
            Command::Status(StatusQuery { name: Some("a".into()), all: false, transcript_lines: Some(80) }),
        ),
        (
            json!({ "action": "status", "all": true }),
            Command::Status(StatusQuery { all: true, ..StatusQuery::default() }),
        ),
        (json!({ "action": "list", "scope": "user" }), Command::List(ListQuery { scope: CardScope::User })),
        (
            json!({ "action": "retire", "name": "a" }),
            Command::TakeDown(TakeDown {
                target: Target::Names(vec!["a".into()]),
                wording: TakeDownWording::Retire,
                force: false,
            }),
        ),
        (
            json!({ "action": "stop", "all": true, "force": true }),
            Command::TakeDown(TakeDown { target: Target::All, wording: TakeDownWording::Stop, force: true }),
        ),
    ];
    for (call, want) in rows {
        assert_eq!(ask(call), want);
    }
}

/// VEX-2, ORC-75
#[test]
fn vexillatio_sends_scouts_and_waits() {
    let (_, asked) =
        parse(schema::VEXILLATIO, &json!({ "tasks": [{ "task": "a" }, { "task": "b", "agent": "finder" }] }));
    let Ok(Ask::Orchestrator(Command::Launch(launch))) = asked else { panic!("{asked:?}") };
    assert_eq!((launch.dispatch, launch.run_async), (Dispatch::Vexillatio, Some(false)));
    let agents: Vec<_> = launch.items.iter().map(|item| item.agent.as_deref()).collect();
    assert_eq!(agents, [Some("scout"), Some("finder")]);
    assert_eq!(refused(schema::VEXILLATIO, json!({})).1, "launch needs task or tasks");
    assert_eq!(refused(schema::VEXILLATIO, json!({ "task": " " })).1, "task is empty");
    let tasks: Vec<Value> = (0..17).map(|_| json!({ "task": "x" })).collect();
    let message = refused(schema::VEXILLATIO, json!({ "tasks": tasks })).1;
    assert_eq!(message, "tasks: expected at least 1 and at most 16 entries, got 17");
}

/// MAIL-2, MAIL-5, LTL-1: bad-input rows of 09 for mail.
#[test]
fn mail_is_read_and_refused_by_the_rules_of_mail() {
    let mail = |call: Value| parse(schema::LEGION_MAIL, &call).1;
    let call = json!({ "to": "squad", "subject": "s", "body": "b", "kind": "question" });
    let Ok(Ask::Mail(draft)) = mail(call) else { panic!() };
    assert_eq!((draft.to, draft.kind, draft.urgency), (To::Squad, MailKind::Question, Urgency::ActionNeeded));
    let Ok(Ask::Mail(draft)) = mail(json!({ "to": "parent", "subject": "s", "body": "b" })) else { panic!() };
    assert_eq!((draft.kind, draft.urgency), (MailKind::Report, Urgency::Info));

    let rows = [
        (json!({ "to": "parent", "subject": "s\0", "body": "b" }), Code::MailInvalidText),
        (json!({ "to": "parent", "subject": " ", "body": "b" }), Code::MailInvalidText),
        (json!({ "to": "parent", "subject": "x".repeat(257), "body": "b" }), Code::MailSubjectTooLong),
        (json!({ "to": "parent", "subject": "s", "body": "x".repeat(32_769) }), Code::MailBodyTooLarge),
        (json!({ "to": "parent", "subject": "Blocked: x", "body": "b" }), Code::MailReservedSubject),
        (json!({ "to": "everyone", "subject": "s", "body": "b" }), Code::InvalidParams),
        (json!({ "subject": "s", "body": "b" }), Code::InvalidParams),
        (Value::Null, Code::InvalidParams),
    ];
    for (call, want) in rows {
        let error = mail(call.clone()).unwrap_err();
        assert_eq!(error.code, want, "{call}: {error}");
    }
}

#[test]
fn tree_takes_a_node_a_depth_and_a_choice() {
    let (_, asked) = parse(schema::LEGION_TREE, &json!({ "node": "Scout-1", "depth": 2, "show": "active" }));
    assert_eq!(asked, Ok(Ask::Tree(TreeQuery { node: Some("scout-1".into()), depth: 2, active_only: true })));
    assert_eq!(parse(schema::LEGION_TREE, &Value::Null).1, Ok(Ask::Tree(TreeQuery::default())));
    assert_eq!(
        refused(schema::LEGION_TREE, json!({ "depth": 65 })).1,
        "depth: expected a whole number from 1 to 64, got 65"
    );
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "action",
            "task",
            "tasks",
            "name",
            "names",
            "acceptance",
            "criteria",
            "to",
            "timeoutMs"
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,8}",
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    /// REL-5: any JSON is answered, in a message of bounded length.
    #[test]
    fn any_arguments_are_answered(call in json_value(), tool in prop::sample::select(vec!["subagent", "vexillatio", "legion_mail", "legion_tree", "x"])) {
        if let (_, Err(error)) = parse(tool, &call) {
            prop_assert!(error.message.len() < 8_192, "{}", error.message.len());
        }
    }
}
