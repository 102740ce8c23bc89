//! The speed of the embedded server's model in results, reports, comparisons and pages.

use serde_json::{Value, json};

use crate::support::{ServeProcess, check_result, sobench, sobench_result};

/// A short run. Each answer has one of two words.
const SHORT: [&str; 1] = ["--dataset choice --choice yes,no --num-prompts 4 --output-len 4"];

fn saved(flags: &[&str]) -> (String, Value) {
    let (ran, result) = sobench_result(&[&SHORT[..], flags].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    (ran.stdout, result)
}

#[test]
fn results_and_reports_name_the_speed() {
    for (flags, shown, expected) in [
        (
            &[][..],
            "instant",
            json!({"profile": "instant", "ttft_ms": null, "itl_ms": null, "step_ms": null}),
        ),
        (
            &["--embedded-speed 8b-h100 --embedded-step-ms 2"],
            "8b-h100, step 2 ms",
            json!({"profile": "8b-h100", "ttft_ms": null, "itl_ms": null, "step_ms": 2.0}),
        ),
    ] {
        let (page, result) = saved(flags);
        let own = &result["sobench"];
        assert_eq!(own["embedded_speed"], expected);
        assert_eq!(own["record"]["server"]["speed"], expected);
        let summary = sobench(&[&SHORT[..], flags].concat()).stdout;
        for (page, line) in [
            (page, format!("speed {shown}, version sobench-embedded")),
            // The end of a long line is cut.
            (summary, format!("synthetic model ({shown}, not")),
        ] {
            let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(page.contains(&line), "{line}\n{page}");
        }
    }
}

#[test]
fn the_speed_of_sobench_serve_is_recorded() {
    let server = ServeProcess::start(&[
        "--embedded-speed 8b-laptop --embedded-ttft-ms 0 --embedded-itl-ms 0",
    ]);
    assert!(
        server
            .greeting
            .contains("(synthetic, speed 8b-laptop, TTFT 0 ms, ITL 0 ms)"),
        "{}",
        server.greeting
    );
    let (_, result) = saved(&["--base-url", &server.base_url]);
    assert_eq!(
        result["sobench"]["embedded_speed"],
        json!({"profile": "8b-laptop", "ttft_ms": 0.0, "itl_ms": 0.0, "step_ms": null})
    );
}
