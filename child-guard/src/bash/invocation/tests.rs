use super::*;

fn argvs(text: &str) -> Vec<String> {
    let found = invocations(text).expect("splits");
    found.into_iter().filter(|i| !i.argv.is_empty()).map(|i| i.argv.join(" ")).collect()
}

/// GUARD-73
#[test]
fn wrappers_are_looked_through() {
    let table: &[(&str, &[&str])] = &[
        ("sudo -n -u root A=1 rm x", &["rm x"]),
        ("sudo --user root -- rm x", &["rm x"]),
        ("doas -u root rm x", &["rm x"]),
        ("env -i -u HOME A=1 B=2 rm x", &["rm x"]),
        ("env - rm x", &["rm x"]),
        ("env -S 'A=1 rm x' y", &["rm x y"]),
        ("env --split-string='rm x'", &["rm x"]),
        ("command rm x; command -p rm y", &["rm x", "rm y"]),
        ("command -v rm", &["command -v rm"]),
        ("builtin rm x; exec -a name rm y; nohup rm z &", &["rm x", "rm y", "rm z"]),
        ("nice -n 5 rm x; nice -5 rm y; nice --adjustment=3 rm z", &["rm x", "rm y", "rm z"]),
        ("ionice -c 2 -n 0 rm x; ionice -p 12", &["rm x", "ionice -p 12"]),
        ("time rm x; time -p rm y; /usr/bin/time -f %e rm z", &["rm x", "rm y", "rm z"]),
        ("timeout 5 rm x; timeout -k 1 -s KILL 5s rm y; timeout --signal=9 5 rm z", &["rm x", "rm y", "rm z"]),
        ("stdbuf -oL -e 0 rm x; setsid -f rm y", &["rm x", "rm y"]),
        (
            "xargs rm; xargs -0 -n 1 -I {} rm {}; xargs -I{} -P4 rm {}; xargs --max-args 3 rm",
            &["rm", "rm {}", "rm {}", "rm"],
        ),
        ("xargs -r -d '\\n' -a list rm", &["rm"]),
        ("parallel -j 4 rm {} ::: a b", &["rm {}"]),
        ("parallel 'cat {}; rm {}' ::: a", &["cat {}", "rm {}"]),
        ("bash -c 'a; rm x'; sh -ec 'rm y' z; zsh -o pipefail -c 'rm z'", &["a", "rm x", "rm y", "rm z"]),
        (
            "bash -euo pipefail -c 'rm x'; bash --norc --rcfile f -c 'rm y'; bash -c -- 'rm z'",
            &["rm x", "rm y", "rm z"],
        ),
        ("bash script.sh -c 'rm x'", &["bash script.sh -c rm x"]),
        ("eval 'rm x'; eval rm y", &["rm x", "rm y"]),
        ("sudo env A=1 nohup nice xargs bash -c 'sudo rm x'", &["rm x"]),
        (
            "find . -exec rm {} \\; -execdir sh -c 'mv \"$1\" y' _ {} +",
            &["find . -exec rm {} ; -execdir sh -c mv \"$1\" y _ {} +", "rm {}", "mv $1 y"],
        ),
        (
            "find . -exec find {} -exec rm {} + \\;",
            &["find . -exec find {} -exec rm {} + ;", "find {} -exec rm {}", "rm {}"],
        ),
        ("$SUDO rm x; $A $(b) rm y; $A", &["rm x", "b", "rm y", "$A"]),
        ("$BIN/tool rm", &["$BIN/tool rm"]),
        ("/bin/rm x", &["/bin/rm x"]),
        ("sudo", &[]),
        ("timeout 5", &[]),
        ("xargs", &[]),
        ("bash", &["bash"]),
    ];
    for (text, expected) in table {
        assert_eq!(argvs(text), *expected, "{text}");
    }
}

#[test]
fn redirections_of_a_wrapped_command_are_kept() {
    for text in ["bash -c 'true' > f", "sudo cat x > f", "eval > f", "xargs > f"] {
        let found = invocations(text).expect("splits");
        let targets: Vec<&str> = found.iter().flat_map(|i| &i.targets).map(|target| target.path.as_str()).collect();
        assert_eq!(targets, ["f"], "{text}");
    }
}

/// GUARD-101
#[test]
fn text_in_text_is_followed_to_the_same_limit() {
    let evals = |depth: usize| format!("{}rm x", "eval ".repeat(depth));
    assert_eq!(argvs(&evals(MAX_DEPTH)), ["rm x"]);
    assert_eq!(invocations(&evals(MAX_DEPTH + 1)), Err(Unsplittable));
    let finds = |depth: usize| format!("{}rm x", "find -exec ".repeat(depth));
    assert!(invocations(&finds(MAX_DEPTH)).is_ok());
    assert_eq!(invocations(&finds(MAX_DEPTH + 1)), Err(Unsplittable));
    let wrappers = format!("{}rm x", "sudo nice ".repeat(10_000));
    assert_eq!(argvs(&wrappers), ["rm x"]);
}
