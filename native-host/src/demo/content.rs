//! What the tour is made of, carried in the program: a small repository with faults, and the script of the team.

use crate::provider::scripted::script::{Script, ScriptError};

/// A file of the repository.
#[derive(Debug, Clone, Copy)]
pub struct RepoFile {
    pub path: &'static str,
    pub text: &'static str,
    pub executable: bool,
}

/// A commit of the repository's history: what it adds, and why.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    pub message: &'static str,
    pub files: &'static [RepoFile],
}

macro_rules! file {
    ($path:literal) => {
        file!($path, false)
    };
    ($path:literal, $executable:literal) => {
        RepoFile { path: $path, text: include_str!(concat!("../../demo/repo/", $path)), executable: $executable }
    };
}

/// The repository, oldest commit first.
pub const HISTORY: &[Commit] = &[
    Commit {
        message: "Add abacus with duration, leap and slug",
        files: &[
            file!("abacus", true),
            file!("run-tests.sh", true),
            file!("lib/duration.sh"),
            file!("lib/leap.sh"),
            file!("lib/slug.sh"),
            file!("tests/duration.sh"),
            file!("tests/leap.sh"),
            file!("tests/slug.sh"),
        ],
    },
    Commit {
        message: "Add percent and roman, and list the commands",
        files: &[
            file!("lib/percent.sh"),
            file!("lib/roman.sh"),
            file!("tests/percent.sh"),
            file!("tests/roman.sh"),
            file!("README.md"),
        ],
    },
    Commit { message: "Add median", files: &[file!("lib/median.sh"), file!("tests/median.sh")] },
];

/// The user settings of the tour: twelve children at once are more than the limits give.
pub const SETTINGS: &str = include_str!("../../demo/settings.json");

/// What the person of the tour asks for.
pub const PROMPT: &str =
    "The tests of abacus are red. Mend it with as many hands as it takes, and tell me what is left.";

/// The script of the team.
const SCRIPT: &str = include_str!("../../demo/tour.yaml");

/// How fast the scripted models answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As the script says, so that a person can follow.
    Visible,
    /// At once.
    Instant,
}

/// The script of the team at this pace.
///
/// # Errors
/// Never for the script in this program, which a test reads.
pub fn script(pace: Pace) -> Result<Script, ScriptError> {
    let mut script = Script::parse("tour.yaml", SCRIPT)?;
    if pace == Pace::Instant {
        for turn in script.rules.iter_mut().flat_map(|rule| &mut rule.turns).chain(&mut script.otherwise) {
            turn.delay_ms = 0;
            turn.between_ms = 0;
        }
    }
    Ok(script)
}
