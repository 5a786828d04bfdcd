//! The system prompt: the host's part, then the parts that extensions add. Pure.

use std::path::Path;

use host_abi::gates::BeforeAgentStartAnswer;
use host_abi::registration::Section;

use crate::context_files::{ContextFile, PromptParts, Skill, system_prompt};
use crate::tools::ToolDef;

/// What the host's part is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptSource {
    /// Replaces the host's own text.
    pub system: Option<String>,
    /// Follows the host's own text.
    pub append: Option<String>,
    pub context_files: Vec<ContextFile>,
    pub skills: Vec<Skill>,
}

impl PromptSource {
    /// The host's part. `tools` are the active ones; `date` is a day, such as `2026-01-31`.
    pub fn text(&self, tools: &[&ToolDef], cwd: &Path, date: &str) -> String {
        system_prompt(&PromptParts {
            custom: self.system.as_deref(),
            append: self.append.as_deref(),
            tools,
            context_files: &self.context_files,
            skills: &self.skills,
            cwd: &cwd.to_string_lossy(),
            date,
        })
    }
}

/// The prompt of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    base: String,
    sections: Vec<Section>,
}

impl Prompt {
    pub fn new(base: String) -> Prompt {
        Prompt { base, sections: Vec::new() }
    }

    /// Adds a section; one of the same id is replaced in its place, an empty text removes it.
    pub fn put(&mut self, section: &Section) {
        match (self.sections.iter().position(|known| known.id == section.id), section.text.is_empty()) {
            (Some(at), true) => drop(self.sections.remove(at)),
            (Some(at), false) => self.sections[at].text.clone_from(&section.text),
            (None, true) => {}
            (None, false) => self.sections.push(section.clone()),
        }
    }

    /// Takes the answer of a `before_agent_start` gate (ABI-53). An answer with a bad section id changes
    /// nothing.
    pub fn apply(&mut self, answer: &BeforeAgentStartAnswer) -> Result<(), String> {
        if let Some(bad) = answer.sections.iter().find(|section| !Section::valid_id(&section.id)) {
            return Err(format!("'{}' is no section id", bad.id));
        }
        if let Some(text) = &answer.system_prompt {
            // It was made from the whole prompt so far, sections included.
            self.base.clone_from(text);
            self.sections.clear();
        }
        answer.sections.iter().for_each(|section| self.put(section));
        Ok(())
    }

    pub fn text(&self) -> String {
        let sections = self.sections.iter().map(|section| section.text.as_str());
        let parts: Vec<&str> =
            std::iter::once(self.base.as_str()).chain(sections).filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(id: &str, text: &str) -> Section {
        Section { id: id.to_owned(), text: text.to_owned() }
    }

    fn answer(system: Option<&str>, sections: &[(&str, &str)]) -> BeforeAgentStartAnswer {
        BeforeAgentStartAnswer {
            system_prompt: system.map(str::to_owned),
            sections: sections.iter().map(|(id, text)| section(id, text)).collect(),
            message: None,
        }
    }

    /// ABI-32, ABI-53
    #[test]
    fn sections_are_replaced_removed_and_joined() {
        let mut prompt = Prompt::new("base".to_owned());
        prompt.put(&section("legion", "one"));
        prompt.put(&section("other", "two"));
        assert_eq!(prompt.text(), "base\n\none\n\ntwo");
        prompt.apply(&answer(None, &[("legion", "ONE"), ("other", "")])).unwrap();
        assert_eq!(prompt.text(), "base\n\nONE");
        prompt.apply(&answer(Some("new base"), &[("more", "three")])).unwrap();
        assert_eq!(prompt.text(), "new base\n\nthree");
        let before = prompt.clone();
        for bad in ["preamble", "Upper", "1st", ""] {
            assert!(prompt.apply(&answer(Some("x"), &[("fine", "y"), (bad, "z")])).is_err(), "{bad}");
            assert_eq!(prompt, before);
        }
    }
}
