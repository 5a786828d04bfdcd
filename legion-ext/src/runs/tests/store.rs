use super::*;
use crate::clock;

/// 03-T36, ORC-148: a burst of changes makes a few writes, whatever its size, and no change waits for one.
#[test]
fn a_burst_of_launches_makes_a_few_writes() {
    let (_root, dir) = fresh();
    let store = RunStore::new(dir.clone(), record(&dir));
    let begin = clock::instant();
    for n in 0..1000 {
        store.put_child(child(&format!("w{n}"), ChildState::Launching));
        store.update(|record| record.budget.spawned += 1);
    }
    for n in 0..1000 {
        store.update_child(&format!("w{n}"), |child| child.state = ChildState::Working).unwrap();
    }
    let millis = (clock::instant() - begin).as_millis() as u64;
    store.flush().unwrap();
    // One at once, one per pause of a tenth of a second, one for the flush, one that was under way.
    assert!(store.writes() <= 3 + millis / 100, "{} writes in {millis} ms", store.writes());
    let written = stored(&dir);
    assert_eq!((written.children.len(), written.budget.spawned), (1000, 1000));
    assert!(written.children.iter().all(|child| child.state == ChildState::Working));
    assert_eq!(*store.record(), written);
}

/// ORC-148: a change is written without anybody asking for it.
#[test]
fn changes_reach_the_file_by_themselves() {
    let (_root, dir) = fresh();
    let store = RunStore::new(dir.clone(), record(&dir));
    assert!(!dir.run_json().exists());
    store.put_child(child("w1", ChildState::Queued));
    let deadline = clock::instant() + std::time::Duration::from_secs(10);
    while store.writes() == 0 || !dir.run_json().exists() {
        assert!(clock::instant() < deadline, "nothing was written");
        std::thread::yield_now();
    }
    assert_eq!(stored(&dir).children[0].name, "w1");
    assert_eq!(mode(&dir.run_json()), 0o600);
}

#[test]
fn children_are_found_replaced_and_taken_out() {
    let (_root, dir) = fresh();
    let mut first = record(&dir);
    first.children = ["a", "b", "c"].map(|name| std::sync::Arc::new(child(name, ChildState::Working))).to_vec();
    let store = RunStore::new(dir, first);
    let before = store.record();
    store.put_child(child("b", ChildState::Retired));
    assert_eq!(store.child("b").unwrap().state, ChildState::Retired);
    assert_eq!(store.remove_child("a").unwrap().name, "a");
    assert_eq!(store.update_child("a", |_| {}), None);
    assert_eq!(store.update_child("c", |child| child.round = 2).unwrap().round, 2);
    let names: Vec<_> = store.record().children.iter().map(|child| child.name.clone()).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(before.children.len(), 3, "a record that was handed out does not change");
    assert_eq!(before.child("b").unwrap().state, ChildState::Working);
}

/// 03-T20, ORC-153: a write that fails is reported with the path and leaves the former file whole; the next one heals.
#[test]
fn a_failed_write_leaves_the_former_file() {
    let (_root, dir) = fresh();
    let store = RunStore::new(dir.clone(), record(&dir));
    store.flush().unwrap();
    let before = fs::read(dir.run_json()).unwrap();
    // The temporary file cannot be made where a directory of its name is: as on a full disk, nothing gets through.
    let blocked = dir.path().join("run.json.tmp");
    fs::create_dir(&blocked).unwrap();
    store.put_child(child("w1", ChildState::Queued));
    let error = store.flush().unwrap_err();
    assert!(error.to_string().starts_with(&format!("failed to write {}: ", dir.run_json().display())), "{error}");
    assert_eq!(store.last_error(), Some(error));
    assert_eq!(fs::read(dir.run_json()).unwrap(), before);
    fs::remove_dir(&blocked).unwrap();
    store.flush().unwrap();
    assert_eq!(store.last_error(), None);
    assert_eq!(stored(&dir).children.len(), 1);
}

/// 03-T20: a crash between the temporary file and the rename leaves the former record.
#[test]
fn a_crash_before_the_rename_leaves_the_former_record() {
    let (_root, dir) = fresh();
    let store = RunStore::new(dir.clone(), record(&dir));
    store.flush().unwrap();
    fs::write(dir.path().join("run.json.tmp"), "{\"half\":").unwrap();
    assert_eq!(stored(&dir), *store.record());
    store.update(|record| record.budget.spawned = 7);
    store.flush().unwrap();
    assert_eq!(stored(&dir).budget.spawned, 7);
    assert!(!dir.path().join("run.json.tmp").exists());
}

/// A flush beside changes of other threads ends, and misses none of its own.
#[test]
fn flushes_and_changes_of_many_threads_agree() {
    let (_root, dir) = fresh();
    let store = RunStore::new(dir.clone(), record(&dir));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, dir) = (&store, &dir);
            scope.spawn(move || {
                for n in 0..5 {
                    let name = format!("t{thread}-{n}");
                    store.put_child(child(&name, ChildState::Working));
                    store.flush().unwrap();
                    assert!(stored(dir).child(&name).is_some());
                }
            });
        }
    });
    assert_eq!(stored(&dir).children.len(), 20);
}
