//! The reference page `docs/abi.md`, made from the code (ABI-25).

use std::fmt::Write as _;

use crate::{calls, codes, events, gates, ops};

/// The page as markdown.
pub fn abi_markdown() -> String {
    let mut page = String::new();
    let out = &mut page;
    out.push_str("# Host ABI\n\n");
    out.push_str("Generated from `host-abi` by `cargo xtask generate`; do not edit.\n\n");
    line(
        out,
        format_args!(
            "Version `{}`. Patch versions load each other both ways; below 1.0 a different minor version is refused, from 1.0 on a different major one.",
            crate::VERSION
        ),
    );
    line(
        out,
        format_args!(
            "Payloads are JSON of at most {} MiB. Unknown members are ignored on both sides; an unknown operation answers `UNKNOWN_OP`, an unknown event is ignored.",
            crate::MAX_PAYLOAD_BYTES / 1024 / 1024
        ),
    );
    out.push_str("## Operations of the host\n\n`R` is a request with an answer, `P` a post without one. A request may be posted when its answer is not wanted. Types are those of `host_abi::ops`.\n\n");
    out.push_str("| Operation | | Input | Answer | Meaning |\n| --- | --- | --- | --- | --- |\n");
    for (op, kind, input, answer, meaning) in ops::TABLE {
        let answer = if answer.is_empty() { String::new() } else { format!("`{answer}`") };
        writeln!(out, "| `{op}` | {kind} | `{input}` | {answer} | {meaning} |").expect("writing to a String");
    }
    out.push('\n');
    list(
        out,
        "Events",
        "told by `notify` to the extensions that asked for them (`host_abi::events`)",
        events::names::ALL,
    );
    list(out, "Gates", "asked by `invoke` of kind `gate`; their answer counts (`host_abi::gates`)", gates::names::ALL);
    list(out, "Queries", "asked by `query`, synchronously (`host_abi::calls`)", calls::queries::ALL);
    list(out, "Calls", "kinds of `invoke`", &[calls::kinds::TOOL, calls::kinds::COMMAND, calls::kinds::GATE]);
    list(
        out,
        "Error codes of the boundary",
        "an extension has codes of its own beside them",
        &[
            codes::BAD_PAYLOAD,
            codes::HOST,
            codes::NO_CHILD,
            codes::NO_UI,
            codes::PANIC,
            codes::SCOPE_GONE,
            codes::TOO_LARGE,
            codes::UNKNOWN_OP,
        ],
    );
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}\n").expect("writing to a String");
}

fn list(out: &mut String, title: &str, about: &str, names: &[&str]) {
    line(out, format_args!("## {title}"));
    line(out, format_args!("{}{}.", about[..1].to_uppercase(), &about[1..]));
    for name in names {
        writeln!(out, "- `{name}`").expect("writing to a String");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    /// ABI-25, DOC-2: the published page is what the code makes.
    #[test]
    fn the_published_page_is_up_to_date() {
        let published = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/abi.md"));
        assert!(
            published.is_ok_and(|text| text == super::abi_markdown()),
            "docs/abi.md differs from the code: run `cargo xtask generate`"
        );
    }
}
