//! Forgotten files: Rust files that no module and no target brings in, so that cargo never compiles them.

use super::Finding;
use super::tree::Tree;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let forgotten = tree.files.iter().filter(|file| file.place.is_none());
    forgotten
        .map(|file| {
            let what = if file.path.contains("tests") {
                "test file that nothing compiles"
            } else {
                "file that nothing compiles"
            };
            Finding::new(&file.path, 1, what, "declare it with `mod` (or as a target in the manifest), or take it out")
        })
        .collect()
}
