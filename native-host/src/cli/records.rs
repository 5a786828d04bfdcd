//! `legion mail`, `legion events`, `legion usage`: the rows of a run's ledger, one line each (CLI-5).

use std::path::PathBuf;

use host_abi::ops::Stream;
use legion_ext::clock;
use legion_ext::core::naming::ROOT;
use legion_ext::ledger::events::EventPoller;
use legion_ext::ledger::messages;
use legion_ext::ledger::nodes::{DEFAULT_SUBTREE_MAX_DEPTH, get_subtree};
use legion_ext::orchestrator::outside::{self, OutsideRun};
use legion_ext::orchestrator::report::Usage;
use legion_ext::ui::records::{EventRecord, MailRecord, event_line, mail_line, usage_line, usage_total};
use serde_json::{Value, json};

use super::place;
use super::{Answer, Failure};
use crate::console::{Console as _, StdConsole};
use crate::env::Env;

/// The run to look at, and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// A run directory, the id of a run of this project, or a project; this project's newest run when left out.
    run: Option<PathBuf>,
    /// Writes JSON.
    #[arg(long)]
    pub json: bool,
}

impl RunArgs {
    /// Opens the run for looking; what is wrong with its record is told on standard error.
    pub fn open(&self, env: &Env) -> Result<OutsideRun, Failure> {
        let dir = place::find(self.run.as_deref(), &env.cwd)?;
        let run = outside::open(&dir)?;
        run.warnings.iter().for_each(|warning| warn(warning));
        Ok(run)
    }
}

pub fn mail(args: &RunArgs, env: &Env) -> Answer {
    let run = args.open(env)?;
    let inbox = run.db.read(|conn| messages::newest(conn, usize::MAX))?;
    inbox.unreadable.iter().for_each(|(id, why)| warn(&format!("mail #{id} is unreadable: {why}")));
    let records: Vec<MailRecord<'_>> = inbox
        .messages
        .iter()
        .map(|mail| MailRecord {
            id: mail.id,
            created_at: mail.created_at,
            from: &mail.from_node,
            to: &mail.to_node,
            kind: mail.kind.as_str(),
            urgency: mail.urgency.as_str(),
            state: mail.delivered,
            subject: &mail.subject,
        })
        .collect();
    Ok(match args.json {
        false => lines(records.iter().map(mail_line)),
        true => array(records.iter().map(|mail| {
            let MailRecord { id, created_at, from, to, kind, urgency, state, subject } = mail;
            let (time, state) = (clock::iso(*created_at), state.to_string());
            json!({ "id": id, "time": time, "from": from, "to": to, "kind": kind, "urgency": urgency, "state": state,
                    "subject": subject })
        })),
    })
}

pub fn events(args: &RunArgs, env: &Env) -> Answer {
    let run = args.open(env)?;
    let mut poller = EventPoller::after(0);
    let mut rows = Vec::new();
    run.db.read(|conn| {
        loop {
            let before = poller.cursor();
            rows.extend(poller.poll(conn, |id, error| warn(&format!("event {id}: {error}")))?);
            if poller.cursor() == before {
                return Ok(());
            }
        }
    })?;
    Ok(match args.json {
        false => lines(rows.iter().map(|row| {
            let data = Value::Object(row.data.clone()).to_string();
            event_line(&EventRecord {
                id: row.id,
                ts: row.ts,
                node: &row.node_id,
                kind: row.kind.as_str(),
                data: &data,
            })
        })),
        true => array(rows.iter().map(|row| {
            json!({ "id": row.id, "time": clock::iso(row.ts), "node": row.node_id, "type": row.kind.as_str(),
                    "data": row.data })
        })),
    })
}

pub fn usage(args: &RunArgs, env: &Env) -> Answer {
    let run = args.open(env)?;
    let rows = run.db.read(|conn| get_subtree(conn, ROOT, DEFAULT_SUBTREE_MAX_DEPTH))?;
    let used = |row: &legion_ext::ledger::nodes::SubtreeRow| Usage {
        input: row.usage.tokens_in,
        output: row.usage.tokens_out,
        cost_usd: row.usage.cost_usd,
        ..Usage::default()
    };
    Ok(match args.json {
        false => {
            let nodes = rows.iter().map(|row| usage_line(&row.node.id, row.node.model.as_deref(), &used(row)));
            lines(nodes.chain([usage_total(rows.iter().map(used))]))
        }
        true => array(rows.iter().map(|row| {
            let Usage { input, output, cost_usd, .. } = used(row);
            json!({ "node": row.node.id, "model": row.node.model,
                    "usage": { "input": input, "output": output, "costUsd": cost_usd } })
        })),
    })
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

fn array(values: impl Iterator<Item = Value>) -> String {
    serde_json::to_string_pretty(&values.collect::<Vec<_>>()).expect("a JSON value can be written")
}

fn warn(message: &str) {
    StdConsole.line(Stream::Err, &format!("warning: {message}"));
}
