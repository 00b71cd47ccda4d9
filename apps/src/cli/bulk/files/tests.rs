use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn names_that_leave_the_root_are_refused() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("root");
    std::fs::create_dir_all(inner.join("sub")).unwrap();
    std::fs::write(outer.path().join("secret"), "x").unwrap();
    std::fs::write(inner.join("open"), "hello").unwrap();
    symlink("../secret", inner.join("leak")).unwrap();
    symlink(outer.path(), inner.join("up")).unwrap();
    symlink("../open", inner.join("sub/inside")).unwrap();
    let root = block_on(Root::new(&inner)).unwrap();
    for name in [
        "../secret",
        "sub/../../secret",
        "/etc/passwd",
        "leak",
        "up/secret",
        "sub",
        ".",
        "",
        "missing",
        "open/",
        "a\0b",
        "open/../../secret",
    ] {
        let opened = block_on(root.open(name));
        assert!(opened.is_err(), "{name:?} was opened");
        let words = opened.unwrap_err();
        assert!(
            !words.contains("root") && !words.contains("tmp"),
            "{name:?}: {words}"
        );
    }
    for name in ["open", "./open", "sub/inside"] {
        assert_eq!(
            block_on(root.open(name)).unwrap().length(),
            Some(5),
            "{name}"
        );
    }
}

proptest! {
    #[test]
    fn no_name_at_all_reaches_a_file_outside(name in "[./a-z\\\\ ]{0,20}") {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("root");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(outer.path().join("a"), "x").unwrap();
        let root = block_on(Root::new(&inner)).unwrap();
        prop_assert!(block_on(root.open(&name)).is_err());
    }
}
