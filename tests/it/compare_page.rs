//! `sobench compare` as an HTML page.

use sobench_testkit::repository_path;

use crate::support::sobench;

#[test]
fn comparison_is_an_html_page_with_dates_in_iso_8601() {
    let [base, new] = ["base", "new"].map(|name| {
        let path = repository_path("fixtures/compare").join(format!("{name}.json"));
        path.to_str().unwrap().to_owned()
    });
    let compare = |format: &str| {
        let ran = sobench(&["compare", &base, &new, "--format", format]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    let page = compare("html");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.ends_with("</body></html>\n"), "{page}");
    for figure in ["correct_rate", "median_ttft_ms", "output_throughput"] {
        assert!(page.contains(figure), "{figure}");
    }
    for output in [page, compare("text"), compare("markdown")] {
        assert!(output.contains("2026-11-23T16:0"), "{output}");
        assert!(!output.contains("20261123-"), "{output}");
    }
    assert!(
        compare("json").contains("20261123-"),
        "JSON keeps vLLM's format"
    );
}
