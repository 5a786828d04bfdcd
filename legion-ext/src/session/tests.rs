//! Tests of the transcript reader.
