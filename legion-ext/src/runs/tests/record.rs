use serde_json::{Value, json};

use super::*;

/// 03 §17: the names on disk, and nothing that is absent.
#[test]
fn a_record_has_its_names_and_omits_what_is_absent() {
    let (_root, dir) = fresh();
    let mut record = record(&dir);
    record.children.push(std::sync::Arc::new(child("w1", ChildState::Queued)));
    let json = serde_json::to_value(&record).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&json),
        [
            "version",
            "runId",
            "cwd",
            "createdAt",
            "updatedAt",
            "owner",
            "rootSessionFile",
            "herdr",
            "lineage",
            "budget",
            "children"
        ]
    );
    assert_eq!(keys(&json["herdr"]), ["supervisor", "node_id"]);
    assert_eq!(keys(&json["lineage"]), ["rootRunId", "rootRunDir", "depth"]);
    assert_eq!(
        keys(&json["children"][0]),
        ["name", "agent", "task", "state", "spawnMode", "sessionFile", "spawnedAt", "round", "renewals"]
    );
    assert_eq!(json["children"][0]["state"], "queued");
    for state in ChildState::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
}

/// 03-T20, ORC-150: fields of a newer build survive a read and a write, at every level.
#[test]
fn unknown_fields_are_kept() {
    let (_root, dir) = fresh();
    let mut json = serde_json::to_value(record(&dir)).unwrap();
    json["weather"] = json!({"rain": true});
    json["herdr"]["mood"] = json!("good");
    json["lineage"]["moon"] = json!(1);
    json["budget"]["coins"] = json!([1, 2]);
    let mut w1 = serde_json::to_value(child("w1", ChildState::Awaiting)).unwrap();
    w1["execution"] = json!({"status": "success", "stopReason": "stop"});
    w1["acceptance"] = json!({"level": "attested", "status": "pending", "pending": ["c1"]});
    w1["verdict"] = json!({"ok": true});
    w1["prior"] = w1.clone();
    w1["future"] = json!("field");
    json["children"] = json!([w1]);
    fs::write(dir.run_json(), json.to_string()).unwrap();

    let store = RunStore::new(dir.clone(), stored(&dir));
    store.update_child("w1", |child| child.round = 3).unwrap();
    store.flush().unwrap();
    let written: Value = serde_json::from_slice(&fs::read(dir.run_json()).unwrap()).unwrap();
    json["children"][0]["round"] = json!(3);
    json["updatedAt"] = written["updatedAt"].clone();
    assert_eq!(written, json);
}

/// 03-T20, ORC-149: what cannot be parsed is set aside, twice, and never lost.
#[test]
fn a_corrupt_record_is_set_aside() {
    let (_root, dir) = fresh();
    assert_eq!(read_run_record(&dir).unwrap(), ReadRecord::Missing);
    for (bytes, name) in
        [("{\"runId\": ", "run.json.corrupt"), ("[]", "run.json.corrupt.1"), ("", "run.json.corrupt.2")]
    {
        fs::write(dir.run_json(), bytes).unwrap();
        let ReadRecord::Quarantined { moved_to, reason } = read_run_record(&dir).unwrap() else {
            panic!("not quarantined");
        };
        assert_eq!(moved_to, dir.path().join(name));
        assert!(!reason.is_empty());
        assert_eq!(read_run_record(&dir).unwrap(), ReadRecord::Missing);
    }
    assert_eq!(fs::read_to_string(dir.path().join("run.json.corrupt")).unwrap(), "{\"runId\": ");
    assert_eq!(fs::read_to_string(dir.path().join("run.json.corrupt.1")).unwrap(), "[]");
}
