//! Settings text to typed settings. Pure; every fault is reported, none hides another.

use serde_json::{Map, Value};

use super::types::{
    InprocessSettings, LegionSettings, MAX_ACTIVE_IN_A_BLOCK, RawBlocks, RpcSettings, Settings, TerminalDriver,
    TerminalSettings,
};
use crate::cards::Fault;
use crate::cards::reader::{Nulls, Reader, expected};
use crate::core::model::is_inherit;

/// The `subagents` object of one settings file; empty when there is none (SET-1).
///
/// # Errors
/// Text that is not JSON, or a `subagents` that is not an object; the sentence names `file`.
pub fn subagents_block(file: &str, text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document: Value = serde_json::from_str(text).map_err(|error| format!("{file}: not valid JSON: {error}"))?;
    let Value::Object(mut document) = document else {
        return Err(format!("{file}: {}", expected("a JSON object", &document)));
    };
    match document.remove("subagents") {
        None => Ok(Map::new()),
        Some(Value::Object(block)) => Ok(block),
        Some(other) => Err(format!("{file}: subagents: {}", expected("an object", &other))),
    }
}

/// Types a `subagents` object; unknown keys are ignored (SET-4).
///
/// # Errors
/// Every wrong value under its dotted path.
pub fn parse_block(block: &Map<String, Value>) -> Result<Settings, Vec<Fault>> {
    let mut faults = Vec::new();
    let settings = read_block(&mut Reader::new(block, "subagents", Nulls::Faulty, &mut faults));
    if faults.is_empty() { Ok(settings) } else { Err(faults) }
}

fn read_block(block: &mut Reader<'_, '_>) -> Settings {
    let defaults = Settings::default();
    Settings {
        enabled: block.boolean("enabled").unwrap_or(defaults.enabled),
        default_model: default_model(block),
        max_subagent_spawns_per_session: block.positive_count("maxSubagentSpawnsPerSession"),
        scout_guard: block.boolean("scoutGuard").unwrap_or(defaults.scout_guard),
        legion: block.mapping("legion").map_or_else(LegionSettings::default, |mut legion| read_legion(&mut legion)),
        inprocess: block
            .mapping("inprocess")
            .map_or_else(InprocessSettings::default, |mut inprocess| read_inprocess(&mut inprocess)),
        rpc: block.mapping("rpc").map_or_else(RpcSettings::default, |mut rpc| read_rpc(&mut rpc)),
        terminal: block.mapping("terminal").map_or_else(TerminalSettings::default, |mut terminal| TerminalSettings {
            driver: terminal.word("driver", TerminalDriver::ALL, TerminalDriver::as_str).unwrap_or_default(),
        }),
        raw: read_raw(block),
    }
}

fn default_model(block: &mut Reader<'_, '_>) -> Option<String> {
    let model = block.filled_string("defaultModel")?;
    if is_inherit(&model) {
        // A global default cannot mean "this session's" (MODEL-12).
        block.expected("defaultModel", "a model, not 'inherit'", &Value::String(model));
        return None;
    }
    Some(model)
}

fn read_legion(legion: &mut Reader<'_, '_>) -> LegionSettings {
    let defaults = LegionSettings::default();
    LegionSettings {
        max_depth: legion.positive_count("maxDepth").unwrap_or(defaults.max_depth),
        max_children_per_node: legion
            .non_negative_count("maxChildrenPerNode")
            .unwrap_or(defaults.max_children_per_node),
        max_active_nodes: legion.positive_count("maxActiveNodes").unwrap_or(defaults.max_active_nodes),
        phase_timeouts: legion
            .mapping("phaseTimeouts")
            .map(|mut timeouts| {
                let ids: Vec<String> = timeouts.keys().map(str::to_owned).collect();
                ids.into_iter().filter_map(|id| timeouts.positive(&id).map(|ms| (id, ms))).collect()
            })
            .unwrap_or_default(),
        verify_command_timeout_ms: legion
            .positive("verifyCommandTimeoutMs")
            .unwrap_or(defaults.verify_command_timeout_ms),
        worktree_bootstrap: legion.string("worktreeBootstrap").unwrap_or_default(),
        worktree_bootstrap_timeout_ms: legion
            .positive("worktreeBootstrapTimeoutMs")
            .unwrap_or(defaults.worktree_bootstrap_timeout_ms),
        mail_rate_per_5_min: legion.positive_count("mailRatePer5Min").unwrap_or(defaults.mail_rate_per_5_min),
        usage_poll_ms: legion.positive("usagePollMs").unwrap_or(defaults.usage_poll_ms),
        orphan_stale_ms: legion.positive("orphanStaleMs").unwrap_or(defaults.orphan_stale_ms),
        silence_notice_ms: legion.integer("silenceNoticeMs").unwrap_or(defaults.silence_notice_ms),
        retention_days: legion.positive_count("retentionDays").unwrap_or(defaults.retention_days),
        stale_node_hours: legion.positive_count("staleNodeHours").unwrap_or(defaults.stale_node_hours),
        event_retention_days: legion.positive_count("eventRetentionDays").unwrap_or(defaults.event_retention_days),
        event_max_rows: legion.positive("eventMaxRows").unwrap_or(defaults.event_max_rows),
        verify_slots: legion.positive_count("verifySlots").unwrap_or(defaults.verify_slots),
    }
}

/// An `inprocess` block that exists has its own default for `maxActive` (SET-36, SET-45).
fn read_inprocess(inprocess: &mut Reader<'_, '_>) -> InprocessSettings {
    let defaults = InprocessSettings { max_active: MAX_ACTIVE_IN_A_BLOCK, ..InprocessSettings::default() };
    InprocessSettings {
        max_depth: inprocess.positive_count("maxDepth").unwrap_or(defaults.max_depth),
        max_children_per_node: inprocess
            .non_negative_count("maxChildrenPerNode")
            .unwrap_or(defaults.max_children_per_node),
        max_active: inprocess.positive_count("maxActive").unwrap_or(defaults.max_active),
        max_spawns_per_session: inprocess.positive_count("maxSpawnsPerSession"),
        wait_timeout_ms: inprocess.positive("waitTimeoutMs"),
        max_queued_launches: inprocess.positive_count("maxQueuedLaunches").unwrap_or(defaults.max_queued_launches),
        launch_queue_timeout_ms: inprocess.positive("launchQueueTimeoutMs").unwrap_or(defaults.launch_queue_timeout_ms),
        spawn_start_timeout_ms: inprocess.positive("spawnStartTimeoutMs").unwrap_or(defaults.spawn_start_timeout_ms),
    }
}

fn read_rpc(rpc: &mut Reader<'_, '_>) -> RpcSettings {
    let defaults = RpcSettings::default();
    RpcSettings {
        approve: rpc.boolean("approve").unwrap_or(defaults.approve),
        min_free_memory_mb: rpc.non_negative("minFreeMemoryMb").unwrap_or(defaults.min_free_memory_mb),
    }
}

fn read_raw(block: &mut Reader<'_, '_>) -> RawBlocks {
    let by_provider = block.object("agentOverridesByProvider").unwrap_or_default();
    for (provider, roles) in &by_provider {
        let Value::Object(roles) = roles else {
            block.expected(&format!("agentOverridesByProvider.{provider}"), "an object of roles", roles);
            continue;
        };
        for (role, entry) in roles {
            let key = format!("agentOverridesByProvider.{provider}.{role}.model");
            // Without a model the entry would look configured while doing nothing (OVR-7).
            let model = entry.get("model").unwrap_or(&Value::Null);
            if model.as_str().is_none_or(|model| model.trim().is_empty()) {
                block.expected(&key, "a non-blank string", model);
            }
        }
    }
    RawBlocks {
        team: block.string("team"),
        teams: block.object("teams").unwrap_or_default(),
        presets: block.object("presets").unwrap_or_default(),
        agent_overrides: block.object("agentOverrides").unwrap_or_default(),
        agent_overrides_by_provider: by_provider,
        model_scope: block.object("modelScope"),
    }
}
