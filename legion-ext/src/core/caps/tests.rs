use proptest::prelude::*;

use super::*;

/// CAP-2
#[test]
fn the_room_is_shared_by_the_formula() {
    let rows = [
        (0, Shares { shown: 0, bytes: 0, lines: 0 }),
        (1, Shares { shown: 1, bytes: 32_768, lines: 1_900 }),
        (2, Shares { shown: 2, bytes: 20_480, lines: 950 }),
        (12, Shares { shown: 12, bytes: 3_413, lines: 158 }),
        (20, Shares { shown: 20, bytes: 2_048, lines: 95 }),
        // More than twenty: the first twenty have a body.
        (64, Shares { shown: 20, bytes: 2_048, lines: 95 }),
    ];
    for (bodies, want) in rows {
        assert_eq!(shares(bodies, 48_000, 1_900), want, "{bodies}");
    }
    // Mail and lines that are never cut go first.
    assert_eq!(shares(20, 9_000, 1_900).shown, 4);
    assert_eq!(shares(3, 2_000, 1_900).shown, 0);
}

/// LINE-11
#[test]
fn mail_leaves_each_body_its_least_share() {
    assert_eq!(mail_bytes(0), RESULT_BYTES);
    assert_eq!(mail_bytes(1), RESULT_BYTES - 2_048 - 600);
    assert!(mail_bytes(64) < mail_bytes(12));
    assert_eq!(mail_bytes(1_000), 0);
}

/// CAP-3
#[test]
fn a_long_text_keeps_head_and_tail_at_line_ends() {
    let text = (0..100).map(|n| format!("line {n:03}\n")).collect::<String>();
    assert_eq!(cut(&text, 1_000, 200), None);
    let Cut { head, tail } = cut(&text, 400, 200).unwrap();
    assert!(text[..head].ends_with("line 032\n"), "{}", &text[..head]);
    assert!(text[tail..].starts_with("line 089\n"), "{}", &text[tail..]);
    // By lines alone.
    let Cut { head, tail } = cut(&text, 10_000, 8).unwrap();
    assert_eq!((text[..head].lines().count(), text[tail..].lines().count()), (6, 2));
}

#[test]
fn one_endless_line_is_cut_between_characters() {
    let text = "語".repeat(1_000);
    let Cut { head, tail } = cut(&text, 100, 50).unwrap();
    assert_eq!((head, text.len() - tail), (75, 24));
}

proptest! {
    /// CAP-3: bounds hold, no character is cut, head and tail never overlap.
    #[test]
    fn cuts_keep_to_their_bounds(text in "([a-z]{0,9}|語|🦀|\n|\n\n){0,120}", max_bytes in 8usize..300, max_lines in 5usize..40) {
        let Some(Cut { head, tail }) = cut(&text, max_bytes, max_lines) else {
            prop_assert!(text.len() <= max_bytes && text.lines().count() <= max_lines);
            return Ok(());
        };
        prop_assert!(head <= tail);
        prop_assert!(text.is_char_boundary(head) && text.is_char_boundary(tail));
        prop_assert!(head + text.len() - tail <= max_bytes);
        prop_assert!(text[..head].lines().count() + text[tail..].lines().count() <= max_lines);
    }

    /// CAP-3: a verdict in the last lines stays visible.
    #[test]
    fn a_verdict_at_the_end_stays(lengths in prop::collection::vec(0usize..200, 30..60)) {
        let verdict = "```json\n{ \"ok\": true }\n```\n";
        let lines: Vec<String> = lengths.into_iter().map(|length| "x".repeat(length)).collect();
        let text = format!("{}\n{verdict}", lines.join("\n"));
        if let Some(cut) = cut(&text, BODY_MIN_BYTES, 95) {
            prop_assert!(text[cut.tail..].ends_with(verdict));
        }
    }
}
