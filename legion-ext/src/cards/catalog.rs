//! The roles of all layers as one table (DISC-6 … DISC-12, CARD-15 … CARD-17). Pure: parsed cards in, catalog out.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{CardError, CardProblem};
use super::types::{AgentConfig, CENTURION};
use crate::error::{Result, SubagentError};

/// One parsed or broken card.
pub type ParsedCard = Arc<std::result::Result<AgentConfig, CardError>>;

/// The effective roles: one entry per name, the highest layer's.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
    /// Every broken card of every layer, hidden or not, in layer order.
    broken: Vec<CardError>,
    warnings: Vec<DefinitionWarning>,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Entry {
    Card(Arc<AgentConfig>),
    /// It hides every lower card of its name (CARD-16).
    Broken(CardError),
}

/// A line that is printed once per process (CARD-80, CARD-81).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DefinitionWarning {
    /// Where it stands, such as the card's path.
    pub place: String,
    /// The role or preset.
    pub name: String,
    /// The value that is ignored.
    pub value: String,
    pub text: String,
}

/// The most names that the answer to an unknown agent lists (DISC-12).
const ROSTER_SHOWN: usize = 20;

impl Catalog {
    /// Builds the table from layers, lowest first; within a layer the cards are in path order. `warnings` are those of
    /// the search itself.
    pub fn build(layers: &[Vec<ParsedCard>], warnings: Vec<DefinitionWarning>) -> Self {
        let mut catalog = Self { warnings, ..Self::default() };
        for layer in layers {
            let mut in_layer: BTreeMap<String, Entry> = BTreeMap::new();
            for card in layer {
                if let Err(error) = &**card {
                    catalog.broken.push(error.clone());
                }
                let (name, entry) = entry_of(card);
                let Some(known) = in_layer.get(&name) else {
                    in_layer.insert(name, entry);
                    continue;
                };
                let duplicate = CardError {
                    path: entry.path().to_owned(),
                    name: Some(name.clone()),
                    problem: CardProblem::Duplicate { name: name.clone(), other: known.path().to_owned() },
                };
                catalog.broken.push(duplicate.clone());
                in_layer.insert(name, Entry::Broken(duplicate));
            }
            catalog.entries.extend(in_layer);
        }
        let ignored: Vec<DefinitionWarning> = catalog.cards().flat_map(|agent| card_warnings(agent)).collect();
        catalog.warnings.extend(ignored);
        catalog
    }

    /// The entry of exactly this role name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Every effective card in alphabetical order, disabled ones included.
    pub fn cards(&self) -> impl Iterator<Item = &Arc<AgentConfig>> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::Card(agent) => Some(agent),
            Entry::Broken(_) => None,
        })
    }

    /// Every card that failed to load, hidden ones included (CARD-17).
    pub fn broken(&self) -> &[CardError] {
        &self.broken
    }

    /// Directories that could not be read, and what is ignored on the effective cards.
    pub fn warnings(&self) -> &[DefinitionWarning] {
        &self.warnings
    }

    /// The roles a session may launch, in alphabetical order: not disabled, and not its own (TEAM-6, TEAM-8).
    pub fn roster<'a>(&'a self, own_role: Option<&'a str>) -> impl Iterator<Item = &'a Arc<AgentConfig>> {
        self.cards().filter(move |agent| !agent.disabled && Some(agent.name.as_str()) != own_role)
    }

    /// The role that a launch names, by its name or an alias; a name beats an alias (CARD-26).
    ///
    /// # Errors
    /// `INVALID_PARAMS` for a broken card (CARD-15), a disabled role (CARD-55), the session's own role (TEAM-8), an
    /// ambiguous alias (CARD-26) and an unknown name (DISC-12).
    pub fn resolve(&self, name: &str, own_role: Option<&str>) -> Result<Arc<AgentConfig>> {
        let name = name.trim();
        let agent = match self.entries.get(name) {
            Some(Entry::Broken(error)) => return Err(SubagentError::invalid(error.to_string())),
            Some(Entry::Card(agent)) => agent,
            None => self.by_alias(name, own_role)?,
        };
        if agent.disabled {
            return Err(SubagentError::invalid(format!("agent '{}' is disabled", agent.name)));
        }
        if own_role == Some(agent.name.as_str()) {
            return Err(SubagentError::invalid(format!("a '{}' cannot dispatch its own role", agent.name)));
        }
        Ok(Arc::clone(agent))
    }

    fn by_alias(&self, alias: &str, own_role: Option<&str>) -> Result<&Arc<AgentConfig>> {
        let claims: Vec<&Arc<AgentConfig>> =
            self.cards().filter(|agent| agent.other_names().any(|name| name == alias)).collect();
        match claims.as_slice() {
            [agent] => Ok(agent),
            [] => {
                let roster: Vec<&str> = self.roster(own_role).map(|agent| agent.name.as_str()).collect();
                Err(SubagentError::invalid(format!("unknown agent '{alias}'; available: {}", shown_roster(&roster))))
            }
            several => {
                let names: Vec<String> = several.iter().map(|agent| format!("'{}'", agent.name)).collect();
                let names = names.join(" and ");
                Err(SubagentError::invalid(format!("agent '{alias}' is ambiguous: it is an alias of {names}")))
            }
        }
    }
}

impl Entry {
    /// The card's file.
    pub fn path(&self) -> &str {
        match self {
            Self::Card(agent) => &agent.path,
            Self::Broken(error) => &error.path,
        }
    }
}

/// The name a card goes by: its `name`, or the file stem when that cannot be read (CARD-15).
fn entry_of(card: &ParsedCard) -> (String, Entry) {
    match &**card {
        Ok(agent) => (agent.name.clone(), Entry::Card(Arc::new(agent.clone()))),
        Err(error) => {
            let file = error.path.rsplit(['/', '\\']).next().unwrap_or(&error.path);
            let stem = file.strip_suffix(".md").unwrap_or(file);
            (error.name.clone().unwrap_or_else(|| stem.to_owned()), Entry::Broken(error.clone()))
        }
    }
}

fn shown_roster(names: &[&str]) -> String {
    let shown = names.iter().take(ROSTER_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(ROSTER_SHOWN) {
        0 if names.is_empty() => "none".to_owned(),
        0 => shown,
        more => format!("{shown}, … {more} more"),
    }
}

/// What a card declares in vain (CARD-69, CARD-80).
fn card_warnings(agent: &AgentConfig) -> Vec<DefinitionWarning> {
    let warning = |value: &str, text| DefinitionWarning {
        place: agent.path.clone(),
        name: agent.name.clone(),
        value: value.to_owned(),
        text,
    };
    let kind = agent.foreign_kind.as_deref().map(|kind| {
        let role = &agent.name;
        warning(
            kind,
            format!(
                "legion: '{role}' declares kind '{kind}': only kind 'pi' is supported; \
                 the field is ignored and the role starts as pi"
            ),
        )
    });
    let phases = (agent.phases.is_some() && agent.name != CENTURION).then(|| {
        let role = &agent.name;
        warning("phases", format!("phases on role '{role}' is ignored: only centurion can carry a phase machine"))
    });
    kind.into_iter().chain(phases).collect()
}

/// Lets each warning through once per process (CARD-81).
#[derive(Debug, Default)]
pub struct WarnOnce(Mutex<HashSet<(String, String, String)>>);

impl WarnOnce {
    /// The texts of those warnings that were never asked about before.
    pub fn fresh<'w>(&self, warnings: impl IntoIterator<Item = &'w DefinitionWarning>) -> Vec<&'w str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warnings
            .into_iter()
            .filter(|w| known.insert((w.place.clone(), w.name.clone(), w.value.clone())))
            .map(|w| w.text.as_str())
            .collect()
    }
}
