use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::ledger::{LegionDb, OpenMode, artifacts as ledger_results, legion_db_path, open_legion_db, settle};
use crate::runs::artifacts::{OutputError, PageError, copy_output, read_page, write_artifact};

/// ORC-154, ORC-155: a round is written once; one that a crash left is taken if it is this text.
#[test]
fn rounds_are_never_rewritten() {
    let (_root, dir) = fresh();
    let first = write_artifact(&dir, "w1", 0, "one").unwrap();
    assert_eq!((first.round, first.bytes, first.path.clone()), (1, 3, dir.artifact("w1", 1)));
    assert_eq!(write_artifact(&dir, "w1", 1, "one").unwrap(), first);
    let second = write_artifact(&dir, "w1", 1, "two").unwrap();
    assert_eq!(second.round, 2);
    assert_eq!(write_artifact(&dir, "w1", 1, "six").unwrap().round, 3);
    assert_eq!(fs::read_to_string(&first.path).unwrap(), "one");
    let empty = write_artifact(&dir, "w1", 4, "").unwrap();
    assert_eq!((empty.round, empty.bytes), (4, 0));
}

/// ORC-158: what could not be written uses up no round.
#[test]
fn a_failed_write_leaves_no_round() {
    let (_root, dir) = fresh();
    fs::write(dir.path().join("artifacts"), "in the way").unwrap();
    assert!(write_artifact(&dir, "w1", 1, "one").is_err());
    fs::remove_file(dir.path().join("artifacts")).unwrap();
    assert_eq!(write_artifact(&dir, "w1", 1, "one").unwrap().round, 1);
}

fn ledger(dir: &RunDir) -> LegionDb {
    let db = open_legion_db(&legion_db_path(dir.path()), OpenMode::RootCreate).unwrap();
    db.write(|tx| settle::open_root(tx, "r-0000000a", None, 1)).unwrap();
    db
}

/// Part of 03-T21, ORC-154 … ORC-156, LED-77: rounds stay as they are, paging settles the debt only at the end, and nothing is
/// owed a second time.
#[test]
fn paging_to_the_end_settles_a_result() {
    let (_root, dir) = fresh();
    let db = ledger(&dir);
    let text = "line of text\n".repeat(1000);
    let file = write_artifact(&dir, "root", 1, &text).unwrap();
    let path = file.path.to_string_lossy().into_owned();
    let new = ledger_results::NewArtifact {
        node_id: "root",
        parent_id: "root",
        name: "root",
        round: file.round,
        path: &path,
        bytes: file.bytes,
    };
    let id = db.write(|tx| ledger_results::register(tx, &new, 1)).unwrap();
    let mut read = String::new();
    let mut offset = 0;
    loop {
        assert_eq!(db.undelivered("root").unwrap().len(), 1);
        let page = read_page(&file.path, offset, 5000).unwrap();
        read.push_str(&page.text);
        db.write(|tx| ledger_results::record_read(tx, id, "root", page.from, page.to, 2)).unwrap();
        offset = page.to;
        if page.to == page.total {
            break;
        }
    }
    assert_eq!(read, text);
    assert_eq!(db.undelivered("root").unwrap(), []);
    // A page further on, or the first one again, brings no debt back.
    db.write(|tx| ledger_results::record_read(tx, id, "root", 0, 10, 3)).unwrap();
    assert_eq!(db.undelivered("root").unwrap(), []);
    assert_eq!(fs::read_to_string(&file.path).unwrap(), text);
    let later = write_artifact(&dir, "root", 1, "another round").unwrap();
    assert_eq!(later.round, 2);
    assert_eq!(fs::read_to_string(&file.path).unwrap(), text);
}

/// Bad input of part 06: a registered file that is gone.
#[test]
fn a_missing_artifact_is_named() {
    let (_root, dir) = fresh();
    let path = dir.artifact("w1", 1);
    let error = read_page(&path, 0, 10).unwrap_err();
    assert!(matches!(error, PageError::Missing(_)));
    assert_eq!(error.to_string(), format!("artifact missing: {}", path.display()));
}

#[test]
fn pages_never_cut_a_character() {
    let (_root, dir) = fresh();
    let path = write_artifact(&dir, "w1", 1, "aé漢🦀z").unwrap().path;
    let page = |offset, limit| {
        let page = read_page(&path, offset, limit).unwrap();
        (page.text, page.from, page.to)
    };
    assert_eq!(page(0, 2), ("a".into(), 0, 1));
    assert_eq!(page(0, 3), ("aé".into(), 0, 3));
    assert_eq!(page(2, 1), ("é".into(), 1, 3), "an offset inside a character moves to its beginning");
    assert_eq!(page(9, 1), ("🦀".into(), 6, 10), "at least one character");
    assert_eq!(page(10, 100), ("z".into(), 10, 11));
    assert_eq!(page(11, 100), (String::new(), 11, 11));
    assert_eq!(page(999, 100), (String::new(), 11, 11));
}

proptest! {
    /// Pages of any size join on to each other and give the whole.
    #[test]
    fn pages_join(text in "[a-zé漢🦀\n]{0,60}", limit in 1_usize..9) {
        let (_root, dir) = fresh();
        let path = write_artifact(&dir, "w1", 1, &text).unwrap().path;
        let mut whole = String::new();
        let mut offset = 0;
        loop {
            let page = read_page(&path, offset, limit).unwrap();
            prop_assert_eq!(page.from, offset);
            prop_assert!(page.to > offset || page.to == page.total);
            whole.push_str(&page.text);
            offset = page.to;
            if page.to == page.total {
                break;
            }
        }
        prop_assert_eq!(whole, text);
    }
}

/// CARD-29
#[test]
fn outputs_are_copied_below_out() {
    let (_root, dir) = fresh();
    let path = copy_output(&dir, "report.md", "one").unwrap();
    assert_eq!(fs::read_to_string(dir.out().join("report.md")).unwrap(), "one");
    assert_eq!(copy_output(&dir, "./a/../report.md", "two").unwrap(), path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    copy_output(&dir, "deep/er/漢.md", "three").unwrap();
    assert_eq!(fs::read_to_string(dir.out().join("deep/er/漢.md")).unwrap(), "three");
    let left_over: Vec<_> = fs::read_dir(dir.out()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left_over.len(), 2, "{left_over:?}");
    for bad in ["", ".", "/etc/passwd", "../run.json", "a/../../run.json", "a/..", "a\0b"] {
        let error = copy_output(&dir, bad, "x").unwrap_err();
        assert!(matches!(error, OutputError::NotBelowOut(_)), "{bad}: {error}");
    }
}

/// 03-T30, ORC-157, ORC-176: what a run makes is its owner's alone (`owner::a_run_is_its_owners_alone` for the rest),
/// and a symlink that leaves the run directory is refused, at any place of the path, with nothing made behind it.
#[test]
fn symlinks_out_of_the_run_are_refused() {
    let (root, dir) = fresh();
    assert_eq!((mode(dir.path()), mode(&write_artifact(&dir, "w1", 1, "x").unwrap().path)), (0o700, 0o600));
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "precious").unwrap();
    copy_output(&dir, "a/b.md", "x").unwrap();
    let out = dir.out();
    symlink(&outside, out.join("away")).unwrap();
    symlink(outside.join("file"), out.join("link.md")).unwrap();
    symlink(root.path().join("nowhere"), out.join("dangling")).unwrap();
    for output in ["away/new.md", "away/sub/new.md", "link.md", "dangling", "dangling/new.md"] {
        let error = copy_output(&dir, output, "overwritten").unwrap_err();
        assert!(matches!(error, OutputError::LeavesRun(_)), "{output}: {error}");
    }
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "precious");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(!root.path().join("nowhere").exists());

    // Inside the run a link may be used; the file it names is replaced by the link's own place, not written through.
    symlink(out.join("a"), out.join("here")).unwrap();
    copy_output(&dir, "here/c.md", "c").unwrap();
    assert_eq!(fs::read_to_string(out.join("a/c.md")).unwrap(), "c");

    // `out` itself.
    let (root, dir) = fresh();
    fs::create_dir(root.path().join("elsewhere")).unwrap();
    symlink(root.path().join("elsewhere"), dir.out()).unwrap();
    assert!(matches!(copy_output(&dir, "x.md", "x"), Err(OutputError::LeavesRun(_))));
}
