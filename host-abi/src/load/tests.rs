use super::*;

/// ABI-25
#[test]
fn versions_that_load_each_other() {
    let same =
        [("0.1.0", "0.1.9"), ("0.1.0", "0.1.0"), ("0.1.0-rc.1", "0.1.2"), ("1.0.0", "1.9.3"), ("2.1.0", "2.0.0")];
    let other = [
        ("0.1.0", "0.2.0"),
        ("0.2.0", "0.1.9"),
        ("0.1.0", "1.1.0"),
        ("1.0.0", "2.0.0"),
        ("0.1.0", "word"),
        ("", "0.1.0"),
    ];
    for (a, b) in same {
        assert!(compatible(a, b) && compatible(b, a), "{a} {b}");
    }
    for (a, b) in other {
        assert!(!compatible(a, b) && !compatible(b, a), "{a} {b}");
    }
}

/// ABI-22
#[test]
fn a_report_is_cut_to_its_first_cause() {
    let report = "\n\nCompared <this>:\n   type: A\n\n0 error(s).\n\nError:mismatched type\nExpected:\n    A<\n    u8>\nFound:\n    B\n\nError:second\nExpected:\n C\nFound:\n D\n";
    assert_eq!(first_cause(report), "mismatched type (expected A< u8>, found B)");
    assert_eq!(first_cause("\n  the loader\n  panicked\n\nmore"), "the loader panicked");
    assert_eq!(first_cause(""), "");
    assert_eq!(first_cause(&"ä".repeat(300)), "ä".repeat(CAUSE_CHARS) + "…");
}

/// ABI-6, ABI-22: an `info` that panics is told as the panic, not as a payload of a wrong shape.
#[test]
fn an_info_that_panics_is_told_as_a_panic() {
    let error = |json: &str| from_start(Path::new("x.so"), read_info(json).unwrap_err());
    let panicked = AbiError::new(codes::PANIC, "info panicked: boom").to_json();
    assert_eq!(
        error(&panicked).to_string(),
        "x.so panicked while starting: info panicked: boom; report it to the extension's author"
    );
    assert!(matches!(error("{}"), LoadError::Init { .. }));
    assert!(error("{}").to_string().contains("missing field `name`"));
}
