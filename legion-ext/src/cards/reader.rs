//! Strict, typed reading of one mapping: cards, settings and the `acceptance` of a call all read with it.
//!
//! A [`Reader`] never stops at the first fault: it notes each one under its dotted path and goes on, so that a person
//! sees everything that is wrong at once.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::error::Fault;
use crate::core::near::quoted_with_near_miss;

/// What a null value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// The key is absent (CARD-12).
    Absent,
    /// A wrong value like any other.
    Faulty,
}

/// One mapping under reading, and where its faults go.
#[derive(Debug)]
pub struct Reader<'v, 'f> {
    map: &'v Map<String, Value>,
    /// The dotted path of the mapping; empty at the top.
    path: String,
    nulls: Nulls,
    faults: &'f mut Vec<Fault>,
}

impl<'v, 'f> Reader<'v, 'f> {
    pub fn new(map: &'v Map<String, Value>, path: impl Into<String>, nulls: Nulls, faults: &'f mut Vec<Fault>) -> Self {
        Self { map, path: path.into(), nulls, faults }
    }

    /// The value as written, null included.
    pub fn raw(&self, key: &str) -> Option<&'v Value> {
        self.map.get(key)
    }

    /// The value; `None` for an absent one.
    pub fn value(&self, key: &str) -> Option<&'v Value> {
        self.map.get(key).filter(|value| self.nulls == Nulls::Faulty || !value.is_null())
    }

    /// A reader of the mapping under `key`; a value of another type is a fault.
    pub fn mapping(&mut self, key: &str) -> Option<Reader<'v, '_>> {
        match self.value(key)? {
            Value::Object(map) => Some(self.nested(key, map)),
            other => {
                self.expected(key, "a mapping", other);
                None
            }
        }
    }

    /// A reader of a mapping found below this one, at `key`.
    pub fn nested(&mut self, key: &str, map: &'v Map<String, Value>) -> Reader<'v, '_> {
        Reader::new(map, self.path_of(key), self.nulls, self.faults)
    }

    /// The mapping under `key` as it is; a value of another type is a fault.
    pub fn object(&mut self, key: &str) -> Option<Map<String, Value>> {
        self.mapping(key).map(|reader| reader.map.clone())
    }

    /// The keys as written.
    pub fn keys(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        self.map.keys().map(String::as_str)
    }

    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A trimmed string; blank means absent.
    pub fn string(&mut self, key: &str) -> Option<String> {
        self.typed(key, "a string", |value| value.as_str().map(|text| text.trim().to_owned()))
            .filter(|text| !text.is_empty())
    }

    /// A trimmed string; blank is a fault.
    pub fn filled_string(&mut self, key: &str) -> Option<String> {
        self.typed(key, "a non-blank string", |value| {
            value.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        })
    }

    pub fn positive(&mut self, key: &str) -> Option<u64> {
        self.typed(key, "a positive integer", |value| value.as_u64().filter(|n| *n > 0))
    }

    /// A count above zero that fits 32 bits.
    pub fn positive_count(&mut self, key: &str) -> Option<u32> {
        self.count(key, "a positive integer", 1)
    }

    /// A count that fits 32 bits.
    pub fn non_negative_count(&mut self, key: &str) -> Option<u32> {
        self.count(key, "a non-negative integer", 0)
    }

    pub fn non_negative(&mut self, key: &str) -> Option<u64> {
        self.typed(key, "a non-negative integer", Value::as_u64)
    }

    pub fn integer(&mut self, key: &str) -> Option<i64> {
        self.typed(key, "an integer", Value::as_i64)
    }

    /// One of a fixed set of words.
    pub fn word<T: Copy>(&mut self, key: &str, all: &[T], as_str: fn(T) -> &'static str) -> Option<T> {
        let find = |value: &Value| all.iter().copied().find(|one| value.as_str() == Some(as_str(*one)));
        let words: Vec<&str> = all.iter().map(|one| as_str(*one)).collect();
        self.typed(key, &alternatives(&words), find)
    }

    /// A list of strings, or one comma-separated string; trimmed, without blanks and repeats (CARD-11). A null is the
    /// empty list. `check` may refuse an entry with what it expected.
    pub fn list(&mut self, key: &str, check: impl Fn(&str) -> Result<(), String>) -> Option<Vec<String>> {
        let value = self.map.get(key)?;
        let entries: Vec<&str> = match value {
            Value::Null => Vec::new(),
            Value::String(text) => text.split(',').collect(),
            Value::Array(values) => {
                let mut entries = Vec::with_capacity(values.len());
                for (at, value) in values.iter().enumerate() {
                    match value.as_str() {
                        Some(text) => entries.push(text),
                        None => self.expected(&format!("{key}[{at}]"), "a string", value),
                    }
                }
                entries
            }
            other => {
                self.expected(key, "a list of strings or a comma-separated string", other);
                return None;
            }
        };
        let mut seen = BTreeSet::new();
        let mut list = Vec::new();
        for entry in entries.into_iter().map(str::trim).filter(|entry| !entry.is_empty()) {
            if !seen.insert(entry) {
                continue;
            }
            match check(entry) {
                Ok(()) => list.push(entry.to_owned()),
                Err(message) => self.fault(key, message),
            }
        }
        Some(list)
    }

    /// Notes every key outside `legal`, with its near miss and the legal ones (CARD-7).
    pub fn refuse_unknown(&mut self, legal: &[&str]) {
        let unknown: Vec<&str> = self.map.keys().map(String::as_str).filter(|key| !legal.contains(key)).collect();
        for key in unknown {
            let message =
                format!("unknown key {}. Legal keys: {}", quoted_with_near_miss(key, legal), legal.join(", "));
            self.faults.push(Fault { key: self.path.clone(), message, at: None });
        }
    }

    /// Notes a value of the wrong type or range (CARD-10, SET-2).
    pub fn expected(&mut self, key: &str, what: &str, got: &Value) {
        self.fault(key, expected(what, got));
    }

    /// Notes a fault with its own words.
    pub fn fault(&mut self, key: &str, message: impl Into<String>) {
        self.faults.push(Fault { key: self.path_of(key), message: message.into(), at: None });
    }

    /// The dotted path of a key of this mapping.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn count(&mut self, key: &str, what: &str, least: u32) -> Option<u32> {
        let value = self.value(key)?;
        let Some(number) = value.as_u64().filter(|number| *number >= u64::from(least)) else {
            self.expected(key, what, value);
            return None;
        };
        let count = u32::try_from(number).ok();
        if count.is_none() {
            self.expected(key, &format!("{what} up to {}", u32::MAX), value);
        }
        count
    }

    fn typed<T>(&mut self, key: &str, what: &str, read: impl FnOnce(&'v Value) -> Option<T>) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value);
        if read.is_none() {
            self.expected(key, what, value);
        }
        read
    }
}

/// `expected <what>, got <value>` (CARD-10, SET-2).
pub fn expected(what: &str, got: &Value) -> String {
    format!("expected {what}, got {}", shown(got))
}

/// `a, b or c`.
pub fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// `[a-z][a-z0-9_-]{0,31}`, the form of every name in this part.
pub fn is_slug(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= SLUG_MAX
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// What an error calls the form of [`is_slug`].
pub const A_SLUG: &str = "a name of lower-case letters, digits, '-' and '_' that starts with a letter (at most 32)";

const SLUG_MAX: usize = 32;

/// How much of a wrong string an error quotes, in characters.
const SHOWN_MAX: usize = 60;

/// A value as an error shows it: short, and on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        Value::String(text) if text.chars().count() > SHOWN_MAX => {
            let start: String = text.chars().take(SHOWN_MAX).collect();
            format!("{}…", Value::String(start))
        }
        scalar => scalar.to_string(),
    }
}
