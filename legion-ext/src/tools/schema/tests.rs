use host_abi::{
    info::{AttachSpec, Mode},
    scope::{ChildBudget, ExtensionScope, SCOPE_SCHEMA},
};

use super::*;
use crate::{context::Identity, tools::params};

fn child(name: &str, utility: bool, allow_nested: bool) -> Identity {
    Identity::Child(Box::new(ExtensionScope {
        schema: SCOPE_SCHEMA.to_owned(),
        name: name.to_owned(),
        role: name.to_owned(),
        node_id: format!("root/{name}"),
        db_path: "/run/legion.db".to_owned(),
        session_file: format!("/run/{name}.jsonl"),
        run_dir: "/run".to_owned(),
        root_run_dir: "/run".to_owned(),
        parent_path: vec!["root".to_owned()],
        depth: 1,
        spawn_mode: "inprocess".to_owned(),
        team: None,
        acceptance_role: None,
        utility,
        budget: Some(ChildBudget { allow_nested, ..ChildBudget::default() }),
        phases: None,
    }))
}

fn context(identity: Identity) -> SessionContext {
    let spec = AttachSpec {
        agent_id: "a".to_owned(),
        session_id: "s".to_owned(),
        session_file: None,
        cwd: "/".to_owned(),
        mode: Mode::Print,
        has_ui: false,
        project_trusted: true,
        extension_scope: None,
    };
    SessionContext::new(spec, identity)
}

/// SURF-1, SURF-2, SURF-3, part of 09-T1: two children of different roles are alive at once, and each has its own.
#[test]
fn each_kind_of_session_has_its_tools() {
    let contexts = [
        (context(Identity::Root), vec![SUBAGENT, VEXILLATIO]),
        (context(child("centurion", false, true)), vec![SUBAGENT, VEXILLATIO, LEGION_MAIL, LEGION_TREE]),
        (context(child("worker", false, false)), vec![VEXILLATIO, LEGION_MAIL, LEGION_TREE]),
        (context(child("scout", true, true)), vec![LEGION_MAIL, LEGION_TREE]),
    ];
    for (context, want) in &contexts {
        let names: Vec<String> = registrations(context).into_iter().map(|tool| tool.name).collect();
        assert_eq!(&names, want, "{:?}", context.identity.role());
    }
}

/// SURF-8, part of 09-T2
#[test]
fn definitions_keep_to_their_size() {
    for tool in all() {
        let definition =
            json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters }).to_string();
        let (limit, description) = if tool.name == SUBAGENT { (8 * 1024, 1200) } else { (3 * 1024, 500) };
        assert!(definition.len() <= limit, "{}: {} bytes", tool.name, definition.len());
        assert!(tool.description.chars().count() <= description, "{}: {}", tool.name, tool.description.chars().count());
        assert!(tool.prompt_guidelines.len() <= 6);
        for bullet in &tool.prompt_guidelines {
            assert!(bullet.starts_with(&format!("{}:", tool.name)), "{bullet}");
        }
    }
}

/// SURF-7, PLAY-1
#[test]
fn tools_carry_their_metadata() {
    let [subagent, vexillatio, mail, tree] = all();
    assert_eq!((subagent.label.as_str(), vexillatio.label.as_str()), ("Subagent", "Vexillatio"));
    let read_only = |tool: &ToolDef| tool.annotations.as_ref().is_some_and(|hints| hints.read_only_hint);
    assert!(read_only(&vexillatio) && read_only(&tree) && !read_only(&subagent) && !read_only(&mail));
    for tool in [&subagent, &vexillatio, &mail, &tree] {
        assert_eq!(tool.exposure.as_deref(), Some("direct"));
        assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object");
        assert_eq!(tool.execution_mode, None);
    }
    let snippet = "Delegate work to child agents: launch, wait, collect, steer, stop.";
    assert_eq!(subagent.prompt_snippet.as_deref(), Some(snippet));
}

/// PLAY-0: the description names each action, and says which ones this build refuses.
#[test]
fn the_description_is_honest_about_this_build() {
    let [subagent, ..] = all();
    insta::assert_snapshot!(subagent.description);
    for action in Action::ALL {
        assert!(subagent.description.contains(action.as_str()), "{}", action.as_str());
    }
}

/// What a provider with a strict converter takes (SURF-9).
fn strict(schema: &Value, path: &str) {
    let object = schema.as_object().unwrap_or_else(|| panic!("{path}: not an object"));
    for (key, value) in object {
        match key.as_str() {
            "type" => assert!(
                matches!(value.as_str(), Some("object" | "array" | "string" | "boolean" | "integer")),
                "{path}: {value}"
            ),
            "description" => assert!(value.is_string(), "{path}"),
            "enum" => assert!(value.as_array().unwrap().iter().all(Value::is_string), "{path}"),
            "required" => {
                let names = value.as_array().unwrap();
                assert!(names.iter().all(|name| object["properties"].get(name.as_str().unwrap()).is_some()), "{path}");
            }
            "minItems" | "maxItems" | "minimum" | "maximum" => assert!(value.is_u64(), "{path}"),
            "items" => strict(value, &format!("{path}[]")),
            "properties" => {
                for (name, property) in value.as_object().unwrap() {
                    strict(property, &format!("{path}.{name}"));
                }
            }
            "anyOf" => {
                assert!(path.contains('.'), "anyOf at the top");
                for (at, choice) in value.as_array().unwrap().iter().enumerate() {
                    strict(choice, &format!("{path}.anyOf{at}"));
                }
            }
            other => panic!("{path}: keyword {other}"),
        }
    }
    assert!(object.contains_key("type") || object.contains_key("anyOf"), "{path}: no type");
}

/// SURF-9, part of 09-T2
#[test]
fn schemas_are_plain() {
    for tool in all() {
        assert_eq!(tool.parameters["type"], "object");
        strict(&tool.parameters, &tool.name);
        strict(tool.output_schema.as_ref().unwrap(), &format!("{} output", tool.name));
    }
}

/// SUB-1, part of 09-T2: each action takes its documented minimum, or says that it is not in this build.
#[test]
fn each_action_takes_its_minimum() {
    for action in Action::ALL {
        let call = match action {
            Action::Launch => json!({ "agent": "worker", "task": "x" }),
            Action::Continue | Action::Steer => json!({ "name": "w", "message": "go" }),
            Action::Abort | Action::Resume | Action::Retire | Action::Collect | Action::Stop | Action::Extend => {
                json!({ "name": "w" })
            }
            Action::Status | Action::List | Action::Wait | Action::Diagnose => json!({}),
        };
        let mut call = call;
        call["action"] = action.as_str().into();
        let (head, asked) = params::parse(SUBAGENT, &call);
        assert_eq!(head.action, Some(action.as_str()));
        match asked {
            Ok(_) => assert!(action.built(), "{}", action.as_str()),
            Err(error) => {
                assert!(!action.built(), "{error}");
                assert_eq!(error.code, crate::error::Code::NotAvailable);
                assert_eq!(error.message, format!("action '{}' is not available in this build", action.as_str()));
            }
        }
    }
}
