//! The end of the tour: what happened, where it is, and what to look at next. Pure.

use std::path::PathBuf;

use legion_ext::core::display;
use legion_ext::core::text::clean_line;
use legion_ext::ledger::usage::LedgerTotals;

/// Longest reason in the table, in bytes.
const REASON_BYTES: usize = 120;

/// Everything that the end tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// How the person calls this program.
    pub program: String,
    pub dir: PathBuf,
    pub repo: PathBuf,
    /// Absent when no run was begun.
    pub run: Option<RunFacts>,
    /// The tests before and after.
    pub before: String,
    pub after: String,
    pub green: bool,
    /// `git diff --stat`.
    pub changes: String,
    /// The root's last text.
    pub answer: Option<String>,
    /// Why the root's run failed.
    pub error: Option<String>,
}

/// What the run directory says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFacts {
    pub dir: PathBuf,
    pub children: Vec<ChildFacts>,
    pub totals: LedgerTotals,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChildFacts {
    pub name: String,
    pub agent: String,
    /// Outcome of its last round; absent when none was recorded.
    pub status: Option<String>,
    pub reason: Option<String>,
    pub verdict: Option<bool>,
    pub duration_ms: Option<i64>,
    pub tokens_in: u64,
    pub tokens_out: u64,
}

impl ChildFacts {
    pub fn succeeded(&self) -> bool {
        self.status.as_deref() == Some("success") && self.verdict != Some(false)
    }
}

impl Facts {
    /// Whether the tour went as it should: every child succeeded and the tests are green.
    pub fn succeeded(&self) -> bool {
        let run = self.run.as_ref().is_some_and(|run| run.children.iter().all(ChildFacts::succeeded));
        run && self.green && self.error.is_none()
    }

    /// The closing text.
    pub fn text(&self) -> String {
        let mut lines = vec![String::new()];
        if let Some(answer) = &self.answer {
            lines.extend(["The root's answer".to_owned(), String::new()]);
            lines.extend(answer.trim().lines().map(indented));
            lines.push(String::new());
        }
        if let Some(error) = &self.error {
            lines.extend([format!("The root's run failed: {error}"), String::new()]);
        }
        if let Some(run) = &self.run {
            lines.extend(["What happened".to_owned(), String::new()]);
            lines.extend(run.children.iter().map(child_line));
            lines.push(String::new());
        }
        lines.extend([format!("Tests    {} → {}", self.before, self.after), String::new()]);
        lines.extend(self.changes.trim_end().lines().map(str::to_owned));
        lines.push(String::new());
        lines.extend(self.places());
        lines.join("\n")
    }

    /// Where everything is, the ledger's counts, and the next commands.
    pub fn places(&self) -> Vec<String> {
        let mut lines = vec!["Where it is".to_owned(), String::new()];
        let place = |what: &str, path: String| format!("  {what:<13}{path}");
        lines.push(place("repository", self.repo.display().to_string()));
        let Some(run) = &self.run else { return lines };
        let dir = run.dir.display();
        lines.push(place("run", dir.to_string()));
        lines.push(place("transcripts", format!("{dir}/<child>.jsonl")));
        lines.push(place("results", format!("{dir}/artifacts/<child>/r1.md")));
        lines.push(place("ledger", format!("{dir}/legion.db")));
        lines.extend([String::new(), totals_line(&run.totals), String::new(), "Next".to_owned(), String::new()]);
        let show = run.children.first().map(|child| format!("show {}", child.name));
        let commands = ["status", "tree", "mail"].into_iter().map(str::to_owned).chain(show);
        lines.extend(commands.map(|command| format!("  {} {command} {dir}", self.program)));
        lines.push(format!("  rm -r {}", self.dir.display()));
        lines
    }
}

fn child_line(child: &ChildFacts) -> String {
    let mark = if child.succeeded() { "✓" } else { "✗" };
    let status = child.status.as_deref().unwrap_or("no result");
    let mut line = format!("  {mark} {:<13}{:<8}{status}", child.name, child.agent);
    if child.verdict == Some(false) {
        line.push_str(", not done by its own word");
    }
    if let Some(ms) = child.duration_ms {
        line.push_str(&format!(" · {}", display::duration(ms)));
    }
    if child.tokens_in + child.tokens_out > 0 {
        line.push_str(&format!(" · ↑{} ↓{}", display::tokens(child.tokens_in), display::tokens(child.tokens_out)));
    }
    if let Some(reason) = &child.reason {
        line.push_str(&format!(" · {}", clean_line(reason, REASON_BYTES)));
    }
    line
}

fn totals_line(totals: &LedgerTotals) -> String {
    let LedgerTotals { nodes, events, messages, artifacts, usage } = totals;
    let (input, output) = (display::tokens(usage.tokens_in), display::tokens(usage.tokens_out));
    format!(
        "Ledger   {nodes} nodes · {events} events · {messages} mails · {artifacts} results · ↑{input} ↓{output} tokens"
    )
}

fn indented(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("  {line}") }
}
