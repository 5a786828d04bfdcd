//! Reading a file again only when it changed (DISC-10).

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock;

/// Read files by path, each with what was made of it and the stamp it was read at.
#[derive(Debug)]
pub struct FileCache<T> {
    entries: HashMap<PathBuf, Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    stamp: Stamp,
    /// Whether an equal stamp proves an equal file.
    settled: bool,
    made: Arc<T>,
}

impl<T> Default for FileCache<T> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<T> FileCache<T> {
    /// What `make` made of the file, made again only after a change. `meta` must be asked before the file is read, so
    /// that a change in between is seen at the next look. What `lasts` denies is made again at the next look: a read
    /// that failed says nothing about the file.
    pub fn get(
        &mut self,
        path: &Path,
        meta: &Metadata,
        make: impl FnOnce(&Path) -> T,
        lasts: impl FnOnce(&T) -> bool,
    ) -> Arc<T> {
        let stamp = Stamp::of(meta);
        if let Some(entry) = self.entries.get(path)
            && entry.settled
            && entry.stamp == stamp
        {
            return Arc::clone(&entry.made);
        }
        let settled = stamp.is_settled(clock::now_ms());
        let made = Arc::new(make(path));
        let settled = settled && lasts(&made);
        self.entries.insert(path.to_owned(), Entry { stamp, settled, made: Arc::clone(&made) });
        made
    }

    /// Forgets the files that `keep` does not name.
    pub fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
        self.entries.retain(|path, _| keep(path));
    }
}

/// What tells two states of a file apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    /// The file itself and the time of its last change of any kind, where the system has them.
    identity: (u64, i64, i64),
}

/// A file changed this recently may change again within one tick of the file system's clock, in milliseconds.
const TICK_MS: i64 = 100;

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            (meta.ino(), meta.ctime(), meta.ctime_nsec())
        };
        #[cfg(not(unix))]
        let identity = (0, 0, 0);
        Self { modified: meta.modified().ok(), len: meta.len(), identity }
    }

    fn is_settled(&self, now_ms: i64) -> bool {
        let changed = self
            .modified
            .and_then(|modified| modified.duration_since(UNIX_EPOCH).ok())
            .and_then(|since| i64::try_from(since.as_millis()).ok());
        changed.is_some_and(|changed| now_ms - changed > TICK_MS)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    fn look(cache: &mut FileCache<String>, path: &Path, reads: &mut u32) -> String {
        let meta = fs::metadata(path).unwrap();
        let make = |path: &Path| {
            *reads += 1;
            fs::read_to_string(path).unwrap()
        };
        cache.get(path, &meta, make, |text| text != "failed").as_str().to_owned()
    }

    /// DISC-10
    #[test]
    fn reads_again_only_after_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("card.md");
        let (mut cache, mut reads) = (FileCache::default(), 0);
        fs::write(&path, "one").unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(look(&mut cache, &path, &mut reads), "one");
        assert_eq!(look(&mut cache, &path, &mut reads), "one");
        assert_eq!(reads, 1);
        fs::write(&path, "failed").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        for more in 2..4 {
            assert_eq!(look(&mut cache, &path, &mut reads), "failed");
            assert_eq!(reads, more);
        }
        // Same length, written now: no stamp is trusted until the clock has moved on.
        fs::write(&path, "two").unwrap();
        assert_eq!(look(&mut cache, &path, &mut reads), "two");
        fs::write(&path, "six").unwrap();
        assert_eq!(look(&mut cache, &path, &mut reads), "six");
    }
}
