//! What is allowed where. A change of architecture is a change of one line here.
//!
//! Files are named by the start of their path, so `a/src/env` means `a/src/env.rs` and everything in `a/src/env/`.

/// A module of `legion-ext/src` and the modules that it may import, in the order of part 00, top first.
///
/// Every import points downwards in this table; what an upper module gives a lower one comes as a trait of the lower
/// one (`orchestrator::ports`). A module may always import itself.
#[rustfmt::skip]
pub const MODULES: &[(&str, &str)] = &[
    // The root module: hands each entry of the ABI to the process.
    ("lib", ANY),
    // What lives once per process; it builds everything below, the edges included.
    ("process", ANY),
    // The edges: arguments become decisions, results become replies.
    ("tools", "commands ui mail orchestrator supervisor runs session ledger settings cards host context clock error core"),
    ("commands", "ui mail orchestrator supervisor runs session ledger settings cards host context clock error core"),
    // Views read models (`orchestrator::report`) and write nothing.
    ("ui", "orchestrator runs session ledger settings cards host context clock error core"),
    ("mail", "orchestrator supervisor runs session ledger settings host context clock error core"),
    ("orchestrator", "supervisor runs session ledger settings cards host context clock error core"),
    // Live children without policy: it never asks what a card or a setting says.
    ("supervisor", "runs session ledger host context clock error core"),
    ("runs", "session ledger settings host context clock error core"),
    // Readers and writers of files. Settings override cards, and so speak in their words.
    ("session", "host context clock error core"),
    ("ledger", "host context clock error core"),
    ("settings", "cards host context clock error core"),
    ("cards", "host context clock error core"),
    // The narrow port over host-abi.
    ("host", "context clock error core"),
    ("context", "clock error core"),
    ("clock", "error core"),
    // Pure decisions; what they refuse is told in the words of the one error.
    ("core", "error"),
    ("error", ""),
];

/// Stands for every module in [`MODULES`].
pub const ANY: &str = "*";

/// Dependencies of `legion-ext` that its `core` may name, besides `std`.
pub const CORE_CRATES: &[&str] = &["serde", "thiserror"];

/// Parts of `std` that are input, output or time, and so not for `core`.
pub const NOT_FOR_CORE: &[&str] =
    &["std::env", "std::fs", "std::io", "std::net", "std::os", "std::process", "std::thread"];

/// Members of the workspace and the members that each may depend on. Tests may use what they test.
pub const PACKAGES: &[(&str, &[&str])] = &[
    ("host-abi", &[]),
    ("legion-ext", &["host_abi"]),
    // Its identity comes from the scope, so it never needs the other library.
    ("child-guard", &["host_abi"]),
    // Loads the extensions through the ABI; it links legion-ext only to read run directories for the command line.
    ("native-host", &["host_abi", "legion_ext"]),
    ("pi-bridge", &["host_abi"]),
    // Makes reference pages from what the libraries define.
    ("xtask", &["host_abi", "legion_ext"]),
];

/// A crate that few may name.
pub struct Confined {
    pub krate: &'static str,
    /// Files that may name it.
    pub files: &'static [&'static str],
    /// Packages whose manifest may list it.
    pub packages: &'static [&'static str],
    /// Test code may name it anywhere.
    pub tests: bool,
    pub reason: &'static str,
}

pub const CONFINED: &[Confined] = &[
    Confined {
        krate: "abi_stable",
        // The wrong libraries of the load matrix are made with it.
        files: &["host-abi/", "tests/extensions/"],
        packages: &["host-abi", "other-layout-ext", "older-abi-ext", "newer-abi-ext", "patch-abi-ext"],
        tests: false,
        reason: "only host-abi speaks the stable ABI; use its types",
    },
    Confined {
        krate: "async_ffi",
        files: &["host-abi/"],
        packages: &["host-abi"],
        tests: false,
        reason: "only host-abi speaks the stable ABI; use its types",
    },
    Confined {
        krate: "rusqlite",
        files: &["legion-ext/src/ledger"],
        packages: &["legion-ext"],
        tests: true,
        reason: "only the ledger speaks SQL; give it a function",
    },
    Confined {
        krate: "napi",
        files: &["pi-bridge/"],
        packages: &["pi-bridge"],
        tests: false,
        reason: "only pi-bridge speaks to Node",
    },
    Confined {
        krate: "napi_derive",
        files: &["pi-bridge/"],
        packages: &["pi-bridge"],
        tests: false,
        reason: "only pi-bridge speaks to Node",
    },
];

/// Packages in which no ban on paths holds: they run on a developer's machine only.
pub const UNBANNED: &[&str] = &["tests/", "xtask/"];

/// Something that only the named files may do. Test code is free of it.
pub struct Ban {
    pub what: &'static str,
    /// Paths that must not be named; `a::b` covers `a::b::c`.
    pub paths: &'static [&'static str],
    /// Paths below those that are harmless.
    pub except: &'static [&'static str],
    /// Names of methods without arguments that must not be called.
    pub methods: &'static [&'static str],
    pub files: &'static [&'static str],
    pub fix: &'static str,
}

pub const BANS: &[Ban] = &[
    Ban {
        what: "reads a clock",
        paths: &[
            "std::time::SystemTime::now",
            "std::time::Instant::now",
            "tokio::time::Instant::now",
            "jiff::Timestamp::now",
            "jiff::Zoned::now",
        ],
        except: &[],
        methods: &["elapsed"],
        files: &["legion-ext/src/clock", "host-abi/src/clock", "child-guard/src/clock", "native-host/src/clock"],
        fix: "time is an argument, and the crate's clock.rs reads it",
    },
    Ban {
        what: "touches the process environment",
        paths: &["std::env"],
        except: &["std::env::consts"],
        methods: &[],
        files: &["legion-ext/src/context", "child-guard/src/env", "native-host/src/env"],
        fix: "take it as an argument; one module per crate reads the environment",
    },
    Ban {
        what: "starts a process",
        paths: &["std::process::Command", "tokio::process", "process_wrap"],
        except: &[],
        methods: &[],
        files: &[
            // Subprocess children.
            "legion-ext/src/supervisor/rpc",
            "legion-ext/src/supervisor/terminal",
            // git for worktrees, verification commands.
            "legion-ext/src/runs",
            // The bash tool.
            "native-host/src/tools/bash",
            // git for the repository of the tour.
            "native-host/src/demo",
        ],
        fix: "processes are started where tables.rs of tidy says, so that each is ended with its session",
    },
    Ban {
        what: "spawns bare",
        paths: &[
            "tokio::spawn",
            "tokio::task::spawn",
            "tokio::task::spawn_local",
            "tokio::task::spawn_blocking",
            "tokio::task::JoinSet",
            "tokio::task::LocalSet",
            "tokio::runtime::Handle",
            "tokio_util::task::TaskTracker",
            "std::thread::spawn",
            "std::thread::scope",
            "std::thread::Builder",
        ],
        except: &[],
        methods: &[],
        files: &[
            // Home of `spawn_scoped`.
            "legion-ext/src/context",
            // Its sessions are tasks by nature, and its tasks carry no identity (ABI-9 is about extensions).
            "native-host/src/",
        ],
        fix: "it loses the task-local identity; use `context::spawn_scoped`",
    },
];

/// Macros that write to the terminal, and the files that may. A library's text would corrupt the host's screen or its
/// protocol (ABI-13).
pub const PRINTS: &[&str] = &["print", "println", "eprint", "eprintln"];
pub const MAY_PRINT: &[&str] = &["xtask/", "native-host/src/main.rs"];

/// Macros that stand for work not done, or for a search for a fault; in test code too.
pub const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];
