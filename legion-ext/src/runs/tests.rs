//! Tests of run directories.
