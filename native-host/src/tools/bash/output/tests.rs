use proptest::prelude::*;

use super::*;

proptest! {
    /// However the bytes are cut into chunks, the text is the same and whole characters are never torn
    #[test]
    fn chunks_do_not_matter(text in "[a\u{e9}\u{6f22}\u{1f600}\n]{0,60}", cuts in proptest::collection::vec(0usize..200, 0..8)) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let mut output = Output::new(dir.path());
        for pair in cuts.windows(2) {
            output.push(&bytes[pair[0]..pair[1]]);
        }
        output.finish();
        let snapshot = output.snapshot();
        prop_assert_eq!(snapshot.truncation.content, text.clone());
        prop_assert_eq!(snapshot.truncation.total_lines, text.lines().count());
    }
}

#[test]
fn invalid_bytes_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    for (chunks, expected) in [
        (vec![&b"a\xff"[..], b"b"], "a\u{fffd}b"),
        (vec![b"a\xe6\xbc", b"\xa2"], "a漢"),
        (vec![b"a\xe6\xbc"], "a\u{fffd}"),
        (vec![b"\xe6", b"b"], "\u{fffd}b"),
        (vec![b"\x80\x80\x80\x80"], "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        let mut output = Output::new(dir.path());
        chunks.iter().for_each(|chunk| output.push(chunk));
        output.finish();
        assert_eq!(output.snapshot().truncation.content, expected);
    }
}

/// Memory stays bounded, and the end is shown, however much comes
#[test]
fn a_flood_is_kept_in_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let mut output = Output::new(dir.path());
    for number in 0..200_000 {
        output.push(format!("line {number}\n").as_bytes());
        assert!(output.tail.len() <= TRIM_AT_BYTES + 20 && output.raw.len() <= TRIM_AT_BYTES);
    }
    output.finish();
    let snapshot = output.snapshot();
    assert!(snapshot.truncation.content.ends_with("line 199999"));
    assert_eq!((snapshot.truncation.total_lines, snapshot.truncation.output_lines), (200_000, MAX_LINES));
    assert!(std::fs::read_to_string(snapshot.full_output.unwrap()).unwrap().starts_with("line 0\nline 1\n"));
}

/// REL-2: where the file cannot be made, the end is still shown
#[test]
fn without_a_place_for_the_file_the_end_is_shown() {
    let mut output = Output::new(Path::new("/no/such/dir"));
    (0..5_000).for_each(|number| output.push(format!("{number}\n").as_bytes()));
    output.finish();
    let snapshot = output.snapshot();
    assert_eq!(snapshot.full_output, None);
    assert!(snapshot.truncation.truncated && snapshot.truncation.content.ends_with("4999"));
}
