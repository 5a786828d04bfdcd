use super::*;

fn words(text: &str) -> Vec<String> {
    split(text.as_bytes(), 0).expect("splits").into_iter().map(|command| command.words.join(" ")).collect()
}

fn targets(text: &str) -> Vec<String> {
    let commands = split(text.as_bytes(), 0).expect("splits");
    commands.into_iter().flat_map(|command| command.targets).map(|target| target.path).collect()
}

/// GUARD-72
#[test]
fn commands_are_found_wherever_they_stand() {
    let table: &[(&str, &[&str])] = &[
        ("a; b & c && d || e | f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
        ("a |& b;c", &["a", "b", "c"]),
        ("(a; b)", &["a", "b"]),
        ("{ a; b; }", &["a", "b"]),
        ("x $(a $(b)) y", &["b", "a $_", "x $_ y"]),
        ("x `a`", &["a", "x $_"]),
        ("x `a \\`b\\``", &["b", "a $_", "x $_"]),
        ("diff <(a) >(b)", &["a", "b", "diff $_ $_"]),
        ("x \"$(a \"$(b)\")\"", &["b", "a $_", "x $_"]),
        ("x ${v:-$(a)}", &["a", "x $_"]),
        ("x ${ a; b; }", &["a", "b", "x $_"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while ! a; do b; done", &["a", "b"]),
        ("for x in 1 $(a); do b $x; done", &["a", "for x in 1 $_", "b $x"]),
        ("for ((i=0; i<3; i++)); do a; done", &["a"]),
        ("case $(s) in a|b) x;; (c) y ;& *) z; esac; t", &["s", "x", "y", "z", "t"]),
        ("x=$(case a in b) c;; esac)", &["c"]),
        ("[[ a > b && ! -f c || $(d) == @(x|y) ]] && e", &["d", "e"]),
        ("(( a > b )) && c", &["c"]),
        ("x $(( 1 > $(a) )) y", &["a", "x $_ y"]),
        ("((a); b)", &["a", "b"]),
        ("x $((a) | b)", &["a", "b", "x $_"]),
        ("f() { a; }; f", &["a", "f"]),
        ("function f { a; }", &["a"]),
        ("coproc a; coproc N { b; }", &["a", "b"]),
        ("time a; time -p b", &["a", "time -p b"]),
        ("A=1 B+=2 c[0]=3 d=(x y) e f=1", &["e f=1"]),
        ("a=(1 $(b) [k]='v')", &["b"]),
        ("ls !(a|b) *.@(c|d)", &["ls !$_ *.@$_"]),
        ("!(a)", &["a"]),
    ];
    for (text, expected) in table {
        assert_eq!(words(text), *expected, "{text}");
    }
}

/// GUARD-72
#[test]
fn quotes_escapes_and_comments_are_understood() {
    let table: &[(&str, &[&str])] = &[
        ("echo 'a; b' \"c | d\" e\\;f", &["echo a; b c | d e;f"]),
        ("r\\m x", &["rm x"]),
        ("'r'\"m\" x", &["rm x"]),
        ("r\\\nm x", &["rm x"]),
        ("$'r\\x6d' $'\\162m' $'it\\'s'", &["rm rm it's"]),
        ("$\"a b\"", &["a b"]),
        ("a # b; c\nd", &["a", "d"]),
        ("a#b", &["a#b"]),
        ("echo \"a \\\" b\" c", &["echo a \" b c"]),
        ("echo \"${x:-it's}\" b", &["echo $_ b"]),
        ("echo \"${x%'}'}\" b", &["echo $_ b"]),
        ("echo ${#a} ${!b} $# $?", &["echo $_ $_ $# $?"]),
        ("'if' a", &["if a"]),
        ("echo if then", &["echo if then"]),
        ("\u{e9}cho \\\u{e9}", &["\u{e9}cho \u{e9}"]),
    ];
    for (text, expected) in table {
        assert_eq!(words(text), *expected, "{text}");
    }
}

/// GUARD-72
#[test]
fn here_documents_are_data_except_for_their_expansions() {
    let table: &[(&str, &[&str])] = &[
        ("cat <<EOF\nrm x\nEOF\na", &["cat", "a"]),
        ("cat <<EOF\n$(a) `b` it's \"\nEOF\nc", &["cat", "a", "b", "c"]),
        ("cat <<'EOF'\n$(a) `b`\nEOF\nc", &["cat", "c"]),
        ("cat <<-EOF | d\n\tx\n\tEOF\nc", &["cat", "d", "c"]),
        ("cat <<A <<B; e\n1\nA\n2\nB\nc", &["cat", "e", "c"]),
        ("x=$(cat <<E\nrm\nE\n)\nc", &["cat", "c"]),
        ("(cat <<E)\nrm\nE\nc", &["cat", "c"]),
        ("cat <<E\nnever closed", &["cat"]),
        ("cat <<<'rm x' y", &["cat y"]),
        ("cat <<E \"a\nb\"\nrm\nE\nc", &["cat a\nb", "c"]),
    ];
    for (text, expected) in table {
        assert_eq!(words(text), *expected, "{text}");
    }
}

#[test]
fn redirections_name_the_files_they_write() {
    let table: &[(&str, &[&str])] = &[
        ("a > b >> c 2> d &> e &>> f >| g <> h >& i 9>j {fd}>k", &["b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]),
        ("a 2>&1 >&2 >&- 2>&1- <&3 < in << E\nE", &[]),
        ("a>b", &["b"]),
        (">b", &["b"]),
        ("> 'a b' c", &["a b"]),
        ("(a) > b; { c; } > d; while e; do f; done > g", &["b", "d", "g"]),
        ("if a; then b; fi > c; [[ d ]] > e; (( 1 )) > f; case a in esac > g", &["c", "e", "f", "g"]),
        ("a > $x$(b)", &["$x$_"]),
        ("a > >(b)", &["$_"]),
        ("[ 5 > 3 ]", &["3"]),
        ("echo '>' \">\" \\> a", &[]),
        ("a2>b", &["b"]),
    ];
    for (text, expected) in table {
        assert_eq!(targets(text), *expected, "{text}");
    }
}

/// GUARD-75
#[test]
fn what_has_no_reading_is_not_split() {
    for text in [
        "echo 'a",
        "echo \"a",
        "echo $(a",
        "echo `a",
        "echo ${a",
        "(a",
        "a)",
        "a >",
        "a > ; b",
        "a <<",
        "case a in b",
        "case a b",
        "[[ a",
        "echo (a)",
        "f(",
        "for ((;;",
        "echo \"$(a\"",
        "$'a",
        "a=(b",
        "cat <<E $(cat <<F)\n",
        "<<$(a)\n",
        "ls @(a",
    ] {
        assert_eq!(split(text.as_bytes(), 0), Err(Unsplittable), "{text}");
    }
}

/// GUARD-101
#[test]
fn nesting_is_followed_to_its_limit() {
    for (open, close) in [("$(", ")"), ("( ", ")"), ("\"$(", ")\""), ("${x:-", "}"), ("<(", ")")] {
        let nested = |depth: usize| format!("a {}b{}", open.repeat(depth), close.repeat(depth));
        let text = |depth| if open == "( " { nested(depth).split_off(2) } else { nested(depth) };
        assert!(split(text(MAX_DEPTH).as_bytes(), 0).is_ok(), "{open}");
        assert_eq!(split(text(MAX_DEPTH + 1).as_bytes(), 0), Err(Unsplittable), "{open}");
        assert_eq!(split(text(MAX_DEPTH).as_bytes(), 1), Err(Unsplittable), "{open}");
    }
}

#[test]
fn a_command_is_shown_on_one_short_line() {
    let shown = |text: &str| split(text.as_bytes(), 0).expect("splits")[0].source.to_string();
    assert_eq!(shown("  rm\t-rf \\\n  x ; ls"), "rm -rf \\ x");
    assert_eq!(shown("if true; then :; fi"), "true");
    assert_eq!(shown("A=1 rm x 2>/dev/null\n"), "rm x 2>/dev/null");
    assert_eq!(shown("cat > f <<E\nx\nE"), "cat > f <<E");
    assert_eq!(shown(&format!("rm {}", "\u{e9}".repeat(200))), format!("rm {}…", "\u{e9}".repeat(97)));
    assert_eq!(shown(&format!("rm{}x", " ".repeat(5000))), "rm…");
}
