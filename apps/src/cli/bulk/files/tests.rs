use std::os::unix::fs::symlink;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

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

#[test]
fn a_file_that_is_replaced_by_a_link_after_it_was_opened_is_read_as_it_was() {
    use futures_util::TryStreamExt;

    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(outer.path().join("secret"), "secret").unwrap();
    std::fs::write(root.join("open"), "public").unwrap();
    let read = block_on(async {
        let source = Root::new(&root).await.unwrap().open("open").await.unwrap();
        std::fs::remove_file(root.join("open")).unwrap();
        symlink("../secret", root.join("open")).unwrap();
        let Source::Stored(file) = source else {
            panic!("it is stored");
        };
        file.read(1).try_collect::<Vec<_>>().await.unwrap().concat()
    });
    assert_eq!(read, b"ublic");
}

#[test]
fn a_fifo_below_the_root_is_refused_without_waiting_for_its_writer() {
    let root = tempfile::tempdir().unwrap();
    let fifo = root.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let opened = block_on(async { Root::new(root.path()).await.unwrap().open("fifo").await });
    assert!(opened.unwrap_err().contains("regular"));
}

#[test]
fn a_download_writes_through_no_link_and_over_nothing() {
    use tokio::io::AsyncWriteExt;

    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let path = directory.path().join("copy");
    symlink(&victim, directory.path().join("copy.part")).unwrap();
    let names = || std::fs::read_dir(directory.path()).unwrap().count();
    let sink = FileSink::new(&path).unwrap();
    // Nothing is created before the first writer.
    assert_eq!(names(), 2);
    block_on(async {
        for (offset, text) in [(3, "def"), (0, "abc")] {
            let mut writer = sink.writer(offset).await.unwrap();
            writer.write_all(text.as_bytes()).await.unwrap();
            writer.shutdown().await.unwrap();
        }
        assert_eq!(names(), 3);
        sink.keep().await.unwrap();
    });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "abcdef");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(names(), 3);
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
