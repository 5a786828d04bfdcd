//! The result ledger: which results exist, how far they were read, and what is still owed (06 §7).

use rusqlite::{Row, params};

use super::db::{Conn, LegionDb, Tx, unsigned};
use super::error::LResult;

/// A registered result; neither the row nor its file is ever changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRow {
    pub id: i64,
    pub node_id: String,
    /// The consumer it is owed to.
    pub parent_id: String,
    pub name: String,
    /// Counts from 1.
    pub round: u32,
    pub path: String,
    /// Length of the file.
    pub bytes: u64,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// A result to be registered, after its file is complete.
#[derive(Debug, Clone, Copy)]
pub struct NewArtifact<'a> {
    pub node_id: &'a str,
    pub parent_id: &'a str,
    pub name: &'a str,
    pub round: u32,
    pub path: &'a str,
    pub bytes: u64,
}

/// What one consumer has had of one result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumption {
    /// Length of the prefix that was seen without a gap.
    pub read_bytes: u64,
    /// When a notice about it was sent.
    pub notified_at: Option<i64>,
}

/// A result that its consumer has neither read to the end nor been told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedArtifact {
    pub artifact: ArtifactRow,
    pub read_bytes: u64,
}

/// Registers a result and returns its id; that of a known node and round is returned again (LED-81).
pub fn register(tx: &Tx<'_>, artifact: &NewArtifact<'_>, now: i64) -> LResult<i64> {
    if let Some(known) = of_round(tx, artifact.node_id, artifact.round)? {
        return Ok(known.id);
    }
    tx.insert(
        "INSERT INTO artifacts (node_id, parent_id, name, round, path, bytes, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            artifact.node_id,
            artifact.parent_id,
            artifact.name,
            artifact.round,
            artifact.path,
            stored(artifact.bytes),
            now
        ],
    )
}

macro_rules! artifact_columns {
    () => {
        "a.id, a.node_id, a.parent_id, a.name, a.round, a.path, a.bytes, a.created_at"
    };
}

/// The result of one round of a node.
pub fn of_round(conn: &Conn, node_id: &str, round: u32) -> LResult<Option<ArtifactRow>> {
    let sql = concat!("SELECT ", artifact_columns!(), " FROM artifacts a WHERE a.node_id = ?1 AND a.round = ?2");
    conn.row(sql, params![node_id, round], map_artifact)
}

/// The newest result of a node.
pub fn latest(conn: &Conn, node_id: &str) -> LResult<Option<ArtifactRow>> {
    let sql =
        concat!("SELECT ", artifact_columns!(), " FROM artifacts a WHERE a.node_id = ?1 ORDER BY a.round DESC LIMIT 1");
    conn.row(sql, [node_id], map_artifact)
}

/// What `consumer` has had of a result.
pub fn consumption(conn: &Conn, artifact_id: i64, consumer: &str) -> LResult<Consumption> {
    let row = conn.row(
        "SELECT read_bytes, notified_at FROM consumptions WHERE artifact_id = ?1 AND consumer_id = ?2",
        params![artifact_id, consumer],
        |row| Ok(Consumption { read_bytes: unsigned(row, 0)?, notified_at: row.get(1)? }),
    )?;
    Ok(row.unwrap_or_default())
}

/// Records that `consumer` was given the bytes `from..to` and returns the length of the prefix it has seen so far; a
/// page beyond that prefix adds nothing (LED-76). Call it when the tool result was returned, not when it was made
/// (LED-80).
pub fn record_read(tx: &Tx<'_>, artifact_id: i64, consumer: &str, from: u64, to: u64, now: i64) -> LResult<u64> {
    let before = consumption(tx, artifact_id, consumer)?.read_bytes;
    let after = extend_prefix(before, from, to);
    if after > before {
        tx.execute(
            "INSERT INTO consumptions (artifact_id, consumer_id, read_bytes, updated_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (artifact_id, consumer_id) DO UPDATE
                SET read_bytes = max(read_bytes, excluded.read_bytes), updated_at = excluded.updated_at",
            params![artifact_id, consumer, stored(after), now],
        )?;
    }
    Ok(after)
}

/// Records that the host accepted a notice about these results (LED-79). A crash before it repeats the notice.
pub fn mark_notified(tx: &Tx<'_>, artifact_ids: &[i64], consumer: &str, now: i64) -> LResult<()> {
    for id in artifact_ids {
        tx.execute(
            "INSERT INTO consumptions (artifact_id, consumer_id, notified_at, updated_at) VALUES (?1, ?2, ?3, ?3)
             ON CONFLICT (artifact_id, consumer_id) DO UPDATE
                SET notified_at = coalesce(notified_at, excluded.notified_at), updated_at = excluded.updated_at",
            params![id, consumer, now],
        )?;
    }
    Ok(())
}

/// The prefix seen so far after a page `from..to`: a page that joins on extends it, one further on adds nothing.
fn extend_prefix(seen: u64, from: u64, to: u64) -> u64 {
    if from <= seen { seen.max(to) } else { seen }
}

impl LegionDb {
    /// The results owed to `consumer`, in id order (LED-77). Computed from the tables at each call; the first call of
    /// a process looks at all of the consumer's results, later ones at the new and at the still owed ones.
    pub fn undelivered(&self, consumer: &str) -> LResult<Vec<OwedArtifact>> {
        self.with_owed_look(consumer, |look| self.read(|conn| undelivered(conn, consumer, look)))
    }
}

/// Where a consumer's look at its results stopped. Marks are never taken back and ids appear in order, so what was
/// found settled below `seen_to` stays settled.
#[derive(Debug, Default)]
pub(super) struct OwedLook {
    seen_to: i64,
    owed: Vec<i64>,
}

fn undelivered(conn: &Conn, consumer: &str, look: &mut OwedLook) -> LResult<Vec<OwedArtifact>> {
    let mut owed = Vec::new();
    for id in &look.owed {
        let known = conn.row(
            concat!(
                "SELECT ",
                artifact_columns!(),
                ", c.read_bytes, c.notified_at FROM artifacts a
                   LEFT JOIN consumptions c ON c.artifact_id = a.id AND c.consumer_id = ?2
                  WHERE a.id = ?1"
            ),
            params![id, consumer],
            map_owed,
        )?;
        owed.extend(known.flatten());
    }
    let mut seen_to = look.seen_to;
    let fresh = conn.rows(
        concat!(
            "SELECT ",
            artifact_columns!(),
            ", c.read_bytes, c.notified_at FROM artifacts a
               LEFT JOIN consumptions c ON c.artifact_id = a.id AND c.consumer_id = ?1
              WHERE a.parent_id = ?1 AND a.id > ?2 ORDER BY a.id"
        ),
        params![consumer, look.seen_to],
        |row| {
            seen_to = row.get(0)?;
            map_owed(row)
        },
    )?;
    owed.extend(fresh.into_iter().flatten());
    look.seen_to = seen_to;
    look.owed = owed.iter().map(|owed| owed.artifact.id).collect();
    Ok(owed)
}

fn map_owed(row: &Row<'_>) -> rusqlite::Result<Option<OwedArtifact>> {
    let artifact = map_artifact(row)?;
    let read = row.get::<_, Option<i64>>(8)?.map(|n| u64::try_from(n).unwrap_or_default());
    let notified: Option<i64> = row.get(9)?;
    let owed = match read {
        None => true,
        Some(read) => notified.is_none() && read < artifact.bytes,
    };
    // An empty result has no byte to read: only a notice settles it.
    let owed = owed || (artifact.bytes == 0 && notified.is_none());
    Ok(owed.then(|| OwedArtifact { artifact, read_bytes: read.unwrap_or_default() }))
}

fn map_artifact(row: &Row<'_>) -> rusqlite::Result<ArtifactRow> {
    Ok(ArtifactRow {
        id: row.get(0)?,
        node_id: row.get(1)?,
        parent_id: row.get(2)?,
        name: row.get(3)?,
        round: row.get(4)?,
        path: row.get(5)?,
        bytes: unsigned(row, 6)?,
        created_at: row.get(7)?,
    })
}

fn stored(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
