//! What tidy knows about one Rust file: the paths it names, the macros and methods it calls, the modules it declares
//! and the tests it holds.
//!
//! Names are resolved as far as the file alone allows: through its own `use` declarations. Nothing here knows a rule;
//! the checks judge these facts.

use std::collections::HashMap;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Facts about one file. Lines count from 1.
#[derive(Debug, Default)]
pub struct Facts {
    pub mods: Vec<ModDecl>,
    pub names: Vec<Named>,
    pub macros: Vec<Called>,
    /// Calls of methods without arguments, by name.
    pub getters: Vec<Called>,
    /// `async` functions, blocks and closures.
    pub asyncs: Vec<Called>,
    /// `#[ignore]` in any form.
    pub ignores: Vec<usize>,
    /// Files named by `include!`, relative to this one.
    pub includes: Vec<String>,
    pub tests: Vec<TestFn>,
}

/// A `mod name;` that brings in another file.
#[derive(Debug)]
pub struct ModDecl {
    /// Modules of this file around the declaration.
    pub inline: Vec<String>,
    pub name: String,
    /// The value of `#[path]`.
    pub path: Option<String>,
    pub test: bool,
}

/// A path as written, or as a `use` of the file completes it.
#[derive(Debug)]
pub struct Named {
    /// Modules of this file around the path.
    pub inline: Vec<String>,
    pub segments: Vec<String>,
    pub line: usize,
    pub test: bool,
    /// Stands in a `use` declaration; a single segment then names a crate.
    pub imported: bool,
}

#[derive(Debug)]
pub struct Called {
    pub name: String,
    pub line: usize,
    pub test: bool,
}

/// A function with a `#[test]`-like attribute, also inside a macro such as `proptest!`.
#[derive(Debug)]
pub struct TestFn {
    pub name: String,
    pub line: usize,
    /// Lines of the doc comment with their line numbers.
    pub docs: Vec<(usize, String)>,
}

impl Facts {
    /// The facts of `source`, or the line and message of a syntax error.
    pub fn of(source: &str) -> Result<Self, (usize, String)> {
        let failed = |line: usize, error: &dyn std::fmt::Display| (line, error.to_string());
        let tokens: TokenStream =
            source.parse().map_err(|error: proc_macro2::LexError| failed(error.span().start().line, &error))?;
        let mut facts = Self::default();
        scan_tests(tokens.clone(), &mut facts);
        let file: syn::File = syn::parse2(tokens).map_err(|error| failed(error.span().start().line, &error))?;
        let mut reader = Reader { test: has_cfg_test(&file.attrs), ..Reader::default() };
        reader.visit_file(&file);
        reader.finish(&mut facts);
        Ok(facts)
    }
}

#[derive(Default)]
struct Reader {
    inline: Vec<String>,
    test: bool,
    /// Per inline module: the first segment that stands for a longer path.
    aliases: HashMap<(Vec<String>, String), Vec<Vec<String>>>,
    names: Vec<Named>,
    mods: Vec<ModDecl>,
    macros: Vec<Called>,
    getters: Vec<Called>,
    asyncs: Vec<Called>,
    includes: Vec<String>,
}

impl Reader {
    fn finish(self, facts: &mut Facts) {
        let aliases = self.aliases;
        for named in self.names {
            let full = (!named.imported)
                .then(|| named.segments.first().and_then(|first| aliases.get(&(named.inline.clone(), first.clone()))))
                .flatten();
            match full {
                None => facts.names.push(named),
                Some(paths) => facts.names.extend(paths.iter().map(|path| Named {
                    inline: named.inline.clone(),
                    segments: path.iter().chain(&named.segments[1..]).cloned().collect(),
                    ..named
                })),
            }
        }
        facts.mods = self.mods;
        facts.macros = self.macros;
        facts.getters = self.getters;
        facts.asyncs = self.asyncs;
        facts.includes = self.includes;
    }

    fn name(&mut self, segments: Vec<String>, line: usize, imported: bool) {
        self.names.push(Named { inline: self.inline.clone(), segments, line, test: self.test, imported });
    }

    fn called(&self, name: &Ident) -> Called {
        Called { name: name.to_string(), line: name.span().start().line, test: self.test }
    }

    fn is_async(&mut self, token: Option<syn::Token![async]>) {
        if let Some(token) = token {
            self.asyncs.push(Called { name: "async".into(), line: token.span.start().line, test: self.test });
        }
    }

    /// Runs `inner` as test code if `attrs` say so.
    fn under(&mut self, attrs: &[syn::Attribute], inner: impl FnOnce(&mut Self)) {
        let outer = self.test;
        self.test |= has_cfg_test(attrs) || attrs.iter().any(is_test_attr);
        inner(self);
        self.test = outer;
    }

    fn use_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let joined = |ident: &Ident| {
            let mut path = prefix.to_vec();
            // `use a::b::{self}` names `a::b`.
            if ident != "self" || prefix.is_empty() {
                path.push(ident.to_string());
            }
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&joined(&path.ident), &path.tree),
            syn::UseTree::Name(name) => {
                let path = joined(&name.ident);
                let alias = path.last().cloned().unwrap_or_default();
                self.import(path, alias, name.ident.span().start().line);
            }
            syn::UseTree::Rename(rename) => {
                self.import(joined(&rename.ident), rename.rename.to_string(), rename.ident.span().start().line);
            }
            syn::UseTree::Glob(glob) => self.name(prefix.to_vec(), glob.star_token.span().start().line, true),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(prefix, item)),
        }
    }

    fn import(&mut self, path: Vec<String>, alias: String, line: usize) {
        // `use serde;` stands for itself.
        if path.len() > 1 || path[0] != alias {
            self.aliases.entry((self.inline.clone(), alias)).or_default().push(path.clone());
        }
        self.name(path, line, true);
    }

    /// Paths in a stretch of tokens that no parser has looked at: macro arguments, attribute arguments.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Group(group) => {
                    self.scan(group.stream());
                    at += 1;
                }
                TokenTree::Ident(first) => {
                    let line = first.span().start().line;
                    let member = at > 0 && matches!(&tokens[at - 1], TokenTree::Punct(p) if p.as_char() == '.');
                    let mut segments = vec![first.to_string()];
                    at += 1;
                    while is_path_separator(&tokens, at) {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 2) else { break };
                        segments.push(next.to_string());
                        at += 3;
                    }
                    let bang = matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                    if bang && matches!(tokens.get(at + 1), Some(TokenTree::Group(_))) {
                        let name = segments.last().cloned().unwrap_or_default();
                        self.macros.push(Called { name, line, test: self.test });
                    }
                    if !member {
                        self.name(segments, line, false);
                    } else if empty_call(tokens.get(at)) {
                        self.getters.push(Called { name: segments.swap_remove(0), line, test: self.test });
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.under(item_attrs(item), |reader| visit::visit_item(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.under(&item.attrs, |reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            let path = item.attrs.iter().find_map(path_attr);
            self.mods.push(ModDecl { inline: self.inline.clone(), name: bare(&item.ident), path, test: self.test });
        }
        self.inline.push(bare(&item.ident));
        visit::visit_item_mod(self, item);
        self.inline.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&[], &item.tree);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.name(vec![item.ident.to_string()], item.ident.span().start().line, true);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::x)` opens a name, it uses none.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = path.span().start().line;
        self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect(), line, false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        visit::visit_macro(self, item);
        let Some(last) = item.path.segments.last() else { return };
        self.macros.push(self.called(&last.ident));
        if last.ident == "include"
            && let Ok(file) = item.parse_body::<syn::LitStr>()
        {
            self.includes.push(file.value());
        }
        self.scan(item.tokens.clone());
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        visit::visit_meta_list(self, list);
        self.scan(list.tokens.clone());
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.args.is_empty() {
            self.getters.push(self.called(&call.method));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.is_async(signature.asyncness);
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, block: &'ast syn::ExprAsync) {
        self.is_async(Some(block.async_token));
        visit::visit_expr_async(self, block);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.is_async(closure.asyncness);
        visit::visit_expr_closure(self, closure);
    }
}

/// Finds tests and `#[ignore]` in the bare tokens, so that those inside macros count too.
fn scan_tests(tokens: TokenStream, facts: &mut Facts) {
    let mut docs: Vec<(usize, String)> = Vec::new();
    let mut is_test = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let Some(TokenTree::Group(group)) = tokens.peek() else { continue };
                if group.delimiter() == Delimiter::Bracket {
                    let attr = group.stream();
                    let line = group.span_open().start().line;
                    tokens.next();
                    match attr_kind(&attr) {
                        AttrKind::Doc(text) => {
                            docs.extend(text.lines().enumerate().map(|(i, text)| (line + i, text.to_owned())));
                        }
                        AttrKind::Test => is_test = true,
                        AttrKind::Ignore => facts.ignores.push(line),
                        AttrKind::Other => {}
                    }
                }
            }
            TokenTree::Ident(word) if word == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    let (docs, name) = (std::mem::take(&mut docs), name.clone());
                    if std::mem::take(&mut is_test) {
                        let line = name.span().start().line;
                        facts.tests.push(TestFn { name: name.to_string(), line, docs });
                    }
                }
            }
            // What may stand between the attributes of a function and its `fn`.
            TokenTree::Ident(word) if ["pub", "async", "unsafe", "const", "extern"].iter().any(|w| word == w) => {}
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::Parenthesis {
                    docs.clear();
                    is_test = false;
                }
                scan_tests(group.stream(), facts);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {
                docs.clear();
                is_test = false;
            }
        }
    }
}

enum AttrKind {
    Doc(String),
    Test,
    Ignore,
    Other,
}

fn attr_kind(attr: &TokenStream) -> AttrKind {
    let mut tokens = attr.clone().into_iter().peekable();
    let mut last = None;
    while let Some(token) = tokens.peek() {
        match token {
            TokenTree::Ident(ident) => last = Some(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            _ => break,
        }
        tokens.next();
    }
    match last.as_deref() {
        Some("doc") => match tokens.last() {
            Some(TokenTree::Literal(text)) => AttrKind::Doc(
                syn::parse_str::<syn::LitStr>(&text.to_string()).map(|text| text.value()).unwrap_or_default(),
            ),
            _ => AttrKind::Other,
        },
        Some("test") => AttrKind::Test,
        Some("ignore") => AttrKind::Ignore,
        Some("cfg_attr") if names(attr.clone(), "ignore") => AttrKind::Ignore,
        _ => AttrKind::Other,
    }
}

fn names(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => names(group.stream(), word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// `cfg(test)`, alone or in an `all` or `any`; never below a `not`.
fn has_cfg_test(attrs: &[syn::Attribute]) -> bool {
    fn asks_for_test(tokens: TokenStream) -> bool {
        let mut negated = false;
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => {
                negated = ident == "not";
                ident == "test"
            }
            TokenTree::Group(group) => !negated && asks_for_test(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && asks_for_test(list.tokens.clone()),
        _ => false,
    })
}

fn is_test_attr(attr: &syn::Attribute) -> bool {
    attr.path().segments.last().is_some_and(|last| last.ident == "test")
}

fn path_attr(attr: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attr.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| value.value())
}

/// `r#type` is the file `type.rs`.
fn bare(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

fn empty_call(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis && g.stream().is_empty())
}

fn item_attrs(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
