//! The two classifiers against the tables of 10 §7, and against anything at all.

use std::path::Path;

use proptest::prelude::*;

use super::{LedgerHit, ReadOnlyVerdict, Why, classify_ledger, classify_read_only};

/// One row of GUARD-74: what is refused, why, and what of the same kind is allowed.
struct Row {
    why: Why,
    refused: &'static [&'static str],
    allowed: &'static [&'static str],
}

fn rows() -> Vec<Row> {
    let writes_to = |target: &str| Why::WritesTo(target.to_owned());
    vec![
        Row {
            why: writes_to("f"),
            refused: &[
                "echo a > f",
                "echo a >> f",
                "echo a >| f",
                "echo a &> f",
                "echo a &>> f",
                "cat <> f",
                "echo a 2> f",
                "echo a >& f",
                "echo a {fd}> f",
                "> f",
                "cat > f <<E\nx\nE",
                "cat <<E > f\nx\nE",
                "{ ls; } > f",
                "for x in a; do ls; done > f",
                "(ls) > f",
            ],
            allowed: &[
                "ls 2>/dev/null",
                "ls 2>&1",
                "ls >/dev/stderr",
                "ls > /dev/stdout",
                "echo x > /dev/tty",
                "ls >&2",
                "ls 3>&-",
                "ls >/dev/fd/3",
                "ls &>/dev/null",
                "echo '> f'",
                "echo \"a > f\"",
                "echo a \\> f",
                "cat <<E\na > f\nE",
                "cat < f",
                "[[ a > f ]]",
                "echo $((1 > 2))",
                "awk '$1 > 3' f",
                "cat <<< '> f'",
            ],
        },
        Row { why: writes_to("/tmp/x"), refused: &["ls > /tmp/x", "ls >/tmp/x 2>&1"], allowed: &["ls /tmp/x"] },
        Row { why: writes_to("$OUT"), refused: &["ls > $OUT"], allowed: &["ls $OUT"] },
        Row { why: writes_to("\"/dev/$x\""), refused: &["ls > \"/dev/$x\""], allowed: &["ls > \"/dev/null\""] },
        Row {
            why: Why::ChangesFiles,
            refused: &[
                "rm x",
                "rmdir x",
                "unlink x",
                "mv a b",
                "cp a b",
                "mkdir x",
                "mktemp",
                "touch x",
                "ln -s a b",
                "link a b",
                "install a b",
                "truncate -s 0 x",
                "shred x",
                "dd if=a of=b",
                "tee x",
                "sponge x",
                "mkfifo x",
                "mknod x p",
                "chmod +x a",
                "chown a b",
                "chgrp a b",
                "chattr +i a",
                "setfacl -m a b",
                "patch -p1",
                "rsync a b",
                "scp a b:c",
                "unzip a.zip",
                "/bin/rm -rf x",
                "\\rm x",
                "'rm' x",
            ],
            allowed: &["ls -la", "cat x", "stat x", "wc -l x", "head -1 rm", "grep rm x", "cp --help", "rm --version"],
        },
        Row {
            why: Why::ChangesFiles,
            refused: &[
                "sed -i s/a/b/ f",
                "sed -i.bak s/a/b/ f",
                "sed -Ei s/a/b/ f",
                "sed s/a/b/ -i f",
                "sed --in-place=.b s/a/b/ f",
                "sed --in-pl s/a/b/ f",
                "perl -pi -e s/a/b/ f",
                "perl -i.bak -pe x f",
                "perl -0777pi -e x f",
                "ruby -pi -e x f",
                "awk -i inplace '{print}' f",
                "gawk -iinplace x f",
                "awk --include=inplace x f",
                "sort -o f f",
                "sort -ro f f",
                "sort --output=f f",
                "sort f -of",
                "vi f",
                "vim f",
                "nvim f",
                "nano f",
                "emacs f",
                "ed f",
                "ex f",
            ],
            allowed: &[
                "sed -n '1,5p' f",
                "sed -e 's/i/x/' -e i f",
                "sed 's/-i/x/' f",
                "perl -ne print f",
                "perl -Mstrict -Ilib -e 'print' x -i",
                "ruby -e 'puts 1' x -i",
                "awk '{print}' f",
                "awk -f inplace.awk f",
                "sort -k 2 f",
                "sort -t o f",
                "sort -to f",
                "vim --version",
                "sed -- s/a/b/ -i",
            ],
        },
        Row {
            why: Why::ChangesFiles,
            refused: &[
                "tar xf a.tar",
                "tar -xzf a.tgz",
                "tar czf a.tgz d",
                "tar -f t.tar -x",
                "tar --extract -f a.tar",
                "tar --list --delete -f a.tar",
                "tar -rf a.tar b",
                "gzip f",
                "gunzip f.gz",
                "bzip2 f",
                "bunzip2 f.bz2",
                "xz f",
                "unxz f.xz",
                "zstd f",
                "unzstd f.zst",
                "gzip -S .c f",
                "zstd -o c f",
                "gzip -9 f",
            ],
            allowed: &[
                "tar tf a.tar",
                "tar -tzf a.tgz",
                "tar --list -f a.tar",
                "tar tvf a.tar d",
                "tar -f a.tar -t",
                "gzip -dc f.gz",
                "gunzip -c f.gz",
                "gzip --stdout f",
                "gzip -l f.gz",
                "xz -t f.xz",
                "bzip2 -dc f.bz2",
                "zstd --test f.zst",
                "zcat f.gz",
                "unxz --to-stdout f.xz",
                "zstd -dc f.zst",
                "bunzip2 -c f.bz2",
                "unzstd -c f",
            ],
        },
        Row {
            why: Why::ChangesFiles,
            refused: &[
                "find . -delete",
                "find . -fprint f",
                "find . -fprint0 f",
                "find . -fprintf f %p",
                "find . -fls f",
                "find . -exec rm {} +",
                "find . -execdir mv {} b \\;",
                "find . -ok rm {} \\;",
                "find . -exec ls {} \\; -exec rm {} \\;",
                "find . -exec sh -c 'rm $1' _ {} ';'",
            ],
            allowed: &[
                "find . -name '*.rs'",
                "find . -exec grep -l x {} +",
                "find . -printf %p",
                "find . -name rm -ls",
            ],
        },
        Row {
            why: Why::ChangesFiles,
            refused: &[
                "curl -o f http://h",
                "curl -O http://h/f",
                "curl --output f http://h",
                "curl --remote-name http://h/f",
                "curl -sSLo f http://h",
                "curl -fsSLO http://h/f",
                "wget http://h/f",
                "wget -O f http://h",
                "wget -qO f http://h",
                "wget --output-document=f http://h",
            ],
            allowed: &[
                "curl http://h",
                "curl -sS -H 'Accept: -o' http://h",
                "curl -X POST -d -o http://h",
                "curl -so /dev/null -w '%{http_code}' http://h",
                "curl -o - http://h",
                "wget -O - http://h",
                "wget -qO- http://h",
                "wget --spider http://h",
                "wget -q --output-document=- http://h",
            ],
        },
        Row {
            why: Why::ChangesRepository,
            refused: &[
                "git commit -m x",
                "git add .",
                "git push",
                "git pull",
                "git fetch",
                "git checkout main",
                "git switch x",
                "git reset --hard",
                "git merge x",
                "git rebase x",
                "git stash",
                "git stash pop",
                "git stash drop",
                "git branch x",
                "git branch -d x",
                "git branch -D x",
                "git branch -m a b",
                "git branch -v x",
                "git branch --sort=x y",
                "git tag v1",
                "git tag -d v1",
                "git tag -a v1 -m x",
                "git remote add o u",
                "git remote -v update",
                "git config user.name x",
                "git config --global --unset a.b",
                "git config --file list a.b c",
                "git reflog expire --all",
                "git reflog delete x",
                "git worktree add ../x",
                "git worktree",
                "git submodule update",
                "git notes add",
                "git clean -fd",
                "git -C dir commit -m x",
                "git -c a.b=c commit",
                "git --git-dir=x --work-tree y add .",
                "git apply p",
                "git am p",
                "git gc",
                "git init",
                "git clone u",
                "git rm x",
                "git mv a b",
                "git bisect start",
            ],
            allowed: &[
                "git status",
                "git log --oneline -5",
                "git diff HEAD~1",
                "git show HEAD:f",
                "git blame f",
                "git grep x",
                "git ls-files",
                "git ls-tree HEAD",
                "git ls-remote",
                "git cat-file -p HEAD",
                "git rev-parse HEAD",
                "git rev-list HEAD",
                "git describe --tags",
                "git shortlog -sn",
                "git name-rev HEAD",
                "git merge-base a b",
                "git for-each-ref",
                "git show-ref",
                "git diff-tree HEAD",
                "git diff-index HEAD",
                "git diff-files",
                "git range-diff a b c",
                "git cherry",
                "git check-ignore f",
                "git check-attr -a f",
                "git count-objects",
                "git version",
                "git --version",
                "git help log",
                "git",
                "git branch",
                "git branch -avv",
                "git branch --list 'x*'",
                "git branch --contains HEAD",
                "git branch --merged main",
                "git branch --show-current",
                "git branch --sort -committerdate",
                "git branch -r --format '%(refname)'",
                "git tag",
                "git tag -l 'v*'",
                "git tag -n5",
                "git tag --points-at HEAD",
                "git remote",
                "git remote -v",
                "git remote show origin",
                "git remote get-url origin",
                "git config --get user.name",
                "git config --get-regexp x",
                "git config --list",
                "git config -l",
                "git config get user.name",
                "git config --global list",
                "git stash list",
                "git stash show -p",
                "git reflog",
                "git reflog show HEAD",
                "git worktree list --porcelain",
                "git submodule status",
                "git notes list",
                "git notes show HEAD",
                "git -C dir --no-pager log",
                "git -c color.ui=never diff",
                "git --git-dir x status",
            ],
        },
        Row {
            why: Why::ChangesFiles,
            refused: &["git diff --output=f", "git log --output f", "git show --output=f HEAD"],
            allowed: &["git diff -- --output=f", "git log --output-indicator-new=x"],
        },
        Row {
            why: Why::InstallsPackages,
            refused: &[
                "npm install",
                "npm i x",
                "npm ci",
                "npm -g install x",
                "npm --prefix web install",
                "pnpm add x",
                "pnpm -C web remove x",
                "yarn add x",
                "yarn",
                "yarn --cwd web",
                "bun link",
                "npm uninstall x",
                "npm update",
                "npm publish",
                "yarn upgrade",
                "pip install x",
                "pip3 install -r r.txt",
                "pip -q uninstall x",
                "uv add x",
                "uv sync",
                "uv pip install x",
                "uv --project p remove x",
                "python3 -m pip install x",
                "cargo install x",
                "cargo +nightly add x",
                "cargo update",
                "cargo publish",
                "cargo remove x",
                "cargo uninstall x",
                "go get x",
                "go install ./...",
                "apt install x",
                "apt-get -y install x",
                "apt update",
                "dnf install x",
                "yum remove x",
                "pacman -S x",
                "apk add x",
                "brew install x",
            ],
            allowed: &[
                "npm test",
                "npm run build",
                "npm ls",
                "npm view x",
                "pnpm run lint",
                "yarn test",
                "yarn --version",
                "bun test",
                "pip list",
                "pip show x",
                "uv run pytest",
                "uv pip list",
                "python3 -m pip list",
                "python -m pytest",
                "cargo test",
                "cargo build --release",
                "cargo check",
                "cargo tree",
                "cargo +nightly clippy",
                "go test ./...",
                "go vet",
                "go mod graph",
                "go list ./...",
                "apt list --installed",
                "apt search x",
                "apt-cache policy x",
                "dnf info x",
                "brew list",
                "apk info",
                "brew --version",
            ],
        },
        Row {
            why: Why::ChangesFiles,
            refused: &[
                "npm init -y",
                "cargo fix",
                "cargo new x",
                "cargo init",
                "cargo fmt",
                "cargo fmt --all",
                "cargo clippy --fix",
                "go fmt ./...",
                "go generate ./...",
                "go mod tidy",
                "go -C d mod tidy",
            ],
            allowed: &["cargo fmt --check", "cargo fmt --all -- --check", "cargo clippy -- -D warnings", "gofmt -l ."],
        },
    ]
}

/// The command behind each thing that the guard looks through. A here-document needs its own lines and is left bare.
fn disguises(command: &str) -> Vec<String> {
    let single = command.replace('\'', "'\\''");
    let mut all = vec![
        command.to_owned(),
        format!("true | {command}"),
        format!("echo $({command}\n)"),
        format!("echo \"$({command}\n)\""),
        format!("bash -c '{single}'"),
        format!("cd x && ! {command}"),
        format!("if true; then {command}\nfi"),
    ];
    let simple =
        !command.contains('\n') && !command.starts_with(['{', '(', '>', '[', '\'']) && !command.starts_with("for ");
    if simple {
        all.extend([
            format!("sudo -n {command}"),
            format!("find . | xargs -n 1 {command}"),
            format!("A=1 timeout 5 nice -n 3 {command}"),
            format!("eval '{single}'"),
        ]);
    }
    all
}

/// 10-T15, GUARD-70, GUARD-72, GUARD-73, GUARD-74
#[test]
fn every_row_of_the_read_only_table_has_its_two_sides() {
    for row in rows() {
        for command in row.refused {
            for disguised in disguises(command) {
                let verdict = classify_read_only(&disguised);
                assert!(
                    matches!(&verdict, ReadOnlyVerdict::Refuse { why, .. } if *why == row.why),
                    "{disguised}\n{verdict:?}"
                );
            }
        }
        for command in row.allowed {
            for disguised in disguises(command) {
                assert_eq!(classify_read_only(&disguised), ReadOnlyVerdict::Allow, "{disguised}");
            }
        }
    }
}

/// GUARD-96
#[test]
fn the_refused_command_is_named_alone() {
    for (line, command) in [
        ("ls; sudo rm -rf x | cat", "sudo rm -rf x"),
        ("echo \"$(git commit -m x)\"", "git commit -m x"),
        ("bash -c 'ls; rm x'", "rm x"),
        ("if true; then touch a b; fi", "touch a b"),
        ("f() { rm x; }", "rm x"),
        ("ls > out", "ls > out"),
        ("while true; do ls; done > out", "> out"),
    ] {
        let ReadOnlyVerdict::Refuse { command: shown, .. } = classify_read_only(line) else { panic!("{line}") };
        assert_eq!(shown, command, "{line}");
    }
}

/// GUARD-71, GUARD-80
#[test]
fn builds_tests_and_interpreters_run() {
    for command in [
        "cargo test",
        "cargo build",
        "make",
        "python3 x.py",
        "python3 -c 'open(\"f\", \"w\")'",
        "node x.js",
        "npm test",
        "bash x.sh",
        "./run.sh",
        "pytest -q",
        "sh -x build.sh",
    ] {
        assert_eq!(classify_read_only(command), ReadOnlyVerdict::Allow, "{command}");
    }
}

/// GUARD-75
#[test]
fn what_cannot_be_split_is_unparsable() {
    for command in ["echo 'a", "echo $(ls", "bash -c 'echo \"a'", "(ls", &format!("{}ls", "$(".repeat(40))] {
        assert_eq!(classify_read_only(command), ReadOnlyVerdict::Unparsable, "{command}");
    }
}

const RUN: &str = "/srv/app/.pi-subagents/run-1";

fn ledger_hit(command: &str) -> Option<LedgerHit> {
    classify_ledger(command, Path::new("/srv/app"), Some(Path::new("/srv/app/.pi-subagents/run-1/legion.db")))
}

/// GUARD-60, GUARD-62
#[test]
fn the_ledgers_name_is_enough() {
    for command in [
        "sqlite3 legion.db",
        "cat \"legion\"'.db'",
        "cp $PI_LEGION_DB x",
        "ls *.db; cat LEGION.DB-WAL",
        "python3 -c \"open('/x/legion.db')\"",
        "cat le\\gion.db",
        "cat legion.\\\ndb",
        "grep -r legion.db src",
        "cat x/legion.db-shm",
        "rm legion.db-journal",
        "echo \"unbalanced legion.db",
        "echo ${PI_LEGION_DB:-x}",
    ] {
        assert_eq!(ledger_hit(command), Some(LedgerHit::Named), "{command}");
        assert_eq!(classify_ledger(command, Path::new("/"), None), Some(LedgerHit::Named), "{command}");
    }
    for command in ["ls", "cat legion_db", "cat legiondb", "echo PI_LEGION_NODE_ID", "cat legion.sql"] {
        assert_eq!(ledger_hit(command), None, "{command}");
    }
}

/// GUARD-61
#[test]
fn directories_that_hold_the_ledger_stay() {
    let table = [
        (format!("rm -rf {RUN}"), RUN),
        (format!("rm -rf {RUN}/"), "/srv/app/.pi-subagents/run-1/"),
        (format!("ls; sudo rm -rf x {RUN}/../run-1"), "/srv/app/.pi-subagents/run-1/../run-1"),
        ("rm -rf .pi-subagents".to_owned(), ".pi-subagents"),
        ("rm -rf ./.pi-subagents/".to_owned(), "./.pi-subagents/"),
        ("rm -rf -- .pi-subagents".to_owned(), ".pi-subagents"),
        ("rm -rf .".to_owned(), "."),
        ("rm -rf /".to_owned(), "/"),
        ("rm -rf ../app".to_owned(), "../app"),
        ("rm -rf /srv/*".to_owned(), "/srv/*"),
        ("rm -rf .*".to_owned(), ".*"),
        ("rm .pi-subagents/run-?/*".to_owned(), ".pi-subagents/run-?/*"),
        ("rm -rf .pi-subagents/run-[0-9]".to_owned(), ".pi-subagents/run-[0-9]"),
        ("bash -c 'rm -rf .pi-subagents'".to_owned(), ".pi-subagents"),
        ("mv .pi-subagents /tmp/x".to_owned(), ".pi-subagents"),
        ("mv -t /tmp a .pi-subagents".to_owned(), ".pi-subagents"),
        ("rmdir .pi-subagents/run-1".to_owned(), ".pi-subagents/run-1"),
        ("shred .pi-subagents/run-1/*".to_owned(), ".pi-subagents/run-1/*"),
        ("find .pi-subagents -type f -delete".to_owned(), ".pi-subagents"),
        ("find -delete".to_owned(), "."),
        ("find -L . -name '*.db*' -delete".to_owned(), "."),
        ("find . -name '*.o' -o -delete".to_owned(), "."),
        ("find src .pi-subagents -exec rm -rf {} +".to_owned(), ".pi-subagents"),
    ];
    for (command, path) in table {
        assert_eq!(ledger_hit(&command), Some(LedgerHit::Holds(path.to_owned())), "{command}");
        assert_eq!(classify_ledger(&command, Path::new("/srv/app"), None), None, "{command}");
    }
}

/// GUARD-61
#[test]
fn what_does_not_hold_the_ledger_is_free() {
    for command in [
        &format!("rm -rf {RUN}/worktrees/c1/target"),
        &format!("rm -rf {RUN}/out"),
        &format!("rm -rf {RUN}/worktrees/*"),
        "rm -rf target",
        "rm -rf *",
        "rm -rf .pi-subagents/run-2",
        "rm -rf .pi",
        "rm -rf ../other",
        "mv out.txt .",
        "mv a b ..",
        "mv -t . a b",
        "mv x .pi-subagents",
        "find . -name '*.o' -delete",
        "find src -delete",
        "find . -iname '*.TMP' -exec rm {} +",
        "find . -type f",
        "ls .pi-subagents",
        "echo rm -rf .",
        "rm -rf 'unbalanced",
        "rm -rf \"\"",
        "truncate -s 0 x",
        "find .pi-subagents -exec cat {} +",
    ] {
        assert_eq!(ledger_hit(command), None, "{command}");
    }
}

/// Texts made of what the splitter looks at, so that random ones reach deep into it.
fn shell_text() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "$(",
        "$((",
        "((",
        "(",
        ")",
        "))",
        "{",
        "}",
        "${",
        "${x:-",
        "`",
        "\\`",
        "\\",
        "'",
        "\"",
        "$'",
        "\n",
        ";",
        ";;",
        "&",
        "&&",
        "|",
        "<",
        ">",
        "<<E",
        "<<'E'",
        "\nE\n",
        "<<<",
        "<(",
        ">(",
        ">&1",
        "2>",
        " ",
        "#",
        "!",
        "[[",
        "]]",
        "case x in",
        "esac",
        "for ((",
        "function f",
        "f()",
        "coproc",
        "a=(",
        "@(",
        "eval",
        "bash -c '",
        "xargs",
        "sudo",
        "find -exec",
        "rm",
        "git",
        "-i",
        "x",
        "é",
        "\u{0}",
        "legion",
        ".db",
        "$x",
        "~/",
    ]);
    prop::collection::vec(token, 0..80).prop_map(|tokens| tokens.concat())
}

proptest! {
    /// part of 10-T22
    #[test]
    fn no_text_makes_a_classifier_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), text in shell_text()) {
        for command in [String::from_utf8_lossy(&bytes).into_owned(), text] {
            let _ = classify_read_only(&command);
            let _ = ledger_hit(&command);
        }
    }

    /// GUARD-72: what is quoted as a whole is never a command, whatever it says.
    #[test]
    fn a_quoted_text_is_an_argument(text in shell_text()) {
        let quoted = format!("echo '{}'", text.replace('\'', "'\\''"));
        prop_assert_eq!(classify_read_only(&quoted), ReadOnlyVerdict::Allow);
    }

    /// GUARD-72: nothing in front of a refused command hides it, unless the text as a whole has no reading.
    #[test]
    fn a_refused_command_on_a_line_of_its_own_is_found(text in "[a-z $;&|(){}=-]{0,40}") {
        prop_assert_ne!(classify_read_only(&format!("{text}\nrm x\n")), ReadOnlyVerdict::Allow);
    }
}

const MIB: usize = 1 << 20;

/// 10-T22, GUARD-101: what would be slow or deep for a careless reader, the worst of it at 1 MiB, all of it long enough
/// for anything quadratic to be noticed.
#[test]
fn classifiers_end_on_hostile_texts_of_a_mebibyte() {
    let units = [
        "(",
        ")",
        "((",
        "((a) ",
        "((\n#((((\n));",
        "((a #)\n)); ",
        "$(",
        "$((",
        "$((a) ",
        "${",
        "${x:-",
        "`",
        "\\`",
        "\\",
        "'",
        "\"",
        "\"$(",
        "$'\\",
        "{ ",
        "} ",
        "<(",
        ">",
        "<<a\n",
        "<<a ",
        "<<-a <<'b' ",
        "\n",
        "#",
        "# x\n",
        "; ",
        "a=(",
        "a[",
        "a[=(",
        "@(",
        "[[ ",
        "[[ a ]] ",
        "case x in a) ",
        "case x in (",
        "f() ",
        "coproc ",
        "function f ",
        "for ((;;)) ",
        "eval ",
        "sudo ",
        "env -S ",
        "xargs ",
        "bash -c ",
        "bash -c '",
        "find -exec ",
        "find . -exec a ; ",
        "find -delete ",
        "rm ../ ",
        "rm */ ",
        "rm [",
        "rm *",
        "mv a ",
        "git ",
        "git branch -",
        "tar ",
        "x",
        "\u{0}",
        "é",
        "\u{202e}",
        "$_",
        "legion.d",
        "time ",
        "! ",
        "if ",
        "1",
        "1>",
        "$x",
        "\\\n",
        "-",
        "--",
        "a|",
        "&>",
    ];
    let run = |text: &str| {
        let _ = classify_read_only(text);
        let _ = ledger_hit(text);
    };
    for unit in units {
        let body = unit.repeat(MIB / 16 / unit.len());
        // How the text ends decides whether a reader that tries and goes back does so once or everywhere.
        for end in ["", "'", "\n))", "`"] {
            run(&(body.clone() + end));
        }
    }
    for unit in ["(", "$((", "((\n#((((\n));", "`", "\"$(", "<<a ", "find -exec ", "rm *", "1>", "\u{0}"] {
        run(&(unit.repeat(MIB / unit.len()) + "'"));
    }
    let bytes: Vec<u8> = (0..=255).cycle().take(MIB).collect();
    run(&String::from_utf8_lossy(&bytes));
}
