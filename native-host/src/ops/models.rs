//! `models.list` and `models.resolve`.

use host_abi::AbiError;
use host_abi::ops::{ModelCost, ModelInfo, Models, ResolveModel, ResolvedModel};

use crate::host::children::parse_level;
use crate::provider::{self, ModelQuery, ModelRegistry, ResolveError};

pub fn list(models: &ModelRegistry) -> Models {
    let model = |info: provider::ModelInfo| ModelInfo {
        reasoning: info.reasoning(),
        cost: ModelCost {
            input: info.cost.input,
            output: info.cost.output,
            cache_read: info.cost.cache_read,
            cache_write: info.cost.cache_write,
        },
        provider: info.provider,
        id: info.id,
        name: info.name,
        context_window: info.context_window,
        has_credentials: info.has_credentials,
    };
    Models { models: models.list().into_iter().map(model).collect() }
}

pub fn resolve(models: &ModelRegistry, query: ResolveModel) -> Result<ResolvedModel, AbiError> {
    let thinking = parse_level(query.thinking.as_deref())?;
    let query = ModelQuery { model: query.model, provider: query.provider, thinking };
    let found = models.resolve(&query).map_err(|error| {
        let text = AbiError::host(error.to_string());
        match error {
            ResolveError::NoCredential { .. } => {
                text.with_hint("add a key to auth.json or set its environment variable")
            }
            ResolveError::Unknown { .. } | ResolveError::UnknownProvider { .. } | ResolveError::Ambiguous { .. } => {
                text
            }
        }
    })?;
    let (provider, id) = (found.info.provider, found.info.id);
    Ok(ResolvedModel { provider, id, thinking: found.thinking.to_string(), warning: found.warning })
}
