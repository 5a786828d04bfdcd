//! Ids of runs: found again by computing them, not by searching (ORC-42, ORC-177).

use std::io;

use sha2::{Digest, Sha256};

use crate::core::naming::run_id_of_digest;

/// The id of the root run that a session gets at its `counter`-th try.
pub fn root_run_id(session_id: &str, counter: u32) -> String {
    digest(&[session_id, &counter.to_string()])
}

/// The id of the run of a child that may nest: the same at every revival.
pub fn child_run_id(root_run_id: &str, node_id: &str) -> String {
    digest(&[root_run_id, node_id])
}

/// An id for a session without a file, which nobody will look for again.
pub fn random_run_id() -> io::Result<String> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
    Ok(run_id_of_digest(bytes))
}

/// The parts are joined by a byte that occurs in none of them.
fn digest(parts: &[&str]) -> String {
    let hash = Sha256::digest(parts.join("\0"));
    run_id_of_digest([hash[0], hash[1], hash[2], hash[3]])
}
