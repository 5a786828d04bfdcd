//! The near miss of a misspelt key (CARD-6), for cards, settings and tool parameters alike.

/// The legal word that `given` probably meant: one that is equal after lower-casing, else the one at edit distance
/// of at most 2 and at most half the longer word (smallest distance, then alphabetical).
pub fn near_miss<'a>(given: &str, legal: &[&'a str]) -> Option<&'a str> {
    let lower = given.to_lowercase();
    if let Some(same) = legal.iter().filter(|word| word.to_lowercase() == lower).min() {
        return Some(same);
    }
    legal
        .iter()
        .filter_map(|word| near_distance(given, word).map(|distance| (distance, *word)))
        .min()
        .map(|(_, word)| word)
}

/// `'maxRenewal' (did you mean 'maxRenewals'?)`, or the quoted word alone when nothing legal is near.
pub fn quoted_with_near_miss(given: &str, legal: &[&str]) -> String {
    let quoted = quoted(given);
    match near_miss(given, legal) {
        Some(word) => format!("{quoted} (did you mean '{word}'?)"),
        None => quoted,
    }
}

/// The word in single quotes, on one line and of bounded length, whatever a file or a model put into it.
fn quoted(given: &str) -> String {
    let short: String = given.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    let more = if given.chars().nth(SHOWN_MAX).is_some() { "…" } else { "" };
    format!("'{}{more}'", short.replace("\\'", "'").replace("\\\"", "\""))
}

/// The edit distance of two words (insert, delete, replace a character) when it is at most [`MAX_DISTANCE`] and at most
/// half the longer word: two edits turn any two letters into any other two. Symmetric.
fn near_distance(a: &str, b: &str) -> Option<usize> {
    // Bytes bound characters from above by four, so a hostile megabyte key is dismissed before it is copied.
    if a.len().abs_diff(b.len()) > MAX_DISTANCE * 4 {
        return None;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > MAX_DISTANCE {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    let distance = row[b.len()];
    (distance <= MAX_DISTANCE && distance * 2 <= a.len().max(b.len())).then_some(distance)
}

const MAX_DISTANCE: usize = 2;

/// How much of a wrong word is quoted, in characters.
const SHOWN_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEGAL: &[&str] = &["tasks", "task", "phases", "model", "maxRenewals", "to"];

    /// CARD-6
    #[test]
    fn nearest_word_then_alphabet() {
        let rows = [
            ("Model", Some("model")),
            ("MAXRENEWALS", Some("maxRenewals")),
            ("maxRenewal", Some("maxRenewals")),
            ("phase", Some("phases")),
            ("taskss", Some("tasks")),
            ("modle", Some("model")),
            // `task` and `tasks` are both one edit away.
            ("taskz", Some("task")),
            ("placement", None),
            ("tassk", Some("task")),
            // Two edits would turn `id` into `to`, but nothing of it would be left.
            ("id", None),
            ("", None),
        ];
        for (given, want) in rows {
            assert_eq!(near_miss(given, LEGAL), want, "{given:?}");
        }
        assert_eq!(quoted_with_near_miss("phase", LEGAL), "'phase' (did you mean 'phases'?)");
        assert_eq!(quoted_with_near_miss("placement", LEGAL), "'placement'");
        assert_eq!(quoted_with_near_miss("it's\na\u{1b}[0m", LEGAL), "'it's\\na\\u{1b}[0m'");
        assert_eq!(near_miss(&"x".repeat(1 << 20), LEGAL), None);
        assert_eq!(quoted_with_near_miss(&"x".repeat(1 << 20), LEGAL).chars().count(), 63);
    }

    proptest! {
        /// CARD-6: the distance is symmetric, and the answer depends neither on the order nor on repeats of the list.
        #[test]
        fn symmetric_and_stable(a in "[a-cA-Cé]{0,5}", b in "[a-cA-Cé]{0,5}", mut words in prop::collection::vec("[a-c]{1,4}", 0..6)) {
            prop_assert_eq!(near_distance(&a, &b), near_distance(&b, &a));
            let forward: Vec<&str> = words.iter().map(String::as_str).collect();
            let found = near_miss(&a, &forward).map(str::to_owned);
            words.reverse();
            words.extend(words.clone());
            let backward: Vec<&str> = words.iter().map(String::as_str).collect();
            prop_assert_eq!(near_miss(&a, &backward).map(str::to_owned), found);
        }
    }
}
