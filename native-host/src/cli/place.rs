//! Which run directory a command means.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use legion_ext::ledger::legion_db_path;
use legion_ext::runs::RunDir;

/// Why no run was found.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("not a run directory: {}", .0.display())]
    NotARun(PathBuf),
    #[error("no run under {}; name a run directory", .0.display())]
    NoRuns(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The root run that `run` means: a run directory, the id of a run of this project, or a project, whose newest run is
/// taken; this project's newest one when absent. A run of a nested child stands for the run of its root.
pub fn find(run: Option<&Path>, cwd: &Path) -> Result<PathBuf, PlaceError> {
    let Some(run) = run else { return newest(cwd) };
    let here = cwd.join(run);
    if is_dir(&here)? {
        return at(&here);
    }
    let by_id = RunDir::of(cwd, &run.to_string_lossy());
    let is_name = run.components().count() == 1;
    if is_name && is_dir(by_id.path())? { at(by_id.path()) } else { Err(PlaceError::NotARun(here)) }
}

fn at(dir: &Path) -> Result<PathBuf, PlaceError> {
    let dir = dir.canonicalize().map_err(|source| PlaceError::Io { path: dir.to_owned(), source })?;
    if has_ledger(&dir) {
        return Ok(dir);
    }
    if let Some(root) = root_of(&dir).filter(|root| has_ledger(root)) {
        return Ok(root);
    }
    let is_project = fs::read_dir(runs_of(&dir)).is_ok();
    if is_project {
        return newest(&dir);
    }
    // What cannot be looked into is not called something else.
    fs::read_dir(&dir).map_err(|source| PlaceError::Io { path: dir.clone(), source })?;
    Err(PlaceError::NotARun(dir))
}

/// The newest root run of a project, by the last change of its record.
fn newest(project: &Path) -> Result<PathBuf, PlaceError> {
    let runs = runs_of(project);
    let entries = match fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(PlaceError::NoRuns(runs)),
        Err(source) => return Err(PlaceError::Io { path: runs, source }),
    };
    let dirs = entries.flatten().map(|entry| entry.path()).filter(|dir| has_ledger(dir));
    dirs.max_by_key(|dir| changed_at(dir)).ok_or(PlaceError::NoRuns(runs))
}

fn changed_at(dir: &Path) -> SystemTime {
    let time = |path: PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    time(RunDir::at(dir).run_json()).or_else(|| time(legion_db_path(dir))).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The run of the root that a nested child's record names.
fn root_of(dir: &Path) -> Option<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Record {
        lineage: Lineage,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Lineage {
        root_run_dir: PathBuf,
        root_run_id: String,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Own {
        run_id: String,
    }
    let json = fs::read(RunDir::at(dir).run_json()).ok()?;
    let record: Record = serde_json::from_slice(&json).ok()?;
    // A root run without its ledger is damaged; what its record names is another directory's run, were it moved or copied.
    if serde_json::from_slice::<Own>(&json).is_ok_and(|own| own.run_id == record.lineage.root_run_id) {
        return None;
    }
    // Runs of one tree lie side by side, also where the project was moved.
    let beside = RunDir::at(dir).beside(&record.lineage.root_run_id);
    let beside = Some(beside.path().to_owned()).filter(|beside| has_ledger(beside));
    beside.or(Some(record.lineage.root_run_dir))
}

fn runs_of(project: &Path) -> PathBuf {
    let any = RunDir::of(project, "run");
    any.path().parent().expect("a run is in a directory").to_owned()
}

fn has_ledger(dir: &Path) -> bool {
    legion_db_path(dir).is_file()
}

/// Whether it is a directory; a path that leads nowhere is none, one that may not be followed is an error.
fn is_dir(path: &Path) -> Result<bool, PlaceError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(source) => Err(PlaceError::Io { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(project: &Path, id: &str, at: u64) -> PathBuf {
        let dir = RunDir::of(project, id);
        fs::create_dir_all(dir.path()).unwrap();
        fs::write(legion_db_path(dir.path()), "").unwrap();
        fs::write(dir.run_json(), "{}").unwrap();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at);
        fs::File::options().write(true).open(dir.run_json()).unwrap().set_modified(time).unwrap();
        dir.path().canonicalize().unwrap()
    }

    /// CLI-2
    #[test]
    fn a_run_is_found_by_directory_id_project_or_age() {
        let project = tempfile::tempdir().unwrap();
        let cwd = project.path();
        assert!(matches!(find(None, cwd), Err(PlaceError::NoRuns(_))));
        let (old, new) = (run(cwd, "r-old", 1_000), run(cwd, "r-new", 2_000));
        assert_eq!(find(None, cwd).unwrap(), new);
        assert_eq!(find(Some(Path::new("r-old")), cwd).unwrap(), old);
        assert_eq!(find(Some(&old), Path::new("/")).unwrap(), old);
        assert_eq!(find(Some(cwd), Path::new("/")).unwrap(), new);
        assert_eq!(find(Some(Path::new(".")), cwd).unwrap(), new);
    }

    /// CLI-2: a nested child's run has no ledger of its own.
    #[test]
    fn a_nested_run_stands_for_its_root() {
        let project = tempfile::tempdir().unwrap();
        let root = run(project.path(), "r-root", 1_000);
        let nested = RunDir::of(project.path(), "r-root-a");
        fs::create_dir_all(nested.path()).unwrap();
        let record = r#"{ "lineage": { "rootRunId": "r-root", "rootRunDir": "/elsewhere/r-root" } }"#;
        fs::write(nested.run_json(), record).unwrap();
        assert_eq!(find(Some(nested.path()), Path::new("/")).unwrap(), root);
    }

    /// 11, bad input
    #[test]
    fn what_is_no_run_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [dir.path(), &file, &dir.path().join("none"), Path::new("r-none")] {
            let error = find(Some(path), dir.path()).unwrap_err().to_string();
            assert!(error.starts_with("not a run directory: /"), "{error}");
        }
    }

    /// A copy that lost its ledger must not show the run it was copied from.
    #[test]
    fn a_root_run_without_its_ledger_is_no_other_run() {
        let place = tempfile::tempdir().unwrap();
        let original = run(place.path(), "r-root", 1);
        let copy = place.path().join("copy");
        std::fs::create_dir_all(&copy).unwrap();
        let lineage = serde_json::json!({ "rootRunId": "r-root", "rootRunDir": original });
        let record = serde_json::json!({ "runId": "r-root", "lineage": lineage });
        std::fs::write(copy.join("run.json"), record.to_string()).unwrap();
        assert!(root_of(&copy).is_none());
    }
}
