//! Names of children and ids of nodes: what is legal, and how a free name is found.

/// The pattern of a child name (LED-25), as it is shown to models.
pub const NODE_SLUG_PATTERN: &str = "^[a-z][a-z0-9_-]{0,31}$";

/// Longest name, in characters.
pub const MAX_NAME_LEN: usize = 32;

/// Id and name of the root node (LED-24).
pub const ROOT: &str = "root";

/// Names that address something else than a child.
pub const RESERVED_NAMES: [&str; 2] = [ROOT, "all"];

/// Why a name given to `launch` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("invalid name '{0}' (expected [a-z][a-z0-9_-]{{0,31}})")]
    Invalid(String),
    #[error("name '{0}' is reserved")]
    Reserved(String),
}

/// Whether `text` matches [`NODE_SLUG_PATTERN`].
pub fn is_slug(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes.first(), Some(b'a'..=b'z'))
        && bytes.len() <= MAX_NAME_LEN
        && bytes.iter().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// The form in which names are checked and looked up (ORC-8).
pub fn normalize_name(name: &str) -> String {
    name.trim().to_lowercase()
}

/// Lower-cases a name given to `launch` and checks it (ORC-8, LED-25).
pub fn check_child_name(name: &str) -> Result<String, NameError> {
    let name = normalize_name(name);
    if !is_slug(&name) {
        return Err(NameError::Invalid(name));
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        return Err(NameError::Reserved(name));
    }
    Ok(name)
}

/// The lowest free `<role>-<n>`, counting from 0; a role that would overflow the limit is cut (ORC-9).
///
/// `is_taken` is asked in rising order, so a caller with a set in memory may look into the ledger last.
pub fn allocate_name(role: &str, mut is_taken: impl FnMut(&str) -> bool) -> String {
    let mut n = 0_u64;
    loop {
        let suffix = format!("-{n}");
        let keep = role.len().min(MAX_NAME_LEN.saturating_sub(suffix.len()));
        let stem = role.get(..keep).unwrap_or(role);
        let name = format!("{stem}{suffix}");
        if !is_taken(&name) {
            return name;
        }
        n += 1;
    }
}

/// The id of the child `name` of `parent_node_id`: `<parentId>/<name>` (LED-26, ORC-13). Needs no ledger row.
pub fn node_id_for_child(parent_node_id: &str, name: &str) -> String {
    format!("{parent_node_id}/{name}")
}

/// The parent's id in a child's id; `None` for the root.
pub fn parent_of_node_id(node_id: &str) -> Option<&str> {
    node_id.rsplit_once('/').map(|(parent, _)| parent)
}

/// The run id made of the first four bytes of a digest: `r-` and eight hex digits (ORC-42, ORC-177).
pub fn run_id_of_digest(digest: [u8; 4]) -> String {
    format!("r-{:08x}", u32::from_be_bytes(digest))
}

/// Whether `text` has the form of a run id.
pub fn is_run_id(text: &str) -> bool {
    text.strip_prefix("r-")
        .is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// LED-25, ORC-8
    #[test]
    fn names_are_lowered_and_then_checked() {
        for good in ["a", "scout-7", "w_1", "a2345678901234567890123456789012"] {
            assert_eq!(check_child_name(good).as_deref(), Ok(good));
        }
        assert_eq!(check_child_name("Scout-7").as_deref(), Ok("scout-7"));
        for bad in ["", "1a", "-a", "a b", "../x", "ä", "a/b", "a23456789012345678901234567890123", "a\0"] {
            let error = check_child_name(bad).unwrap_err();
            assert_eq!(error, NameError::Invalid(bad.into()));
            assert_eq!(error.to_string(), format!("invalid name '{bad}' (expected [a-z][a-z0-9_-]{{0,31}})"));
        }
        assert_eq!(check_child_name("ROOT").unwrap_err().to_string(), "name 'root' is reserved");
        assert_eq!(check_child_name("all").unwrap_err().to_string(), "name 'all' is reserved");
    }

    /// ORC-9
    #[test]
    fn the_lowest_free_number_is_allocated() {
        let taken: HashSet<&str> = ["scout-0", "scout-1", "scout-3"].into();
        assert_eq!(allocate_name("scout", |name| taken.contains(name)), "scout-2");
        assert_eq!(allocate_name("worker", |name| taken.contains(name)), "worker-0");
        let long = "r".repeat(32);
        let mut asked = 0;
        let name = allocate_name(&long, |_| {
            asked += 1;
            asked <= 10
        });
        assert_eq!(name, format!("{}-10", "r".repeat(29)));
        assert!(is_slug(&name));
    }

    /// LED-26, ORC-13
    #[test]
    fn node_ids_are_paths() {
        let id = node_id_for_child(&node_id_for_child(ROOT, "centurion-0"), "worker-1");
        assert_eq!(id, "root/centurion-0/worker-1");
        assert_eq!(parent_of_node_id(&id), Some("root/centurion-0"));
        assert_eq!(parent_of_node_id(ROOT), None);
    }

    #[test]
    fn run_ids_have_eight_hex_digits() {
        assert_eq!(run_id_of_digest([0, 0, 0xab, 1]), "r-0000ab01");
        assert!(is_run_id("r-0000ab01"));
        for bad in ["r-0000AB01", "r-0000ab0", "0000ab01", "r-0000ab012"] {
            assert!(!is_run_id(bad));
        }
    }
}
