//! What the packages hold.

/// The pages that a page names, by their file names.
fn named(page: &str) -> Vec<&str> {
    let links = page.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split([')', '#']).next());
    links.filter(|link| link.ends_with(".md")).collect()
}

#[test]
fn the_packages_have_each_page_that_the_routers_page_names() {
    let manifest = include_str!("../../Cargo.toml");
    let pages = named(include_str!("../../../docs/router.md"));
    assert!(pages.contains(&"queue.md"), "{pages:?}");
    for page in pages {
        for asset in [format!("\"../docs/{page}\""), format!("\"docs/{page}\"")] {
            assert!(manifest.contains(&asset), "{asset}");
        }
    }
}
