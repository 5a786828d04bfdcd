//! Skills: directories or files of instructions that a model opens when a task fits.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Loaded, PROJECT_DIR, read_text};

/// Deeper directories are not searched; a link in a circle ends here.
const MAX_DEPTH: usize = 8;
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// A skill as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// Its `SKILL.md`, or the single file that it is.
    pub path: PathBuf,
    /// Not listed to the model; only a person asks for it.
    pub hidden: bool,
}

#[derive(Deserialize)]
struct Frontmatter {
    name: Option<String>,
    description: Option<String>,
    #[serde(rename = "disable-model-invocation", default)]
    hidden: bool,
}

/// Where skills are looked for when nobody names places: a trusted project's first, then the user's.
pub fn default_skill_places(cwd: &Path, agent_dir: &Path, home: Option<&Path>, project_trusted: bool) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let shared = |dir: &Path| dir.join(".agents").join("skills");
    let users = home.map(shared);
    if project_trusted {
        places.push(cwd.join(PROJECT_DIR).join("skills"));
        // Up to the repository, or to the root where there is none.
        let repository = cwd.ancestors().find(|dir| dir.join(".git").exists());
        for dir in cwd.ancestors() {
            places.push(shared(dir));
            if Some(dir) == repository {
                break;
            }
        }
        places.retain(|place| Some(place) != users.as_ref());
    }
    places.push(agent_dir.join("skills"));
    places.extend(users);
    places
}

/// The skills of these directories and files, each name once: the first place that has it wins. Places that
/// do not exist are passed over.
pub fn load_skills(places: &[PathBuf]) -> Loaded<Vec<Skill>> {
    let mut found: Loaded<Vec<Skill>> = Loaded::default();
    let mut seen = HashSet::new();
    for place in places {
        let mut files = Vec::new();
        if place.is_file() {
            files.push(place.clone());
        } else {
            collect(place, 0, &mut files);
        }
        for path in files {
            // One file by two ways is one skill.
            if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            let skill = read_skill(&path, &mut found.warnings);
            let Some(skill) = skill else { continue };
            match found.value.iter().find(|other| other.name == skill.name) {
                None => found.value.push(skill),
                Some(first) => {
                    let (first, second) = (first.path.display(), path.display());
                    found.warnings.push(format!("skill '{}' of {second} is hidden by {first}", skill.name));
                }
            }
        }
    }
    found
}

/// The skill files below `dir`: its `SKILL.md` and nothing deeper, else those of its directories; single
/// Markdown files count in the first directory only.
fn collect(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let own = dir.join("SKILL.md");
    if own.is_file() {
        files.push(own);
        return;
    }
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH {
                collect(&path, depth + 1, files);
            }
        } else if depth == 0 && name.ends_with(".md") && path.is_file() {
            files.push(path);
        }
    }
}

fn read_skill(path: &Path, warnings: &mut Vec<String>) -> Option<Skill> {
    let mut warn = |problem: String| warnings.push(format!("skill {}: {problem}", path.display()));
    let frontmatter = match read_text(path).and_then(|text| frontmatter(&text)) {
        Ok(frontmatter) => frontmatter,
        Err(problem) => {
            warn(problem);
            return None;
        }
    };
    let description = frontmatter.description.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let Some(description) = description else {
        warn("it has no description".to_owned());
        return None;
    };
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = frontmatter.name.unwrap_or_else(|| directory.into_owned());
    let proper = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.chars().count() > MAX_NAME_CHARS || name.is_empty() || !name.chars().all(proper) {
        warn(format!("the name '{name}' should be at most {MAX_NAME_CHARS} of a-z, 0-9 and -"));
    }
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        warn(format!("the description is longer than {MAX_DESCRIPTION_CHARS} characters"));
    }
    Some(Skill { name, description, path: path.to_owned(), hidden: frontmatter.hidden })
}

/// The YAML between two lines of `---` at the beginning of a file.
fn frontmatter(text: &str) -> Result<Frontmatter, String> {
    let mut lines = text.lines();
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return Err("it has no frontmatter".to_owned());
    }
    let yaml: Vec<&str> = lines.take_while(|line| line.trim_end() != "---").collect();
    serde_saphyr::from_str(&yaml.join("\n")).map_err(|error| {
        let line = error.location().map(|at| format!(" (line {})", at.line() + 1)).unwrap_or_default();
        let message = error.without_snippet().to_string();
        format!("{}{line}", message.split(" at line ").next().unwrap_or_default().trim())
    })
}
