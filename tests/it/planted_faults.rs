//! Reports of runs against a server with injected faults. The crate of the server tests the
//! responses themselves.

use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};

use crate::support::sobench_result;

/// Every injected fault is counted, and the same requests fail in every run.
#[test]
fn injected_faults_are_counted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let run = |faults: &[&str]| {
        let faults = faults
            .iter()
            .map(|fault| Fault::parse(fault).unwrap())
            .collect();
        let server = EmbeddedServer::start(EmbeddedSettings {
            faults,
            ..EmbeddedSettings::default()
        })
        .unwrap();
        let arguments = [
            "--base-url",
            server.base_url(),
            "--num-prompts 40 --request-id-prefix fault- --skip-preflight",
        ];
        let (ran, result) = sobench_result(&arguments);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let injected: u64 = server.stats().faults.iter().map(|(_, count)| count).sum();
        (result, injected)
    };
    let (dropped, injected) = run(&["ignore-constraint@0.5"]);
    let again = run(&["ignore-constraint@50%"]).0;
    assert_eq!(
        dropped["completed"].as_u64(),
        Some(40),
        "a dropped constraint gives status 200"
    );
    let correct = dropped["correct_rate(%)"].as_f64().unwrap();
    assert!(
        injected >= 5 && correct < 95.0,
        "{injected} of 40 without their constraint, {correct} % right"
    );
    let wrong = (40.0 * (100.0 - correct) / 100.0).round() as u64;
    // An answer may be valid by chance without its constraint.
    assert!(
        (injected / 2..=injected).contains(&wrong),
        "{wrong} wrong, of {injected} without their constraint"
    );
    assert_eq!(
        dropped["correct_rate(%)"], again["correct_rate(%)"],
        "the same requests fail again"
    );
    let (failed, injected) = run(&["error-500@0.2", "truncate@0.2"]);
    let completed = failed["completed"].as_u64().unwrap();
    assert!(
        injected > 0 && completed > 0,
        "{completed} completed, {injected} planted"
    );
    assert_eq!(
        completed + injected,
        40,
        "each request that was not completed met one fault"
    );
}
