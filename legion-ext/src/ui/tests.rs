use std::path::PathBuf;

use proptest::prelude::*;

use super::{
    agents::{Listing, list_text},
    records::{EventRecord, MailRecord, event_line, mail_line, usage_line, usage_total},
    status::status_text,
    tree::{TreeQuery, select, tree_text},
    *,
};
use crate::{
    core::{caps, liveness::Liveness, mail::Delivery, outcome::ExecutionStatus},
    orchestrator::report::{ChildView, NodeView, Owner, Projection, RoleView},
};

const ESC: char = '\u{1b}';

fn child(name: &str) -> ChildView {
    ChildView {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        node_id: format!("root/{name}"),
        state: "working".to_owned(),
        liveness: Liveness::Live,
        supervisor: "inprocess".to_owned(),
        owner: Owner::Live,
        quiet_ms: Some(4_000),
        turn: Some(3),
        tool: Some(("bash".to_owned(), 65_000)),
        model: Some("cb/x:high".to_owned()),
        usage: Usage { input: 12_345, output: 987, cost_usd: 0.042, ..Usage::default() },
        session_file: Some(PathBuf::from(format!("/p/.pi-subagents/runs/r-1/{name}.jsonl"))),
        execution: Some(ExecutionStatus::Running),
        reason: None,
        delivered: false,
        round: 0,
    }
}

fn dead(name: &str) -> ChildView {
    ChildView {
        state: "failed".to_owned(),
        liveness: Liveness::Dead,
        owner: Owner::PidGone,
        execution: Some(ExecutionStatus::Failed),
        reason: Some("No API key found for openai\u{1b}[31m".to_owned()),
        ..child(name)
    }
}

fn node(id: &str, state: &str) -> NodeView {
    NodeView {
        id: id.to_owned(),
        parent_id: id.rsplit_once('/').map(|(parent, _)| parent.to_owned()),
        name: id.rsplit('/').next().unwrap_or(id).to_owned(),
        role: "worker".to_owned(),
        state: state.to_owned(),
        liveness: if state == "running" { Liveness::Live } else { Liveness::Dead },
        phase: None,
        depth: u32::try_from(id.matches('/').count()).unwrap(),
        model: Some("cb/x".to_owned()),
        usage: Usage::default(),
    }
}

fn tree() -> Vec<NodeView> {
    vec![
        node("root", "running"),
        node("root/a", "running"),
        node("root/b", "failed"),
        node("root/a/c", "running"),
        node("root/a/d", "settled"),
        node("root/a/c/e", "running"),
    ]
}

fn overview() -> Projection {
    Projection { children: vec![child("a"), dead("b")], tree: tree(), ..Projection::default() }
}

/// STA-2, STA-3, STA-4, STA-4a, STA-5, part of 09-T11
#[test]
fn the_overview_groups_by_liveness() {
    insta::assert_snapshot!(status_text(&overview()), @r"
    Status · 1 live child · 3 live in tree
    ● a (worker) state=working supervisor=inprocess
      owner: live
      quiet: 4s since last event
      turn: 3 · bash 1m05s
      model: cb/x:high
      usage: ↑12.3k ↓987 · $0.04
      session: /p/.pi-subagents/runs/r-1/a.jsonl
      ↳ c (worker) state=running
        ↳ e (worker) state=running
    Dead · 1
    ✗ b (worker) state=failed supervisor=inprocess
      owner: dead (pid gone)
      model: cb/x:high
      usage: ↑12.3k ↓987 · $0.04
      session: /p/.pi-subagents/runs/r-1/b.jsonl
      reason: No API key found for openai
      Hint: run /login openai (or set its API key) and launch again.
    ");
    let fixed = overview();
    let first = status_text(&fixed);
    assert!((0..100).all(|_| status_text(&fixed) == first));
}

/// STA-2, STA-3, part of 09-T11: an owner that is gone leaves no live child.
#[test]
fn dead_children_are_not_live_and_collected_ones_go() {
    let projection = Projection { children: vec![dead("b")], tree: Vec::new(), ..Projection::default() };
    let text = status_text(&projection);
    assert!(text.starts_with("Status · 0 live children\nDead · 1\n✗ b "), "{text}");

    let read = ChildView { delivered: true, ..dead("b") };
    let unknown = ChildView { liveness: Liveness::Unknown, owner: Owner::Unknown, ..child("u") };
    let projection = Projection { children: vec![read, unknown], ..Projection::default() };
    let text = status_text(&projection);
    assert!(!text.contains("Dead"), "{text}");
    assert!(text.contains("Unknown · 1\n● u "), "{text}");
    let all = status_text(&Projection { all: true, ..projection });
    assert!(all.contains("Dead · 1\n✗ b ") && all.contains("Unknown · 1"), "{all}");

    assert_eq!(status_text(&Projection::default()), "No live children");
}

/// STA-5: a queued child has neither a quiet nor a session line.
#[test]
fn queued_children_show_no_activity() {
    let queued = ChildView { state: "queued".to_owned(), ..child("q") };
    let text = status_text(&Projection { children: vec![queued], ..Projection::default() });
    assert!(text.contains("◌ q (worker) state=queued supervisor=inprocess"), "{text}");
    assert!(!text.contains("quiet:") && !text.contains("turn:") && !text.contains("session:"), "{text}");
}

/// STA-4a, STA-9: one child has all its descendants and the tail of its transcript, within 16 KiB.
#[test]
fn one_child_is_shown_whole() {
    let mut projection = Projection { single: true, transcript: Some(vec!["user: go".to_owned(); 3]), ..overview() };
    projection.children.truncate(1);
    let text = status_text(&projection);
    assert!(text.starts_with("● a (worker)"), "{text}");
    assert!(text.contains("  ↳ d (worker) state=settled\nuser: go\nuser: go\nuser: go"), "{text}");

    let lines = (0..500).map(|n| format!("assistant: {n} {}\u{1b}[2J", "x".repeat(100))).collect();
    projection.transcript = Some(lines);
    let text = status_text(&projection);
    let tail: Vec<&str> = text.lines().filter(|line| line.starts_with("assistant:")).collect();
    assert!(tail.iter().map(|line| line.len() + 1).sum::<usize>() <= caps::TRANSCRIPT_BYTES);
    assert!(tail.last().unwrap().starts_with("assistant: 499 ") && !text.contains('\u{1b}'));
}

/// LTL-3
#[test]
fn a_tree_is_indented_and_starts_where_asked() {
    let tree = tree();
    let show = |query: &TreeQuery| tree_text(&select(&tree, query).unwrap()).0;
    insta::assert_snapshot!(show(&TreeQuery::default()), @r"
    ● root (worker) running cb/x
      ● a (worker) running cb/x
        ● c (worker) running cb/x
          ● e (worker) running cb/x
        ✓ d (worker) settled cb/x
      ✗ b (worker) failed cb/x
    ");
    let query = TreeQuery { node: Some("c".into()), ..TreeQuery::default() };
    assert_eq!(show(&query), "● c (worker) running cb/x\n  ● e (worker) running cb/x");
    let query = TreeQuery { depth: 1, active_only: true, ..TreeQuery::default() };
    assert_eq!(show(&query), "● root (worker) running cb/x\n  ● a (worker) running cb/x");

    let outside = select(&tree[3..], &TreeQuery { node: Some("b".into()), ..TreeQuery::default() }).unwrap_err();
    assert_eq!(outside.message, "node 'b' is outside your subtree");
    let mut twins = tree.clone();
    twins.push(node("root/b/c", "running"));
    let query = TreeQuery { node: Some("c".into()), ..TreeQuery::default() };
    assert_eq!(select(&twins, &query).unwrap_err().message, "'c' is ambiguous: root/a/c, root/b/c");
}

/// LTL-3: a finished node with a live one below it keeps its place.
#[test]
fn the_active_tree_keeps_its_shape() {
    let tree =
        [node("root", "running"), node("root/a", "settled"), node("root/a/b", "running"), node("root/c", "retired")];
    let active = select(&tree, &TreeQuery { active_only: true, ..TreeQuery::default() }).unwrap();
    let names: Vec<&str> = active.iter().map(|one| one.node.name.as_str()).collect();
    assert_eq!(names, ["root", "a", "b"]);
}

#[test]
fn a_loop_of_parents_ends() {
    let mut tree = vec![node("a", "running"), node("b", "running")];
    tree[0].parent_id = Some("b".into());
    tree[1].parent_id = Some("a".into());
    assert_eq!(select(&tree, &TreeQuery::default()).unwrap().len(), 2);
}

/// CAP-2, LTL-3: finished nodes go first, then the deepest, and the last line counts them.
#[test]
fn a_large_tree_is_cut_by_its_rule() {
    let mut tree = vec![node("root", "running")];
    for n in 0..900 {
        tree.push(node(&format!("root/w{n}"), "running"));
        tree.push(node(&format!("root/w{n}/deep"), "running"));
        tree.push(node(&format!("root/w{n}/done"), "settled"));
    }
    let placed = select(&tree, &TreeQuery::default()).unwrap();
    let (text, shown) = tree_text(&placed);
    assert!(text.len() <= caps::RESULT_BYTES && text.lines().count() <= caps::RESULT_LINES);
    assert!(shown.iter().all(|node| node.name != "done"));
    assert_eq!(shown.iter().filter(|node| node.name.starts_with('w')).count(), 900);
    let left_out = tree.len() - shown.len();
    assert!(text.ends_with(&format!("… {left_out} more nodes (use node, depth or show)")), "{left_out}");
}

/// STA-4a
#[test]
fn a_large_status_keeps_to_one_result() {
    let children = (0..700).map(|n| child(&format!("w{n}"))).collect();
    let text = status_text(&Projection { children, ..Projection::default() });
    assert!(text.len() <= caps::RESULT_BYTES && text.lines().count() <= caps::RESULT_LINES);
    assert!(text.starts_with("Status · 700 live children\n"));
    assert!(text.lines().last().unwrap().ends_with("more nodes (use node, depth or show)"));
}

/// CMD-10
#[test]
fn roles_and_children_are_listed() {
    let role = |name: &str, flags: &[&'static str]| RoleView {
        name: name.to_owned(),
        source: "bundled",
        description: format!("Does\n{name}."),
        model: "cb/x:high".to_owned(),
        model_source: Some("card"),
        flags: flags.to_vec(),
    };
    let roles = [
        role("scout", &["utility", "read-only"]),
        RoleView { model: "(agent CLI default)".to_owned(), model_source: None, ..role("worker", &[]) },
    ];
    let broken = ["/p/bad.md: no frontmatter".to_owned()];
    let listing = Listing { roles: &roles, team: "default", broken: &broken, children: &[child("a")] };
    insta::assert_snapshot!(list_text(&listing), @r"
    Agents · 2 available · team default
    scout [bundled] cb/x:high (card) utility read-only
      Does scout.
    worker [bundled] (agent CLI default)
      Does worker.
    ✗ /p/bad.md: no frontmatter

    Children · 1
    a (worker) state=working
    ");
    let none = list_text(&Listing { children: &[], broken: &[], ..listing });
    assert!(!none.contains("Children"), "{none}");
}

/// CLI-5
#[test]
fn records_are_one_line_each() {
    let mail = MailRecord {
        id: 7,
        created_at: 0,
        from: "root/a",
        to: "root",
        kind: "question",
        urgency: "action-needed",
        state: Delivery::Accepted,
        subject: "which\nbranch?",
    };
    assert_eq!(
        mail_line(&mail),
        "#7 1970-01-01T00:00:00.000Z root/a → root question · action-needed ACCEPTED: which branch?"
    );
    let event = EventRecord { id: 1, ts: 0, node: "root/a", kind: "node_launched", data: "{}" };
    assert_eq!(event_line(&event), "1 1970-01-01T00:00:00.000Z root/a node_launched {}");
    let usage = Usage { input: 1_500, output: 20, ..Usage::default() };
    assert_eq!(usage_line("root/a", Some("cb/x"), &usage), "root/a cb/x ↑1.5k ↓20");
    assert_eq!(usage_line("root/b", None, &Usage::default()), "root/b - -");
    assert_eq!(usage_total([usage, usage]), "total ↑3.0k ↓40");
}

/// LED-72: every status has a sign, and a label's addition does not hide it.
#[test]
fn labels_have_their_sign() {
    for (label, want) in
        [("working", "●"), ("idle · holds its slot", "○"), ("queued(3)", "◌"), ("exited", "■"), ("new", "?")]
    {
        assert_eq!(label_glyph(label), want, "{label}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// CAP-2, part of 09-T11: whatever the tree and its texts, one result holds it, in clean text.
    #[test]
    fn texts_keep_to_one_result(
        parents in prop::collection::vec(0usize..40, 1..60),
        words in prop::collection::vec("(\\PC|\u{1b}|\n){0,40}", 1..20),
    ) {
        let mut tree = vec![node("root", "running")];
        for (n, parent) in parents.iter().enumerate() {
            let parent = tree[parent % tree.len()].id.clone();
            let word = &words[n % words.len()];
            let mut new = node(&format!("{parent}/n{n}"), if n % 3 == 0 { "settled" } else { "running" });
            (new.name, new.role) = (word.repeat(n % 50), word.clone());
            tree.push(new);
        }
        let placed = select(&tree, &TreeQuery::default()).unwrap();
        prop_assert_eq!(placed.len(), tree.len());
        let (text, _) = tree_text(&placed);
        prop_assert!(text.len() <= caps::RESULT_BYTES && text.lines().count() <= caps::RESULT_LINES);
        prop_assert!(!text.contains(ESC));

        let children = (0..tree.len()).map(|n| ChildView { node_id: tree[n].id.clone(), reason: Some(words[0].clone()), ..dead("x") });
        let text = status_text(&Projection { children: children.collect(), tree: tree.clone(), ..Projection::default() });
        prop_assert!(text.len() <= caps::RESULT_BYTES && text.lines().count() <= caps::RESULT_LINES);
        prop_assert!(!text.contains(ESC));
    }
}
