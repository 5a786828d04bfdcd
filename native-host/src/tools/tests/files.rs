//! `read`, `write`, `edit`, `ls`, and the paths of all tools.

use std::os::unix::fs::symlink;

use base64::Engine;
use serde_json::json;

use super::*;

/// F40: `~`, `@`, spaces, CJK, `..` and absolute paths name the files that they should
#[tokio::test]
async fn paths_are_understood_as_models_write_them() {
    let place = Place::below("深い 道/経路 with spaces/プロジェクト");
    place.write("文書 1.txt", "here");
    place.write("sub/x.txt", "sub");
    std::fs::write(place.env.home().unwrap().join("h.txt"), "home").unwrap();
    let absolute = place.cwd.join("文書 1.txt");
    for (path, text) in [
        ("文書 1.txt", "here"),
        ("@文書 1.txt", "here"),
        ("./sub/../文書 1.txt", "here"),
        ("文書\u{a0}1.txt", "here"),
        ("文書\u{3000}1.txt", "here"),
        (absolute.to_str().unwrap(), "here"),
        ("sub/x.txt", "sub"),
        ("~/h.txt", "home"),
        ("@~/h.txt", "home"),
    ] {
        assert_eq!(place.call("read", json!({ "path": path })).await.good(), text, "{path}");
    }
    place.write("名\u{3000}前.txt", "a name with an ideographic space");
    assert!(place.call("read", json!({ "path": "名\u{3000}前.txt" })).await.good().starts_with("a name"));
    place.call("write", json!({ "path": "新しい/深い 道/f.txt", "content": "a\nb\n" })).await.good();
    assert_eq!(place.text("新しい/深い 道/f.txt"), "a\nb\n");
    let edits = json!([{ "oldText": "b", "newText": "字" }]);
    place.call("edit", json!({ "path": "新しい/深い 道/f.txt", "edits": edits })).await.good();
    assert_eq!(place.call("grep", json!({ "pattern": "字" })).await.good(), "新しい/深い 道/f.txt:2: 字");
    assert_eq!(place.call("find", json!({ "pattern": "f.*" })).await.good(), "新しい/深い 道/f.txt");
    assert_eq!(place.call("ls", json!({ "path": "新しい" })).await.good(), "深い 道/");
    let output = place.call("bash", json!({ "command": "cat '新しい/深い 道/f.txt' && basename \"$PWD\"" })).await;
    assert_eq!(output.good(), "a\n字\nプロジェクト\n");
}

#[tokio::test]
async fn read_refuses_what_is_no_text() {
    let place = Place::new();
    place.write("bin", [1, 2, 0, 3]);
    assert_eq!(
        place.call("read", json!({ "path": "bin" })).await.bad(),
        "bin is a binary file (4B); read shows text and images only."
    );
    assert!(
        place
            .call("read", json!({ "path": "nope" }))
            .await
            .bad()
            .starts_with("Could not read file: nope. No such file")
    );
    assert!(place.call("read", json!({ "path": "." })).await.bad().contains("directory; use ls"));
    place.write("latin", b"caf\xe9\nok");
    assert_eq!(place.call("read", json!({ "path": "latin" })).await.good(), "caf\u{fffd}\nok");
    assert!(place.call("read", json!({})).await.bad().contains("path: required (string), but missing"));
}

/// NAT-4: images come as attachments, known by their first bytes
#[tokio::test]
async fn read_attaches_images() {
    let place = Place::new();
    let images: [(&[u8], &str); 4] = [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\x01\0\0\0WEBPVP8 ", "image/webp"),
    ];
    for (bytes, mime) in images {
        place.write("picture.txt", bytes);
        let output = place.call("read", json!({ "path": "picture.txt" })).await;
        assert_eq!(output.good(), format!("Read image file [{mime}]"));
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        assert_eq!(output.content[1], Block::image(data, mime));
    }
    let mut large = b"GIF89a".to_vec();
    large.resize(4_600_000, 0);
    place.write("large.gif", large);
    let output = place.call("read", json!({ "path": "large.gif" })).await;
    assert!(output.good().contains("Image omitted") && output.content.len() == 1);
}

#[tokio::test]
async fn write_makes_directories_and_reports_failures() {
    let place = Place::new();
    let output = place.call("write", json!({ "path": "a/b/c.txt", "content": "héllo" })).await;
    assert_eq!(output.good(), "Successfully wrote 6 bytes to a/b/c.txt");
    assert!(
        place
            .call("write", json!({ "path": "a/b", "content": "x" }))
            .await
            .bad()
            .starts_with("Could not write file: a/b.")
    );
    assert!(place.call("write", json!({ "path": "a/b/c.txt/d", "content": "x" })).await.is_error);
    assert_eq!(place.text("a/b/c.txt"), "héllo");
}

/// NAT-4: all forms in which models send edits
#[tokio::test]
async fn edit_takes_every_form() {
    let place = Place::new();
    let edit = json!({ "oldText": "one", "newText": "1" });
    for input in [
        json!({ "path": "f", "edits": [edit] }),
        json!({ "path": "f", "edits": edit }),
        json!({ "path": "f", "edits": json!([edit]).to_string() }),
        json!({ "path": "f", "edits": edit.to_string() }),
        json!({ "path": "f", "oldText": "one", "newText": "1" }),
    ] {
        place.write("f", "one\ntwo\n");
        let output = place.call("edit", input.clone()).await;
        assert_eq!(output.good(), "Successfully replaced 1 block(s) in f.", "{input}");
        assert_eq!(place.text("f"), "1\ntwo\n");
        let details = output.details.unwrap();
        assert_eq!(details["firstChangedLine"], 1);
        assert_eq!(details["diff"], "-1 one\n+1 1\n 2 two");
        assert!(details["patch"].as_str().unwrap().contains("@@ -1,2 +1,2 @@"));
    }
    place.write("f", "one\ntwo\n");
    let both =
        json!({ "path": "f", "edits": [{ "oldText": "two", "newText": "2" }], "oldText": "one", "newText": "1" });
    assert_eq!(place.call("edit", both).await.good(), "Successfully replaced 2 block(s) in f.");
    assert_eq!(place.text("f"), "1\n2\n");
    for (input, expected) in [
        (json!({ "path": "f", "edits": [] }), "edits must contain at least one replacement"),
        (json!({ "path": "f", "edits": "[" }), "edits: expected array, got string"),
        (json!({ "path": "f" }), "edits: required (array), but missing"),
        (json!({ "path": "f", "edits": [{ "oldText": 1 }] }), "edits[0].oldText: expected string, got number"),
        (json!({ "path": "g", "edits": [edit] }), "Could not edit file: g. No such file or directory (ENOENT)."),
    ] {
        let problem = place.call("edit", input).await.bad();
        assert!(problem.contains(expected), "{problem}");
    }
    place.write("latin", b"one caf\xe9");
    assert!(place.call("edit", json!({ "path": "latin", "edits": [edit] })).await.bad().contains("not UTF-8"));
    assert_eq!(std::fs::read(place.cwd.join("latin")).unwrap(), b"one caf\xe9");
}

/// Parallel changes to one file, also through a link, come one after the other and all of them count
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_edits_of_one_file_all_count() {
    let place = Place::new();
    let words: Vec<String> = (0..40).map(|number| format!("word{number:02}")).collect();
    place.write("f", words.join("\n"));
    symlink(place.cwd.join("f"), place.cwd.join("link")).unwrap();
    let edits = words.iter().enumerate().map(|(number, word)| {
        let path = if number % 2 == 0 { "f" } else { "link" };
        place
            .call("edit", json!({ "path": path, "edits": [{ "oldText": word, "newText": format!("new{number:02}") }] }))
    });
    for output in futures_util::future::join_all(edits).await {
        output.good();
    }
    let expected: Vec<String> = (0..40).map(|number| format!("new{number:02}")).collect();
    assert_eq!(place.text("f"), expected.join("\n"));
}

#[tokio::test]
async fn ls_lists_sorted_and_says_what_it_left_out() {
    let place = Place::new();
    assert_eq!(place.call("ls", json!({})).await.good(), "(empty directory)");
    for name in ["b.txt", "A.txt", ".hidden", "dir/x"] {
        place.write(name, "");
    }
    symlink("nowhere", place.cwd.join("broken")).unwrap();
    symlink("dir", place.cwd.join("to-dir")).unwrap();
    assert_eq!(place.call("ls", json!({})).await.good(), ".hidden\nA.txt\nb.txt\ndir/\nto-dir/");
    let output = place.call("ls", json!({ "limit": 2 })).await;
    assert_eq!(output.good(), ".hidden\nA.txt\n\n[2 entries limit reached. Use limit=4 for more]");
    assert_eq!(output.details.unwrap()["entryLimitReached"], 2);
    assert!(place.call("ls", json!({ "path": "nope" })).await.bad().starts_with("Path not found: "));
    assert!(place.call("ls", json!({ "path": "b.txt" })).await.bad().starts_with("Not a directory: "));
}

/// A pipe that nobody writes to holds no call
#[tokio::test]
async fn pipes_are_refused() {
    let place = Place::new();
    nix::unistd::mkfifo(&place.cwd.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (tool, input) in [
        ("read", json!({ "path": "pipe" })),
        ("write", json!({ "path": "pipe", "content": "x" })),
        ("edit", json!({ "path": "pipe", "oldText": "a", "newText": "b" })),
    ] {
        assert!(place.call(tool, input).await.bad().ends_with("It is no regular file."), "{tool}");
    }
    assert_eq!(place.call("grep", json!({ "pattern": "x" })).await.good(), "No matches found");
}

/// A cancelled call changes nothing and answers
#[tokio::test]
async fn cancelled_calls_answer_and_change_nothing() {
    let place = Place::new();
    place.write("f", "one");
    for (tool, input) in [
        ("read", json!({ "path": "f" })),
        ("write", json!({ "path": "f", "content": "two" })),
        ("edit", json!({ "path": "f", "oldText": "one", "newText": "two" })),
        ("grep", json!({ "pattern": "o" })),
        ("find", json!({ "pattern": "*" })),
        ("ls", json!({})),
        ("bash", json!({ "command": "echo two > f" })),
    ] {
        let ctx = place.context();
        ctx.cancel.cancel();
        let problem = call(tool, ctx, input).await.bad();
        assert!(problem.contains("aborted"), "{tool}: {problem}");
    }
    assert_eq!(place.text("f"), "one");
}
