//! Mail rows and their delivery: one writer of `delivered`, by compare-and-set (08 §2).

use rusqlite::{Row, params};
use serde_json::json;

use super::db::{Conn, Tx};
use super::error::{LResult, LedgerError};
use super::events::{self, event_data, sql_limit};
use crate::core::events::EventType;
use crate::core::mail::{
    Delivery, DeliveryChange, DeliveryEvent, MAIL_RATE_WINDOW_MS, MailKind, RateRefusal, Urgency, check_rate,
    is_claimable, next_delivery, platform_prefix, redelivered_subject,
};

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    pub id: i64,
    pub from_node: String,
    pub to_node: String,
    pub subject: String,
    pub body: String,
    pub kind: MailKind,
    pub urgency: Urgency,
    pub delivered: Delivery,
    /// While PENDING the stamp of a claim, afterwards the time of the last change.
    pub delivered_at: Option<i64>,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// A message to be written, to one recipient or more.
#[derive(Debug, Clone, Copy)]
pub struct NewMail<'a> {
    pub from_node: &'a str,
    pub to_nodes: &'a [&'a str],
    pub subject: &'a str,
    pub body: &'a str,
    pub kind: MailKind,
    pub urgency: Urgency,
}

/// Whether the sender's rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// Mail of an agent: at most this many rows in five minutes (MAIL-7).
    PerFiveMinutes(u32),
    /// The platform's own rows (MAIL-8).
    Platform,
}

/// Writes one row and one `mail_sent` per recipient, or none when the sender's rate would be exceeded (MAIL-7). Texts
/// are checked before (MAIL-5). Returns the ids in the order of the recipients.
pub fn send(tx: &Tx<'_>, mail: &NewMail<'_>, quota: Quota, now: i64) -> LResult<Result<Vec<i64>, RateRefusal>> {
    if let Quota::PerFiveMinutes(limit) = quota {
        let sent = sent_in_window(tx, mail.from_node, now)?;
        if let Err(refusal) = check_rate(&sent, mail.to_nodes.len(), limit, now) {
            return Ok(Err(refusal));
        }
    }
    let ids = mail.to_nodes.iter().map(|to| insert(tx, mail, to, None, now)).collect::<LResult<_>>()?;
    Ok(Ok(ids))
}

/// When the sender wrote the rows that count, oldest first.
fn sent_in_window(conn: &Conn, from_node: &str, now: i64) -> LResult<Vec<i64>> {
    let rows = conn.rows(
        "SELECT created_at, subject FROM messages WHERE from_node = ?1 AND created_at > ?2 ORDER BY created_at",
        params![from_node, now.saturating_sub(MAIL_RATE_WINDOW_MS)],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
    )?;
    Ok(rows.into_iter().filter(|(_, subject)| platform_prefix(subject).is_none()).map(|(at, _)| at).collect())
}

fn insert(tx: &Tx<'_>, mail: &NewMail<'_>, to: &str, redelivery_of: Option<i64>, now: i64) -> LResult<i64> {
    let id = tx.insert(
        "INSERT INTO messages (from_node, to_node, subject, body, kind, urgency, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![mail.from_node, to, mail.subject, mail.body, mail.kind.as_str(), mail.urgency.as_str(), now],
    )?;
    let data = event_data([
        ("messageId", json!(id)),
        ("to", json!(to)),
        ("kind", json!(mail.kind.as_str())),
        ("urgency", json!(mail.urgency.as_str())),
        ("redeliveryOf", json!(redelivery_of)),
    ]);
    events::append(tx, mail.from_node, EventType::MailSent, &data, now)?;
    Ok(id)
}

/// Messages that were read, and rows that could not be (skipped, for one report each).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inbox {
    pub messages: Vec<MessageRow>,
    /// Id and reason.
    pub unreadable: Vec<(i64, String)>,
}

macro_rules! message_columns {
    () => {
        "id, from_node, to_node, subject, body, kind, urgency, delivered, delivered_at, created_at"
    };
}

/// The message with this id.
pub fn get(conn: &Conn, id: i64) -> LResult<Option<MessageRow>> {
    let sql = concat!("SELECT ", message_columns!(), " FROM messages WHERE id = ?1");
    conn.row(sql, [id], map_message)?.transpose().map_err(|(id, why)| LedgerError::BadRow {
        table: "messages",
        id: id.to_string(),
        why,
    })
}

/// Every message in a state, by recipient and id. For PENDING and ACCEPTED, which are few at any time: one statement
/// per tick for all sessions of a process (MAIL-17).
pub fn in_state(conn: &Conn, state: Delivery) -> LResult<Inbox> {
    let sql = concat!("SELECT ", message_columns!(), " FROM messages WHERE delivered = ?1 ORDER BY to_node, id");
    conn.rows(sql, [state.value()], map_message).map(sort_out)
}

/// The messages of one recipient in a state, in id order.
pub fn for_recipient(conn: &Conn, to_node: &str, state: Delivery, limit: usize) -> LResult<Inbox> {
    let sql = concat!(
        "SELECT ",
        message_columns!(),
        " FROM messages WHERE delivered = ?1 AND to_node = ?2 ORDER BY id LIMIT ?3"
    );
    conn.rows(sql, params![state.value(), to_node, sql_limit(limit)], map_message).map(sort_out)
}

/// How many messages of one recipient are in a state.
pub fn count_for_recipient(conn: &Conn, to_node: &str, state: Delivery) -> LResult<u32> {
    conn.number("SELECT count(*) FROM messages WHERE delivered = ?1 AND to_node = ?2", params![state.value(), to_node])
        .map(super::nodes::count)
}

/// The last `limit` messages, oldest first, for readers from outside.
pub fn newest(conn: &Conn, limit: usize) -> LResult<Inbox> {
    let sql = concat!("SELECT ", message_columns!(), " FROM messages ORDER BY id DESC LIMIT ?1");
    let mut rows = conn.rows(sql, [sql_limit(limit)], map_message)?;
    rows.reverse();
    Ok(sort_out(rows))
}

/// PENDING messages anywhere in the tree whose recipient's row is terminal; whether its session still lives with its
/// team is for the caller to ask (MAIL-12).
pub fn pending_to_terminal(conn: &Conn) -> LResult<Inbox> {
    let rows = conn.rows(
        "SELECT m.id, m.from_node, m.to_node, m.subject, m.body, m.kind, m.urgency, m.delivered, m.delivered_at,
                m.created_at
           FROM messages m CROSS JOIN nodes n ON n.id = m.to_node
          WHERE m.delivered = 0 AND n.status IN ('settled', 'failed', 'retired')
          ORDER BY m.to_node, m.id",
        [],
        map_message,
    )?;
    Ok(sort_out(rows))
}

type Mapped = Result<MessageRow, (i64, String)>;

fn map_message(row: &Row<'_>) -> rusqlite::Result<Mapped> {
    let id: i64 = row.get(0)?;
    let (kind, urgency): (String, String) = (row.get(5)?, row.get(6)?);
    let state: i64 = row.get(7)?;
    let parsed = MailKind::parse(&kind)
        .ok_or_else(|| format!("unknown kind '{kind}'"))
        .and_then(|kind| Ok((kind, Urgency::parse(&urgency).ok_or_else(|| format!("unknown urgency '{urgency}'"))?)))
        .and_then(|(kind, urgency)| {
            let state = Delivery::from_value(state).ok_or_else(|| format!("unknown delivered value {state}"))?;
            Ok((kind, urgency, state))
        });
    let (kind, urgency, delivered) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return Ok(Err((id, why))),
    };
    Ok(Ok(MessageRow {
        id,
        from_node: row.get(1)?,
        to_node: row.get(2)?,
        subject: row.get(3)?,
        body: row.get(4)?,
        kind,
        urgency,
        delivered,
        delivered_at: row.get(8)?,
        created_at: row.get(9)?,
    }))
}

fn sort_out(rows: Vec<Mapped>) -> Inbox {
    let mut inbox = Inbox::default();
    for row in rows {
        match row {
            Ok(message) => inbox.messages.push(message),
            Err(bad) => inbox.unreadable.push(bad),
        }
    }
    inbox
}

/// The right to hand one message over; its stamp is the owner's token (MAIL-14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub message_id: i64,
    pub stamp: i64,
}

/// Claims a PENDING message; `None` when another holder has it or it is no longer PENDING (MAIL-13). After a crash the
/// claim lapses with its lease and nothing else has to be undone (MAIL-16).
pub fn claim_for_delivery(tx: &Tx<'_>, id: i64, now: i64, lease_ms: i64) -> LResult<Option<Claim>> {
    let stamp: Option<Option<i64>> =
        tx.row("SELECT delivered_at FROM messages WHERE id = ?1 AND delivered = 0", [id], |row| row.get(0))?;
    let Some(stamp) = stamp else {
        return Ok(None);
    };
    if !is_claimable(stamp, now, lease_ms) {
        return Ok(None);
    }
    tx.execute("UPDATE messages SET delivered_at = ?2 WHERE id = ?1 AND delivered = 0", params![id, now])?;
    Ok(Some(Claim { message_id: id, stamp: now }))
}

/// Extends a claim that is still held; `false` when it is not (MAIL-15).
pub fn renew_delivery_claim(tx: &Tx<'_>, claim: &mut Claim, now: i64) -> LResult<bool> {
    let changed = tx.execute(
        "UPDATE messages SET delivered_at = ?3 WHERE id = ?1 AND delivered = 0 AND delivered_at = ?2",
        params![claim.message_id, claim.stamp, now],
    )?;
    if changed > 0 {
        claim.stamp = now;
    }
    Ok(changed > 0)
}

/// Gives a claim back after a failed send or a lost race; a stamp of someone else stays.
pub fn release_delivery_claim(tx: &Tx<'_>, claim: Claim) -> LResult<()> {
    tx.execute(
        "UPDATE messages SET delivered_at = NULL WHERE id = ?1 AND delivered = 0 AND delivered_at = ?2",
        params![claim.message_id, claim.stamp],
    )
    .map(drop)
}

/// The only writer of `delivered` (MAIL-10): changes the message only if it still is in `from` and, with a claim, still
/// carries its stamp. Writes the event with it; answers whether it won. A change outside the table of MAIL-11 is an
/// error and writes nothing.
pub fn transition_delivery(
    tx: &Tx<'_>,
    id: i64,
    from: Delivery,
    change: DeliveryChange,
    claim: Option<&Claim>,
    now: i64,
) -> LResult<bool> {
    let step = next_delivery(from, change).map_err(|source| LedgerError::IllegalDelivery { id, source })?;
    let changed = tx.execute(
        "UPDATE messages SET delivered = ?3, delivered_at = ?4
          WHERE id = ?1 AND delivered = ?2 AND (?5 IS NULL OR delivered_at = ?5)",
        params![id, from.value(), step.to.value(), now, claim.map(|claim| claim.stamp)],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    let Some(event) = step.event else {
        return Ok(true);
    };
    let ends: Option<(String, String)> =
        tx.row("SELECT from_node, to_node FROM messages WHERE id = ?1", [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some((from_node, to_node)) = ends {
        let (kind, reason) = match event {
            DeliveryEvent::Delivered => (EventType::MailDelivered, None),
            DeliveryEvent::Bounced(reason) => (EventType::MailBounced, Some(reason.as_str())),
        };
        let data = event_data([("messageId", json!(id)), ("to", json!(to_node)), ("reason", json!(reason))]);
        events::append(tx, &from_node, kind, &data, now)?;
    }
    Ok(true)
}

/// Puts an ACCEPTED message back as a new PENDING one, prefixed once, beside every quota; the original becomes
/// OBSOLETE (MAIL-33). `None` when it is no longer ACCEPTED.
pub fn redeliver_mail(tx: &Tx<'_>, id: i64, now: i64) -> LResult<Option<i64>> {
    let Some(row) = get(tx, id)? else {
        return Ok(None);
    };
    if row.delivered != Delivery::Accepted
        || !transition_delivery(tx, id, Delivery::Accepted, DeliveryChange::Discard, None, now)?
    {
        return Ok(None);
    }
    let subject = redelivered_subject(&row.subject);
    let mail = NewMail {
        from_node: &row.from_node,
        to_nodes: &[],
        subject: &subject,
        body: &row.body,
        kind: row.kind,
        urgency: row.urgency,
    };
    insert(tx, &mail, &row.to_node, Some(id), now).map(Some)
}
