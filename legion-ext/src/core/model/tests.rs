use proptest::prelude::*;

use super::*;

fn info(r#type: ModelSourceType, model: &str) -> ModelSourceInfo {
    ModelSourceInfo { r#type, model: model.to_owned() }
}

/// All eight levels; the role's own model plays a team's when `tag` says so.
fn all<'a>(tag: Option<&'a ModelSourceInfo>) -> ModelInputs<'a> {
    ModelInputs {
        role: "worker",
        call: Some("cb/call"),
        preset: Some("cb/preset"),
        agent: Some("cb/agent"),
        agent_tag: tag,
        provider_override: Some("cb/by-provider"),
        role_override: Some("cb/override"),
        default_model: Some("cb/default"),
        parent: Some("cb/parent"),
    }
}

/// 02-T13, MODEL-1, MODEL-3: each level beats the next, with its source type and origin.
#[test]
fn eight_levels_in_order() {
    use ModelOrigin::{Explicit, Inherited};
    use ModelSourceType::{AgentOverrides, DefaultModel, Dispatch, Frontmatter, Preset, Team};
    let team = info(Team, "cb/agent");
    let tagged = all(Some(&team));
    let plain = all(None);
    let levels = [
        (tagged, "cb/call", Dispatch, Explicit),
        (ModelInputs { call: None, ..tagged }, "cb/preset", Preset, Explicit),
        (ModelInputs { call: None, preset: None, ..tagged }, "cb/agent", Team, Explicit),
        (ModelInputs { call: None, preset: None, ..plain }, "cb/by-provider", AgentOverrides, Explicit),
        (
            ModelInputs { call: None, preset: None, provider_override: None, ..plain },
            "cb/override",
            AgentOverrides,
            Explicit,
        ),
        (
            ModelInputs { call: None, preset: None, provider_override: None, role_override: None, ..plain },
            "cb/agent",
            Frontmatter,
            Explicit,
        ),
        (
            ModelInputs { default_model: plain.default_model, parent: plain.parent, ..ModelInputs::default() },
            "cb/default",
            DefaultModel,
            Inherited,
        ),
        (ModelInputs { parent: plain.parent, ..ModelInputs::default() }, "cb/parent", Dispatch, Inherited),
    ];
    for (inputs, model, r#type, origin) in levels {
        let want = ResolvedModel { model: Some(model.into()), source: Some(info(r#type, model)), origin };
        assert_eq!(resolve_model(&inputs), Ok(want));
    }
    let none = ResolvedModel { model: None, source: None, origin: Inherited };
    assert_eq!(resolve_model(&ModelInputs::default()), Ok(none));
}

/// MODEL-5, TEAM-11, TEAM-12: a fold's tag holds only while the model is still the folded one.
#[test]
fn tags_of_folded_models() {
    use ModelSourceType::{DefaultModel, Frontmatter, Team};
    let resolve = |tag: &ModelSourceInfo| {
        let inputs = ModelInputs {
            agent: Some("cb/agent"),
            agent_tag: Some(tag),
            role_override: Some("cb/override"),
            ..ModelInputs::default()
        };
        let weaker = ModelInputs { role_override: None, ..inputs };
        (resolve_model(&inputs).unwrap().model.unwrap(), resolve_model(&weaker).unwrap())
    };
    let (winner, folded) = resolve(&info(DefaultModel, "cb/agent"));
    assert_eq!((winner.as_str(), folded.origin), ("cb/override", ModelOrigin::Inherited));
    assert_eq!(folded.source, Some(info(DefaultModel, "cb/agent")));
    let (winner, _) = resolve(&info(Team, "cb/agent"));
    assert_eq!(winner, "cb/agent");
    for stale in [info(Team, "cb/other"), info(DefaultModel, "cb/other")] {
        let (winner, plain) = resolve(&stale);
        assert_eq!((winner.as_str(), plain.origin), ("cb/override", ModelOrigin::Explicit));
        assert_eq!(plain.source, Some(info(Frontmatter, "cb/agent")));
    }
}

/// 02-T25, MODEL-4: blank yields, padding goes.
#[test]
fn blank_and_padded_models() {
    assert_eq!(call_value(Some(" "), Some(" cb/top ")), Some("cb/top"));
    assert_eq!(call_value(None, Some("cb/top")), Some("cb/top"));
    assert_eq!(call_value(Some(" cb/step "), Some("cb/top")), Some("cb/step"));
    assert_eq!(call_value(Some(""), None), None);
    let inputs = ModelInputs { call: Some("  "), agent: Some(" \t"), parent: Some(" cb/p "), ..ModelInputs::default() };
    assert_eq!(resolve_model(&inputs).unwrap().model.as_deref(), Some("cb/p"));
    let inputs = ModelInputs { call: Some(" cb/x:high "), ..inputs };
    let step = resolve_step_model(&inputs, ThinkingInputs::default()).unwrap();
    assert_eq!(step.spawn, SpawnModel { model: Some("cb/x:high".into()), thinking: None });
}

/// part of 02-T17, MODEL-10, MODEL-11: `inherit` at every level takes the parent's model, and refuses without one.
#[test]
fn inherit_at_every_level() {
    let team = info(ModelSourceType::Team, "inherit");
    let none = ModelInputs { role: "worker", default_model: Some("cb/default"), ..ModelInputs::default() };
    let word = Some("inherit");
    for inputs in [
        ModelInputs { call: word, ..none },
        ModelInputs { preset: word, ..none },
        ModelInputs { agent: word, agent_tag: Some(&team), ..none },
        ModelInputs { provider_override: word, ..none },
        ModelInputs { role_override: word, ..none },
        ModelInputs { agent: Some(" inherit "), ..none },
    ] {
        let with_parent = resolve_model(&ModelInputs { parent: Some("cb/p:low"), ..inputs }).unwrap();
        assert_eq!((with_parent.model.as_deref(), with_parent.origin), (Some("cb/p:low"), ModelOrigin::Inherited));
        let error = resolve_model(&inputs).unwrap_err();
        assert_eq!(
            error.message,
            "model 'inherit' for 'worker' needs a parent session model and there is none; \
             set subagents.defaultModel or pass an explicit model"
        );
        assert_eq!(error.code, crate::error::Code::InvalidParams);
    }
    let level = ModelInputs { call: Some("inherit:max"), parent: Some("cb/p:low"), ..none };
    assert_eq!(resolve_model(&level).unwrap().model.as_deref(), Some("cb/p:max"));
}

/// part of 02-T18, THINK-1, THINK-2, THINK-3, THINK-4, THINK-5, THINK-6, THINK-7, THINK-11: what runs and what is recorded, row by row.
#[test]
fn thinking_against_suffix() {
    use ThinkingLevel::{High, Low, Max, Off};
    let level = Thinking::Level;
    let thinking = |call, preset, agent| ThinkingInputs { call, preset, agent };
    let none = ThinkingInputs::default();
    // From this call: model and rest. `card` is the same model on the card.
    let rows = [
        // Nothing configured: nothing is touched (THINK-4).
        ("cb/x:high", "", none, Some("cb/x:high"), None, Some(level(High))),
        ("cb/x", "", none, Some("cb/x"), None, None),
        // Configured beats the card's suffix (THINK-2), the call's suffix beats configured (THINK-3).
        ("cb/x:high", "", thinking(None, None, Some(level(Max))), Some("cb/x:max"), None, Some(level(Max))),
        ("", "cb/x:high", thinking(None, None, Some(level(Max))), Some("cb/x:high"), None, Some(level(High))),
        // The call's own field beats its own suffix.
        ("", "cb/x:high", thinking(Some(level(Low)), None, Some(level(Max))), Some("cb/x:low"), None, Some(level(Low))),
        ("", "cb/x", thinking(None, None, Some(level(Max))), Some("cb/x:max"), None, Some(level(Max))),
        // The order of THINK-1.
        ("cb/x", "", thinking(None, Some(level(Low)), Some(level(Max))), Some("cb/x:low"), None, Some(level(Low))),
        ("cb/x", "", thinking(Some(level(Off)), Some(level(Low)), None), Some("cb/x:off"), None, Some(level(Off))),
        // `false` strips and adds none (THINK-5).
        ("cb/x:high", "", thinking(None, None, Some(Thinking::Disabled)), Some("cb/x"), None, Some(Thinking::Disabled)),
        // An unknown suffix is part of the id (THINK-6); the level goes on its own.
        ("cb/x:free", "", thinking(None, None, Some(level(High))), Some("cb/x:free"), Some(High), Some(level(High))),
        (
            "cb/x:free",
            "",
            thinking(None, None, Some(Thinking::Disabled)),
            Some("cb/x:free"),
            None,
            Some(Thinking::Disabled),
        ),
        ("cb/x:free", "", none, Some("cb/x:free"), None, None),
        // A level without a model goes on its own (THINK-7).
        ("", "", thinking(None, None, Some(level(High))), None, Some(High), Some(level(High))),
    ];
    for (card, call, thinking, model, alone, recorded) in rows {
        let inputs = ModelInputs { call: Some(call), agent: Some(card), ..ModelInputs::default() };
        let step = resolve_step_model(&inputs, thinking).unwrap();
        let want = SpawnModel { model: model.map(str::to_owned), thinking: alone };
        assert_eq!(
            (step.spawn, step.recorded_thinking),
            (want, recorded),
            "card {card:?}, call {call:?}, {thinking:?}"
        );
    }
}

/// THINK-6, THINK-12: only a known level after the last colon is one.
#[test]
fn suffixes() {
    for (model, id, level) in [
        ("cb/x:high", "cb/x", Some(ThinkingLevel::High)),
        ("cb/x:free:low", "cb/x:free", Some(ThinkingLevel::Low)),
        ("cb/x:free", "cb/x:free", None),
        ("cb/x:High", "cb/x:High", None),
        ("cb/x", "cb/x", None),
        (":high", ":high", None),
        ("", "", None),
    ] {
        assert_eq!(split_thinking_suffix(model), (id, level));
    }
}

/// part of 02-T19, THINK-8, THINK-9
#[test]
fn labels() {
    let level = |level| Some(Thinking::Level(level));
    for (model, thinking, label) in [
        ("cb/x", level(ThinkingLevel::High), "cb/x:high"),
        ("cb/x", level(ThinkingLevel::Off), "cb/x:off"),
        ("cb/x:high", level(ThinkingLevel::Max), "cb/x:high"),
        ("cb/x:v1", level(ThinkingLevel::Max), "cb/x:v1"),
        ("cb/x", Some(Thinking::Disabled), "cb/x"),
        ("cb/x", None, "cb/x"),
        // A host and port in front of the id are no suffix.
        ("local:8080/x", level(ThinkingLevel::Low), "local:8080/x:low"),
    ] {
        assert_eq!(model_label(model, thinking), label);
    }
}

/// FALL-1, MODEL-13
#[test]
fn candidates_of_a_fallback() {
    let first = SpawnModel { model: Some("cb/a:high".into()), thinking: None };
    let fallbacks = ["cb/b", " inherit ", "cb/c:low", "cb/a", "", "cb/b"].map(str::to_owned);
    let models: Vec<Option<String>> = model_candidates(&first, &fallbacks, Some(Thinking::Level(ThinkingLevel::High)))
        .into_iter()
        .map(|candidate| candidate.model)
        .collect();
    assert_eq!(models, ["cb/a:high", "cb/b:high", "cb/c:low"].map(|model| Some(model.to_owned())));
}

/// The wire form of a recorded thinking: a level or `false`.
#[test]
fn thinking_on_the_wire() {
    for (thinking, json) in [(Thinking::Level(ThinkingLevel::Xhigh), "\"xhigh\""), (Thinking::Disabled, "false")] {
        assert_eq!(serde_json::to_string(&thinking).unwrap(), json);
        assert_eq!(serde_json::from_str::<Thinking>(json).unwrap(), thinking);
    }
    for bad in ["true", "\"huge\"", "3", "null"] {
        assert!(serde_json::from_str::<Thinking>(bad).is_err(), "{bad}");
    }
}

proptest! {
    /// MODEL-1: against the table read from top to bottom.
    #[test]
    fn first_filled_level_wins(levels in prop::array::uniform8(prop::option::of(prop::sample::select(vec!["cb/m", " ", ""])))) {
        let names: Vec<Option<String>> = levels
            .iter()
            .enumerate()
            .map(|(at, value)| value.map(|v| if v.trim().is_empty() { v.to_owned() } else { format!("{v}{at}") }))
            .collect();
        let level = |at: usize| names[at].as_deref();
        let team = level(2).filter(|model| !model.trim().is_empty());
        let tag = team.map(|model| info(ModelSourceType::Team, model));
        let inputs = ModelInputs {
            role: "r",
            call: level(0),
            preset: level(1),
            agent: team.or(level(5)),
            agent_tag: tag.as_ref(),
            provider_override: level(3),
            role_override: level(4),
            default_model: level(6),
            parent: level(7),
        };
        let want = (0..8).find_map(|at| level(at).filter(|model| !model.trim().is_empty()));
        let resolved = resolve_model(&inputs).unwrap();
        prop_assert_eq!(resolved.model.as_deref(), want);
    }
}
