//! The speed of the embedded server's model in results and run records.

use serde_json::{Value, json};

use crate::support::{ServeProcess, check_result, sobench_result};

fn saved(flags: &[&str]) -> Value {
    let short = "--dataset choice --choice yes,no --num-prompts 4 --output-len 4";
    let (ran, result) = sobench_result(&[&[short], flags].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    result["sobench"].clone()
}

#[test]
fn results_name_the_speed() {
    for (flags, expected) in [
        (
            "--seed 0",
            json!({"profile": "instant", "ttft_ms": null, "itl_ms": null, "step_ms": null}),
        ),
        (
            "--embedded-speed 8b-h100 --embedded-step-ms 2",
            json!({"profile": "8b-h100", "ttft_ms": null, "itl_ms": null, "step_ms": 2.0}),
        ),
    ] {
        let own = saved(&[flags]);
        assert_eq!(own["embedded_speed"], expected);
        assert_eq!(own["record"]["server"]["speed"], expected);
    }
}

#[test]
fn the_speed_of_sobench_serve_is_recorded() {
    let flags = "--embedded-speed 8b-laptop --embedded-ttft-ms 0 --embedded-itl-ms 0";
    let server = ServeProcess::start(&[flags]);
    let speed = "(synthetic, speed 8b-laptop, TTFT 0 ms, ITL 0 ms)";
    assert_eq!(
        server.greeting.matches(speed).count(),
        1,
        "{}",
        server.greeting
    );
    let own = saved(&["--base-url", &server.base_url]);
    assert_eq!(
        own["embedded_speed"],
        json!({"profile": "8b-laptop", "ttft_ms": 0.0, "itl_ms": 0.0, "step_ms": null})
    );
}
