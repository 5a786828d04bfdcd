//! Built with a later patch version of host-abi: it loads.

mod versioned;

const BUILT_WITH: &str = "0.1.99";
