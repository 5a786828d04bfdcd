//! The only reader of time. Everything else takes time as an argument.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch; 0 for a clock set before it.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// A monotonic instant, for durations inside one process.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the monotonic clock")]
pub fn instant() -> Instant {
    Instant::now()
}

/// `ms` as an ISO 8601 time in UTC with milliseconds, such as `2026-01-31T12:00:00.000Z`.
pub fn iso(ms: i64) -> String {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{stamp:.3}")
}
