//! How native-host asks extensions to show what is theirs (ABI-34, ABI-42).

use host_abi::calls::{ComponentRender, RenderCustom, RenderTool};
use serde_json::{Value, json};
use tests::native::{Bench, probe};

fn custom(kind: &str, content: Option<&str>, data: Option<Value>) -> RenderCustom {
    RenderCustom {
        custom_type: kind.to_owned(),
        content: content.map(str::to_owned),
        details: None,
        data,
        expanded: true,
        width: 60,
        theme: Value::Null,
    }
}

fn tool(name: &str, params: Value, details: Value) -> RenderTool {
    RenderTool {
        tool: name.to_owned(),
        params: Some(params).filter(|params| !params.is_null()),
        content: vec![json!({ "type": "text", "text": "plain result" })],
        details: Some(details).filter(|details| !details.is_null()),
        is_error: false,
        is_partial: true,
        expanded: false,
        width: 80,
        theme: Value::Null,
    }
}

/// ABI-34, ABI-42, part of 01-T12: each query kind arrives, an erring renderer falls back to the plain text, and only
/// views get a height.
#[tokio::test(flavor = "multi_thread")]
async fn each_query_kind_arrives_and_falls_back() {
    let bench = Bench::new();
    let views = bench.host.views(bench.host.root());

    let drawn = views.message(custom("probe.ok", Some("hello"), None));
    assert_eq!(drawn, ["render.message probe.ok w=60 expanded=true", "hello"]);
    for kind in ["probe.err", "probe.panic", "of.nobody"] {
        assert_eq!(views.message(custom(kind, Some("two\nlines"), None)), ["two", "lines"], "{kind}");
        assert_eq!(views.entry(custom(kind, None, Some(json!({ "text": "plain" })))), ["plain"], "{kind}");
    }
    let drawn = views.entry(custom("probe.ok", None, Some(json!({ "n": 1 }))));
    assert_eq!(drawn, ["render.entry probe.ok w=60 expanded=true", "{\"n\":1}"]);

    let drawn = views.call(tool("probe_echo", json!({ "text": "x" }), Value::Null));
    assert_eq!(drawn, ["render.call probe_echo w=80 expanded=false error=false partial=true"]);
    let drawn = views.result(tool("probe_echo", Value::Null, json!({})));
    assert_eq!(drawn, ["render.result probe_echo w=80 expanded=false error=false partial=true"]);
    for wish in ["err", "panic"] {
        let params = json!({ "render": wish });
        assert_eq!(views.call(tool("probe_echo", params.clone(), Value::Null)), [format!("probe_echo {params}")]);
        assert_eq!(views.result(tool("probe_echo", Value::Null, params)), ["plain result"]);
    }
    assert_eq!(views.result(tool("bash", Value::Null, json!({}))), ["plain result"], "a tool without a renderer");

    let render = |id: &str, height| ComponentRender { id: id.to_owned(), width: 30, height, theme: Value::Null };
    views.mount("probe.ok", true);
    assert!(views.input("probe.ok", "x").handled);
    let widget = views.component(&render("probe.ok", None));
    assert_eq!(widget[0], "probe.ok w=30 h=none keys=x");
    assert_eq!(widget[1].chars().count(), 30, "cut to the width");
    assert_eq!(views.component(&render("probe.ok", Some(24)))[0], "probe.ok w=30 h=24 keys=x");
    for id in ["probe.err", "probe.panic", "of.nobody"] {
        assert!(views.component(&render(id, None)).is_empty(), "{id}");
    }
    for key in ["e", "p"] {
        assert_eq!(views.input("probe.ok", key), host_abi::calls::InputOutcome::default(), "{key}");
    }
    let closed = views.input("probe.ok", "q");
    assert!(closed.close && closed.result == Some(json!({ "keys": 2 })), "{closed:?}");
    views.mount("probe.ok", false);
    let seen = probe(bench.host.root(), "probe_views", json!({})).await;
    assert_eq!((&seen["probe.ok"]["mounted"], &seen["probe.ok"]["unmounted"]), (&json!(1), &json!(1)));

    let completions = views.complete("probe", "pr");
    assert_eq!(completions.iter().map(|completion| completion.value.as_str()).collect::<Vec<_>>(), ["print"]);
    assert!(views.complete("nobody", "").is_empty());
}
