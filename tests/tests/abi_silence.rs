//! What an extension writes to the terminal: nothing. Alone in its program, since it looks at the program's own
//! output.

use std::{
    fs::File,
    io::{Read as _, Seek as _},
    os::fd::AsFd as _,
};

use nix::unistd::{dup, dup2_stderr, dup2_stdout};
use serde_json::json;
use tests::mini_host::MiniHost;

/// ABI-13: panics of every kind leave stdout and stderr empty.
#[tokio::test]
async fn panics_of_an_extension_write_nothing() {
    let mut written = tempfile::tempfile().unwrap();
    let (stdout, stderr) = (dup(std::io::stdout()).unwrap(), dup(std::io::stderr()).unwrap());
    dup2_stdout(written.as_fd()).unwrap();
    dup2_stderr(written.as_fd()).unwrap();

    // No assertion until the terminal is back: its message would go where nobody reads it.
    let failed = provoke().await;

    dup2_stdout(stdout).unwrap();
    dup2_stderr(stderr).unwrap();
    assert_eq!(read(&mut written), "");
    assert_eq!(failed, 6);
}

/// Panics in each place; gives the number of calls that failed.
async fn provoke() -> usize {
    let host = MiniHost::shared();
    let init = host_abi::load(&tests::libraries::library("init_panics_ext"))
        .and_then(|loaded| loaded.start(MiniHost::default(), &MiniHost::info()));
    let mut failed = usize::from(init.is_err());
    let session = host.session("probe_ext");
    for place in ["invoke", "spawned", "thread", "unfenced", "payload"] {
        failed += usize::from(session.tool("probe_panic", json!({ "where": place })).await.is_err());
    }
    for entry in ["notify", "detach"] {
        drop(session.tool("probe_panic", json!({ "where": entry })).await);
    }
    session.extension.notify_json(session.scope, "agent_start", "{}".to_owned());
    session.detach();
    failed
}

fn read(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().expect("a file can be read again");
    file.read_to_string(&mut text).expect("it holds text");
    text
}
