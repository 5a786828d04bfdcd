//! What the page says of the machine: kinds and sizes, nothing that names it.

/// Facts of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub cores: String,
    pub memory: String,
    pub system: String,
    pub toolchain: String,
    pub version: &'static str,
}

pub fn facts(toolchain: &str) -> Machine {
    let unknown = || "unknown".to_owned();
    Machine {
        cores: std::thread::available_parallelism().map_or_else(|_| unknown(), |cores| cores.to_string()),
        memory: field("/proc/meminfo", "MemTotal:").map_or_else(unknown, |kb| format!("{} GB", kb.div_ceil(1_000_000))),
        system: format!("{} {} ({})", std::env::consts::OS, kernel(), std::env::consts::ARCH),
        toolchain: toolchain.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// Resident memory of this process in KB; `None` where the system does not tell.
pub fn resident_kb() -> Option<u64> {
    field("/proc/self/status", "VmRSS:")
}

/// Threads of this process; `None` where the system does not tell.
pub fn threads() -> Option<u64> {
    field("/proc/self/status", "Threads:")
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The first two numbers of the kernel's version.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".").trim().to_owned()
}
