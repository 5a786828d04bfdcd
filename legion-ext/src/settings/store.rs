//! Settings files on disk, read again only where they changed (DISC-10). The files are never written here.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::SettingsError;
use super::merge::merge_blocks;
use super::parse::{parse_block, subagents_block};
use super::types::Settings;
use crate::cards::DefinitionRoots;
use crate::cards::stamp::FileCache;
use crate::error::{Result, SubagentError};

/// The settings as they stand, and whether launches may go on with them (SET-3).
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsState {
    /// What control actions go on with: the last settings that parsed in this process, or the defaults.
    pub last_good: Arc<Settings>,
    /// Why new launches are refused, while it stands.
    pub error: Option<SettingsError>,
}

impl SettingsState {
    /// The settings a launch may use.
    ///
    /// # Errors
    /// `INVALID_PARAMS` with every fault while a settings error stands.
    pub fn for_launch(&self) -> Result<&Arc<Settings>> {
        match &self.error {
            None => Ok(&self.last_good),
            Some(error) => Err(SubagentError::invalid(error.to_string())),
        }
    }
}

/// One file's `subagents` object, or what is wrong with it.
type Block = std::result::Result<Map<String, Value>, Vec<String>>;

/// The settings of a process, user and project merged.
#[derive(Debug, Default)]
pub struct SettingsStore {
    files: FileCache<Block>,
    last: Option<(Arc<Block>, Arc<Block>)>,
    last_good: Arc<Settings>,
    error: Option<SettingsError>,
}

impl SettingsStore {
    /// The settings as the disk stands now.
    pub fn load(&mut self, roots: &DefinitionRoots) -> SettingsState {
        let user = self.block(&roots.user_settings());
        let project =
            if roots.project_trusted { self.block(&roots.project_settings()) } else { Arc::new(Ok(Map::new())) };
        let unchanged = matches!(&self.last, Some((u, p)) if *u == user && *p == project);
        if !unchanged {
            self.merge(&user, &project);
            self.last = Some((user, project));
        }
        SettingsState { last_good: Arc::clone(&self.last_good), error: self.error.clone() }
    }

    fn merge(&mut self, user: &Block, project: &Block) {
        let mut faults = Vec::new();
        for block in [user, project] {
            faults.extend(block.as_ref().err().into_iter().flatten().cloned());
        }
        if let (Ok(user), Ok(project)) = (user, project) {
            match parse_block(&merge_blocks(user, project)) {
                Ok(settings) => self.last_good = Arc::new(settings),
                // Each block is valid by itself, so only their mixture could be at fault.
                Err(mixed) => faults.extend(mixed.iter().map(|fault| format!("settings: {fault}"))),
            }
        }
        self.error = (!faults.is_empty()).then_some(SettingsError { faults });
    }

    fn block(&mut self, path: &Path) -> Arc<Block> {
        match fs::metadata(path) {
            Ok(meta) => self.files.get(path, &meta, read_block, Block::is_ok),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Arc::new(Ok(Map::new())),
            Err(error) => Arc::new(Err(vec![format!("{}: cannot be read: {error}", path.display())])),
        }
    }
}

fn read_block(path: &Path) -> Block {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{file}: cannot be read: {error}")])?;
    let block = subagents_block(&file, &text).map_err(|fault| vec![fault])?;
    // Typed by itself, so that a fault carries this file's name (SET-55).
    match parse_block(&block) {
        Ok(_) => Ok(block),
        Err(faults) => Err(faults.iter().map(|fault| format!("{file}: {fault}")).collect()),
    }
}
