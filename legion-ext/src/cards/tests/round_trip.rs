//! Bundled cards, and cards written back.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::core::model::{Thinking, ThinkingLevel};

fn bundled(file: &str) -> AgentConfig {
    let (_, text) = BUNDLED_CARDS.iter().find(|(name, _)| *name == file).expect("bundled");
    parse_agent_document(CardSource::Bundled, &format!("bundled:agents/{file}"), text.as_bytes()).expect("it parses")
}

fn parsed_again(agent: &AgentConfig) -> AgentConfig {
    let text = to_document(agent);
    parse_agent_document(agent.source, &agent.path, text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// 02-T6, BUND-4: exactly three, without error or warning, equal after a round trip.
#[test]
fn bundled_cards_load_and_round_trip() {
    let files: Vec<&str> = BUNDLED_CARDS.iter().map(|(file, _)| *file).collect();
    assert_eq!(files, ["centurion.md", "scout.md", "worker.md"]);
    let roots = DefinitionRoots {
        agent_dir: "/nonexistent".into(),
        project_dir: "/nonexistent".into(),
        project_trusted: true,
        extra_agent_dirs: Vec::new(),
    };
    let catalog = CardStore::default().load(&roots);
    assert_eq!(catalog.cards().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["centurion", "scout", "worker"]);
    assert_eq!((catalog.broken(), catalog.warnings()), (&[][..], &[][..]));
    for agent in catalog.cards() {
        assert_eq!(parsed_again(agent), **agent);
        assert_eq!((&agent.model, &agent.preset, &agent.team, &agent.phases), (&None, &None, &None, &None));
    }
}

/// 02-T6, BUND-1 … BUND-3
#[test]
fn bundled_cards_hold_their_values() {
    let acceptance = |level, role| Some(AcceptanceSpec { level, role: Some(role), criteria: Vec::new() });
    let writer = acceptance(AcceptanceLevel::Attested, AcceptanceRole::Writer);

    let centurion = bundled("centurion.md");
    assert!(centurion.worktree && centurion.allow_nested_subagents && centurion.inherit_project_context);
    assert_eq!((centurion.timeout_ms, &centurion.acceptance), (Some(7_200_000), &writer));

    let worker = bundled("worker.md");
    assert_eq!((worker.timeout_ms, worker.renewable, worker.max_renewals), (Some(1_800_000), true, 2));
    assert_eq!((worker.worktree, worker.inherit_project_context), (false, true));
    assert_eq!(worker.acceptance, writer);

    let scout = bundled("scout.md");
    assert!(scout.description.contains("ast read-only recon"), "{}", scout.description);
    assert_eq!(scout.tools.as_deref(), Some(&["read", "grep", "find", "ls", "bash"].map(String::from)[..]));
    assert_eq!((scout.utility, scout.worktree, scout.renewable), (true, false, false));
    assert_eq!((scout.timeout_ms, scout.completion_guard), (Some(600_000), false));
    assert_eq!(scout.acceptance, acceptance(AcceptanceLevel::None, AcceptanceRole::ReadOnly));
}

/// BUND-1, BUND-2, BUND-5: what the prompts must say, and a verdict that closes them in the form of PHM-44.
#[test]
fn bundled_prompts_say_what_they_must() {
    for (file, words) in [
        (
            "centurion.md",
            &[
                "`subagent`",
                "`vexillatio`",
                "collect",
                "Leave none running",
                "worktree",
                "contract file",
                "`legion_phase`",
                "`legion_mail`",
                "verdict",
                "Without phases",
            ][..],
        ),
        (
            "worker.md",
            &[
                "smallest correct change",
                "before you write",
                "checks",
                "scope",
                "`vexillatio`",
                "`legion_mail`",
                "changed files",
                "open risks",
                "verdict",
            ][..],
        ),
        ("scout.md", &["line range", "change nothing", "inspection", "did not find", "Stop when"][..]),
    ] {
        let prompt = bundled(file).system_prompt;
        for word in words {
            assert!(prompt.contains(word), "{file} does not say {word:?}");
        }
        // Short: a prompt is paid for in every child.
        assert!(prompt.len() < 2048, "{file}: {} bytes", prompt.len());
        let quotes_verdict = prompt.contains("```json\n{ \"ok\": true }\n```");
        assert_eq!(quotes_verdict, file != "scout.md", "{file}");
    }
}

/// BUND-6: the skill has the frontmatter a host looks for, and its JSON is JSON.
#[test]
fn the_skill_is_well_formed() {
    let text = include_str!("../../../../skills/legion/SKILL.md");
    assert!(text.starts_with("---\nname: legion\ndescription: "));
    let blocks: Vec<&str> =
        text.split("```json\n").skip(1).map(|rest| rest.split("```").next().expect("closed")).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        assert!(serde_json::from_str::<serde_json::Value>(block).is_ok(), "{block}");
    }
}

prop_compose! {
    fn any_list()(list in prop::collection::hash_set("[!-+.-~][ -+.-~é\u{4e00}]{0,8}[!-+.-~]", 0..4)) -> Vec<String> {
        list.into_iter().filter(|entry| !entry.contains(',')).collect()
    }
}

prop_compose! {
    fn any_agent()(
        name in "[a-z][a-z0-9_-]{0,31}",
        description in "\\PC{0,30}x",
        model in prop::option::of("[!-~]{1,20}"),
        kind in prop::option::of("[a-o]{1,5}"),
        thinking in prop::option::of(prop::sample::select(ThinkingLevel::ALL.map(Thinking::Level).into_iter().chain([Thinking::Disabled]).collect::<Vec<_>>())),
        aliases in prop::collection::hash_set("[a-z]{1,5}", 0..3),
        output in prop::option::of(prop_oneof![Just(Output::Disabled), "[a-z]{1,5}/[b-z]{1,5}\\.md".prop_map(Output::File)]),
        lists in [any_list(), any_list(), any_list(), any_list()],
        tools in prop::option::of(prop::collection::hash_set("[a-z*]{1,6}", 0..3)),
        numbers in (prop::option::of(1u64..), prop::option::of(1u64..), any::<i64>(), prop::option::of(any::<u32>()), any::<u32>()),
        flags in any::<[bool; 10]>(),
        steer in prop::sample::select(Steer::ALL),
        on_blocked in prop::sample::select(OnBlocked::ALL),
        budget in prop::option::of((2u32.., any::<bool>(), prop::option::of("[a-z]{1,4}"))),
        acceptance in prop::option::of((prop::sample::select(AcceptanceLevel::ALL), any::<bool>(), "\\PC{0,10}y", prop::option::of("[!-~]{1,9}"))),
        phases in any::<bool>(),
        body in "[ -~\n\u{4e00}]{0,40}z",
    ) -> AgentConfig {
        let mut agent = AgentConfig::new(CardSource::User, "a.md", name);
        agent.description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        agent.model = model;
        agent.foreign_kind = kind.filter(|kind| kind != "pi");
        agent.thinking = thinking;
        agent.aliases = aliases.into_iter().collect();
        agent.output = output;
        let [fallbacks, skills, reads, extensions] = lists;
        (agent.fallback_models, agent.skills, agent.default_reads, agent.extensions) = (fallbacks, skills, reads, extensions);
        agent.tools = tools.map(|tools| tools.into_iter().collect());
        (agent.timeout_ms, agent.tool_timeout_ms, agent.loop_notice_ms, agent.max_subagent_depth, agent.max_renewals) = numbers;
        let [a, b, c, d, e, f, g, h, i, j] = flags;
        (agent.inherit_project_context, agent.inherit_skills, agent.inherit_extensions) = (a, b, c.then_some(d));
        (agent.default_progress, agent.run_async, agent.completion_guard, agent.renewable) = (d, e, f, g);
        (agent.utility, agent.disabled, agent.worktree) = (h, i, j);
        agent.allow_nested_subagents = !h && i;
        agent.system_prompt_mode = if a { SystemPromptMode::Append } else { SystemPromptMode::Replace };
        (agent.steer, agent.on_blocked) = (steer, on_blocked);
        agent.tool_budget = budget.clone().map(|(hard, soft, block)| ToolBudget {
            hard,
            soft: soft.then_some(hard / 2),
            block: block.map_or(ToolBlock::All, |name| ToolBlock::Names(vec![name])),
        });
        agent.turn_budget = budget.map(|(hard, soft, _)| TurnBudget { hard, soft: soft.then_some(hard - 1) });
        agent.acceptance = acceptance.map(|(level, read_only, text, command)| AcceptanceSpec {
            level,
            role: read_only.then_some(AcceptanceRole::ReadOnly),
            criteria: vec![Criterion {
                id: "c1".into(),
                text: text.trim().to_owned(),
                evidence: if command.is_some() { Evidence::VerificationOutput } else { Evidence::Attestation },
                command,
                required: read_only,
            }],
        });
        agent.phases = phases.then(|| json!({ "phases": [{ "id": "work", "next": [{ "to": "done", "rework": false }] }] }));
        agent.system_prompt = body.trim().to_owned();
        agent
    }
}

proptest! {
    /// BUND-4, for any role that a card can declare.
    #[test]
    fn any_card_round_trips(agent in any_agent()) {
        prop_assert_eq!(parsed_again(&agent), agent);
    }
}
