//! Words: quotes, escapes, arrays and pattern groups.

use super::expansions::OPAQUE;
use super::{Splitter, Unsplittable};

/// The bytes that end a word or mean something inside one or inside double quotes.
const SPECIAL: &[u8] = b" \t\n;&|()<>\\'\"$`";

/// A word and where it begins.
pub(super) struct Word {
    /// Its text without quotes.
    pub text: Vec<u8>,
    pub start: usize,
    /// Whether any of it is quoted or escaped.
    pub quoted: bool,
}

impl Splitter<'_> {
    /// Reads one word. `first` is the place of the command word, where `!(` is a negated subshell and no pattern.
    pub(super) fn word(&mut self, first: bool) -> Result<Word, Unsplittable> {
        let mut word = Word { text: Vec::new(), start: self.pos, quoted: false };
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' => break,
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    self.substitution(2)?;
                    word.text.extend_from_slice(OPAQUE);
                }
                b'<' | b'>' => break,
                b'(' => {
                    let raw = &self.bytes[word.start..self.pos];
                    match raw.last() {
                        Some(b'=') if is_assignment(raw) => self.array()?,
                        Some(b'?' | b'*' | b'+' | b'@' | b'!') if !first => self.pattern_group()?,
                        _ => break,
                    }
                    word.text.extend_from_slice(OPAQUE);
                }
                b'\\' => {
                    word.quoted = true;
                    match self.peek_at(1) {
                        Some(b'\n') => {}
                        Some(escaped) => word.text.push(escaped),
                        None => word.text.push(b'\\'),
                    }
                    self.advance(2);
                }
                b'\'' => {
                    word.quoted = true;
                    self.single_quoted(&mut word.text)?;
                }
                b'"' => {
                    word.quoted = true;
                    self.double_quoted(&mut word.text)?;
                }
                b'$' => {
                    word.quoted |= matches!(self.peek_at(1), Some(b'\'' | b'"'));
                    self.dollar(&mut word.text, false)?;
                }
                b'`' => self.backticks(&mut word.text, false)?,
                _ => self.plain(&mut word.text),
            }
        }
        Ok(word)
    }

    /// `( … )` behind `name=`.
    fn array(&mut self) -> Result<(), Unsplittable> {
        self.enter()?;
        self.pos += 1;
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(b')') => break,
                Some(b'<' | b'>') if self.peek_at(1) == Some(b'(') => {}
                None | Some(b'(' | b';' | b'&' | b'|' | b'<' | b'>') => return Err(Unsplittable),
                Some(_) => {}
            }
            self.word(false)?;
        }
        self.pos += 1;
        self.depth -= 1;
        Ok(())
    }

    /// `( … )` behind `?`, `*`, `+`, `@` or `!` in a pattern.
    fn pattern_group(&mut self) -> Result<(), Unsplittable> {
        self.enter()?;
        self.pos += 1;
        loop {
            match self.peek() {
                Some(b')') => break,
                None | Some(b'(') => return Err(Unsplittable),
                Some(b'<' | b'>') if self.peek_at(1) == Some(b'(') => {
                    self.word(false)?;
                }
                Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>') => self.pos += 1,
                Some(_) => {
                    self.word(false)?;
                }
            }
        }
        self.pos += 1;
        self.depth -= 1;
        Ok(())
    }

    /// Takes the byte at the current place, and those behind it that mean nothing anywhere.
    fn plain(&mut self, text: &mut Vec<u8>) {
        let rest = &self.bytes[self.pos + 1..self.end];
        let length = 1 + rest.iter().position(|byte| SPECIAL.contains(byte)).unwrap_or(rest.len());
        text.extend_from_slice(&self.bytes[self.pos..self.pos + length]);
        self.pos += length;
    }

    pub(super) fn single_quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Unsplittable> {
        self.pos += 1;
        let rest = &self.bytes[self.pos..self.end];
        let length = rest.iter().position(|&byte| byte == b'\'').ok_or(Unsplittable)?;
        text.extend_from_slice(&rest[..length]);
        self.pos += length + 1;
        Ok(())
    }

    pub(super) fn double_quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Unsplittable> {
        self.pos += 1;
        loop {
            match self.peek().ok_or(Unsplittable)? {
                b'"' => break,
                b'\\' => {
                    match self.peek_at(1) {
                        Some(b'\n') => {}
                        Some(escaped @ (b'$' | b'`' | b'"' | b'\\')) => text.push(escaped),
                        Some(other) => text.extend([b'\\', other]),
                        None => return Err(Unsplittable),
                    }
                    self.pos += 2;
                }
                b'$' => self.dollar(text, true)?,
                b'`' => self.backticks(text, true)?,
                _ => self.plain(text),
            }
        }
        self.pos += 1;
        Ok(())
    }

    /// `$'…'`, whose escapes are decoded as far as they can spell a command.
    pub(super) fn ansi_quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Unsplittable> {
        self.pos += 2;
        loop {
            match self.peek().ok_or(Unsplittable)? {
                b'\'' => break,
                b'\\' => {
                    let escape = self.peek_at(1).ok_or(Unsplittable)?;
                    self.pos += 2;
                    match escape {
                        b'n' => text.push(b'\n'),
                        b't' => text.push(b'\t'),
                        b'r' => text.push(b'\r'),
                        b'a' | b'b' | b'e' | b'E' | b'f' | b'v' => text.push(b' '),
                        b'0'..=b'7' => {
                            self.pos -= 1;
                            let code = self.digits(8, 3);
                            text.push((code & 0xff) as u8);
                        }
                        b'x' => {
                            let code = self.digits(16, 2);
                            text.push((code & 0xff) as u8);
                        }
                        b'u' | b'U' => {
                            let code = self.digits(16, if escape == b'u' { 4 } else { 8 });
                            let decoded = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                            text.extend(decoded.encode_utf8(&mut [0; 4]).bytes());
                        }
                        b'c' => self.advance(1),
                        other => text.push(other),
                    }
                }
                byte => {
                    text.push(byte);
                    self.pos += 1;
                }
            }
        }
        self.pos += 1;
        Ok(())
    }

    fn digits(&mut self, radix: u32, most: usize) -> u32 {
        let mut code = 0u32;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(radix)) else { break };
            code = code.wrapping_mul(radix).wrapping_add(digit);
            self.pos += 1;
        }
        code
    }
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a word as written is `name=…`, `name+=…` or `name[…]=…`.
pub(super) fn is_assignment(raw: &[u8]) -> bool {
    let name = raw.iter().take_while(|&&byte| is_name_byte(byte)).count();
    if name == 0 || raw[0].is_ascii_digit() {
        return false;
    }
    let mut rest = &raw[name..];
    if rest.first() == Some(&b'[') {
        let Some(close) = rest.iter().position(|&byte| byte == b']') else { return false };
        rest = &rest[close + 1..];
    }
    rest.starts_with(b"=") || rest.starts_with(b"+=")
}
