use proptest::prelude::*;

use super::*;

fn budget(calls: Option<(u32, Option<u32>)>, turns: Option<(u32, Option<u32>)>) -> GuardIdentity {
    let budget = ChildBudget {
        max_tool_calls: calls.map(|(hard, _)| hard),
        tool_soft: calls.and_then(|(_, soft)| soft),
        max_turns: turns.map(|(hard, _)| hard),
        turn_soft: turns.and_then(|(_, soft)| soft),
        ..ChildBudget::default()
    };
    GuardIdentity { budget, ..GuardIdentity::default() }
}

fn call(tool: &str) -> ToolCall<'_> {
    ToolCall { tool, bash: None, cwd: Path::new("/srv") }
}

fn bash(command: &str, timeout: Timeout) -> ToolCall<'_> {
    ToolCall { tool: BASH, bash: Some(BashInput { command, timeout }), cwd: Path::new("/srv") }
}

fn allow(nudge: Option<&str>) -> GuardDecision {
    GuardDecision::Allow { timeout_s: None, nudge: nudge.map(str::to_owned) }
}

fn refused(reason: &str, terminate: bool) -> GuardDecision {
    GuardDecision::Refuse { reason: reason.to_owned(), terminate, nudge: None }
}

/// GUARD-41, GUARD-42, GUARD-90, GUARD-91, part of 10-T8
#[test]
fn the_tool_budget_warns_once_and_then_refuses() {
    let id = budget(Some((5, Some(4))), None);
    let mut state = GuardState::default();
    on_agent_start(&mut state);
    for n in 1..=5 {
        let nudge = (n == 4).then_some(
            "[child-guard] 4 of 5 tool calls used in this round. Finish the current step and report; calls after 5 are \
             refused.",
        );
        assert_eq!(on_tool_call(&mut state, &id, &call("read")), allow(nudge), "call {n}");
    }
    for _ in 0..3 {
        assert_eq!(
            on_tool_call(&mut state, &id, &call("grep")),
            refused(
                "tool budget exhausted (5/5 tool calls in this round); 'grep' was not run. Report what is done and what \
                 remains.",
                true
            )
        );
    }
}

/// GUARD-44, 10-T10
#[test]
fn a_block_list_refuses_only_its_tools() {
    let mut id = budget(Some((2, None)), None);
    id.budget.tool_block = ToolBlock::Names(vec!["grep".to_owned()]);
    let mut state = GuardState::default();
    on_agent_start(&mut state);
    for tool in ["grep", "read", "read"] {
        assert_eq!(on_tool_call(&mut state, &id, &call(tool)), allow(None));
    }
    let reason = "tool budget exhausted (2/2 tool calls in this round); 'grep' was not run. Report what is done and what remains.";
    assert_eq!(on_tool_call(&mut state, &id, &call("grep")), refused(reason, false));
    assert_eq!(on_tool_call(&mut state, &id, &call("read")), allow(None));
}

/// GUARD-50, GUARD-51, GUARD-52, GUARD-92, GUARD-93, part of 10-T11
#[test]
fn the_turn_budget_warns_once_and_refuses_in_the_last_turn() {
    let id = budget(None, Some((3, Some(2))));
    let mut state = GuardState::default();
    on_agent_start(&mut state);
    let soft = "[child-guard] turn 2 of 3 in this round. Finish and report; tool calls are refused from turn 3 on.";
    for (turn, nudge) in [(1, None), (2, Some(soft.to_owned()))] {
        assert_eq!(nudge_of(on_turn_start(&mut state, &id)), nudge, "turn {turn}");
        assert_eq!(on_tool_call(&mut state, &id, &call("read")), allow(None), "turn {turn}");
    }
    for turn in 3..=4 {
        assert_eq!(on_turn_start(&mut state, &id), TurnAction::Go);
        let reason = format!(
            "turn budget exhausted (turn {turn} of 3); 'read' was not run. Report what is done and what remains."
        );
        assert_eq!(on_tool_call(&mut state, &id, &call("read")), refused(&reason, true));
    }
}

/// GUARD-54
#[test]
fn with_both_budgets_spent_the_turns_are_named() {
    let id = budget(Some((1, None)), Some((2, None)));
    let mut state = GuardState::default();
    on_agent_start(&mut state);
    assert_eq!(on_turn_start(&mut state, &id), TurnAction::Go);
    assert_eq!(on_tool_call(&mut state, &id, &call("read")), allow(None));
    assert_eq!(on_turn_start(&mut state, &id), TurnAction::Go);
    let GuardDecision::Refuse { reason, .. } = on_tool_call(&mut state, &id, &call("read")) else { panic!("allowed") };
    assert!(reason.starts_with("turn budget exhausted (turn 2 of 2)"), "{reason}");
}

/// GUARD-40, part of 10-T12
#[test]
fn a_round_is_what_lies_between_settled_and_settled() {
    let id = budget(Some((2, Some(1))), Some((9, Some(1))));
    let mut state = GuardState::default();
    let mut round = |restart: bool| {
        on_agent_start(&mut state);
        let turn = matches!(on_turn_start(&mut state, &id), TurnAction::Nudge(_));
        let first = on_tool_call(&mut state, &id, &call("read"));
        if restart {
            on_agent_start(&mut state);
        }
        let second = on_tool_call(&mut state, &id, &call("read"));
        let third = on_tool_call(&mut state, &id, &call("read"));
        on_agent_settled(&mut state);
        (turn, first, second, third)
    };
    let first = round(false);
    assert!(first.0);
    assert!(matches!(first.1, GuardDecision::Allow { nudge: Some(_), .. }));
    assert_eq!(first.2, allow(None));
    assert!(matches!(first.3, GuardDecision::Refuse { terminate: true, .. }));
    assert_eq!(round(true), first, "a retry inside the round keeps its counters");
    assert_eq!(round(false), first, "each round has the full budget and its own messages");
}

/// GUARD-32
#[test]
fn refused_commands_count_and_their_warning_is_not_lost() {
    let id = GuardIdentity { acceptance_role: Some(AcceptanceRole::ReadOnly), ..budget(Some((3, Some(2))), None) };
    let mut state = GuardState::default();
    on_agent_start(&mut state);
    for n in 1..=3 {
        let decision = on_tool_call(&mut state, &id, &bash("rm x", Timeout::Absent));
        let GuardDecision::Refuse { reason, terminate: false, nudge } = decision else { panic!("{decision:?}") };
        assert!(reason.starts_with("read-only role: 'rm x'"), "{reason}");
        assert_eq!(nudge.is_some(), n == 2);
    }
    let decision = on_tool_call(&mut state, &id, &bash("ls", Timeout::Absent));
    assert!(matches!(decision, GuardDecision::Refuse { terminate: true, .. }), "{decision:?}");
}

/// GUARD-31, GUARD-34, GUARD-94, GUARD-95, GUARD-96, GUARD-97
#[test]
fn refusals_of_commands_have_their_texts() {
    let mut id = GuardIdentity {
        acceptance_role: Some(AcceptanceRole::ReadOnly),
        ledger: Some(PathBuf::from("/srv/.pi-subagents/r/legion.db")),
        ..GuardIdentity::default()
    };
    let named = "bash may not read or write legion.db. Use legion_tree for the tree's state, or the grep tool to search \
                 for the text.";
    let holds = "bash may not remove or move '.pi-subagents': it holds this run's legion.db.";
    let unparsable = "read-only role: the command could not be parsed and is refused. Write it without unbalanced quotes \
                      or substitutions.";
    let read_only = |command: &str, why: &str| {
        format!("read-only role: '{command}' is refused in bash ({why}). Describe the change instead of making it.")
    };
    let table = [
        ("cat legion.db > x", named.to_owned()),
        ("rm -rf .pi-subagents", holds.to_owned()),
        ("echo 'a", unparsable.to_owned()),
        ("ls > out.txt", read_only("ls > out.txt", "writes to 'out.txt'")),
        ("cd a && touch b", read_only("touch b", "changes files")),
        ("git commit -m x", read_only("git commit -m x", "changes the repository")),
        ("npm install", read_only("npm install", "installs packages")),
    ];
    for (command, reason) in &table {
        let decision = on_tool_call(&mut GuardState::default(), &id, &bash(command, Timeout::Absent));
        assert_eq!(decision, refused(reason, false), "{command}");
    }
    for role in [None, Some(AcceptanceRole::Writer)] {
        id.acceptance_role = role;
        for (command, reason) in &table {
            let decision = on_tool_call(&mut GuardState::default(), &id, &bash(command, Timeout::Absent));
            let ledger = reason == named || reason == holds;
            assert_eq!(decision, if ledger { refused(reason, false) } else { allow(None) }, "{command}");
        }
    }
}

/// GUARD-80, 10-T16
#[test]
fn no_other_tool_is_judged_by_its_input() {
    let id = GuardIdentity {
        acceptance_role: Some(AcceptanceRole::ReadOnly),
        budget: ChildBudget { tool_timeout_ms: Some(1), ..ChildBudget::default() },
        ..GuardIdentity::default()
    };
    let input = BashInput { command: "rm legion.db", timeout: Timeout::Absent };
    for tool in ["edit", "write", "powershell", "mcp__files__write", "Bash", "bash2", "legion_mail"] {
        let judged = ToolCall { bash: Some(input.clone()), ..call(tool) };
        assert_eq!(on_tool_call(&mut GuardState::default(), &id, &judged), allow(None), "{tool}");
    }
    for command in ["cargo test", "python3 x.py"] {
        let decision = on_tool_call(&mut GuardState::default(), &id, &bash(command, Timeout::Invalid));
        assert_eq!(decision, allow(None), "{command}");
    }
}

/// GUARD-75, GUARD-76, 10-T17
#[test]
fn an_unbalanced_quote_is_left_to_the_shell_of_a_writer() {
    for (role, passes) in [(Some(AcceptanceRole::ReadOnly), false), (Some(AcceptanceRole::Writer), true), (None, true)]
    {
        let id = GuardIdentity {
            acceptance_role: role,
            ledger: Some(PathBuf::from("/srv/legion.db")),
            ..GuardIdentity::default()
        };
        let decision = on_tool_call(&mut GuardState::default(), &id, &bash("echo 'a", Timeout::Absent));
        assert_eq!(matches!(decision, GuardDecision::Allow { .. }), passes, "{role:?}");
    }
}

/// GUARD-85, GUARD-86, GUARD-88
#[test]
fn the_smaller_time_limit_holds() {
    use Timeout::{Absent, Invalid, Seconds};
    let table = [
        (Some(1500), Absent, Some(1.5)),
        (Some(1500), Seconds(1.0), None),
        (Some(1500), Seconds(1.5), None),
        (Some(1500), Seconds(60.0), Some(1.5)),
        (Some(1500), Invalid, None),
        (Some(u64::MAX), Absent, Some(2_147_483.0)),
        (Some(u64::MAX), Seconds(1e12), Some(2_147_483.0)),
        (None, Absent, None),
        (None, Seconds(1e12), None),
        (None, Invalid, None),
    ];
    for (tool_timeout_ms, own, timeout_s) in table {
        let id = GuardIdentity {
            budget: ChildBudget { tool_timeout_ms, ..ChildBudget::default() },
            ..GuardIdentity::default()
        };
        let decision = on_tool_call(&mut GuardState::default(), &id, &bash("ls", own));
        assert_eq!(decision, GuardDecision::Allow { timeout_s, nudge: None }, "{tool_timeout_ms:?} {own:?}");
    }
}

/// GUARD-35, GUARD-98
#[test]
fn a_bash_call_without_a_command_is_refused() {
    let decision = on_tool_call(&mut GuardState::default(), &GuardIdentity::default(), &call(BASH));
    assert_eq!(decision, refused("child-guard failed: the bash call came without a command", false));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    Settle,
    Turn,
    Call(bool),
}

proptest! {
    /// GUARD-36, GUARD-40, GUARD-46, GUARD-53: against a model that keeps the calls and turns of a round as lists.
    #[test]
    fn no_round_runs_more_than_its_budget(
        hard in prop::option::of(1u32..6), turns in prop::option::of(1u32..6), soft in prop::option::of(1u32..6),
        steps in prop::collection::vec(
            prop_oneof![Just(Step::Start), Just(Step::Settle), Just(Step::Turn), any::<bool>().prop_map(Step::Call)], 0..60),
    ) {
        let id = GuardIdentity {
            acceptance_role: Some(AcceptanceRole::ReadOnly),
            ..budget(hard.map(|hard| (hard, soft)), turns.map(|hard| (hard, soft)))
        };
        let mut state = GuardState::default();
        let (mut running, mut counted, mut turn, mut nudges) = (false, 0, 0, (0, 0));
        for step in steps {
            match step {
                Step::Start => {
                    on_agent_start(&mut state);
                    if !running {
                        (running, counted, turn, nudges) = (true, 0, 0, (0, 0));
                    }
                }
                Step::Settle => {
                    on_agent_settled(&mut state);
                    running = false;
                }
                Step::Turn => {
                    turn += 1;
                    nudges.0 += u32::from(matches!(on_turn_start(&mut state, &id), TurnAction::Nudge(_)));
                }
                Step::Call(writes) => {
                    let spent = turns.is_some_and(|hard| turn >= hard) || hard.is_some_and(|hard| counted >= hard);
                    let decision = on_tool_call(&mut state, &id, &bash(if writes { "rm x" } else { "ls" }, Timeout::Absent));
                    let (runs, terminates, nudge) = match decision {
                        GuardDecision::Allow { nudge, .. } => (true, false, nudge),
                        GuardDecision::Refuse { terminate, nudge, .. } => (false, terminate, nudge),
                    };
                    prop_assert_eq!(terminates, spent);
                    prop_assert_eq!(runs, !spent && !writes);
                    counted += u32::from(!spent);
                    nudges.1 += u32::from(nudge.is_some());
                }
            }
            prop_assert!(nudges.0 <= 1 && nudges.1 <= 1);
            prop_assert!(hard.is_none_or(|hard| counted <= hard));
        }
    }
}

fn nudge_of(action: TurnAction) -> Option<String> {
    match action {
        TurnAction::Nudge(text) => Some(text),
        TurnAction::Go | TurnAction::End(_) => None,
    }
}

/// GUARD-56: whichever budget is the smaller bounds the turns; without one there is no bound.
#[test]
fn calls_that_nobody_asks_about_do_not_go_on_for_ever() {
    for (turns, calls, most) in [(Some(2), None, 12), (None, Some(1), 10), (Some(9), Some(3), 14)] {
        let budget = ChildBudget { max_turns: turns, max_tool_calls: calls, ..ChildBudget::default() };
        let id = GuardIdentity { budget, ..GuardIdentity::default() };
        let mut state = GuardState::default();
        on_agent_start(&mut state);
        let ended = (1..=100).find(|_| matches!(on_turn_start(&mut state, &id), TurnAction::End(_)));
        assert_eq!(ended, Some(most + 1));
    }
    let mut state = GuardState::default();
    assert!((0..1000).all(|_| on_turn_start(&mut state, &GuardIdentity::default()) == TurnAction::Go));
}
