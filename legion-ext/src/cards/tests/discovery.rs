//! Cards on disk: layers, precedence, broken cards, changes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;

struct Places {
    dir: TempDir,
    roots: DefinitionRoots,
    store: CardStore,
}

impl Places {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let roots = DefinitionRoots {
            agent_dir: at("user"),
            project_dir: at("project/.pi"),
            project_trusted: true,
            extra_agent_dirs: vec![at("extra-1"), at("extra-2")],
        };
        Self { dir, roots, store: CardStore::default() }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.dir.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(path, text).expect("written");
    }

    fn card(&self, file: &str, name: &str, description: &str) {
        self.write(file, &format!("---\nname: {name}\ndescription: {description}\n---\nBody.\n"));
    }

    fn load(&mut self) -> Arc<Catalog> {
        self.store.load(&self.roots)
    }

    fn path(&self, file: &str) -> String {
        self.dir.path().join(file).display().to_string()
    }
}

fn refusal(catalog: &Catalog, name: &str) -> String {
    let error = catalog.resolve(name, None).expect_err(name);
    assert_eq!(error.code, crate::error::Code::InvalidParams);
    error.message
}

fn effective(places: &mut Places, name: &str) -> (CardSource, String) {
    let agent = places.load().resolve(name, None).expect("a role");
    (agent.source, agent.description.clone())
}

/// 02-T5, DISC-1 … DISC-6: each layer beats those below it; the first listed extra directory beats the second.
#[test]
fn precedence_of_layers() {
    let mut places = Places::new();
    assert_eq!(effective(&mut places, "worker").0, CardSource::Bundled);
    for (file, source) in [
        ("extra-2/w.md", CardSource::Extra),
        ("extra-1/w.md", CardSource::Extra),
        ("user/agents/deep/er/w.md", CardSource::User),
        ("project/.pi/agents/w.md", CardSource::Project),
    ] {
        places.card(file, "worker", file);
        assert_eq!(effective(&mut places, "worker"), (source, file.to_owned()));
    }
    // Replaced whole: the bundled card's time limit is gone.
    assert_eq!(places.load().resolve("worker", None).expect("a role").timeout_ms, None);
    assert_eq!(effective(&mut places, "scout").0, CardSource::Bundled);

    // Both variables hold lists, and the newer name's directories beat the older's.
    let at = |name: &str| places.dir.path().join(name);
    let (first, second, older) = (places.path("extra-1"), places.path("extra-2"), places.path("extra-0"));
    let newer = format!("{first}{PATH_LIST_SEPARATOR}{PATH_LIST_SEPARATOR}{second}");
    assert_eq!(DefinitionRoots::extra_dirs(None, None), Vec::<std::path::PathBuf>::new());
    assert_eq!(DefinitionRoots::extra_dirs(Some(""), Some(&older)), [at("extra-0")]);
    assert_eq!(DefinitionRoots::extra_dirs(Some(&newer), Some(&older)), [at("extra-1"), at("extra-2"), at("extra-0")]);
    places.roots.extra_agent_dirs = DefinitionRoots::extra_dirs(Some(&newer), Some(&older));
    places.card("extra-0/o.md", "old", "Only here.");
    assert_eq!(effective(&mut places, "old").1, "Only here.");
    places.card("extra-2/o.md", "old", "The newer variable.");
    assert_eq!(effective(&mut places, "old").1, "The newer variable.");
}

/// 02-T5, CARD-15 … CARD-17: a broken card blocks its role alone and hides every lower one.
#[test]
fn a_broken_card_does_not_fall_back() {
    let mut places = Places::new();
    places.card("user/agents/worker.md", "worker", "A sound one.");
    places.write("project/.pi/agents/some.md", "---\nname: worker\ndescription: x\nmaxRenewals: -1\n---\nBody.\n");
    places.write("project/.pi/agents/nameless.md", "---\nname: [\n---\nBody.\n");
    let catalog = places.load();
    let some = places.path("project/.pi/agents/some.md");
    assert_eq!(refusal(&catalog, "worker"), format!("{some}: maxRenewals: expected a non-negative integer, got -1"));
    assert!(refusal(&catalog, "nameless").starts_with(&places.path("project/.pi/agents/nameless.md")));
    assert!(catalog.resolve("scout", None).is_ok());
    assert_eq!(catalog.broken().len(), 2);
    assert!(!catalog.roster(None).any(|agent| agent.name == "worker"));
}

/// DISC-8
#[test]
fn two_cards_of_one_name_in_a_layer() {
    let mut places = Places::new();
    places.card("user/agents/a.md", "worker", "One.");
    places.card("user/agents/sub/b.md", "worker", "Two.");
    let text = refusal(&places.load(), "worker");
    assert!(text.contains(&places.path("user/agents/a.md")), "{text}");
    assert!(text.contains(&places.path("user/agents/sub/b.md")), "{text}");
    // A higher layer settles it.
    places.card("project/.pi/agents/w.md", "worker", "Mine.");
    assert_eq!(effective(&mut places, "worker").1, "Mine.");
}

/// DISC-7
#[test]
fn what_is_read_in_a_directory() {
    let mut places = Places::new();
    places.card("user/agents/yes.md", "yes", "Read.");
    for file in ["README.md", "sub/readme.MD", "note.txt", ".hidden.md", ".git/x.md", "x.md.bak"] {
        places.write(&format!("user/agents/{file}"), "no card");
    }
    #[cfg(unix)]
    {
        let link = |from: &str, to: &str| {
            std::os::unix::fs::symlink(to, places.dir.path().join("user/agents").join(from)).expect("linked");
        };
        link("loop", ".");
        link("gone.md", "nowhere");
        places.card("elsewhere/linked.md", "linked", "Read through a link.");
        link("in", "../../elsewhere");
    }
    let catalog = places.load();
    assert_eq!((catalog.broken(), catalog.warnings()), (&[][..], &[][..]));
    assert!(catalog.resolve("yes", None).is_ok());
    #[cfg(unix)]
    assert!(catalog.resolve("linked", None).is_ok());
}

/// DISC-7: a card directory that is none is a warning, and the other layers stand.
#[test]
fn an_unreadable_directory_is_a_warning() {
    let mut places = Places::new();
    places.write("user/agents", "a file");
    let catalog = places.load();
    assert_eq!(catalog.warnings().len(), 1);
    let text = &catalog.warnings()[0].text;
    assert!(
        text.starts_with(&format!("legion: cannot read the card directory {}", places.path("user/agents"))),
        "{text}"
    );
    assert!(catalog.resolve("worker", None).is_ok());
}

/// part of 02-T28, DISC-4, DISC-9
#[test]
fn an_untrusted_project_is_skipped() {
    let mut places = Places::new();
    places.roots.project_trusted = false;
    assert_eq!(places.roots.untrusted_notice(), None);
    fs::create_dir_all(places.roots.project_dir.join("agents")).expect("created");
    assert_eq!(places.roots.untrusted_notice(), None);
    places.card("project/.pi/agents/w.md", "worker", "Hostile.");
    assert_eq!(
        places.roots.untrusted_notice(),
        Some("legion: project not trusted; .pi/agents and .pi/settings.json are not used")
    );
    assert_eq!(effective(&mut places, "worker").0, CardSource::Bundled);
    places.roots.project_trusted = true;
    assert_eq!(places.roots.untrusted_notice(), None);
    assert_eq!(effective(&mut places, "worker").1, "Hostile.");
}

/// DISC-10: an edit, a new card and a removed one show in the next look; an unchanged disk gives the same catalog.
#[test]
fn changes_are_seen_and_nothing_else_is_read() {
    let mut places = Places::new();
    let settle = |path: &Path| {
        let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::options().write(true).open(path).expect("opened").set_modified(past).expect("set");
    };
    places.card("user/agents/a.md", "helper", "One.");
    settle(&places.dir.path().join("user/agents/a.md"));
    let first = places.load();
    assert!(Arc::ptr_eq(&first, &places.load()));
    places.card("user/agents/a.md", "helper", "Two.");
    assert_eq!(effective(&mut places, "helper").1, "Two.");
    // What was handed out stays as it was (DISC-10, last sentence).
    assert_eq!(first.resolve("helper", None).expect("a role").description, "One.");
    places.card("user/agents/b.md", "other", "New.");
    assert_eq!(effective(&mut places, "other").1, "New.");
    fs::remove_file(places.dir.path().join("user/agents/a.md")).expect("removed");
    assert_eq!(refusal(&places.load(), "helper"), "unknown agent 'helper'; available: centurion, other, scout, worker");
}

/// CARD-25, CARD-26, CARD-55, DISC-12, TEAM-8
#[test]
fn names_aliases_and_refusals() {
    let mut places = Places::new();
    places.write("user/agents/a.md", "---\nname: alpha\ndescription: x\nalias: one, scout\naliases: both\n---\nB.\n");
    places.write("user/agents/b.md", "---\nname: beta\ndescription: x\nalias: both\n---\nB.\n");
    places.write("user/agents/c.md", "---\nname: gamma\ndescription: x\ndisabled: true\nalias: off\n---\nB.\n");
    let catalog = places.load();
    assert_eq!(catalog.resolve(" one ", None).expect("an alias").name, "alpha");
    // A name beats an alias of the same word.
    assert_eq!(catalog.resolve("scout", None).expect("a name").source, CardSource::Bundled);
    assert_eq!(refusal(&catalog, "both"), "agent 'both' is ambiguous: it is an alias of 'alpha' and 'beta'");
    assert_eq!(refusal(&catalog, "gamma"), "agent 'gamma' is disabled");
    assert_eq!(refusal(&catalog, "off"), "agent 'gamma' is disabled");
    assert_eq!(refusal(&catalog, "nobody"), "unknown agent 'nobody'; available: alpha, beta, centurion, scout, worker");
    let own = catalog.resolve("one", Some("alpha")).expect_err("own role").message;
    assert_eq!(own, "a 'alpha' cannot dispatch its own role");
    for n in 0..30 {
        places.card(&format!("user/agents/many/{n}.md"), &format!("many-{n:02}"), "x");
    }
    let text = refusal(&places.load(), "nobody");
    assert!(text.ends_with("many-16, … 15 more"), "{text}");
}

/// part of 02-T4, CARD-69, CARD-80, CARD-81: one warning each, none on the second load.
#[test]
fn ignored_fields_warn_once() {
    let mut places = Places::new();
    let once = WarnOnce::default();
    let card = "---\nname: scout\ndescription: x\nkind: cursor\nphases: [{ id: a, next: [done] }]\n---\nB.\n";
    places.write("project/.pi/agents/s.md", card);
    let catalog = places.load();
    assert_eq!(catalog.resolve("scout", None).expect("it runs").kind, AgentKind::Pi);
    assert_eq!(
        once.fresh(catalog.warnings()),
        [
            "legion: 'scout' declares kind 'cursor': only kind 'pi' is supported; \
             the field is ignored and the role starts as pi",
            "phases on role 'scout' is ignored: only centurion can carry a phase machine",
        ]
    );
    places.write("project/.pi/agents/s.md", &format!("{card}\n"));
    assert!(once.fresh(places.load().warnings()).is_empty());
}

/// CARD-3: a card of more than a mebibyte, and a file that is none, are errors of that card alone.
#[cfg(unix)]
#[test]
fn big_and_special_files() {
    let mut places = Places::new();
    places.write("user/agents/big.md", &"x".repeat(MAX_CARD_BYTES * 2));
    let catalog = places.load();
    assert!(refusal(&catalog, "big").ends_with("big.md: a card may have at most 1 MiB"));
    assert_eq!(catalog.broken().len(), 1);
}
