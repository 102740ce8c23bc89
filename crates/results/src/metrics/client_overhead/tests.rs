//! Tests of client overhead. The bounds have their own.

use super::*;
use crate::metrics::summarise;
use sobench_facts::testing::{TestRequest, test_request, with_samples};

/// A request with due, ready and send times in milliseconds, and its first token 100 ms later.
fn sent(due: u64, ready: u64, sent: u64) -> TestRequest<'static> {
    TestRequest {
        due,
        ready: Some(ready),
        sent: Some(sent),
        chunks: vec![sent + 100, sent + 110],
        end: Some(sent + 111),
        ..test_request()
    }
}

fn overhead(run: &[TestRequest<'_>], cost: ClientCost) -> ClientOverhead {
    with_samples(run, |samples| {
        let options = MetricsSettings::default();
        let run = ClientRun {
            cost,
            ..ClientRun::default()
        };
        let values = summarise(samples, 1_000_000_000, &options).values;
        ClientOverhead::new(samples, &options, run, &values)
    })
}

fn idle() -> ClientCost {
    ClientCost {
        wall_s: 10.0,
        cpu_s: Some(2.0),
        cores: Some(2),
        machine_busy_percent: Some(20.0),
        ..ClientCost::default()
    }
}

fn measures(overhead: &ClientOverhead) -> Vec<&str> {
    let doubts = overhead.doubts.iter();
    doubts.map(|doubt| doubt.measure.as_str()).collect()
}

#[test]
fn punctual_client_is_trusted() {
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 100, at * 100, at * 100))
        .collect();
    let overhead = overhead(&run, idle());
    assert_eq!(
        (overhead.verdict, measures(&overhead)),
        (ClientVerdict::NotTheBottleneck, vec![])
    );
    assert_eq!(
        (
            overhead.send_delay_ms.n,
            overhead.send_delay_ms.max,
            overhead.burst
        ),
        (100, Some(0.0), None)
    );
    assert_eq!(
        (overhead.rate_deviation_percent, overhead.held_by_cap),
        (Some(0.0), 0)
    );
    assert_eq!(overhead.cpu_percent, Some(10.0));
    assert_eq!(
        overhead.cpu_s_per_million_output_tokens,
        Some(2.0 * 1e6 / 300.0)
    );
}

#[test]
fn waiting_for_a_slot_is_not_send_delay() {
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 10, at * 100, at * 100))
        .collect();
    let overhead = overhead(&run, idle());
    assert_eq!(
        (overhead.send_delay_ms.max, overhead.held_by_cap),
        (Some(0.0), 100)
    );
}

#[test]
fn late_sending_is_held_against_figures_from_due_only() {
    // Each request is sent 31 ms late, and its first token comes 100 ms later.
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 200, at * 200, at * 200 + 31))
        .collect();
    let overhead = overhead(&run, idle());
    assert_eq!(overhead.verdict, ClientVerdict::DoNotTrust);
    assert!(
        measures(&overhead)
            .iter()
            .all(|measure| measure.ends_with("_from_due_ms")),
        "{:?}",
        overhead.doubts
    );
    let p99 = overhead
        .doubts
        .iter()
        .find(|doubt| doubt.measure == "p99_ttft_from_due_ms")
        .unwrap();
    assert!(
        (p99.value - 31.02).abs() < 1e-9 && (p99.limit - 13.1).abs() < 1e-9,
        "{p99:?}"
    );
    assert_eq!(overhead.severity().0, ClientVerdict::DoNotTrust);
    assert!(overhead.severity().1 > 2.0);
}

#[test]
fn a_busy_machine_alone_is_not_distrusted() {
    let busy = ClientCost {
        cpu_s: Some(19.0),
        machine_busy_percent: Some(100.0),
        ..idle()
    };
    let overhead = overhead(&[sent(1000, 1000, 1000)], busy);
    assert_eq!(overhead.verdict, ClientVerdict::NotTheBottleneck);
    assert_eq!(overhead.cpu_percent, Some(95.0));
}

#[test]
fn burst_has_a_width_and_no_send_delay() {
    let burst: Vec<_> = (0..=40).map(|at| sent(0, 0, at)).collect();
    let overhead = overhead(&burst, idle());
    assert_eq!(
        overhead.burst,
        Some(Burst {
            requests: 41,
            width_ms: 40.0
        })
    );
    assert_eq!(
        (overhead.send_delay_ms.n, overhead.rate_deviation_percent),
        (0, None)
    );
}

#[test]
fn one_thread_on_many_cores_is_full_at_one_core() {
    let run = [sent(1000, 1000, 1000)];
    let many = ClientCost {
        cpu_s: Some(9.5),
        cores: Some(64),
        ..idle()
    };
    let percent = |cost: ClientCost| overhead(&run, cost).cpu_percent;
    assert_eq!(percent(many), Some(100.0 * 9.5 / 640.0));
    let one_thread = ClientCost {
        threads: Some(1),
        ..many
    };
    assert_eq!(percent(one_thread), Some(95.0));
    let one_core = ClientCost {
        threads: Some(99),
        cores: Some(1),
        ..many
    };
    assert_eq!(percent(one_core), Some(95.0));
}

#[test]
fn cpu_of_concurrent_runs_is_not_divided_by_tokens() {
    let run = [sent(1000, 1000, 1000)];
    let alone = overhead(&run, idle());
    let beside = overhead(
        &run,
        ClientCost {
            other_runs: 1,
            ..idle()
        },
    );
    assert!(alone.cpu_s_per_million_output_tokens.is_some());
    assert_eq!(
        (beside.cpu_s_per_million_output_tokens, beside.cpu_percent),
        (None, alone.cpu_percent)
    );
}

#[test]
fn unmeasured_values_are_none() {
    let judged = overhead(
        &[TestRequest {
            sent: None,
            ready: None,
            end: None,
            chunks: vec![],
            ..test_request()
        }],
        ClientCost::default(),
    );
    assert_eq!(
        (
            judged.cpu_percent,
            judged.cpu_s_per_million_output_tokens,
            judged.burst
        ),
        (None, None, None)
    );
    assert_eq!(
        (judged.send_delay_ms.n, judged.verdict),
        (0, ClientVerdict::Unknown)
    );
}

#[test]
fn timestamps_out_of_order_are_not_trusted() {
    let odd = TestRequest {
        end: Some(1050),
        ..sent(1000, 1000, 1000)
    };
    let judged = overhead(&[odd, sent(1000, 1000, 1000)], idle());
    assert_eq!(
        (judged.disordered, measures(&judged)),
        (1, vec![DISORDERED_REQUESTS])
    );
}

#[test]
fn clock_that_stands_still_is_not_trusted() {
    let stopped = || TestRequest {
        chunks: vec![0, 0],
        end: Some(0),
        ..sent(0, 0, 0)
    };
    let all = overhead(&[stopped(), stopped()], idle());
    assert_eq!(
        (all.verdict, all.disordered, measures(&all)),
        (ClientVerdict::DoNotTrust, 2, vec![DISORDERED_REQUESTS])
    );
    // A coarse clock can give single answers no time.
    let one = overhead(&[stopped(), sent(0, 0, 0)], idle());
    assert_eq!(one.disordered, 0);
}
