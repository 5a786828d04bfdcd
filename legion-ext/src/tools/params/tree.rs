//! `legion_tree`: which part of the own subtree.

use super::Args;
use crate::ui::tree::{DEFAULT_DEPTH, TreeQuery};

pub(super) fn read(args: &Args<'_>) -> TreeQuery {
    TreeQuery {
        node: args.text("node").map(|node| node.to_lowercase()),
        depth: args.whole("depth").and_then(|depth| u32::try_from(depth).ok()).unwrap_or(DEFAULT_DEPTH),
        active_only: args.raw_text("show") == Some("active"),
    }
}
