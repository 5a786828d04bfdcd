//! Finds a model by name and checks that it can be asked.

use std::sync::Arc;

use super::Provider;
use super::model::{ModelInfo, ModelRef, ThinkingLevel};

/// The providers of a process and their models.
#[derive(Clone, Default)]
pub struct ModelRegistry {
    providers: Vec<Arc<dyn Provider>>,
}

/// What to look for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelQuery {
    /// `provider/id`, `id`, either with `:level` at its end.
    pub model: String,
    /// Looks only there.
    pub provider: Option<String>,
    /// Wins over the level in `model`.
    pub thinking: Option<ThinkingLevel>,
}

/// A model that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedModel {
    pub info: ModelInfo,
    /// Clamped to the model.
    pub thinking: ThinkingLevel,
    pub warning: Option<String>,
}

/// Why a model cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("no model '{model}'{}{}", provider_part(.provider), near_part(.near))]
    Unknown { model: String, provider: Option<String>, near: Option<String> },
    #[error("no provider '{provider}'; there are: {known}")]
    UnknownProvider { provider: String, known: String },
    #[error("model '{model}' is offered by {}; write one of them with its provider", .candidates.join(", "))]
    Ambiguous { model: String, candidates: Vec<String> },
    #[error("no API key for provider '{}' of model '{model}'; add one to auth.json or its environment variable", .model.provider)]
    NoCredential { model: ModelRef },
}

impl ResolvedModel {
    pub fn model_ref(&self) -> ModelRef {
        self.info.model_ref()
    }
}

impl ModelRegistry {
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> ModelRegistry {
        ModelRegistry { providers }
    }

    /// All models, in the order of the providers.
    pub fn list(&self) -> Vec<ModelInfo> {
        self.providers.iter().flat_map(|provider| provider.models()).collect()
    }

    /// The provider of this name.
    pub fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.providers.iter().find(|provider| provider.name() == name).cloned()
    }

    /// The model of this exact reference.
    pub fn info(&self, model: &ModelRef) -> Option<ModelInfo> {
        self.provider(&model.provider)?.model(&model.id)
    }

    /// Finds the model, checks its credentials and clamps the thinking level.
    pub fn resolve(&self, query: &ModelQuery) -> Result<ResolvedModel, ResolveError> {
        let (name, suffix) = split_level(&query.model);
        let info = self.find(name, query.provider.as_deref())?;
        if !info.has_credentials {
            return Err(ResolveError::NoCredential { model: info.model_ref() });
        }
        let asked = query.thinking.or(suffix).unwrap_or_default();
        let thinking = asked.clamp_to(&info.thinking_levels);
        Ok(ResolvedModel { info, thinking, warning: None })
    }

    fn find(&self, name: &str, pin: Option<&str>) -> Result<ModelInfo, ResolveError> {
        if let Some(pin) = pin {
            let provider = self.provider(pin).ok_or_else(|| self.unknown_provider(pin))?;
            let id = name.strip_prefix(pin).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
            return provider.model(id).ok_or_else(|| self.unknown(name, Some(pin)));
        }
        if let Some((provider, id)) = name.split_once('/')
            && let Some(provider) = self.provider(provider)
        {
            return provider.model(id).ok_or_else(|| self.unknown(name, None));
        }
        // A bare id is looked up among the listed models only: a provider that answers for any id
        // would otherwise take every mistyped name.
        let mut found: Vec<ModelInfo> = self.list().into_iter().filter(|model| model.id == name).collect();
        if found.len() > 1 && found.iter().any(|model| model.has_credentials) {
            found.retain(|model| model.has_credentials);
        }
        match found.len() {
            0 => Err(self.unknown(name, None)),
            1 => Ok(found.remove(0)),
            _ => Err(ResolveError::Ambiguous {
                model: name.to_owned(),
                candidates: found.iter().map(|model| model.model_ref().to_string()).collect(),
            }),
        }
    }

    fn unknown(&self, name: &str, provider: Option<&str>) -> ResolveError {
        let near = self
            .list()
            .into_iter()
            .filter(|model| provider.is_none_or(|provider| provider == model.provider))
            .flat_map(|model| [model.model_ref().to_string(), model.id])
            .map(|candidate| (similarity(name, &candidate), candidate))
            .filter(|(score, _)| *score >= 0.7)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, candidate)| candidate);
        ResolveError::Unknown { model: name.to_owned(), provider: provider.map(str::to_owned), near }
    }

    fn unknown_provider(&self, provider: &str) -> ResolveError {
        let known: Vec<&str> = self.providers.iter().map(|provider| provider.name()).collect();
        ResolveError::UnknownProvider { provider: provider.to_owned(), known: known.join(", ") }
    }
}

impl std::fmt::Debug for ModelRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.providers.iter().map(|provider| provider.name())).finish()
    }
}

/// Splits a known thinking level off the end of a model name.
pub fn split_level(model: &str) -> (&str, Option<ThinkingLevel>) {
    match model.rsplit_once(':').map(|(name, level)| (name, level.parse())) {
        Some((name, Ok(level))) => (name, Some(level)),
        _ => (model, None),
    }
}

fn similarity(a: &str, b: &str) -> f64 {
    f64::from(similar::TextDiff::from_chars(a, b).ratio())
}

fn provider_part(provider: &Option<String>) -> String {
    provider.as_ref().map(|provider| format!(" at provider '{provider}'")).unwrap_or_default()
}

fn near_part(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}
