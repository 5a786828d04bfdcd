//! What a listing tells about a role.

use super::*;
use crate::core::model::{ModelInputs, ModelSourceInfo, ModelSourceType};

/// part of 02-T17, LIST-1, THINK-8, MODEL-2, MODEL-14
#[test]
fn model_source_and_flags_of_a_role() {
    let told = |role: RoleListing| {
        let source = role.model_source.map(|source| format!(" ({source})")).unwrap_or_default();
        let flags: String = role.flags().iter().map(|flag| format!(" {flag}")).collect();
        format!("{} [{}] {}{source}{flags}", role.name, role.source, role.model)
    };
    let line = |frontmatter: &str, models: &ModelInputs<'_>| told(role_listing(&agent(frontmatter), models));
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
    assert_eq!(told(role_listing(&team, &default)), "helper [project] cb/t (team)");
}

/// LIST-1, CARD-56, CARD-69
#[test]
fn only_a_centurion_is_listed_with_worktree_and_phases() {
    let mut lead = agent("worktree: true\nphases: [{ id: a, next: [done] }]");
    assert_eq!(role_listing(&lead, &ModelInputs::default()).flags(), Vec::<&str>::new());
    lead.name = CENTURION.into();
    assert_eq!(role_listing(&lead, &ModelInputs::default()).flags(), ["worktree", "phases"]);
}
