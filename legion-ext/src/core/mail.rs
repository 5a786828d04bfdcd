//! The states of a message and the rules of its hand-over (08 §2), without a database.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long a delivery claim protects a send (MAIL-13).
pub const MAIL_DELIVERY_CLAIM_LEASE_MS: i64 = 60_000;
/// How often a long send renews its claim (MAIL-15).
pub const MAIL_CLAIM_RENEW_MS: i64 = MAIL_DELIVERY_CLAIM_LEASE_MS / 3;
/// Turns of a transcript in which a handed-over text is looked for (MAIL-22).
pub const MAIL_DELIVERY_TURN_WINDOW: u64 = 20;
/// Default of `subagents.legion.mailRatePer5Min`.
pub const DEFAULT_MAIL_RATE_PER_5_MIN: u32 = 10;
/// The window of the rate limit (MAIL-7).
pub const MAIL_RATE_WINDOW_MS: i64 = 300_000;
/// Subjects that only the platform writes (MAIL-8).
pub const PLATFORM_PREFIXES: [&str; 5] =
    [REDELIVERED_PREFIX, "Phase timeout:", "Phase change:", "Stall notice:", "Blocked:"];
/// Prefix of a message that was taken by a dropped tool result (MAIL-33).
pub const REDELIVERED_PREFIX: &str = "Redelivered: ";
/// How every handed-over mail begins (MAIL-21).
pub const MAIL_TEXT_MARK: &str = "[legion mail #";

/// The column `messages.delivered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Delivery {
    /// Valid, not handed over yet.
    Pending,
    /// One send call returned; no proof that the model read it.
    Accepted,
    /// Can never be delivered.
    Bounced,
    /// Its text is in the recipient's transcript.
    Delivered,
    /// Valid when sent, meaningless before it was consumed.
    Obsolete,
}

impl Delivery {
    pub const ALL: [Self; 5] = [Self::Pending, Self::Accepted, Self::Bounced, Self::Delivered, Self::Obsolete];

    /// The stored number.
    pub const fn value(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::Accepted => 1,
            Self::Bounced => 2,
            Self::Delivered => 3,
            Self::Obsolete => 4,
        }
    }

    /// Reads the stored number; the 1 of an old file is `Accepted`.
    pub fn from_value(value: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.value() == value)
    }

    /// The state's name in 08 §2.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Accepted => "ACCEPTED",
            Self::Bounced => "BOUNCED",
            Self::Delivered => "DELIVERED",
            Self::Obsolete => "OBSOLETE",
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a message will never be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BounceReason {
    RecipientTerminal,
    /// An input handler of the recipient swallowed the text.
    Intercepted,
    Obsolete,
}

impl BounceReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RecipientTerminal => "recipient_terminal",
            Self::Intercepted => "intercepted",
            Self::Obsolete => "obsolete",
        }
    }
}

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryChange {
    /// A send returned, or a blocked tool took it.
    Accept,
    /// The text was found in the transcript.
    Confirm,
    /// The recipient ended before it was read.
    BounceTerminal,
    /// The send was answered with "intercepted".
    BounceIntercepted,
    /// A stale notice, or replaced by its redelivery.
    Discard,
}

/// What a legal change writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveryStep {
    pub to: Delivery,
    pub event: Option<DeliveryEvent>,
}

/// The event of a change (MAIL-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryEvent {
    Delivered,
    Bounced(BounceReason),
}

/// A change the table of MAIL-11 does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal mail change {change:?} from {from}")]
pub struct IllegalDelivery {
    pub from: Delivery,
    pub change: DeliveryChange,
}

/// The table of MAIL-11.
pub fn next_delivery(from: Delivery, change: DeliveryChange) -> Result<DeliveryStep, IllegalDelivery> {
    use Delivery::{Accepted, Bounced, Delivered, Obsolete, Pending};
    let bounced = |reason| Some(DeliveryEvent::Bounced(reason));
    let (to, event) = match (from, change) {
        (Pending, DeliveryChange::Accept) => (Accepted, None),
        (Pending | Accepted, DeliveryChange::Confirm) => (Delivered, Some(DeliveryEvent::Delivered)),
        (Pending | Accepted, DeliveryChange::BounceTerminal) => (Bounced, bounced(BounceReason::RecipientTerminal)),
        (Pending, DeliveryChange::BounceIntercepted) => (Bounced, bounced(BounceReason::Intercepted)),
        (Pending | Accepted, DeliveryChange::Discard) => (Obsolete, bounced(BounceReason::Obsolete)),
        (Accepted, DeliveryChange::Accept | DeliveryChange::BounceIntercepted)
        | (
            Bounced | Delivered | Obsolete,
            DeliveryChange::Accept
            | DeliveryChange::Confirm
            | DeliveryChange::BounceTerminal
            | DeliveryChange::BounceIntercepted
            | DeliveryChange::Discard,
        ) => return Err(IllegalDelivery { from, change }),
    };
    Ok(DeliveryStep { to, event })
}

/// Whether a PENDING row with this stamp may be claimed (MAIL-13); a stamp far in the future has expired (MAIL-16).
pub fn is_claimable(stamp: Option<i64>, now: i64, lease_ms: i64) -> bool {
    stamp.is_none_or(|stamp| {
        let age = now.saturating_sub(stamp);
        age >= lease_ms || age < -lease_ms
    })
}

/// `messages.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MailKind {
    Question,
    Report,
    Handoff,
    Notice,
}

impl MailKind {
    pub const ALL: [Self; 4] = [Self::Question, Self::Report, Self::Handoff, Self::Notice];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Report => "report",
            Self::Handoff => "handoff",
            Self::Notice => "notice",
        }
    }

    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == label)
    }

    /// The urgency of a mail that names none (MAIL-2).
    pub const fn default_urgency(self) -> Urgency {
        match self {
            Self::Question => Urgency::ActionNeeded,
            Self::Report | Self::Handoff | Self::Notice => Urgency::Info,
        }
    }
}

/// `messages.urgency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Urgency {
    Info,
    ActionNeeded,
}

impl Urgency {
    pub const ALL: [Self; 2] = [Self::Info, Self::ActionNeeded];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::ActionNeeded => "action-needed",
        }
    }

    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|urgency| urgency.as_str() == label)
    }
}

/// The platform prefix `subject` starts with, if any (MAIL-8).
pub fn platform_prefix(subject: &str) -> Option<&'static str> {
    PLATFORM_PREFIXES.into_iter().find(|prefix| subject.starts_with(prefix))
}

/// The subject of a redelivery: prefixed once, however often it is redelivered (MAIL-33).
pub fn redelivered_subject(subject: &str) -> String {
    if subject.starts_with(REDELIVERED_PREFIX) { subject.to_owned() } else { format!("{REDELIVERED_PREFIX}{subject}") }
}

/// A send beyond the sender's rate (MAIL-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("mail rate limit reached ({sent}/{limit} in 5 minutes); retry in {retry_s}s")]
pub struct RateRefusal {
    pub sent: u32,
    pub limit: u32,
    pub retry_s: i64,
}

/// Judges `new` more rows beside those a sender wrote at `sent_at` (rising) within the window (MAIL-7).
///
/// A send of more rows than the limit never fits; its `retry_s` is that of an empty window.
pub fn check_rate(sent_at: &[i64], new: usize, limit: u32, now: i64) -> Result<(), RateRefusal> {
    let allowed = limit as usize;
    if sent_at.len().saturating_add(new) <= allowed {
        return Ok(());
    }
    let must_leave = (sent_at.len() + new).saturating_sub(allowed).clamp(1, sent_at.len().max(1));
    let frees_at = sent_at.get(must_leave - 1).map_or(now, |at| at.saturating_add(MAIL_RATE_WINDOW_MS));
    let retry_ms = frees_at.saturating_sub(now).clamp(0, MAIL_RATE_WINDOW_MS);
    Err(RateRefusal {
        sent: u32::try_from(sent_at.len()).unwrap_or(u32::MAX),
        limit,
        retry_s: (retry_ms + 999).div_euclid(1000),
    })
}

#[cfg(test)]
mod tests;
