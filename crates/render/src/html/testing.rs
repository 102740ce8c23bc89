//! Checks of pages in tests.

/// Checks that tags and quotes of a page are balanced.
pub fn check_well_formed(page: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = page
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("the page has a doctype");
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(
            !text.contains('>') || open.last().is_some_and(|tag| tag == "style"),
            "a bare > in {text}"
        );
        let end = start + rest[start..].find('>').expect("every tag is closed with >");
        let tag = &rest[start + 1..end];
        assert_eq!(
            tag.matches('"').count() % 2,
            0,
            "unbalanced quotes in {tag}"
        );
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(name),
                "</{name}> must close the innermost element"
            );
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap().to_owned());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}
