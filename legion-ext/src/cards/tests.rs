use super::*;

mod discovery;
mod faults;
mod fields;
mod listing;
mod round_trip;

/// A card of these frontmatter lines with a body.
fn parse(frontmatter: &str) -> Result<AgentConfig, CardError> {
    parse_agent_document(CardSource::Project, "a.md", format!("---\n{frontmatter}\n---\nDo it.\n").as_bytes())
}

/// As [`parse`], with the two required fields added.
fn parse_fields(frontmatter: &str) -> Result<AgentConfig, CardError> {
    parse(&format!("name: helper\ndescription: Helps.\n{frontmatter}"))
}

fn agent(frontmatter: &str) -> AgentConfig {
    parse_fields(frontmatter).unwrap_or_else(|error| panic!("{frontmatter}: {error}"))
}

fn error_text(frontmatter: &str) -> String {
    parse_fields(frontmatter).expect_err(frontmatter).to_string()
}
