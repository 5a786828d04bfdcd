//! The load matrix: what a host is told of each kind of wrong library, by the loader's real answers.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use host_abi::{LoadError, library_file_name, load};
use tests::{libraries::library, mini_host::MiniHost};

/// The error and its text, in which the path is `<path>`.
fn refused(path: &Path) -> (LoadError, String) {
    let error = load(path).expect_err("the library should be refused");
    let text = told(&error, path);
    (error, text)
}

fn told(error: &LoadError, path: &Path) -> String {
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "the message names the file: {text}");
    assert!(!text.contains('\n'), "the message is one line: {text}");
    text.replace(&path.display().to_string(), "<path>")
}

/// 01-T1, ABI-20, ABI-21, ABI-22, ABI-25: every cause is told apart, and each message says which file, what was
/// expected and found, and what to do.
#[test]
fn each_wrong_library_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().canonicalize().unwrap().join(name);

    let missing = at("nowhere.so");
    let (error, text) = refused(&missing);
    assert!(matches!(error, LoadError::Missing { .. }));
    assert_eq!(text, "extension library not found: <path>; build it, or set PI_LEGION_LIB_DIR to its directory");

    let plain = at(&library_file_name("plain_text"));
    fs::write(&plain, "this is no library\n").unwrap();
    let (error, text) = refused(&plain);
    assert!(matches!(error, LoadError::NotALibrary { .. }));
    assert!(text.starts_with("<path> is not a loadable library ("), "{text}");
    assert!(text.ends_with("); give the path of the built extension library"), "{text}");
    assert_eq!(text.matches("<path>").count(), 1, "{text}");

    let below_a_file = plain.join("x.so");
    assert!(matches!(refused(&below_a_file).0, LoadError::NotALibrary { .. }));
    let directory = dir.path().canonicalize().unwrap();
    assert!(matches!(refused(&directory).0, LoadError::NotALibrary { .. }));

    let (error, text) = refused(&library("no_root_ext"));
    assert!(matches!(error, LoadError::NoRootModule { .. }));
    assert_eq!(text, "<path> exports no extension root module; build it as a cdylib that calls export_extension!");

    let (error, text) = refused(&library("other_stable_ext"));
    assert!(matches!(error, LoadError::OtherAbiStable { .. }));
    assert_eq!(
        text,
        "<path> was built with abi_stable 0.10, this host has 0.11; rebuild it against this host's host-abi"
    );

    for (name, found) in [("older_abi_ext", "0.0.9"), ("newer_abi_ext", "0.2.0")] {
        let (error, text) = refused(&library(name));
        assert!(matches!(error, LoadError::Version { .. }));
        let ours = host_abi::VERSION;
        assert_eq!(
            text,
            format!("<path> was built with host-abi {found}, this host has {ours}; rebuild it, or update the host")
        );
    }

    let (error, text) = refused(&library("other_layout_ext"));
    let full = error.full_report().unwrap_or_default();
    assert!(matches!(error, LoadError::Layout { .. }));
    assert_eq!(
        text,
        format!(
            "<path> has another layout of the root module: mismatched type (expected ExtensionMod, found OtherMod); \
             rebuild it against this host's host-abi {}",
            host_abi::VERSION
        )
    );
    assert!(full.lines().count() > 50, "the log gets the whole report: {full}");
}

/// 01-T1, ABI-6, ABI-22: `init` may err or panic, any number of times, and the process goes on.
#[test]
fn an_init_that_errs_or_panics_is_told() {
    for _ in 0..2 {
        let errs = load(&library("init_errs_ext")).unwrap();
        let error = errs.start(MiniHost::default(), &MiniHost::info()).unwrap_err();
        assert!(matches!(error, LoadError::Init { .. }));
        assert_eq!(told(&error, errs.path()), "<path> failed to start: the licence file is missing");

        let panics = load(&library("init_panics_ext")).unwrap();
        let error = panics.start(MiniHost::default(), &MiniHost::info()).unwrap_err();
        assert!(matches!(error, LoadError::Panicked { .. }));
        let text = told(&error, panics.path());
        assert!(text.starts_with("<path> panicked while starting: init panicked at "), "{text}");
        assert!(text.contains("init-panics-ext/src/lib.rs:"), "{text}");
        assert!(text.ends_with(": no luck today; report it to the extension's author"), "{text}");
    }
    MiniHost::shared().session("smallest_ext").detach();
}

/// 01-T1, ABI-20, ABI-21
#[test]
fn two_libraries_are_two_and_one_path_is_one() {
    let (greeter, probe) = (load(&library("smallest_ext")).unwrap(), load(&library("probe_ext")).unwrap());
    assert_eq!((greeter.info().name.as_str(), probe.info().name.as_str()), ("greeter", "probe"));
    assert!(Arc::ptr_eq(&greeter, &load(&library("smallest_ext")).unwrap()));

    let host = MiniHost::shared();
    let (first, second) = (host.session("smallest_ext"), host.session("probe_ext"));
    assert_eq!(first.registrations.tools[0].name, "greet");
    assert!(second.registrations.tools.iter().any(|tool| tool.name == "probe_echo"));
}

/// ABI-21: another name of the same file is the same library.
#[cfg(unix)]
#[test]
fn a_link_gives_the_library_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link.so");
    std::os::unix::fs::symlink(library("smallest_ext"), &link).unwrap();
    assert!(Arc::ptr_eq(&load(&link).unwrap(), &load(&library("smallest_ext")).unwrap()));
}

/// ABI-25, part of 01-T7: a later patch version loads, starts and works.
#[test]
fn another_patch_version_works() {
    let loaded = load(&library("patch_abi_ext")).unwrap();
    assert_eq!(loaded.info().abi, "0.1.99");
    assert_ne!(loaded.info().abi, host_abi::VERSION);
    let session = MiniHost::shared().session("patch_abi_ext");
    assert!(session.registrations.tools.is_empty());
}

/// ABI-23: a library that was built anew is noticed, and the running one stays.
#[test]
fn a_changed_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join(library_file_name("copy"));
    fs::copy(library("smallest_ext"), &copy).unwrap();
    let loaded = load(&copy).unwrap();
    assert!(!loaded.changed_on_disk());

    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    fs::File::options().write(true).open(&copy).unwrap().set_modified(later).unwrap();
    assert!(loaded.changed_on_disk(), "by its time");
    assert!(Arc::ptr_eq(&loaded, &load(&copy).unwrap()), "the running one stays");
    assert_eq!(loaded.info().name, "greeter");

    fs::remove_file(&copy).unwrap();
    assert!(loaded.changed_on_disk(), "by its absence");
}

/// ABI-24: the explicit path, then the directory of `PI_LEGION_LIB_DIR`, then beside the executable.
#[test]
fn libraries_are_found_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (lib_dir, beside) = (dir.path().join("lib"), dir.path().join("bin"));
    let file = library_file_name("some_ext");
    for place in [&lib_dir, &beside] {
        fs::create_dir(place).unwrap();
        fs::write(place.join(&file), "").unwrap();
    }
    let find = |explicit, lib_dir| host_abi::find("some_ext", explicit, lib_dir, &beside);
    let own = dir.path().join("own.so");
    fs::write(&own, "").unwrap();
    assert_eq!(find(Some(&own), Some(&lib_dir)), Ok(own.clone()));
    assert_eq!(find(None, Some(&lib_dir)), Ok(lib_dir.join(&file)));
    assert_eq!(find(None, Some(dir.path())), Ok(beside.join(&file)));
    assert_eq!(find(None, None), Ok(beside.join(&file)));

    let wrong = dir.path().join("wrong.so");
    assert_eq!(find(Some(&wrong), Some(&lib_dir)), Err(LoadError::Missing { path: wrong.clone() }));
    fs::remove_file(beside.join(&file)).unwrap();
    assert_eq!(find(None, None), Err(LoadError::Missing { path: beside.join(&file) }));
}
