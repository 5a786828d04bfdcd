//! Splits a shell command line into its simple commands (GUARD-72).
//!
//! One pass over the bytes, recursion only into nested constructs and there to [`MAX_DEPTH`], so the work is linear
//! in the length of the text. It understands the grammar of `bash` as far as it decides where a command begins and
//! ends and what its words are: quotes, escapes, comments, here-documents, substitutions, groups, keywords,
//! conditions and arithmetic. It expands nothing, judges nothing and knows no command by name.
//!
//! Where two shells would read a text differently the stricter reading is taken: more commands, or none at all
//! ([`Unsplittable`]).

use std::fmt;

/// Nested substitutions and groups that are followed; anything deeper is [`Unsplittable`] (GUARD-101).
pub(super) const MAX_DEPTH: usize = 32;

/// What stands in a word for something that only the shell can compute. It reads as an expansion again, so a text
/// that is split a second time (`eval`, `bash -c`) neither repeats nor hides what was inside: those commands have
/// been listed already.
const OPAQUE: &[u8] = b"$_";

/// The bytes that end a word or mean something inside one or inside double quotes.
const SPECIAL: &[u8] = b" \t\n;&|()<>\\'\"$`";

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

struct Word {
    text: Vec<u8>,
    start: usize,
    quoted: bool,
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

    // --- reading ---------------------------------------------------------------------------------------------

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

    // --- commands --------------------------------------------------------------------------------------------

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

    // --- redirections ----------------------------------------------------------------------------------------

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

    // --- words -----------------------------------------------------------------------------------------------

    /// Reads one word. `first` is the place of the command word, where `!(` is a negated subshell and no pattern.
    fn word(&mut self, first: bool) -> Result<Word, Unsplittable> {
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

    fn single_quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Unsplittable> {
        self.pos += 1;
        let rest = &self.bytes[self.pos..self.end];
        let length = rest.iter().position(|&byte| byte == b'\'').ok_or(Unsplittable)?;
        text.extend_from_slice(&rest[..length]);
        self.pos += length + 1;
        Ok(())
    }

    fn double_quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Unsplittable> {
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
    fn ansi_quoted(&mut self, text: &mut Vec<u8>) -> Result<(), Unsplittable> {
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

    // --- expansions ------------------------------------------------------------------------------------------

    /// `$` and what it introduces. `quoted`: inside double quotes or a here-document.
    fn dollar(&mut self, text: &mut Vec<u8>, quoted: bool) -> Result<(), Unsplittable> {
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
    fn substitution(&mut self, open: usize) -> Result<(), Unsplittable> {
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

    fn backticks(&mut self, text: &mut Vec<u8>, quoted: bool) -> Result<(), Unsplittable> {
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
    fn arithmetic(&mut self, open: usize) -> Result<bool, Unsplittable> {
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

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a word as written is `name=…`, `name+=…` or `name[…]=…`.
fn is_assignment(raw: &[u8]) -> bool {
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
