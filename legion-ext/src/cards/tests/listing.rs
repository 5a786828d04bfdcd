//! The text of `/legion agents` and `subagent list`.

use super::*;
use crate::core::model::{ModelInputs, ModelSourceInfo, ModelSourceType};

/// part of 02-T17, CMD-10, LIST-1, THINK-8, MODEL-2, MODEL-14
#[test]
fn roles_as_lines() {
    let line = |frontmatter: &str, models: &ModelInputs<'_>| role_line(&role_listing(&agent(frontmatter), models));
    let nothing = ModelInputs::default();
    let parent = ModelInputs { parent: Some("cb/p"), ..nothing };
    let default = ModelInputs { default_model: Some("cb/d"), ..parent };
    assert_eq!(line("", &nothing), "helper [project] (agent CLI default)");
    assert_eq!(line("", &parent), "helper [project] cb/p (dispatch)");
    assert_eq!(line("thinking: low", &default), "helper [project] cb/d:low (subagents.defaultModel)");
    assert_eq!(line("model: cb/x:high", &default), "helper [project] cb/x:high (frontmatter)");
    assert_eq!(line("model: cb/x:high\nthinking: max", &default), "helper [project] cb/x:max (frontmatter)");
    assert_eq!(line("model: cb/x:v1\nthinking: max", &default), "helper [project] cb/x:v1 (frontmatter)");
    assert_eq!(line("model: inherit", &parent), "helper [project] cb/p (frontmatter)");
    assert_eq!(
        line("model: inherit", &nothing),
        "helper [project] needs a parent session model — a launch would refuse this"
    );
    assert_eq!(
        line("utility: true\ndisabled: true\nworktree: true\nacceptance: { role: read-only }", &parent),
        "helper [project] cb/p (dispatch) utility disabled read-only"
    );
    let mut team = agent("model: cb/t");
    team.model_source = Some(ModelSourceInfo { r#type: ModelSourceType::Team, model: "cb/t".into() });
    assert_eq!(role_line(&role_listing(&team, &default)), "helper [project] cb/t (team)");
}

/// CMD-10
#[test]
fn the_whole_listing() {
    let models = ModelInputs { parent: Some("cb/p"), ..ModelInputs::default() };
    let mut lead = agent("worktree: true\nphases: [{ id: a, next: [done] }]");
    lead.name = CENTURION.into();
    let mut off = agent("disabled: true");
    off.name = "off".into();
    let broken = parse_fields("kindd: x").expect_err("broken");
    let text = agents_text(&[role_listing(&lead, &models), role_listing(&off, &models)], &[broken], "default");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "Agents · 1 available · team default",
            "centurion [project] cb/p (dispatch) worktree phases",
            "  Helps.",
            "off [project] cb/p (dispatch) disabled",
            "  Helps.",
        ]
    );
    assert!(lines[5].starts_with("✗ a.md: unknown frontmatter key 'kindd' (did you mean 'kind'?)"), "{}", lines[5]);
    assert_eq!(lines.len(), 6);
}
