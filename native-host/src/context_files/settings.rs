//! The settings of pi that this host has a use for.

use std::path::Path;

use serde_json::Value;

use super::{Loaded, PROJECT_DIR, read_text};
use crate::provider::ThinkingLevel;

/// Settings of the user, with those of a trusted project over them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub default_provider: Option<String>,
    pub default_model: Option<String>,
    pub default_thinking: Option<ThinkingLevel>,
    /// The user's alone: a project has no say in its own trust.
    pub default_project_trust: DefaultTrust,
    pub compaction: Compaction,
    pub retry: Retry,
    /// Whether all waiting steering messages go into one model request, or one each.
    pub steer_all_at_once: bool,
    /// The same for follow-up messages.
    pub follow_up_all_at_once: bool,
}

/// What to do about a project that nobody decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultTrust {
    /// Without anybody to ask this is `Never`.
    #[default]
    Ask,
    Always,
    Never,
}

/// When the conversation is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    pub enabled: bool,
    /// Tokens of the window that stay free for the answer.
    pub reserve_tokens: u64,
    /// Tokens of the latest messages that are kept as they are.
    pub keep_recent_tokens: u64,
}

/// How often a failed model call is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub enabled: bool,
    pub max_retries: u64,
    /// Before the first; it doubles with each.
    pub base_delay_ms: u64,
}

impl Settings {
    /// Reads `settings.json` of the agent directory and, where `project` is given, of that project. A key of
    /// the wrong type is a warning and keeps its default.
    pub fn load(agent_dir: &Path, project: Option<&Path>) -> Loaded<Settings> {
        let mut loaded: Loaded<Settings> = Loaded::default();
        let user = agent_dir.join("settings.json");
        if let Some(settings) = loaded.warn(read_object(&user)) {
            let mut layer = Layer { path: &user, settings: &settings, warnings: &mut loaded.warnings };
            layer.apply(&mut loaded.value);
            layer.apply_trust(&mut loaded.value);
        }
        if let Some(project) = project {
            let path = project.join(PROJECT_DIR).join("settings.json");
            if let Some(settings) = loaded.warn(read_object(&path)) {
                Layer { path: &path, settings: &settings, warnings: &mut loaded.warnings }.apply(&mut loaded.value);
            }
        }
        loaded
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            default_provider: None,
            default_model: None,
            default_thinking: None,
            default_project_trust: DefaultTrust::default(),
            compaction: Compaction { enabled: true, reserve_tokens: 16_384, keep_recent_tokens: 20_000 },
            retry: Retry { enabled: true, max_retries: 3, base_delay_ms: 2_000 },
            steer_all_at_once: false,
            follow_up_all_at_once: false,
        }
    }
}

/// One file of settings.
struct Layer<'a> {
    path: &'a Path,
    settings: &'a Value,
    warnings: &'a mut Vec<String>,
}

impl Layer<'_> {
    fn apply(&mut self, to: &mut Settings) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let level = |value: &Value| value.as_str().and_then(|name| name.parse().ok());
        if let Some(provider) = self.get("defaultProvider", "a text", text) {
            to.default_provider = Some(provider);
        }
        if let Some(model) = self.get("defaultModel", "a text", text) {
            to.default_model = Some(model);
        }
        if let Some(level) = self.get("defaultThinkingLevel", "a thinking level", level) {
            to.default_thinking = Some(level);
        }
        self.set("compaction.enabled", "true or false", Value::as_bool, &mut to.compaction.enabled);
        self.set("compaction.reserveTokens", "a whole number", Value::as_u64, &mut to.compaction.reserve_tokens);
        self.set("compaction.keepRecentTokens", "a whole number", Value::as_u64, &mut to.compaction.keep_recent_tokens);
        self.set("retry.enabled", "true or false", Value::as_bool, &mut to.retry.enabled);
        self.set("retry.maxRetries", "a whole number", Value::as_u64, &mut to.retry.max_retries);
        self.set("retry.baseDelayMs", "a whole number", Value::as_u64, &mut to.retry.base_delay_ms);
        let all = |value: &Value| match value.as_str()? {
            "all" => Some(true),
            "one-at-a-time" => Some(false),
            _ => None,
        };
        self.set("steeringMode", "all or one-at-a-time", all, &mut to.steer_all_at_once);
        self.set("followUpMode", "all or one-at-a-time", all, &mut to.follow_up_all_at_once);
    }

    fn apply_trust(&mut self, to: &mut Settings) {
        let trust = |value: &Value| match value.as_str()? {
            "ask" => Some(DefaultTrust::Ask),
            "always" => Some(DefaultTrust::Always),
            "never" => Some(DefaultTrust::Never),
            _ => None,
        };
        self.set("defaultProjectTrust", "ask, always or never", trust, &mut to.default_project_trust);
    }

    fn set<T>(&mut self, key: &str, expected: &str, read: impl Fn(&Value) -> Option<T>, to: &mut T) {
        if let Some(value) = self.get(key, expected, read) {
            *to = value;
        }
    }

    /// The value of a dotted key; absent and `null` are nothing.
    fn get<T>(&mut self, key: &str, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let found = key.split('.').try_fold(self.settings, |at, part| at.get(part)).filter(|value| !value.is_null())?;
        let value = read(found);
        if value.is_none() {
            self.warnings.push(format!("{}: {key}: expected {expected}, got {found}", self.path.display()));
        }
        value
    }
}

/// The JSON object of a file; an absent file is an empty one.
fn read_object(path: &Path) -> Result<Value, String> {
    if !path.exists() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let text = read_text(path)?;
    match serde_json::from_str(&text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(format!("{}: expected an object; the file was ignored", path.display())),
        Err(error) => Err(format!("{}: {error}; the file was ignored", path.display())),
    }
}
