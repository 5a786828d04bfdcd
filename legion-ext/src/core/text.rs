//! Foreign text made harmless: what a child, a model or a provider wrote, before it is shown (REL-5).
//!
//! Escape sequences, control characters and characters that reorder a line are removed; nothing is added, so a cleaned
//! text is never longer than the original. What is stored keeps its bytes.

use std::borrow::Cow;

/// A text of several lines: line feeds and tabs stay.
pub fn clean_block(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = if is_harmful(c) {
            harmful_len(rest, c)
        } else {
            clean.push(c);
            c.len_utf8()
        };
        rest = &rest[taken..];
    }
    Cow::Owned(clean)
}

/// A text as one line of at most `max_bytes`: line ends and tabs become one space each, a cut ends in `…`.
pub fn clean_line(text: &str, max_bytes: usize) -> String {
    let clean = clean_block(text.trim());
    let mut line = String::with_capacity(clean.len().min(max_bytes));
    line.extend(clean.chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).take(max_bytes.saturating_add(1)));
    cut_to(&mut line, max_bytes);
    line
}

/// Cuts `text` at a character to at most `max_bytes`, the `…` of the cut included.
pub fn cut_to(text: &mut String, max_bytes: usize) {
    const MARK: &str = "…";
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes.saturating_sub(MARK.len())));
        if max_bytes >= MARK.len() {
            text.push_str(MARK);
        }
    }
}

const ESC: char = '\u{1b}';

/// Controls but for line feed and tab, and the characters that embed, override or isolate a writing direction.
fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes to leave out at the start of `rest`, which begins with the harmful `c`.
fn harmful_len(rest: &str, c: char) -> usize {
    let after = &rest[c.len_utf8()..];
    let sequence = match c {
        ESC => match after.chars().next() {
            Some('[') => 1 + csi_len(&after[1..]),
            Some(']' | 'P' | 'X' | '^' | '_') => 1 + string_len(&after[1..]),
            Some(_) => escape_len(after),
            None => 0,
        },
        '\u{9b}' => csi_len(after),
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => string_len(after),
        _ => 0,
    };
    c.len_utf8() + sequence
}

/// Parameters, intermediates and the final byte of a control sequence.
fn csi_len(text: &str) -> usize {
    let body = text.bytes().take_while(|b| matches!(b, 0x20..=0x3f)).count();
    body + usize::from(text.as_bytes().get(body).is_some_and(|b| matches!(b, 0x40..=0x7e)))
}

/// Intermediates and the final byte of a short escape such as `ESC ( B`.
fn escape_len(text: &str) -> usize {
    let body = text.bytes().take_while(|b| matches!(b, 0x20..=0x2f)).count();
    body + usize::from(text.as_bytes().get(body).is_some_and(|b| matches!(b, 0x30..=0x7e)))
}

/// A string sequence up to and with its terminator; only when that comes in the same line, so that a stray introducer
/// cannot swallow the rest of a report.
fn string_len(text: &str) -> usize {
    let mut previous = '\0';
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return 0,
            '\u{7}' | '\u{9c}' => return at + c.len_utf8(),
            '\\' if previous == ESC => return at + 1,
            _ => previous = c,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// REL-5: the row "Text with escape sequences or control characters from a child" of 09.
    #[test]
    fn escapes_and_controls_go_and_words_stay() {
        let rows = [
            ("plain", "plain"),
            ("a\u{1b}[31mred\u{1b}[0m b", "ared b"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("\u{1b}(Bx\u{1b}7y", "xy"),
            ("\u{9b}2Jgone", "gone"),
            ("bell\u{7} nul\0 del\u{7f} cr\r\nlf\ttab", "bell nul del cr\nlf\ttab"),
            ("\u{202e}evil\u{2066}", "evil"),
            // An introducer without its end takes nothing else along.
            ("\u{1b}]0;never closed\nnext line", "0;never closed\nnext line"),
            ("end\u{1b}", "end"),
            ("\u{1b}[", ""),
            ("日本\u{1b}[1m語", "日本語"),
        ];
        for (given, want) in rows {
            assert_eq!(clean_block(given), want, "{given:?}");
        }
    }

    #[test]
    fn a_line_is_one_line_and_bounded() {
        assert_eq!(clean_line(" a\nb\tc ", 100), "a b c");
        assert_eq!(clean_line("日本語", 100), "日本語");
        assert_eq!(clean_line("日本語", 7), "日…");
        assert_eq!(clean_line("abc", 2), "");
    }

    proptest! {
        /// REL-5
        #[test]
        fn nothing_harmful_is_left_and_nothing_grows(text in "(\\PC|\\PC|[\u{0}-\u{20}]|\u{1b}|\u{9b}|\\[|\\]|\u{7}|m){0,60}", max in 0usize..80) {
            let clean = clean_block(&text);
            prop_assert!(!clean.chars().any(is_harmful));
            prop_assert!(clean.len() <= text.len());
            prop_assert_eq!(clean_block(&clean), clean.as_ref());
            let line = clean_line(&text, max);
            prop_assert!(line.len() <= max && !line.contains('\n'));
        }
    }
}
