use proptest::prelude::*;

use super::*;

/// Old and new texts.
type Pairs = &'static [(&'static str, &'static str)];

fn edits(pairs: &[(&str, &str)]) -> Vec<Replacement> {
    pairs.iter().map(|(old, new)| Replacement { old_text: (*old).into(), new_text: (*new).into() }).collect()
}

fn text(original: &str, pairs: &[(&str, &str)]) -> String {
    match apply(original, &edits(pairs), "f") {
        Ok(edited) => edited.text,
        Err(problem) => problem,
    }
}

/// NAT-4: byte order mark, line ends and everything outside of the match keep their bytes
#[test]
fn what_nobody_edited_keeps_its_bytes() {
    let table: &[(&str, Pairs, &str)] = &[
        ("a\nb\nc\n", &[("b", "x\ny")], "a\nx\ny\nc\n"),
        ("a\r\nb\r\nc\r\n", &[("b\nc", "x\ny")], "a\r\nx\r\ny\r\n"),
        ("a\r\nb\r\nc\n", &[("a\r\nb", "x")], "x\r\nc\n"),
        ("a\nb\r\nc", &[("c", "x\ny")], "a\nb\r\nx\r\ny"),
        ("a\rb\rc", &[("b\nc", "x\ny")], "a\rx\ry"),
        ("\u{feff}a\nb", &[("a", "x")], "\u{feff}x\nb"),
        ("one two", &[("two", ""), ("one", "1")], "1 "),
        ("ab", &[("a", "b"), ("b", "a")], "ba"),
        ("日本\n語", &[("語", "go")], "日本\ngo"),
        // Quotes, dashes, spaces and spaces at line ends that models do not see.
        (
            "say \u{201c}hi\u{201d} \u{2013} it\u{2019}s\u{a0}me  \nend \n",
            &[("\"hi\" - it's me\nend", "x")],
            "say x \n",
        ),
        ("keep \u{201c}this\u{201d}\n\u{2018}that\u{2019}\n", &[("'that'", "y")], "keep \u{201c}this\u{201d}\ny\n"),
        ("a  \r\nb  \r\n", &[("a\nb", "x\ny")], "x\r\ny  \r\n"),
        ("if x:  \n    y\n", &[("if x:\n    y", "if z:\n    y")], "if z:\n    y\n"),
    ];
    for (original, pairs, expected) in table {
        assert_eq!(text(original, pairs), *expected, "{original:?} {pairs:?}");
    }
}

#[test]
fn faults_are_told_and_change_nothing() {
    let table: &[(&str, Pairs, &str)] = &[
        ("a", &[("b", "c")], "Could not find the exact text in f."),
        ("a", &[("a", "b"), ("c", "d")], "Could not find edits[1] in f."),
        ("a a a", &[("a", "b")], "Found 3 occurrences of the text in f;"),
        ("a b b", &[("a", "x"), ("b", "c")], "Found 2 occurrences of edits[1] in f;"),
        ("\u{2018}a\u{2019} \u{201b}a\u{2019}", &[("'a'", "c")], "Found 2 occurrences of the text in f;"),
        ("a", &[("", "c")], "oldText must not be empty in f."),
        ("a", &[("a", "b"), ("", "c")], "edits[1].oldText must not be empty in f."),
        ("abc", &[("bc", "x"), ("ab", "y")], "edits[1] and edits[0] overlap in f."),
        ("abc", &[("b", "b")], "No changes made to f: "),
        ("", &[("b", "c")], "Could not find the exact text in f."),
        ("a", &[("  ", "c")], "Could not find the exact text in f."),
    ];
    for (original, pairs, expected) in table {
        let problem = apply(original, &edits(pairs), "f").unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn the_diff_numbers_lines_and_skips_what_is_far() {
    let original: String = (1..=30).map(|number| format!("{number}\n")).collect();
    let edited = apply(&original, &edits(&[("\n3\n", "\nthree\n3b\n"), ("29\n", "")]), "dir/f").unwrap();
    assert_eq!(edited.first_changed_line, Some(3));
    let expected = "  1 1\n  2 2\n- 3 3\n+ 3 three\n+ 4 3b\n  4 4\n  5 5\n  6 6\n  7 7\n    ...\n 25 25\n 26 26\n 27 27\n 28 28\n-29 29\n 30 30";
    assert_eq!(edited.diff, expected);
    assert!(edited.patch.starts_with("--- dir/f\n+++ dir/f\n@@ -1,7 +1,8 @@\n"), "{}", edited.patch);
}

proptest! {
    /// A unique piece is replaced where it stands, whatever line ends and special characters are around it
    #[test]
    fn a_unique_piece_is_replaced_in_place(
        before in "[ab \u{2019}\u{2014}\u{a0}\r\n\u{6f22}]{0,40}",
        after in "[ab \u{2019}\u{2014}\u{a0}\r\n\u{6f22}]{0,40}",
        new in "[xy]{1,5}",
    ) {
        let original = format!("{before}<Q>{after}");
        prop_assert_eq!(text(&original, &[("<Q>", &new)]), format!("{before}{new}{after}"));
    }

    #[test]
    fn no_input_makes_it_panic(
        original in "[ab'\u{2019} \t\r\n\u{6f22}\u{feff}]{0,40}",
        old in "[ab'\u{2019} \t\r\n\u{6f22}]{0,6}",
        other in "[ab' \n]{0,4}",
        new in "[ab\r\n]{0,4}",
    ) {
        let _ = apply(&original, &edits(&[(&old, &new)]), "f");
        let _ = apply(&original, &edits(&[(&old, &new), (&other, &new)]), "f");
    }
}
