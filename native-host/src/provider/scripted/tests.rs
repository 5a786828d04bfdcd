use super::*;
use crate::provider::{ModelQuery, ModelRef, ModelRegistry, RequestSession, ThinkingLevel};
use crate::session_file::{CustomMessage, ToolResultMessage};

fn provider(script: &str) -> ScriptedProvider {
    ScriptedProvider::new(Script::parse("t.yaml", script).expect("a good script"))
}

fn request(session: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: ModelRef::new(SCRIPTED, DEFAULT_MODEL),
        thinking: ThinkingLevel::Off,
        system_prompt: String::new(),
        messages,
        tools: Vec::new(),
        session: RequestSession {
            id: session.to_owned(),
            role: "scout".to_owned(),
            name: "scout-1".to_owned(),
            cwd: "/w".to_owned(),
        },
        cancel: CancellationToken::new(),
    }
}

async fn ask(
    provider: &ScriptedProvider,
    request: ModelRequest,
) -> (Result<AssistantMessage, ProviderError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let answer = provider.stream(request, &mut |delta| deltas.push(delta)).await;
    (answer, deltas)
}

/// NAT-3: text, thinking, tool calls, usage and stop reason of a turn reach the message and the deltas
#[tokio::test]
async fn a_turn_becomes_a_message_with_deltas() {
    let provider = provider(
        "models: [{ id: echo, cost: { input: 2, output: 10 } }]\n\
         rules:\n\
         - turns:\n\
         \x20 - thinking: hm\n\
         \x20   text: 'abcdef of {{name}}'\n\
         \x20   chunk: 4\n\
         \x20   calls: [{ tool: bash, arguments: { command: 'echo {{prompt}}' } }]\n\
         \x20   usage: { input: 1000000, output: 100000, cacheRead: 7 }\n",
    );
    let (answer, deltas) = ask(&provider, request("sess-12345678", vec![Message::user("hi", 1)])).await;
    let answer = answer.unwrap();
    assert_eq!(answer.text(), "abcdef of scout-1");
    let call = answer.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str()), ("call_1_1_12345678", "bash"));
    assert_eq!(call.arguments, serde_json::json!({ "command": "echo hi" }));
    assert_eq!(answer.stop_reason, StopReason::ToolUse);
    assert_eq!((answer.usage.input, answer.usage.cache_read, answer.usage.total_tokens), (1_000_000, 7, 1_100_007));
    assert!((answer.usage.cost.total - 3.0).abs() < 1e-9);
    let text: String = deltas
        .iter()
        .filter_map(|d| if let Delta::Text { text, .. } = d { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(text, "abcdef of scout-1");
    assert_eq!(deltas.iter().filter(|d| matches!(d, Delta::Text { .. })).count(), 5);
    assert!(matches!(deltas.first(), Some(Delta::ThinkingStart { index: 0 })));
    assert!(matches!(deltas.last(), Some(Delta::ToolCallEnd { index: 2, .. })));
}

/// NAT-3: an HTTP error with a number of times fails these attempts, then the same request succeeds
#[tokio::test]
async fn an_error_ends_after_its_times() {
    let provider = provider(
        "rules:\n- turns:\n  - { text: ok, error: { status: 429, body: 'slow down, {{name}}', retryAfterMs: 5, times: 2 } }\n",
    );
    for session in ["a", "b"] {
        for _ in 0..2 {
            let (answer, _) = ask(&provider, request(session, vec![Message::user("hi", 1)])).await;
            let error = answer.unwrap_err();
            assert_eq!(error.to_string(), "HTTP 429: slow down, scout-1");
            assert!(error.retryable());
        }
        let (answer, _) = ask(&provider, request(session, vec![Message::user("hi", 1)])).await;
        assert_eq!(answer.unwrap().text(), "ok");
    }
}

/// NAT-3: a broken stream keeps what had come
#[tokio::test]
async fn a_broken_stream_keeps_its_beginning() {
    let provider =
        provider("rules:\n- turns:\n  - { text: 'hello world', broken: { afterChars: 5, message: 'gone' } }\n");
    let (answer, _) = ask(&provider, request("a", vec![Message::user("hi", 1)])).await;
    let error = answer.unwrap_err();
    let message = error.into_message(SCRIPTED, &ModelRef::new(SCRIPTED, "echo"), 9);
    assert_eq!(message.text(), "hello");
    assert_eq!((message.stop_reason, message.error_message.as_deref()), (StopReason::Error, Some("gone")));
}

/// NAT-3: silence lasts until the request is cancelled
#[tokio::test]
async fn silence_lasts_until_cancelled() {
    let provider = provider("rules:\n- turns:\n  - { text: 'hello', silence: { afterChars: 2 } }\n");
    let request = request("a", vec![Message::user("hi", 1)]);
    let cancel = request.cancel.clone();
    let mut sink = |delta| {
        if matches!(delta, Delta::Text { .. }) {
            cancel.cancel();
        }
    };
    let error = provider.stream(request, &mut sink).await.unwrap_err();
    let ProviderError::Aborted { partial, .. } = error else { panic!("{error}") };
    assert_eq!(partial, [Block::text("he")]);
}

/// A delay and a barrier end with the request, and a cancelled request gives its place at the barrier up
#[tokio::test]
async fn waiting_ends_with_the_request() {
    for script in [
        "{ text: x, delayMs: 3600000 }",
        "{ text: x, barrier: { name: b, count: 2 } }",
        "{ text: x, untilFile: nowhere }",
    ] {
        let provider = provider(&format!("rules:\n- turns: [{script}]\n"));
        let request = request("a", vec![Message::user("hi", 1)]);
        let cancel = request.cancel.clone();
        let mut ignore = |_| {};
        let asked = provider.stream(request, &mut ignore);
        tokio::pin!(asked);
        assert!(futures_util::poll!(&mut asked).is_pending());
        cancel.cancel();
        assert!(matches!(asked.await, Err(ProviderError::Aborted { .. })), "{script}");
        let barriers = provider.barriers.lock().unwrap();
        assert!(barriers.values().all(|gate| *gate.waiting.lock().unwrap() == 0));
    }
}

/// HOST-4 in the small: requests at a barrier are answered only when all are there
#[tokio::test]
async fn a_barrier_holds_until_all_are_there() {
    let provider = provider("rules:\n- turns: [{ text: 'there', barrier: { name: all, count: 12 } }]\n");
    let asked = (0..12).map(|n| {
        let provider = &provider;
        async move { ask(provider, request(&format!("s{n}"), vec![Message::user("hi", 1)])).await.0.map(|m| m.text()) }
    });
    let mut asked: Vec<_> = asked.map(Box::pin).collect();
    for early in &mut asked[..11] {
        assert!(futures_util::poll!(early).is_pending());
    }
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.as_deref(), Ok("there"));
    }
}

/// A script without a turn for a request refuses it and says what the request was like
#[tokio::test]
async fn no_turn_is_an_error_that_names_the_request() {
    let provider = provider("rules:\n- match: { role: root }\n  turns: [{ text: x }]\n");
    let (answer, _) = ask(&provider, request("a", vec![Message::user("do it", 1)])).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the script t.yaml has no turn for this request: role 'scout', name 'scout-1', request 1, prompt \"do it\""
    );
}

/// A session without a script gets friendly answers
#[tokio::test]
async fn the_embedded_script_echoes_and_runs_commands() {
    let provider = ScriptedProvider::embedded();
    let (answer, _) = ask(&provider, request("a", vec![Message::user("hello", 1)])).await;
    assert!(answer.unwrap().text().starts_with("You said: hello"));
    let mut messages = vec![Message::user("! ls -l", 1)];
    let (answer, _) = ask(&provider, request("a", messages.clone())).await;
    let answer = answer.unwrap();
    assert_eq!(answer.tool_calls().next().unwrap().arguments, serde_json::json!({ "command": "ls -l" }));
    messages.push(Message::Assistant(answer));
    messages.push(Message::ToolResult(ToolResultMessage {
        tool_name: "bash".into(),
        content: vec![Block::text("total 0")],
        ..ToolResultMessage::default()
    }));
    let (answer, _) = ask(&provider, request("a", messages.clone())).await;
    assert!(answer.unwrap().text().ends_with("total 0"));
    messages
        .push(Message::Custom(CustomMessage { content: Content::Text("a notice".into()), ..CustomMessage::default() }));
    let (answer, _) = ask(&provider, request("a", messages)).await;
    assert!(answer.unwrap().text().starts_with("You said: a notice"));
}

/// F29: names are resolved exactly; scripted models always have credentials; thinking is clamped
#[test]
fn the_registry_resolves_models() {
    let listed = provider("models: [{ id: small, thinking: [off, low] }, { id: big }]\notherwise: { text: x }\n");
    let registry = ModelRegistry::new(vec![Arc::new(listed)]);
    let resolve = |model: &str, provider: Option<&str>, thinking| {
        let query = ModelQuery { model: model.into(), provider: provider.map(str::to_owned), thinking };
        registry
            .resolve(&query)
            .map(|found| (found.model_ref().to_string(), found.thinking))
            .map_err(|error| error.to_string())
    };
    let high = Some(ThinkingLevel::High);
    assert_eq!(resolve("small", None, high), Ok(("scripted/small".into(), ThinkingLevel::Low)));
    assert_eq!(resolve("scripted/big:max", None, None), Ok(("scripted/big".into(), ThinkingLevel::Max)));
    assert_eq!(resolve("big:max", Some("scripted"), high), Ok(("scripted/big".into(), ThinkingLevel::High)));
    assert_eq!(
        resolve("scripted/smal", None, None),
        Err("no model 'scripted/smal'; did you mean 'scripted/small'?".into())
    );
    assert_eq!(resolve("fast", None, None), Err("no model 'fast'".into()));
    assert_eq!(resolve("x", Some("openai"), None), Err("no provider 'openai'; there are: scripted".into()));

    let any = ModelRegistry::new(vec![Arc::new(ScriptedProvider::embedded())]);
    assert!(any.resolve(&ModelQuery { model: "scripted/whatever".into(), ..ModelQuery::default() }).is_ok());
    assert!(any.resolve(&ModelQuery { model: "whatever".into(), ..ModelQuery::default() }).is_err());
    assert!(any.list().iter().all(|model| model.has_credentials));
}
