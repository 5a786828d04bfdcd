//! Cards on disk, and the three in the library (DISC-1 … DISC-10). The only file access of this module.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::catalog::{Catalog, DefinitionWarning, ParsedCard};
use super::error::{CardError, CardProblem};
use super::parse::{MAX_CARD_BYTES, parse_agent_document};
use super::stamp::FileCache;
use super::types::{AgentConfig, CardSource};

/// Where cards and settings are looked for. The caller takes these from its host and its environment; nothing here
/// reads either.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DefinitionRoots {
    /// The host's user directory.
    pub agent_dir: PathBuf,
    /// `<cwd>/.pi` of the tree's root session (SET-6).
    pub project_dir: PathBuf,
    /// As this session's own host reports it.
    pub project_trusted: bool,
    /// The directories of the extra layer, the first one strongest (DISC-2, DISC-5).
    pub extra_agent_dirs: Vec<PathBuf>,
}

/// What stands between the directories of a path list.
pub const PATH_LIST_SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// The notice of DISC-9.
pub const UNTRUSTED_NOTICE: &str = "legion: project not trusted; .pi/agents and .pi/settings.json are not used";

impl DefinitionRoots {
    /// The directories of the extra layer from its two variables, each a list in the platform's form; the newer
    /// name's come first (DISC-2, DISC-5).
    pub fn extra_dirs(newer: Option<&str>, older: Option<&str>) -> Vec<PathBuf> {
        let lists = newer.into_iter().chain(older);
        lists
            .flat_map(|list| list.split(PATH_LIST_SEPARATOR))
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
            .collect()
    }

    pub fn user_settings(&self) -> PathBuf {
        self.agent_dir.join("settings.json")
    }

    pub fn project_settings(&self) -> PathBuf {
        self.project_dir.join("settings.json")
    }

    fn user_cards(&self) -> PathBuf {
        self.agent_dir.join("agents")
    }

    fn project_cards(&self) -> PathBuf {
        self.project_dir.join("agents")
    }

    /// [`UNTRUSTED_NOTICE`] when an untrusted project has cards or settings that are skipped (DISC-9).
    pub fn untrusted_notice(&self) -> Option<&'static str> {
        if self.project_trusted {
            return None;
        }
        let skipped = self.project_settings().is_file() || !walk(&self.project_cards()).cards.is_empty();
        skipped.then_some(UNTRUSTED_NOTICE)
    }
}

/// The cards of a session, read again only where the disk changed.
#[derive(Debug, Default)]
pub struct CardStore {
    /// By layer, because one directory may be listed in two.
    files: HashMap<CardSource, FileCache<Result<AgentConfig, CardError>>>,
    last: Option<Built>,
}

/// A catalog and what it was built from.
#[derive(Debug)]
struct Built {
    layers: Vec<Vec<ParsedCard>>,
    warnings: Vec<DefinitionWarning>,
    catalog: Arc<Catalog>,
}

impl CardStore {
    /// The catalog as the disk stands now. An unchanged disk gives the same `Arc` again.
    pub fn load(&mut self, roots: &DefinitionRoots) -> Arc<Catalog> {
        let mut layers = vec![bundled().clone()];
        let mut warnings = Vec::new();
        let mut seen = HashSet::new();
        let extra = roots.extra_agent_dirs.iter().rev().map(|dir| (CardSource::Extra, dir.clone()));
        let user = (CardSource::User, roots.user_cards());
        let project = roots.project_trusted.then(|| (CardSource::Project, roots.project_cards()));
        for (source, dir) in extra.chain([user]).chain(project) {
            let found = walk(&dir);
            warnings.extend(found.unreadable);
            let files = self.files.entry(source).or_default();
            let read = |path: &Path| read_card(source, path);
            layers.push(found.cards.iter().map(|(path, meta)| files.get(path, meta, read, was_read)).collect());
            seen.extend(found.cards.into_iter().map(|(path, _)| (source, path)));
        }
        for (source, files) in &mut self.files {
            files.retain(|path| seen.contains(&(*source, path.to_owned())));
        }

        if let Some(last) = &self.last
            && same_cards(&last.layers, &layers)
            && last.warnings == warnings
        {
            return Arc::clone(&last.catalog);
        }
        let catalog = Arc::new(Catalog::build(&layers, warnings.clone()));
        self.last = Some(Built { layers, warnings, catalog: Arc::clone(&catalog) });
        catalog
    }
}

/// Whether the file itself was seen, whatever was in it.
fn was_read(card: &Result<AgentConfig, CardError>) -> bool {
    !matches!(card, Err(CardError { problem: CardProblem::Unreadable(_), .. }))
}

fn same_cards(a: &[Vec<ParsedCard>], b: &[Vec<ParsedCard>]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b)))
}

/// The cards compiled into the library, parsed once (DISC-1).
fn bundled() -> &'static Vec<ParsedCard> {
    static CARDS: LazyLock<Vec<ParsedCard>> = LazyLock::new(|| {
        BUNDLED_CARDS
            .iter()
            .map(|(file, text)| {
                let path = format!("bundled:agents/{file}");
                Arc::new(parse_agent_document(CardSource::Bundled, &path, text.as_bytes()))
            })
            .collect()
    });
    &CARDS
}

/// File name and text of each bundled card, in path order.
pub const BUNDLED_CARDS: &[(&str, &str)] = &[
    ("centurion.md", include_str!("../../../agents/centurion.md")),
    ("scout.md", include_str!("../../../agents/scout.md")),
    ("worker.md", include_str!("../../../agents/worker.md")),
];

fn read_card(source: CardSource, path: &Path) -> Result<AgentConfig, CardError> {
    let shown = path.display().to_string();
    match read_bounded(path) {
        Ok(bytes) => parse_agent_document(source, &shown, &bytes),
        Err(error) => Err(CardError { path: shown, name: None, problem: CardProblem::Unreadable(error.to_string()) }),
    }
}

/// The file's bytes, one more than allowed at most: the parser then says that it is too long.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_CARD_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Default)]
struct Found {
    /// In path order.
    cards: Vec<(PathBuf, fs::Metadata)>,
    unreadable: Vec<DefinitionWarning>,
}

/// The cards below `dir` (DISC-7). A missing directory is empty; symlink loops end where they began.
fn walk(dir: &Path) -> Found {
    let mut found = Found::default();
    let mut visited = HashSet::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = match dir.canonicalize().and_then(|real| {
            // A directory reached twice, through links, holds the same cards and not twice as many.
            if visited.insert(real) { fs::read_dir(&dir).map(Some) } else { Ok(None) }
        }) {
            Ok(Some(entries)) => entries,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                found.unreadable.push(unreadable(&dir, &error));
                continue;
            }
        };
        for entry in entries {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(error) => {
                    found.unreadable.push(unreadable(&dir, &error));
                    break;
                }
            };
            // A dangling link is nothing to read.
            let Ok(meta) = fs::metadata(&path) else { continue };
            if is_hidden(&path) {
                continue;
            }
            if meta.is_dir() {
                open.push(path);
            } else if meta.is_file() && is_card(&path) {
                found.cards.push((path, meta));
            }
        }
    }
    found.cards.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn is_card(path: &Path) -> bool {
    let readme = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("readme.md"));
    !readme && path.extension().is_some_and(|extension| extension == "md")
}

fn unreadable(dir: &Path, error: &io::Error) -> DefinitionWarning {
    let place = dir.display().to_string();
    let text = format!("legion: cannot read the card directory {place}: {error}");
    DefinitionWarning { place, name: String::new(), value: error.to_string(), text }
}
