//! How states and numbers are shown: one mapping from labels of every store, and the number formats of LINE-9.

/// What a viewer sees of a node (LED-72).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DisplayStatus {
    /// Alive, nothing running, and still holding its slot.
    Idle,
    Queued,
    Awaiting,
    Running,
    Settled,
    Failed,
    Retired,
    /// Never taken for `retired`.
    Unknown,
}

impl DisplayStatus {
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Queued,
        Self::Awaiting,
        Self::Running,
        Self::Settled,
        Self::Failed,
        Self::Retired,
        Self::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Queued => "queued",
            Self::Awaiting => "awaiting",
            Self::Running => "running",
            Self::Settled => "settled",
            Self::Failed => "failed",
            Self::Retired => "retired",
            Self::Unknown => "unknown",
        }
    }

    /// The words of a label: `idle · holds its slot`, `queued(<position>)`, else the status itself.
    pub fn label(self, queue_position: Option<usize>) -> String {
        match (self, queue_position) {
            (Self::Idle, _) => "idle · holds its slot".to_owned(),
            (Self::Queued, Some(position)) => format!("queued({position})"),
            (other, _) => other.as_str().to_owned(),
        }
    }

    /// The end line of a log for this status; none while the node may still go on (LED-73).
    pub const fn log_end(self) -> Option<LogKind> {
        match self {
            Self::Settled => Some(LogKind::Settled),
            Self::Failed => Some(LogKind::Failed),
            Self::Retired => Some(LogKind::Retired),
            Self::Running | Self::Idle | Self::Queued | Self::Awaiting | Self::Unknown => None,
        }
    }
}

/// The four kinds of log lines (LED-73).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogKind {
    Spawn,
    Settled,
    Failed,
    Retired,
}

/// Maps a label of the registry, the ledger or a run record (LED-72).
pub fn display_status(label: Option<&str>) -> DisplayStatus {
    match label {
        Some("idle") => DisplayStatus::Idle,
        Some("queued") => DisplayStatus::Queued,
        Some("awaiting") => DisplayStatus::Awaiting,
        Some("starting" | "working" | "running" | "blocked" | "launching") => DisplayStatus::Running,
        Some("settled" | "success" | "completed" | "done") => DisplayStatus::Settled,
        Some("failed" | "aborted" | "error" | "truncated") => DisplayStatus::Failed,
        Some("retired" | "exited") => DisplayStatus::Retired,
        Some(_) | None => DisplayStatus::Unknown,
    }
}

/// A duration in milliseconds as `0s` … `59s`, `1m05s`, `1h02m`, `2d03h`; floored, negative reads as zero.
pub fn duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days}d{:02}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

/// A number of tokens as `987`, `12.3k`, `1.2M`; floored to the tenth.
pub fn tokens(n: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", n / unit, n % unit / (unit / 10));
    match n {
        0..=999 => n.to_string(),
        1_000..=999_999 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

/// A cost in dollars as `$0.04` or `<$0.01`; `None` when it is zero or not a number.
pub fn cost(usd: f64) -> Option<String> {
    if !usd.is_finite() || usd <= 0.0 {
        None
    } else if usd < 0.01 {
        Some("<$0.01".to_owned())
    } else {
        Some(format!("${usd:.2}"))
    }
}

/// A size as `512 B`, `48.2 KB`, `1.5 MB`, by 1024.
pub fn bytes(n: u64) -> String {
    const KB: u64 = 1024;
    const MB: u64 = 1024 * KB;
    let tenths = |unit: u64| {
        let t = n / unit * 10 + n % unit * 10 / unit;
        format!("{}.{}", t / 10, t % 10)
    };
    match n {
        0..KB => format!("{n} B"),
        KB..MB => format!("{} KB", tenths(KB)),
        _ => format!("{} MB", tenths(MB)),
    }
}

/// `1 live child`, `2 live children`: the number and the matching form.
pub fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 06-T17, LED-72, LED-73
    #[test]
    fn labels_of_every_store_are_shown() {
        let table = [
            (DisplayStatus::Idle, vec!["idle"]),
            (DisplayStatus::Queued, vec!["queued"]),
            (DisplayStatus::Awaiting, vec!["awaiting"]),
            (DisplayStatus::Running, vec!["starting", "working", "running", "blocked", "launching"]),
            (DisplayStatus::Settled, vec!["settled", "success", "completed", "done"]),
            (DisplayStatus::Failed, vec!["failed", "aborted", "error", "truncated"]),
            (DisplayStatus::Retired, vec!["retired", "exited"]),
            (DisplayStatus::Unknown, vec!["", "levitating", "Running"]),
        ];
        for (shown, labels) in table {
            for label in labels {
                assert_eq!(display_status(Some(label)), shown, "{label}");
            }
        }
        assert_eq!(display_status(None), DisplayStatus::Unknown);

        let without_end: Vec<_> = DisplayStatus::ALL.into_iter().filter(|s| s.log_end().is_none()).collect();
        assert_eq!(
            without_end,
            [
                DisplayStatus::Idle,
                DisplayStatus::Queued,
                DisplayStatus::Awaiting,
                DisplayStatus::Running,
                DisplayStatus::Unknown
            ]
        );
        assert_eq!(DisplayStatus::Failed.log_end(), Some(LogKind::Failed));
        assert_eq!(DisplayStatus::Idle.label(None), "idle · holds its slot");
        assert_eq!(DisplayStatus::Queued.label(Some(3)), "queued(3)");
        assert_eq!(DisplayStatus::Running.label(None), "running");
    }

    /// LINE-9
    #[test]
    fn numbers_have_their_formats() {
        let durations = [
            (-5, "0s"),
            (999, "0s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (65_400, "1m05s"),
            (3_599_999, "59m59s"),
            (3_720_000, "1h02m"),
            (86_399_000, "23h59m"),
            (183_600_000, "2d03h"),
        ];
        for (ms, text) in durations {
            assert_eq!(duration(ms), text);
        }
        for (n, text) in
            [(0, "0"), (987, "987"), (12_345, "12.3k"), (999_999, "999.9k"), (1_000_000, "1.0M"), (1_250_000, "1.2M")]
        {
            assert_eq!(tokens(n), text);
        }
        assert_eq!(cost(0.0), None);
        assert_eq!(cost(f64::NAN), None);
        assert_eq!(cost(-1.0), None);
        assert_eq!(cost(0.004).as_deref(), Some("<$0.01"));
        assert_eq!(cost(0.041).as_deref(), Some("$0.04"));
        for (n, text) in [(512, "512 B"), (1023, "1023 B"), (49_357, "48.2 KB"), (1_572_864, "1.5 MB")] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(bytes(u64::MAX), "17592186044415.9 MB");
        assert_eq!(plural(1, "live child", "live children"), "1 live child");
        assert_eq!(plural(0, "live child", "live children"), "0 live children");
    }
}
