use std::fs;

use tempfile::TempDir;

use super::*;
use crate::provider::ThinkingLevel;
use crate::tools::builtin_tools;

struct Place {
    _dir: TempDir,
    home: PathBuf,
    agent: PathBuf,
    cwd: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        let (agent, cwd) = (home.join(".pi/agent"), home.join("深い 道/project/sub"));
        fs::create_dir_all(&agent).unwrap();
        fs::create_dir_all(&cwd).unwrap();
        Place { _dir: dir, home, agent, cwd }
    }

    fn write(&self, dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn trusted(&self, command_line: Option<bool>, default: DefaultTrust) -> bool {
        let question =
            TrustQuestion { cwd: &self.cwd, agent_dir: &self.agent, home: Some(&self.home), command_line, default };
        project_trusted(question).0
    }
}

/// NAT-5: context files of the agent directory and up the tree, one a directory, the nearest last
#[test]
fn context_files_come_from_the_tree() {
    let place = Place::new();
    let project = place.cwd.parent().unwrap();
    place.write(&place.agent, "AGENTS.md", "\u{feff}agent");
    place.write(project, "CLAUDE.md", "project claude");
    place.write(project, "AGENTS.md", "project");
    place.write(&place.cwd, "CLAUDE.MD", "sub claude");
    place.write(&place.cwd, "AGENTS.md", "sub");
    place.write(&place.cwd, "AGENTS.override.md", "override");
    fs::create_dir(place.home.join("AGENTS.md")).unwrap();
    place.write(&place.home, "CLAUDE.md", "home");
    let loaded = load_context_files(&place.cwd, &place.agent);
    let contents: Vec<&str> = loaded.value.iter().map(|file| file.content.as_str()).collect();
    assert_eq!(contents, ["agent", "home", "project", "override"]);
    assert!(loaded.warnings.is_empty());
    // The agent directory's file stands once where the session runs there.
    assert_eq!(load_context_files(&place.agent, &place.agent).value.iter().filter(|f| f.content == "agent").count(), 1);
    fs::write(place.cwd.join("AGENTS.override.md"), [0xff]).unwrap();
    assert!(load_context_files(&place.cwd, &place.agent).warnings[0].contains("AGENTS.override.md"));
}

/// NAT-5, SUP-65: the command line, then the nearest saved decision, then the default; nothing to protect is trusted
#[test]
fn trust_is_decided_as_by_pi() {
    use DefaultTrust::{Always, Ask, Never};
    let place = Place::new();
    fs::create_dir(place.cwd.join(".pi")).unwrap();
    place.write(&place.home, ".agents/skills/mine/SKILL.md", "");
    assert!(place.trusted(None, Ask), "nothing to protect");
    let cards = place.cwd.join(".pi/agents");
    std::fs::create_dir_all(&cards).unwrap();
    assert!(!place.trusted(None, Ask), "cards alone need trust");
    std::fs::remove_dir_all(&cards).unwrap();
    place.write(&place.cwd, ".pi/settings.json", "{}");
    assert!(!place.trusted(None, Ask) && !place.trusted(None, Never) && place.trusted(None, Always));
    assert!(place.trusted(Some(true), Never) && !place.trusted(Some(false), Always));
    let project = place.cwd.parent().unwrap();
    let store = |near: &str, far: bool| {
        let near = format!("{}: {near}, {}: {far}", serde_json::json!(place.cwd), serde_json::json!(project));
        place.write(&place.agent, "trust.json", &format!("{{ {near} }}"));
    };
    store("null", true);
    assert!(place.trusted(None, Never));
    store("false", true);
    assert!(!place.trusted(None, Always));
    place.write(&place.agent, "trust.json", "{ broken");
    assert!(!place.trusted(None, Always));

    let other = Place::new();
    other.write(other.cwd.parent().unwrap(), ".agents/skills/x/SKILL.md", "");
    assert!(!other.trusted(None, Ask), "skills of a directory above need trust");
}

/// NAT-5: the project's settings lie over the user's, except for trust; faults are warnings
#[test]
fn settings_are_merged_and_checked() {
    let place = Place::new();
    assert_eq!(Settings::load(&place.agent, Some(&place.cwd)), Loaded::default());
    let user = r#"{ "defaultProvider": "p", "defaultModel": "m", "defaultThinkingLevel": "high", "theme": "dark",
        "defaultProjectTrust": "never", "compaction": { "reserveTokens": 5, "enabled": false }, "retry": { "maxRetries": "3" } }"#;
    place.write(&place.agent, "settings.json", user);
    place.write(&place.cwd, ".pi/settings.json", r#"{ "defaultModel": "n", "defaultProjectTrust": "always" }"#);
    let loaded = Settings::load(&place.agent, Some(&place.cwd));
    let settings = &loaded.value;
    assert_eq!((settings.default_provider.as_deref(), settings.default_model.as_deref()), (Some("p"), Some("n")));
    assert_eq!(settings.default_thinking, Some(ThinkingLevel::High));
    assert_eq!(settings.default_project_trust, DefaultTrust::Never);
    assert_eq!(settings.compaction, Compaction { enabled: false, reserve_tokens: 5, keep_recent_tokens: 20_000 });
    assert_eq!(settings.retry.max_retries, 3);
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].ends_with("settings.json: retry.maxRetries: expected a whole number, got \"3\""));
    assert_eq!(Settings::load(&place.agent, None).value.default_model.as_deref(), Some("m"));
    place.write(&place.agent, "settings.json", "[]");
    assert!(Settings::load(&place.agent, None).warnings[0].contains("expected an object"));
    place.write(&place.agent, "settings.json", "{");
    assert!(Settings::load(&place.agent, None).warnings[0].contains("settings.json: EOF"));
}

/// NAT-5: skills of the project (when trusted) and of the user; the first of a name wins
#[test]
fn skills_are_listed() {
    let place = Place::new();
    let skill =
        |name: &str, description: &str| format!("---\r\nname: {name}\r\ndescription: {description}\r\n---\r\nbody\r\n");
    let project = place.cwd.parent().unwrap();
    fs::create_dir(project.join(".git")).unwrap();
    place.write(&place.cwd, ".pi/skills/a/SKILL.md", &skill("a", "project a"));
    place.write(&place.cwd, ".pi/skills/a/deeper/SKILL.md", &skill("never", "below a skill"));
    place.write(project, ".agents/skills/group/b/SKILL.md", &skill("b", "shared b"));
    place.write(project.parent().unwrap(), ".agents/skills/c/SKILL.md", &skill("outside", "above the repository"));
    place.write(&place.agent, "skills/a/SKILL.md", &skill("a", "user a"));
    place.write(&place.agent, "skills/single.md", &skill("single", "one file"));
    place.write(&place.agent, "skills/nested/not-one.md", &skill("not-one", "too deep"));
    place.write(
        &place.agent,
        "skills/unnamed/SKILL.md",
        "---\ndescription: from its directory\ndisable-model-invocation: true\n---\n",
    );
    place.write(&place.agent, "skills/broken/SKILL.md", "---\ndescription: a: b: c\n---\n");
    place.write(&place.agent, "skills/empty/SKILL.md", "---\nname: empty\n---\n");
    place.write(&place.agent, "skills/plain/SKILL.md", "no frontmatter");
    place.write(&place.home, ".agents/skills/mine/SKILL.md", &skill("Mine", "user's own"));
    let names = |trusted: bool| {
        let places = default_skill_places(&place.cwd, &place.agent, Some(&place.home), trusted);
        let loaded = load_skills(&places);
        (
            loaded.value.iter().map(|skill| format!("{}: {}", skill.name, skill.description)).collect::<Vec<_>>(),
            loaded.warnings,
        )
    };
    let users = ["single: one file", "unnamed: from its directory", "Mine: user's own"];
    let (found, warnings) = names(true);
    assert_eq!(found, [&["a: project a", "b: shared b"][..], &users].concat());
    let expected = [
        "is hidden by",
        "skills/broken/SKILL.md: ",
        "it has no description",
        "it has no frontmatter",
        "the name 'Mine'",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for part in expected {
        assert!(warnings.iter().any(|warning| warning.contains(part)), "{part}: {warnings:#?}");
    }
    assert_eq!(names(false).0, [&["a: user a"][..], &users].concat());
    assert!(load_skills(&[place.agent.join("skills/unnamed")]).value[0].hidden);
    assert_eq!(load_skills(&[place.agent.join("skills/single.md")]).value.len(), 1);
}

#[test]
fn prompt_files_come_from_a_trusted_project_first() {
    let place = Place::new();
    place.write(&place.agent, "SYSTEM.md", "user system");
    place.write(&place.agent, "APPEND_SYSTEM.md", "user append");
    place.write(&place.cwd, ".pi/SYSTEM.md", "project system");
    let texts = |trusted| load_prompt_files(&place.cwd, &place.agent, trusted).value;
    let append = Some("user append".to_owned());
    assert_eq!(texts(true), PromptFiles { system: Some("project system".into()), append: append.clone() });
    assert_eq!(texts(false), PromptFiles { system: Some("user system".into()), append });
}

#[test]
fn the_system_prompt_has_its_parts() {
    let tools = builtin_tools();
    let defs: Vec<&crate::tools::ToolDef> = tools.iter().map(|tool| tool.def()).collect();
    let context = [ContextFile { path: "/p/AGENTS.md".into(), content: "Use tabs.\n".into() }];
    let skill = |name: &str, hidden| Skill {
        name: name.into(),
        description: "a < b".into(),
        path: "/s/SKILL.md".into(),
        hidden,
    };
    let skills = [skill("shown", false), skill("secret", true)];
    let parts = PromptParts {
        tools: &defs,
        context_files: &context,
        skills: &skills,
        cwd: "/p",
        date: "2026-01-31",
        append: Some("Appended."),
        ..PromptParts::default()
    };
    insta::assert_snapshot!(system_prompt(&parts));
    let custom = system_prompt(&PromptParts { custom: Some("You are a scout."), tools: &defs[6..], ..parts });
    assert!(
        custom.starts_with("You are a scout.\n\nAppended.\n\n")
            && !custom.contains("Tools:")
            && !custom.contains("skill")
    );
    assert!(system_prompt(&PromptParts::default()).contains("Tools:\n(none)\n"));
}
