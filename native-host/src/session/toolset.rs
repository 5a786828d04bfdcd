//! The tools of one session, and which of them its model sees.

use std::sync::Arc;

use crate::provider::ToolSpec;
use crate::tools::{DEFAULT_ACTIVE, Tool, ToolDef};

/// Which tools a session is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Absent: the host's default tools and those of extensions that are on by default.
    pub only: Option<Vec<String>>,
    pub exclude: Vec<String>,
}

/// A tool of an extension.
pub struct Offered {
    pub tool: Arc<dyn Tool>,
    pub default_active: bool,
}

/// All tools of a session, and the active ones in the order in which the model sees them.
#[derive(Clone)]
pub struct ToolSet {
    all: Vec<Arc<dyn Tool>>,
    active: Vec<String>,
}

impl ToolSet {
    /// A tool of an extension stands for a built-in one of its name; of two extensions the first wins.
    pub fn new(builtin: Vec<Arc<dyn Tool>>, offered: Vec<Offered>, choice: &ToolChoice) -> ToolSet {
        let wanted = |name: &str, by_default: bool| {
            let chosen = choice.only.as_ref().map_or(by_default, |only| only.iter().any(|tool| tool == name));
            chosen && !choice.exclude.iter().any(|tool| tool == name)
        };
        let mut all: Vec<Arc<dyn Tool>> = Vec::new();
        let mut active = Vec::new();
        let taken = |name: &str| offered.iter().any(|other| other.tool.def().name == name);
        let builtin = builtin.into_iter().filter(|tool| !taken(&tool.def().name)).map(|tool| {
            let default_active = DEFAULT_ACTIVE.contains(&tool.def().name.as_str());
            Offered { tool, default_active }
        });
        for Offered { tool, default_active } in builtin.collect::<Vec<_>>().into_iter().chain(offered) {
            let name = tool.def().name.clone();
            if all.iter().any(|known| known.def().name == name) {
                continue;
            }
            if wanted(&name, default_active) {
                active.push(name);
            }
            all.push(tool);
        }
        ToolSet { all, active }
    }

    /// The names of the active tools.
    pub fn active(&self) -> &[String] {
        &self.active
    }

    /// Chooses the active tools; names of no tool are left out.
    pub fn set_active(&mut self, names: &[String]) {
        self.active.clear();
        for name in names {
            if self.all.iter().any(|tool| tool.def().name == *name) && !self.active.contains(name) {
                self.active.push(name.clone());
            }
        }
    }

    /// The active tool of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.active_tools().find(|tool| tool.def().name == name)
    }

    pub fn defs(&self) -> Vec<&ToolDef> {
        self.active_tools().map(|tool| tool.def()).collect()
    }

    /// The active tools as a model sees them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.active_tools()
            .map(|tool| {
                let ToolDef { name, description, parameters, .. } = tool.def();
                ToolSpec { name: name.clone(), description: description.clone(), parameters: parameters.clone() }
            })
            .collect()
    }

    fn active_tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.active.iter().filter_map(|name| self.all.iter().find(|tool| tool.def().name == *name))
    }
}

impl std::fmt::Debug for Offered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offered").field("name", &self.tool.def().name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSet").field("active", &self.active).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{ToolContext, ToolOutput};

    struct Named(ToolDef);

    #[async_trait::async_trait]
    impl Tool for Named {
        fn def(&self) -> &ToolDef {
            &self.0
        }
        async fn run(&self, _: ToolContext, _: serde_json::Value) -> ToolOutput {
            ToolOutput::text(&self.0.label)
        }
    }

    fn tool(name: &str, label: &str) -> Arc<dyn Tool> {
        Arc::new(Named(ToolDef { name: name.into(), label: label.into(), ..ToolDef::default() }))
    }

    fn set(only: Option<&[&str]>, exclude: &[&str]) -> ToolSet {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let builtin = ["read", "bash", "grep"].map(|name| tool(name, "builtin")).to_vec();
        let offered = vec![
            Offered { tool: tool("legion_mail", "ext"), default_active: true },
            Offered { tool: tool("hidden", "ext"), default_active: false },
            Offered { tool: tool("bash", "ext"), default_active: true },
            Offered { tool: tool("legion_mail", "second"), default_active: true },
        ];
        ToolSet::new(builtin, offered, &ToolChoice { only: only.map(names), exclude: names(exclude) })
    }

    /// ABI-40
    #[test]
    fn defaults_allowlists_and_exclusions() {
        assert_eq!(set(None, &[]).active(), ["read", "legion_mail", "bash"]);
        assert_eq!(set(Some(&["grep", "hidden", "unknown"]), &[]).active(), ["grep", "hidden"]);
        assert_eq!(set(None, &["bash"]).active(), ["read", "legion_mail"]);
        assert_eq!(set(Some(&[]), &[]).active(), [""; 0]);
    }

    #[test]
    fn an_extension_replaces_a_builtin_and_the_first_of_two_wins() {
        let set = set(None, &[]);
        assert_eq!(set.find("bash").unwrap().def().label, "ext");
        assert_eq!(set.find("legion_mail").unwrap().def().label, "ext");
        assert!(set.find("grep").is_none(), "an inactive tool cannot be called");
    }

    #[test]
    fn active_tools_can_be_chosen_anew() {
        let mut set = set(None, &[]);
        set.set_active(&["grep".into(), "nonsense".into(), "grep".into()]);
        assert_eq!(set.active(), ["grep"]);
    }
}
