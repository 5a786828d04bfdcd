use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::cards::{AgentConfig, CardSource, DefinitionRoots};
use crate::core::model::resolve_model;

fn block(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

fn settings(value: Value) -> Settings {
    parse_block(&block(value)).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(value: Value) -> Vec<String> {
    parse_block(&block(value)).expect_err("faults").iter().map(ToString::to_string).collect()
}

fn merged(user: Value, project: Value) -> Settings {
    settings(Value::Object(merge_blocks(&block(user), &block(project))))
}

/// 02-T9, SET-10 … SET-48: the defaults are those of the table.
#[test]
fn defaults_equal_the_table() {
    let s = settings(json!({}));
    assert_eq!(s, Settings::default());
    assert_eq!((s.enabled, s.scout_guard, &s.default_model), (true, false, &None));
    assert_eq!(s.max_subagent_spawns_per_session, None);
    let legion = &s.legion;
    assert_eq!((legion.max_depth, legion.max_children_per_node, legion.max_active_nodes), (4, 8, 30));
    assert_eq!((legion.verify_command_timeout_ms, legion.worktree_bootstrap_timeout_ms), (600_000, 600_000));
    assert_eq!((legion.worktree_bootstrap.as_str(), legion.mail_rate_per_5_min), ("", 10));
    assert_eq!((legion.usage_poll_ms, legion.orphan_stale_ms, legion.silence_notice_ms), (30_000, 90_000, 120_000));
    assert_eq!((legion.retention_days, legion.stale_node_hours, legion.verify_slots), (14, 72, 2));
    assert_eq!((legion.event_retention_days, legion.event_max_rows), (14, 50_000));
    assert!(legion.phase_timeouts.is_empty());
    assert_eq!(
        DEFAULT_PHASE_TIMEOUTS,
        [("planning", 900_000), ("implementing", 3_600_000), ("reviewing", 1_800_000), ("verifying", 900_000)]
    );
    let inprocess = &s.inprocess;
    assert_eq!((inprocess.max_depth, inprocess.max_children_per_node, inprocess.max_active), (4, 8, 30));
    assert_eq!((inprocess.max_spawns_per_session, inprocess.wait_timeout_ms), (None, None));
    assert_eq!((inprocess.max_queued_launches, inprocess.launch_queue_timeout_ms), (32, 900_000));
    assert_eq!(inprocess.spawn_start_timeout_ms, 15_000);
    assert_eq!((s.rpc.approve, s.rpc.min_free_memory_mb, s.terminal.driver), (false, 256, TerminalDriver::Hc));
    assert!(s.unapplied().is_empty());
}

/// 02-T9, SET-36, SET-45: `maxActive` depends on whether the block is there, in either file.
#[test]
fn max_active_with_and_without_the_block() {
    assert_eq!(settings(json!({})).inprocess.max_active, 30);
    assert_eq!(settings(json!({ "inprocess": {} })).inprocess.max_active, 8);
    assert_eq!(settings(json!({ "inprocess": { "maxDepth": 2 } })).inprocess.max_active, 8);
    assert_eq!(settings(json!({ "inprocess": { "maxActive": 64 } })).inprocess.max_active, 64);
    assert_eq!(merged(json!({ "inprocess": {} }), json!({})).inprocess.max_active, 8);
    assert_eq!(merged(json!({}), json!({ "inprocess": {} })).inprocess.max_active, 8);
    assert_eq!(merged(json!({ "inprocess": { "maxActive": 5 } }), json!({ "inprocess": {} })).inprocess.max_active, 5);
}

/// 02-T10, SET-43: a limit of one column says nothing about the other.
#[test]
fn limits_never_cross_columns() {
    let s = settings(json!({ "legion": { "maxChildrenPerNode": 3, "maxDepth": 2 } }));
    assert_eq!((s.legion.max_children_per_node, s.inprocess.max_children_per_node), (3, 8));
    assert_eq!((s.legion.max_depth, s.inprocess.max_depth), (2, 4));
    let s = settings(json!({ "inprocess": { "maxChildrenPerNode": 3 } }));
    assert_eq!((s.legion.max_children_per_node, s.inprocess.max_children_per_node), (8, 3));
}

/// Every key with a value of its own, so that none is read from another's place.
#[test]
fn every_key_is_read() {
    let s = settings(json!({
        "enabled": false, "scoutGuard": true, "defaultModel": " cb/m:low ", "maxSubagentSpawnsPerSession": 101,
        "legion": {
            "maxDepth": 1, "maxChildrenPerNode": 0, "maxActiveNodes": 3, "phaseTimeouts": { "build": 4 },
            "verifyCommandTimeoutMs": 5, "worktreeBootstrap": "npm-install", "worktreeBootstrapTimeoutMs": 6,
            "mailRatePer5Min": 7, "usagePollMs": 8, "orphanStaleMs": 9, "silenceNoticeMs": -1, "retentionDays": 11,
            "staleNodeHours": 12, "eventRetentionDays": 13, "eventMaxRows": 15, "verifySlots": 16 },
        "inprocess": {
            "maxDepth": 21, "maxChildrenPerNode": 0, "maxActive": 22, "maxSpawnsPerSession": 23, "waitTimeoutMs": 24,
            "maxQueuedLaunches": 25, "launchQueueTimeoutMs": 26, "spawnStartTimeoutMs": 27 },
        "rpc": { "approve": true, "minFreeMemoryMb": 0 }, "terminal": { "driver": "off" } }));
    let want = Settings {
        enabled: false,
        scout_guard: true,
        default_model: Some("cb/m:low".into()),
        max_subagent_spawns_per_session: Some(101),
        legion: LegionSettings {
            max_depth: 1,
            max_children_per_node: 0,
            max_active_nodes: 3,
            phase_timeouts: [("build".to_owned(), 4)].into_iter().collect(),
            verify_command_timeout_ms: 5,
            worktree_bootstrap: "npm-install".into(),
            worktree_bootstrap_timeout_ms: 6,
            mail_rate_per_5_min: 7,
            usage_poll_ms: 8,
            orphan_stale_ms: 9,
            silence_notice_ms: -1,
            retention_days: 11,
            stale_node_hours: 12,
            event_retention_days: 13,
            event_max_rows: 15,
            verify_slots: 16,
        },
        inprocess: InprocessSettings {
            max_depth: 21,
            max_children_per_node: 0,
            max_active: 22,
            max_spawns_per_session: Some(23),
            wait_timeout_ms: Some(24),
            max_queued_launches: 25,
            launch_queue_timeout_ms: 26,
            spawn_start_timeout_ms: 27,
        },
        rpc: RpcSettings { approve: true, min_free_memory_mb: 0 },
        terminal: TerminalSettings { driver: TerminalDriver::Off },
        raw: RawBlocks::default(),
    };
    assert_eq!(s, want);
}

/// 02-T9, part of 02-T17, SET-2, SET-14, SET-39, SET-40, MODEL-12: wrong values in the form of SET-2.
#[test]
fn wrong_values() {
    for (value, want) in [
        (
            json!({ "inprocess": { "maxQueuedLaunches": 0 } }),
            "subagents.inprocess.maxQueuedLaunches: expected a positive integer, got 0",
        ),
        (
            json!({ "inprocess": { "launchQueueTimeoutMs": 0 } }),
            "subagents.inprocess.launchQueueTimeoutMs: expected a positive integer, got 0",
        ),
        (json!({ "legion": { "maxDepth": "4" } }), "subagents.legion.maxDepth: expected a positive integer, got \"4\""),
        (
            json!({ "legion": { "maxChildrenPerNode": -1 } }),
            "subagents.legion.maxChildrenPerNode: expected a non-negative integer, got -1",
        ),
        (
            json!({ "legion": { "silenceNoticeMs": 1.5 } }),
            "subagents.legion.silenceNoticeMs: expected an integer, got 1.5",
        ),
        (
            json!({ "legion": { "phaseTimeouts": { "build": 0 } } }),
            "subagents.legion.phaseTimeouts.build: expected a positive integer, got 0",
        ),
        (json!({ "legion": [] }), "subagents.legion: expected a mapping, got a list"),
        (json!({ "enabled": "yes" }), "subagents.enabled: expected true or false, got \"yes\""),
        (json!({ "enabled": null }), "subagents.enabled: expected true or false, got null"),
        (json!({ "defaultModel": " " }), "subagents.defaultModel: expected a non-blank string, got \" \""),
        (
            json!({ "defaultModel": "inherit" }),
            "subagents.defaultModel: expected a model, not 'inherit', got \"inherit\"",
        ),
        (
            json!({ "terminal": { "driver": "xterm" } }),
            "subagents.terminal.driver: expected hc, tmux, auto or off, got \"xterm\"",
        ),
        (json!({ "teams": [] }), "subagents.teams: expected a mapping, got a list"),
    ] {
        assert_eq!(faults(value), [want]);
    }
    // One fault does not hide another.
    assert_eq!(faults(json!({ "enabled": 1, "rpc": { "approve": 1, "minFreeMemoryMb": -1 } })).len(), 3);
}

/// 02-T11, SET-4, OVR-4: left-overs are ignored.
#[test]
fn left_over_settings_are_ignored() {
    let s = settings(json!({
        "herdr": { "socket": 3 }, "nonsense": true, "legion": { "old": 1 }, "rpc": { "x": [] },
        "agentOverrides": { "worker": { "placement": "left", "spawnMode": "rpc" } } }));
    let raw = RawBlocks { agent_overrides: s.raw.agent_overrides.clone(), ..RawBlocks::default() };
    assert_eq!(s, Settings { raw, ..Settings::default() });
}

/// 02-T12, OVR-7, SET-52: provider overrides merge by provider and role, and each needs a model.
#[test]
fn provider_overrides() {
    let s = merged(
        json!({ "agentOverridesByProvider": { "a": { "scout": { "model": "a/u" }, "worker": { "model": "a/w" } }, "b": { "scout": { "model": "b/u" } } } }),
        json!({ "agentOverridesByProvider": { "a": { "scout": { "model": "a/p" } } } }),
    );
    assert_eq!(
        Value::Object(s.raw.agent_overrides_by_provider.clone()),
        json!({ "a": { "scout": { "model": "a/p" }, "worker": { "model": "a/w" } }, "b": { "scout": { "model": "b/u" } } })
    );
    // Both hold: each for sessions of its provider, and none elsewhere.
    let scout = AgentConfig::new(CardSource::User, "a.md", "scout");
    for (parent, model) in [("a/x", "a/p"), ("b/x", "b/u"), ("c/x", "c/x"), ("b/x/y", "b/u")] {
        let resolved = resolve_model(&s.model_inputs(&scout, None, Some(parent))).unwrap();
        assert_eq!(resolved.model.as_deref(), Some(model), "{parent}");
    }
    assert_eq!(resolve_model(&s.model_inputs(&scout, None, None)).unwrap().model, None);
    assert_eq!(s.unapplied(), Vec::<&str>::new());
    for (entry, got) in
        [(json!({}), "null"), (json!({ "model": " " }), "\" \""), (json!({ "model": 3 }), "3"), (json!("x"), "null")]
    {
        let value = json!({ "agentOverridesByProvider": { "cb": { "scout": entry } } });
        let want = format!("subagents.agentOverridesByProvider.cb.scout.model: expected a non-blank string, got {got}");
        assert_eq!(faults(value), [want]);
    }
}

/// SET-50, SET-51, SET-53, SET-54
#[test]
fn project_beats_user_key_by_key() {
    let s = merged(
        json!({
            "enabled": false, "defaultModel": "cb/u",
            "legion": { "maxDepth": 2, "mailRatePer5Min": 5, "phaseTimeouts": { "a": 1, "b": 2 } },
            "inprocess": { "maxActive": 3, "maxDepth": 3 }, "rpc": { "approve": true },
            "agentOverrides": { "worker": { "thinking": "low", "acceptance": { "level": "none", "role": "writer" } } },
            "presets": { "p": { "model": "m", "thinking": "low" }, "q": { "model": "n" } },
            "teams": { "t": { "members": ["scout"] } }, "modelScope": { "enforce": true, "allow": ["a/*"] } }),
        json!({
            "defaultModel": "cb/p", "legion": { "maxDepth": 3, "phaseTimeouts": { "b": 9 } }, "inprocess": { "maxActive": 4 },
            "agentOverrides": { "worker": { "acceptance": { "level": "attested" } } },
            "presets": { "p": { "model": "o" } }, "modelScope": { "allow": [] } }),
    );
    assert_eq!((s.enabled, s.default_model.as_deref()), (false, Some("cb/p")));
    assert_eq!((s.legion.max_depth, s.legion.mail_rate_per_5_min), (3, 5));
    let timeouts: Vec<(&str, u64)> = s.legion.phase_timeouts.iter().map(|(id, ms)| (id.as_str(), *ms)).collect();
    assert_eq!(timeouts, [("a", 1), ("b", 9)]);
    assert_eq!((s.inprocess.max_active, s.inprocess.max_depth, s.rpc.approve), (4, 3, true));
    assert_eq!(s.raw.agent_overrides["worker"], json!({ "thinking": "low", "acceptance": { "level": "attested" } }));
    assert_eq!(s.raw.presets["p"], json!({ "model": "o" }));
    assert_eq!(s.raw.presets["q"], json!({ "model": "n" }));
    assert_eq!(s.raw.model_scope.as_ref().map(|scope| Value::Object(scope.clone())), Some(json!({ "allow": [] })));
    assert_eq!(
        s.unapplied(),
        ["subagents.teams", "subagents.presets", "subagents.agentOverrides", "subagents.modelScope"]
    );
}

fn roots(dir: &Path) -> DefinitionRoots {
    DefinitionRoots {
        agent_dir: dir.join("user"),
        project_dir: dir.join("project"),
        project_trusted: true,
        extra_agent_dirs: Vec::new(),
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// SET-1, SET-3, SET-55, DISC-10: files on disk, their faults, and the last good settings.
#[test]
fn broken_files_keep_the_last_good_settings() {
    let dir = tempfile::tempdir().unwrap();
    let roots = roots(dir.path());
    let (user, project) = (roots.user_settings(), roots.project_settings());
    let mut store = SettingsStore::default();
    let state = store.load(&roots);
    assert_eq!((&*state.last_good, &state.error), (&Settings::default(), &None));

    write(&user, r#"{ "theme": "dark", "subagents": { "legion": { "maxDepth": 2 } } }"#);
    write(&project, r#"{ "subagents": { "inprocess": { "maxActive": 12 } } }"#);
    let good = store.load(&roots);
    assert_eq!((good.last_good.legion.max_depth, good.last_good.inprocess.max_active), (2, 12));
    assert!(Arc::ptr_eq(&good.last_good, &store.load(&roots).last_good));
    assert!(good.for_launch().is_ok());

    write(&user, "{ \"subagents\": ");
    write(&project, r#"{ "subagents": { "inprocess": { "maxActive": 0 } } }"#);
    let broken = store.load(&roots);
    assert!(Arc::ptr_eq(&good.last_good, &broken.last_good));
    let faults = broken.error.clone().expect("an error").faults;
    assert_eq!(faults.len(), 2);
    assert!(faults[0].starts_with(&format!("{}: not valid JSON: ", user.display())), "{}", faults[0]);
    assert_eq!(
        faults[1],
        format!("{}: subagents.inprocess.maxActive: expected a positive integer, got 0", project.display())
    );
    let refused = broken.for_launch().expect_err("refused");
    assert_eq!((refused.code, refused.message), (crate::error::Code::InvalidParams, faults.join("; ")));
    assert_eq!(fs::read_to_string(&user).unwrap(), "{ \"subagents\": ");

    fs::remove_file(&user).unwrap();
    write(&project, r#"{ "subagents": { "inprocess": { "maxActive": 5 } } }"#);
    let mended = store.load(&roots);
    assert_eq!((mended.error, mended.last_good.inprocess.max_active), (None, 5));
    assert_eq!(mended.last_good.legion.max_depth, 4);
}

/// SET-1: each kind of file that is no settings file.
#[test]
fn files_that_are_no_settings() {
    for (text, want) in [
        ("", "s.json: not valid JSON: EOF while parsing a value at line 1 column 0"),
        ("[]", "s.json: expected a JSON object, got a list"),
        (r#"{ "subagents": [] }"#, "s.json: subagents: expected an object, got a list"),
        (r#"{ "subagents": null }"#, "s.json: subagents: expected an object, got null"),
    ] {
        assert_eq!(subagents_block("s.json", text), Err(want.to_owned()));
    }
    assert_eq!(subagents_block("s.json", "\u{feff}{}"), Ok(Map::new()));
    let dir = tempfile::tempdir().unwrap();
    let roots = roots(dir.path());
    fs::create_dir_all(roots.user_settings()).unwrap();
    let state = SettingsStore::default().load(&roots);
    assert!(state.error.expect("a directory").faults[0].contains("cannot be read"));
}

/// part of 02-T28, DISC-9
#[test]
fn an_untrusted_project_has_no_settings() {
    let dir = tempfile::tempdir().unwrap();
    let mut roots = roots(dir.path());
    write(&roots.project_settings(), "{ not json");
    roots.project_trusted = false;
    let mut store = SettingsStore::default();
    assert_eq!(store.load(&roots).error, None);
    assert!(roots.untrusted_notice().is_some());
    roots.project_trusted = true;
    assert!(store.load(&roots).error.is_some());
}

proptest! {
    /// No text makes the reader panic, and what parses alone parses merged with itself to the same.
    #[test]
    fn no_panic_and_merging_is_idempotent(text in "[{}\\[\\]:,\"a-z0-9. -]{0,60}", depth in any::<i64>(), active in any::<Option<u32>>()) {
        let _ = subagents_block("s.json", &text);
        let value = json!({ "legion": { "maxDepth": depth }, "inprocess": { "maxActive": active } });
        let map = block(value);
        prop_assert_eq!(parse_block(&map), parse_block(&merge_blocks(&map, &map)));
    }
}
