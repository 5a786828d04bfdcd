//! Splits a shell command line into its simple commands (GUARD-72).
//!
//! One pass over the bytes, recursion only into nested constructs and there to [`MAX_DEPTH`], so the work is linear
//! in the length of the text. It understands the grammar of `bash` as far as it decides where a command begins and
//! ends and what its words are: quotes, escapes, comments, here-documents, substitutions, groups, keywords,
//! conditions and arithmetic. It expands nothing, judges nothing and knows no command by name.
//!
//! Where two shells would read a text differently the stricter reading is taken: more commands, or none at all
//! ([`Unsplittable`]).

mod expansions;
mod words;

use std::fmt;

use words::is_assignment;

/// Nested substitutions and groups that are followed; anything deeper is [`Unsplittable`] (GUARD-101).
pub(super) const MAX_DEPTH: usize = 32;

/// Longest text of a command or target that is kept for messages, in characters.
const SHOWN_CHARS: usize = 100;

/// The text has no reading as a command line: an unbalanced quote, an unterminated substitution, too much nesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsplittable;

/// One command with its arguments, without keywords and leading assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// The words with quotes removed. Empty when only redirections remain, as behind `done` or `)`.
    pub words: Vec<String>,
    /// Files that its redirections open for writing.
    pub targets: Vec<Target>,
    /// The command as written.
    pub source: Source,
    /// How many constructs it is nested in.
    pub depth: usize,
}

/// The target of an output redirection; descriptors (`2>&1`, `>&-`) are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The word with quotes removed.
    pub path: String,
    /// The word as written.
    pub source: Source,
}

/// A piece of the command line for messages; displayed on one line, cut to [`SHOWN_CHARS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source(Vec<u8>);

impl Source {
    /// Four bytes are the longest character, so this many hold every character that can be shown and one more.
    const BYTES: usize = 4 * (SHOWN_CHARS + 1);

    fn new(raw: &[u8]) -> Self {
        Self(raw[..raw.len().min(Self::BYTES)].to_vec())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        let words: Vec<&str> =
            text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
        let line = words.join(" ");
        match line.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => write!(f, "{}…", &line[..end]),
            None if self.0.len() == Self::BYTES => write!(f, "{line}…"),
            None => f.write_str(&line),
        }
    }
}

/// Lists the simple commands of `text`, nested ones included, those of a substitution before the command that uses it.
/// `depth` is how deeply `text` itself is nested.
pub(super) fn split(text: &[u8], depth: usize) -> Result<Vec<SimpleCommand>, Unsplittable> {
    let mut splitter = Splitter::new(text, depth, 0)?;
    splitter.list(End::Text)?;
    Ok(splitter.found)
}

/// What ends a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Paren,
    Brace,
    Clause,
}

/// What did end it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    AsAsked,
    ByEsac,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parenthesis {
    OfCompound,
    OfFunction,
}

struct HereDoc {
    delimiter: Vec<u8>,
    strip_tabs: bool,
    expands: bool,
}

struct Splitter<'a> {
    bytes: &'a [u8],
    pos: usize,
    /// One past the last readable byte; smaller than the text while the body of a here-document is read.
    end: usize,
    depth: usize,
    /// Here-documents whose bodies start after the next newline.
    pending: Vec<HereDoc>,
    found: Vec<SimpleCommand>,
    /// How often `((` was read as arithmetic first and had to be read again as commands; bounded, so that rereading
    /// stays linear.
    retries: usize,
}

impl<'a> Splitter<'a> {
    fn new(bytes: &'a [u8], depth: usize, retries: usize) -> Result<Self, Unsplittable> {
        if depth > MAX_DEPTH {
            return Err(Unsplittable);
        }
        Ok(Self { bytes, pos: 0, end: bytes.len(), depth, pending: Vec::new(), found: Vec::new(), retries })
    }

    fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<u8> {
        let at = self.pos + ahead;
        if at < self.end { Some(self.bytes[at]) } else { None }
    }

    fn looking_at(&self, text: &[u8]) -> bool {
        self.bytes[self.pos.min(self.end)..self.end].starts_with(text)
    }

    fn advance(&mut self, by: usize) {
        self.pos = (self.pos + by).min(self.end);
    }

    fn enter(&mut self) -> Result<(), Unsplittable> {
        if self.depth == MAX_DEPTH {
            return Err(Unsplittable);
        }
        self.depth += 1;
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.pos += 1,
                b'\\' if self.peek_at(1) == Some(b'\n') => self.pos += 2,
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.pos += 1;
        }
    }

    /// Skips everything that may stand before a command: blanks, newlines with the here-documents behind them,
    /// comments.
    fn skip_lines(&mut self) -> Result<(), Unsplittable> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'\n') => {
                    self.pos += 1;
                    self.here_documents()?;
                }
                Some(b'#') => self.skip_comment(),
                _ => return Ok(()),
            }
        }
    }

    fn list(&mut self, end: End) -> Result<Ended, Unsplittable> {
        let mut braces = 0usize;
        loop {
            self.skip_lines()?;
            match self.peek() {
                None if end == End::Text => return Ok(Ended::AsAsked),
                None => return Err(Unsplittable),
                Some(b')') if end == End::Paren => {
                    self.pos += 1;
                    return Ok(Ended::AsAsked);
                }
                Some(b')') => return Err(Unsplittable),
                Some(b';') if end == End::Clause && matches!(self.peek_at(1), Some(b';' | b'&')) => {
                    self.pos += 2;
                    if self.peek() == Some(b'&') {
                        self.pos += 1;
                    }
                    return Ok(Ended::AsAsked);
                }
                Some(b'&') if self.peek_at(1) == Some(b'>') => {
                    self.command(end, &mut braces)?;
                }
                Some(b';' | b'|' | b'&') => self.pos += 1,
                Some(_) => {
                    if let Some(ended) = self.command(end, &mut braces)? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// Reads one simple command, or the keywords and the compound command that stand in its place. Returns how the
    /// surrounding list ended when the word that ends it was met.
    fn command(&mut self, end: End, braces: &mut usize) -> Result<Option<Ended>, Unsplittable> {
        let mut words: Vec<String> = Vec::new();
        let mut targets = Vec::new();
        let mut from = None;
        // Behind an assignment or a redirection a keyword is an ordinary word.
        let mut bound = false;
        let mut coproc = false;
        let ended = loop {
            self.skip_blanks();
            let Some(byte) = self.peek() else { break None };
            let substitutes = matches!(byte, b'<' | b'>') && self.peek_at(1) == Some(b'(');
            match byte {
                b'\n' | b';' | b'|' | b')' => break None,
                b'&' if self.peek_at(1) != Some(b'>') => break None,
                b'#' => {
                    self.skip_comment();
                    break None;
                }
                b'(' => {
                    from.get_or_insert(self.pos);
                    if self.parenthesis(&mut words)? == Parenthesis::OfFunction {
                        from = None;
                    }
                    continue;
                }
                b'&' | b'<' | b'>' if !substitutes => {
                    from.get_or_insert(self.pos);
                    self.redirection(&mut targets)?;
                    bound |= words.is_empty();
                    continue;
                }
                b'0'..=b'9' if self.at_descriptor() => {
                    from.get_or_insert(self.pos);
                    self.redirection(&mut targets)?;
                    bound |= words.is_empty();
                    continue;
                }
                _ => {}
            }
            let word = self.word(words.is_empty())?;
            if coproc && words.len() == 1 && !word.quoted && word.text == b"{" {
                words.clear();
                from = None;
            }
            if words.is_empty() {
                if !bound && !word.quoted {
                    match word.text.as_slice() {
                        b"if" | b"then" | b"elif" | b"else" | b"while" | b"until" | b"do" | b"done" | b"fi" | b"!" => {
                            continue;
                        }
                        b"{" => {
                            *braces += 1;
                            continue;
                        }
                        b"}" if end == End::Brace && *braces == 0 => break Some(Ended::AsAsked),
                        b"}" => {
                            *braces = braces.saturating_sub(1);
                            continue;
                        }
                        b"esac" if end == End::Clause => break Some(Ended::ByEsac),
                        b"case" => {
                            self.case()?;
                            continue;
                        }
                        b"[[" => {
                            self.condition()?;
                            continue;
                        }
                        b"function" => {
                            self.skip_blanks();
                            self.word(true)?;
                            self.skip_blanks();
                            if self.peek() == Some(b'(') {
                                self.empty_parentheses()?;
                            }
                            continue;
                        }
                        b"coproc" => {
                            coproc = true;
                            continue;
                        }
                        b"time" => {
                            self.skip_blanks();
                            if self.peek() != Some(b'-') {
                                continue;
                            }
                        }
                        b"for" | b"select" => {
                            self.skip_blanks();
                            if self.looking_at(b"((") {
                                if !self.arithmetic(2)? {
                                    return Err(Unsplittable);
                                }
                                continue;
                            }
                        }
                        _ => {}
                    }
                }
                if is_assignment(&self.bytes[word.start..self.pos]) {
                    bound = true;
                    continue;
                }
            }
            from.get_or_insert(word.start);
            words.push(lossy(word.text));
        };
        if !words.is_empty() || !targets.is_empty() {
            let from = from.unwrap_or(self.pos).min(self.pos);
            let source = Source::new(&self.bytes[from..self.pos]);
            self.found.push(SimpleCommand { words, targets, source, depth: self.depth });
        }
        Ok(ended)
    }

    /// `(` where a word could begin: arithmetic, a subshell, or the parentheses of a function definition.
    fn parenthesis(&mut self, words: &mut Vec<String>) -> Result<Parenthesis, Unsplittable> {
        match words.len() {
            0 => {
                if self.looking_at(b"((") && self.arithmetic(2)? {
                    return Ok(Parenthesis::OfCompound);
                }
                self.enter()?;
                self.pos += 1;
                self.list(End::Paren)?;
                self.depth -= 1;
                Ok(Parenthesis::OfCompound)
            }
            1 => {
                words.clear();
                self.empty_parentheses()?;
                Ok(Parenthesis::OfFunction)
            }
            _ => Err(Unsplittable),
        }
    }

    fn empty_parentheses(&mut self) -> Result<(), Unsplittable> {
        self.pos += 1;
        self.skip_blanks();
        if self.peek() != Some(b')') {
            return Err(Unsplittable);
        }
        self.pos += 1;
        Ok(())
    }

    fn case(&mut self) -> Result<(), Unsplittable> {
        self.enter()?;
        self.skip_blanks();
        self.word(false)?;
        self.skip_lines()?;
        if self.word(false)?.text != b"in" {
            return Err(Unsplittable);
        }
        loop {
            self.skip_lines()?;
            let parenthesised = self.peek() == Some(b'(');
            if parenthesised {
                self.pos += 1;
            }
            loop {
                self.skip_blanks();
                let pattern = self.word(false)?;
                if !parenthesised && !pattern.quoted && pattern.text == b"esac" {
                    self.depth -= 1;
                    return Ok(());
                }
                self.skip_blanks();
                match self.peek() {
                    Some(b'|') => self.pos += 1,
                    Some(b')') => {
                        self.pos += 1;
                        break;
                    }
                    _ => return Err(Unsplittable),
                }
            }
            if self.list(End::Clause)? == Ended::ByEsac {
                self.depth -= 1;
                return Ok(());
            }
        }
    }

    /// The rest of `[[ … ]]`, in which `<`, `>`, `(`, `&&` and `|` are operators of the test.
    fn condition(&mut self) -> Result<(), Unsplittable> {
        loop {
            self.skip_lines()?;
            match self.peek() {
                None => return Err(Unsplittable),
                Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => self.pos += 1,
                Some(b'(' | b')' | b'&' | b'|' | b';') => self.pos += 1,
                Some(_) => {
                    let word = self.word(false)?;
                    if !word.quoted && word.text == b"]]" {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether digits at the current place are the descriptor of a redirection.
    fn at_descriptor(&self) -> bool {
        let digits = self.bytes[self.pos..self.end].iter().take_while(|byte| byte.is_ascii_digit()).count();
        matches!(self.peek_at(digits), Some(b'<' | b'>'))
    }

    fn redirection(&mut self, targets: &mut Vec<Target>) -> Result<(), Unsplittable> {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.pos += 1;
        }
        const OPERATORS: [&[u8]; 12] =
            [b"&>>", b"&>", b"<<<", b"<<-", b"<<", b"<>", b"<&", b"<", b">>", b">|", b">&", b">"];
        let operator = OPERATORS.into_iter().find(|operator| self.looking_at(operator)).ok_or(Unsplittable)?;
        self.pos += operator.len();
        self.skip_blanks();
        let substitutes = matches!(self.peek(), Some(b'<' | b'>')) && self.peek_at(1) == Some(b'(');
        if !substitutes
            && matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' | b'#'))
        {
            return Err(Unsplittable);
        }
        let word = self.word(false)?;
        let raw = &self.bytes[word.start..self.pos];
        match operator {
            b"<<" | b"<<-" => {
                if !word.quoted && (contains(raw, b"$(") || contains(raw, b"${") || raw.contains(&b'`')) {
                    return Err(Unsplittable);
                }
                let expands = !word.quoted;
                self.pending.push(HereDoc { delimiter: word.text, strip_tabs: operator == b"<<-", expands });
            }
            b"<<<" | b"<&" | b"<" => {}
            b">&" if is_descriptor(&word.text) => {}
            _ => targets.push(Target { path: lossy(word.text), source: Source::new(raw) }),
        }
        Ok(())
    }

    /// Reads the bodies of the here-documents that were announced on the line that just ended. One whose delimiter
    /// is missing reaches to the end of the text, as in the shell.
    fn here_documents(&mut self) -> Result<(), Unsplittable> {
        for document in std::mem::take(&mut self.pending) {
            let start = self.pos;
            let mut body_end = self.end;
            while self.pos < self.end {
                let line_start = self.pos;
                let length = self.bytes[line_start..self.end].iter().position(|&byte| byte == b'\n');
                let line_end = length.map_or(self.end, |length| line_start + length);
                self.pos = (line_end + 1).min(self.end);
                let mut line = &self.bytes[line_start..line_end];
                while document.strip_tabs && line.first() == Some(&b'\t') {
                    line = &line[1..];
                }
                if line == document.delimiter {
                    body_end = line_start;
                    break;
                }
            }
            if document.expands {
                let (after, end) = (self.pos, self.end);
                (self.pos, self.end) = (start, body_end);
                self.expanded_text()?;
                (self.pos, self.end) = (after, end);
            }
        }
        Ok(())
    }

    /// Text up to `end` in which only expansions mean something.
    fn expanded_text(&mut self) -> Result<(), Unsplittable> {
        let mut unused = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.advance(2),
                b'$' => self.dollar(&mut unused, true)?,
                b'`' => self.backticks(&mut unused, true)?,
                _ => self.pos += 1,
            }
            unused.clear();
        }
        Ok(())
    }
}

/// Whether the word behind `>&` names a descriptor (`1`, `1-`) or closes one (`-`).
fn is_descriptor(text: &[u8]) -> bool {
    let digits = text.strip_suffix(b"-").unwrap_or(text);
    text == b"-" || (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn lossy(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
