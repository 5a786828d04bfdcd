//! Frontmatter to a JSON mapping, with the place of every value. YAML 1.2, core schema (CARD-2).

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Error, Location, Spanned};

use super::error::Position;

/// A frontmatter mapping and the places of its values by dotted path, as faults name them.
#[derive(Debug)]
pub(super) struct Frontmatter {
    pub(super) map: Map<String, Value>,
    pub(super) places: HashMap<String, Position>,
}

/// YAML that cannot be read, or that is no mapping.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) at: Option<Position>,
    pub(super) message: String,
}

/// Reads `text`, whose first line is line `first_line` of its file.
pub(super) fn parse_frontmatter(text: &str, first_line: u32) -> Result<Frontmatter, YamlError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES, max_documents: 1 },
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    let place = |location: Location| position(location, first_line);
    let root: Spanned<Node> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| YamlError { at: error.location().and_then(place), message: told(error.without_snippet()) })?;
    let mut places = HashMap::new();
    match root.value.into_value("", &mut |path, location| {
        if let Some(at) = place(location) {
            places.insert(path.to_owned(), at);
        }
    }) {
        Value::Object(map) => Ok(Frontmatter { map, places }),
        other => Err(YamlError {
            at: place(root.referenced),
            message: super::reader::expected("a mapping of keys and values", &other),
        }),
    }
}

/// The library's error in the words of somebody who writes cards; its place is told apart.
fn told(error: &Error) -> String {
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key '{key}'"),
        Error::NonFiniteFloat { value, .. } => format!("'{value}' is no finite number"),
        Error::Budget { .. } => "one mapping is expected, and not this much or this deep".to_owned(),
        other => {
            let text = other.to_string();
            // The text ends with the place, which the card's error gives in its own form.
            let text = text.split(" at line ").next().unwrap_or(&text).lines().next().unwrap_or_default();
            if text.contains("mapping values are not allowed") {
                return format!("{text}; put a value that contains ': ' in quotes");
            }
            text.to_owned()
        }
    }
}

/// Far more than any card needs, and shallow enough for a small stack.
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 50_000;

fn position(location: Location, first_line: u32) -> Option<Position> {
    let line = u32::try_from(location.line()).ok().filter(|line| *line > 0)?;
    let column = u32::try_from(location.column()).unwrap_or(u32::MAX);
    Some(Position { line: line.saturating_add(first_line.saturating_sub(1)), column })
}

/// A YAML value whose parts keep their places.
#[derive(Debug)]
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl Node {
    /// The plain value; `note` hears the dotted path and the place of each key and list entry.
    fn into_value(self, path: &str, note: &mut impl FnMut(&str, Location)) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(nodes) => {
                let entries = nodes.into_iter().enumerate().map(|(at, node)| {
                    let path = format!("{path}[{at}]");
                    note(&path, node.referenced);
                    node.value.into_value(&path, note)
                });
                Value::Array(entries.collect())
            }
            Self::Mapping(entries) => {
                let entries = entries.into_iter().map(|(key, node)| {
                    let path = if path.is_empty() { key.value.clone() } else { format!("{path}.{}", key.value) };
                    note(&path, key.referenced);
                    (key.value, node.value.into_value(&path, note))
                });
                Value::Object(entries.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(Node::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(Value::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = seq.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        let mut known = HashSet::new();
        while let Some((key, node)) = map.next_entry::<Spanned<String>, Spanned<Node>>()? {
            // The library compares keys as YAML values; as strings `1` and `"1"` are one key too.
            if !known.insert(key.value.clone()) {
                return Err(de::Error::custom(format!("duplicate key '{}'", key.value)));
            }
            entries.push((key, node));
        }
        Ok(Node::Mapping(entries))
    }
}
