use nix::sys::signal::kill;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Runs a shell that leaves a process behind which writes without end, and ends that process.
async fn chatter(patience: Patience, timeout: Option<Duration>) -> Ending {
    let dir = tempfile::tempdir().unwrap();
    let vars = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let text = "(while :; do echo tick; done) & echo $! > pid; exit 7";
    let mut output = Output::new(dir.path());
    let command = Command { text, cwd: dir.path(), vars, timeout, patience };
    let ending = run(command, &CancellationToken::new(), &mut output, |_| {}).await.unwrap();
    let pid: i32 = std::fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    ending
}

/// F2: not even a server that writes without end blocks the tool
#[tokio::test]
async fn a_chattering_background_server_does_not_block() {
    let patience = Patience { idle: LONG, longest: Duration::from_millis(200) };
    assert_eq!(chatter(patience, None).await, Ending::Exited { code: 7, still_written: true });
}

/// A timeout while only the background still writes tells how the shell itself had ended
#[tokio::test]
async fn a_timeout_behind_the_shells_end_tells_its_code() {
    let patience = Patience { idle: LONG, longest: LONG };
    let ending = chatter(patience, Some(Duration::from_secs(3))).await;
    assert_eq!(ending, Ending::TimedOut { shell: Some(7) });
}
