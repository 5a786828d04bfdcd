//! Which rows of a tree stay when it is too large for a result (LTL-3, STA-4a).

/// One node's lines, for the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// Place of the parent's row; before this one.
    pub parent: Option<usize>,
    pub depth: usize,
    pub finished: bool,
    /// Line ends included.
    pub bytes: usize,
    pub lines: usize,
}

/// Room for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub bytes: usize,
    pub lines: usize,
}

/// The rows that stay, as flags: finished ones go first, then the deepest, the last of equals first. A row stays as
/// long as one below it does, and the first always stays.
pub(super) fn keep(rows: &[Row], room: Room) -> Vec<bool> {
    let mut kept = vec![true; rows.len()];
    let mut bytes: usize = rows.iter().map(|row| row.bytes).sum();
    let mut lines: usize = rows.iter().map(|row| row.lines).sum();
    let mut below = vec![0_usize; rows.len()];
    for row in rows {
        if let Some(parent) = row.parent {
            below[parent] += 1;
        }
    }
    let mut order: Vec<usize> = (1..rows.len()).rev().filter(|at| rows[*at].finished).collect();
    let mut deepest: Vec<usize> = (1..rows.len()).rev().collect();
    deepest.sort_by_key(|at| std::cmp::Reverse(rows[*at].depth));
    order.extend(deepest);
    for at in order {
        if bytes <= room.bytes && lines <= room.lines {
            break;
        }
        if !kept[at] || below[at] > 0 {
            continue;
        }
        kept[at] = false;
        bytes -= rows[at].bytes;
        lines -= rows[at].lines;
        if let Some(parent) = rows[at].parent {
            below[parent] -= 1;
        }
    }
    kept
}
