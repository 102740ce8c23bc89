//! Planted faults, as sobench itself meets them. How each looks on the wire is tested beside the
//! server.

use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};

use crate::support::sobench_result;

/// Nothing is lost, and the same requests are struck in every run.
#[test]
fn sobench_counts_what_was_planted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let run = |faults: &[&str]| {
        let faults = faults
            .iter()
            .map(|fault| Fault::parse(fault).unwrap())
            .collect();
        let server = EmbeddedServer::start(EmbeddedOptions {
            faults,
            ..EmbeddedOptions::default()
        })
        .unwrap();
        let arguments = [
            "--base-url",
            server.base_url(),
            "--num-prompts",
            "40",
            "--request-id-prefix",
            "fault-",
            "--skip-preflight",
        ];
        let (ran, result) = sobench_result(&arguments);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let planted: u64 = server.stats().faults.iter().map(|(_, count)| count).sum();
        (result, planted)
    };
    let (dropped, planted) = run(&["ignore-constraint@0.5"]);
    let again = run(&["ignore-constraint@50%"]).0;
    assert_eq!(
        dropped["completed"].as_u64(),
        Some(40),
        "a dropped constraint is a 200"
    );
    let correct = dropped["correct_rate(%)"].as_f64().unwrap();
    assert!(
        planted >= 5 && correct < 95.0,
        "{planted} of 40 without their constraint, {correct} % right"
    );
    let wrong = (40.0 * (100.0 - correct) / 100.0).round() as u64;
    // One that is right without its constraint is luck.
    assert!(
        (planted / 2..=planted).contains(&wrong),
        "{wrong} wrong, of {planted} without their constraint"
    );
    assert_eq!(
        dropped["correct_rate(%)"], again["correct_rate(%)"],
        "the same requests are struck again"
    );
    let (failed, planted) = run(&["error-500@0.2", "truncate@0.2"]);
    let completed = failed["completed"].as_u64().unwrap();
    assert!(
        planted > 0 && completed > 0,
        "{completed} completed, {planted} planted"
    );
    assert_eq!(
        completed + planted,
        40,
        "each request that was not completed met one fault"
    );
}
