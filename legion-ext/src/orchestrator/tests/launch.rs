//! Launch lines, names, gates and starts.

use super::*;

/// ORC-16 … ORC-21, part of 03-T1
#[tokio::test]
async fn a_launch_is_collected_and_the_child_recycled() {
    let world = World::new();
    let root = world.root();
    let report = root.start_async(vec![item("worker", Some("w"))]).await;
    assert_eq!(lines(&report), ["> w (worker)"]);
    assert!(report.background && report.refused.is_none());
    assert_eq!(root.status_of("root/w"), "running");
    let child = world.fake.prompted("w").await;
    child.reply("all green");
    let report = root.collect_one("w").await;
    assert_eq!(lines(&report), ["success w r1: all green"]);
    assert_eq!(root.status_of("root/w"), "settled");
    assert!(world.fake.living().is_empty());
    assert_eq!(*world.told.lock().unwrap(), ["w"]);
}
