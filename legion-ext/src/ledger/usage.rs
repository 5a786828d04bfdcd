//! What nodes have used: absolute totals that only rise (LED-54).

use rusqlite::params;

use super::db::{Conn, Tx, unsigned};
use super::error::LResult;
use crate::core::usage::TokenUsage;

/// Totals of a node over its whole transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageRow {
    /// Uncached input and cache writes; cache reads are not counted.
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub cost_usd: f64,
}

impl From<&TokenUsage> for UsageRow {
    fn from(usage: &TokenUsage) -> Self {
        Self { tokens_in: usage.tokens_in(), tokens_out: usage.output, cost_usd: usage.cost_usd }
    }
}

/// Writes a reading; each total keeps the higher of the stored and the new value. A cost that is not a finite number
/// of at least zero counts as zero. Answers whether anything changed.
pub fn record(tx: &Tx<'_>, node_id: &str, reading: &UsageRow, now: i64) -> LResult<bool> {
    let tokens = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let cost = if reading.cost_usd.is_finite() { reading.cost_usd.max(0.0) } else { 0.0 };
    let changed = tx.execute(
        "INSERT INTO usage (node_id, tokens_in, tokens_out, cost_usd, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (node_id) DO UPDATE
            SET tokens_in = max(tokens_in, excluded.tokens_in), tokens_out = max(tokens_out, excluded.tokens_out),
                cost_usd = max(cost_usd, excluded.cost_usd), updated_at = excluded.updated_at
          WHERE excluded.tokens_in > tokens_in OR excluded.tokens_out > tokens_out OR excluded.cost_usd > cost_usd",
        params![node_id, tokens(reading.tokens_in), tokens(reading.tokens_out), cost, now],
    )?;
    Ok(changed > 0)
}

/// The totals of a node; zero without a row.
pub fn get(conn: &Conn, node_id: &str) -> LResult<UsageRow> {
    let row = conn.row("SELECT tokens_in, tokens_out, cost_usd FROM usage WHERE node_id = ?1", [node_id], |row| {
        Ok(UsageRow { tokens_in: unsigned(row, 0)?, tokens_out: unsigned(row, 1)?, cost_usd: row.get(2)? })
    })?;
    Ok(row.unwrap_or_default())
}

/// What a ledger holds in all, for a closing report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LedgerTotals {
    /// The root included.
    pub nodes: u64,
    pub events: u64,
    pub messages: u64,
    pub artifacts: u64,
    pub usage: UsageRow,
}

/// Counts everything. Reads the whole file: for the end of a run, not for a tick.
pub fn ledger_totals(conn: &Conn) -> LResult<LedgerTotals> {
    let totals = conn.row(
        "SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM events), (SELECT count(*) FROM messages),
                (SELECT count(*) FROM artifacts), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0),
                coalesce(sum(cost_usd), 0.0)
           FROM usage",
        [],
        |row| {
            Ok(LedgerTotals {
                nodes: unsigned(row, 0)?,
                events: unsigned(row, 1)?,
                messages: unsigned(row, 2)?,
                artifacts: unsigned(row, 3)?,
                usage: UsageRow { tokens_in: unsigned(row, 4)?, tokens_out: unsigned(row, 5)?, cost_usd: row.get(6)? },
            })
        },
    )?;
    Ok(totals.unwrap_or_default())
}
