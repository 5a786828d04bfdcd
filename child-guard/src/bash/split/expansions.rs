//! Expansions: substitutions, parameters and arithmetic. What they yield is unknown; the commands in them are listed.

use super::words::is_name_byte;
use super::{End, MAX_DEPTH, Splitter, Unsplittable};

/// What stands in a word for something that only the shell can compute. It reads as an expansion again, so a text
/// that is split a second time (`eval`, `bash -c`) neither repeats nor hides what was inside: those commands have
/// been listed already.
pub(super) const OPAQUE: &[u8] = b"$_";

impl Splitter<'_> {
    /// `$` and what it introduces. `quoted`: inside double quotes or a here-document.
    pub(super) fn dollar(&mut self, text: &mut Vec<u8>, quoted: bool) -> Result<(), Unsplittable> {
        match self.peek_at(1) {
            Some(b'(') => {
                let arithmetic = self.peek_at(2) == Some(b'(') && self.arithmetic(3)?;
                if !arithmetic {
                    self.substitution(2)?;
                }
                text.extend_from_slice(OPAQUE);
            }
            Some(b'{') => {
                self.parameter(quoted)?;
                text.extend_from_slice(OPAQUE);
            }
            Some(b'\'') if !quoted => self.ansi_quoted(text)?,
            Some(b'"') if !quoted => self.pos += 1,
            _ => {
                text.push(b'$');
                self.pos += 1;
            }
        }
        Ok(())
    }

    /// `$( … )`, `<( … )` or `>( … )`, whose opening is `open` bytes long.
    pub(super) fn substitution(&mut self, open: usize) -> Result<(), Unsplittable> {
        self.pos += open;
        self.inner_list(End::Paren)
    }

    /// A list of commands with here-documents of its own.
    fn inner_list(&mut self, end: End) -> Result<(), Unsplittable> {
        self.enter()?;
        let outer = std::mem::take(&mut self.pending);
        self.list(end)?;
        if !std::mem::replace(&mut self.pending, outer).is_empty() {
            return Err(Unsplittable);
        }
        self.depth -= 1;
        Ok(())
    }

    pub(super) fn backticks(&mut self, text: &mut Vec<u8>, quoted: bool) -> Result<(), Unsplittable> {
        self.pos += 1;
        let mut inner = Vec::new();
        loop {
            match self.peek().ok_or(Unsplittable)? {
                b'`' => break,
                b'\\' => {
                    match self.peek_at(1).ok_or(Unsplittable)? {
                        escaped @ (b'`' | b'\\' | b'$') => inner.push(escaped),
                        b'"' if quoted => inner.push(b'"'),
                        other => inner.extend([b'\\', other]),
                    }
                    self.pos += 2;
                }
                byte => {
                    inner.push(byte);
                    self.pos += 1;
                }
            }
        }
        self.pos += 1;
        let mut splitter = Splitter::new(&inner, self.depth + 1, self.retries)?;
        splitter.list(End::Text)?;
        self.retries = splitter.retries;
        self.found.append(&mut splitter.found);
        text.extend_from_slice(OPAQUE);
        Ok(())
    }

    /// `${ … }`: a parameter, or since bash 5.3 a list of commands.
    fn parameter(&mut self, quoted: bool) -> Result<(), Unsplittable> {
        self.pos += 2;
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            self.pos += usize::from(self.peek() == Some(b'|'));
            return self.inner_list(End::Brace);
        }
        self.enter()?;
        if matches!(self.peek(), Some(b'!' | b'#')) && self.peek_at(1).is_some_and(is_name_byte) {
            self.pos += 1;
        }
        let name = self.bytes[self.pos..self.end].iter().take_while(|&&byte| is_name_byte(byte)).count();
        self.advance(
            name.max(usize::from(matches!(self.peek(), Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')))),
        );
        // Inside double quotes a single quote is one of the text, except in a pattern.
        let literal_quotes = quoted && matches!(self.peek(), Some(b':' | b'-' | b'=' | b'+' | b'?'));
        let mut unused = Vec::new();
        loop {
            match self.peek().ok_or(Unsplittable)? {
                b'}' => break,
                b'\\' => self.advance(2),
                b'\'' if !literal_quotes => self.single_quoted(&mut unused)?,
                b'"' => self.double_quoted(&mut unused)?,
                b'$' => self.dollar(&mut unused, quoted)?,
                b'`' => self.backticks(&mut unused, quoted)?,
                b'<' | b'>' if !quoted && self.peek_at(1) == Some(b'(') => self.substitution(2)?,
                _ => self.pos += 1,
            }
            unused.clear();
        }
        self.pos += 1;
        self.depth -= 1;
        Ok(())
    }

    /// Reads `(( … ))` whose opening is `open` bytes long. False, and nothing read, when it is no arithmetic but
    /// parentheses in parentheses.
    pub(super) fn arithmetic(&mut self, open: usize) -> Result<bool, Unsplittable> {
        let (start, found) = (self.pos, self.found.len());
        self.enter()?;
        self.pos += open;
        let mut parens = 0usize;
        let mut unused = Vec::new();
        let closed = loop {
            let Some(byte) = self.peek() else { break false };
            match byte {
                b'(' => {
                    parens += 1;
                    self.pos += 1;
                }
                b')' if parens > 0 => {
                    parens -= 1;
                    self.pos += 1;
                }
                b')' => {
                    let closed = self.peek_at(1) == Some(b')');
                    self.pos += 2;
                    break closed;
                }
                b'\'' => break false,
                b'\\' => self.advance(2),
                b'"' => self.double_quoted(&mut unused)?,
                b'$' => self.dollar(&mut unused, true)?,
                b'`' => self.backticks(&mut unused, true)?,
                _ => self.pos += 1,
            }
            unused.clear();
        };
        self.depth -= 1;
        if !closed {
            self.pos = start;
            self.found.truncate(found);
            self.retries += 1;
            if self.retries > MAX_DEPTH {
                return Err(Unsplittable);
            }
        }
        Ok(closed)
    }
}
