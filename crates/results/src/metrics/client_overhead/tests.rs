//! Tests of the client verdict.

use super::*;
use crate::metrics::testing::{TestRequest, test_request, with_samples};

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
        ClientOverhead::new(samples, &MetricsOptions::default(), cost, 0)
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

fn exceeded(overhead: &ClientOverhead) -> Vec<(Measure, f64)> {
    overhead
        .exceeded
        .iter()
        .map(|exceeded| (exceeded.measure, exceeded.limit))
        .collect()
}

#[test]
fn punctual_client_is_trusted() {
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 100, at * 100, at * 100))
        .collect();
    let overhead = overhead(&run, idle());
    assert_eq!(
        (overhead.verdict, exceeded(&overhead)),
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
        (overhead.verdict, overhead.held_by_cap),
        (ClientVerdict::NotTheBottleneck, 100)
    );
}

#[test]
fn send_delay_is_not_trusted() {
    // Each request is sent 31 ms late; the rate deviates by 31 ms of 10 s.
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 100, at * 100, at * 100 + 31))
        .collect();
    let overhead = overhead(&run, idle());
    assert_eq!(overhead.verdict, ClientVerdict::DoNotTrust);
    assert_eq!(
        exceeded(&overhead),
        [(Measure::SendDelayP99Ms, MAX_SEND_DELAY_P99_MS)]
    );
    assert_eq!(overhead.exceeded[0].value, 31.0);
}

#[test]
fn rate_deviation_is_not_trusted() {
    let run = [sent(1000, 1000, 1000), sent(2000, 2000, 2020)];
    let judged = overhead(&run, idle());
    assert_eq!(
        exceeded(&judged),
        [
            (Measure::SendDelayP99Ms, 2.0),
            (Measure::RateDeviationPercent, 0.5)
        ]
    );
    assert!((judged.rate_deviation_percent.unwrap() + 0.990_099).abs() < 1e-5);
}

#[test]
fn burst_has_a_width_and_no_send_delay() {
    let burst = |last: u64| (0..=last).map(|at| sent(0, 0, at)).collect::<Vec<_>>();
    let narrow = overhead(&burst(40), idle());
    assert_eq!(
        (narrow.burst, narrow.verdict),
        (
            Some(Burst {
                requests: 41,
                width_ms: 40.0
            }),
            ClientVerdict::NotTheBottleneck
        )
    );
    assert_eq!(
        (narrow.send_delay_ms.n, narrow.rate_deviation_percent),
        (0, None)
    );
    let wide = overhead(&burst(51), idle());
    assert_eq!(
        exceeded(&wide),
        [(Measure::BurstWidthMs, 50.0)],
        "half of the median TTFT of 100 ms"
    );
    let one = overhead(&[sent(0, 0, 90)], idle());
    assert_eq!(
        one.verdict,
        ClientVerdict::NotTheBottleneck,
        "one request is not a burst"
    );
}

#[test]
fn send_delay_limit_follows_ttft() {
    for (first_ms, limit) in [
        (None, 2.0),
        (Some(500.0), 2.0),
        (Some(10.0), 1.0),
        (Some(1.0), 0.5),
    ] {
        assert_eq!(send_delay_limit_ms(first_ms), limit, "{first_ms:?}");
    }
}

#[test]
fn busy_machine_is_not_trusted_without_the_embedded_server() {
    let busy = ClientCost {
        cpu_s: Some(19.0),
        machine_busy_percent: Some(97.0),
        ..idle()
    };
    let run = [sent(1000, 1000, 1000)];
    let judged = overhead(&run, busy);
    assert_eq!(
        exceeded(&judged),
        [
            (Measure::CpuPercent, 85.0),
            (Measure::MachineBusyPercent, 90.0)
        ]
    );
    assert_eq!(
        overhead(
            &run,
            ClientCost {
                includes_server: true,
                ..busy
            }
        )
        .verdict,
        ClientVerdict::NotTheBottleneck
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
    assert_eq!(overhead(&run, many).cpu_percent, Some(100.0 * 9.5 / 640.0));
    let judged = overhead(
        &run,
        ClientCost {
            threads: Some(1),
            ..many
        },
    );
    assert_eq!(
        (judged.cpu_percent, exceeded(&judged)),
        (Some(95.0), vec![(Measure::CpuPercent, 85.0)])
    );
    assert_eq!(
        overhead(
            &run,
            ClientCost {
                threads: Some(99),
                cores: Some(1),
                ..many
            }
        )
        .cpu_percent,
        Some(95.0)
    );
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
        (0, ClientVerdict::NotTheBottleneck)
    );
}

#[test]
fn times_out_of_order_are_not_trusted() {
    let odd = TestRequest {
        end: Some(1050),
        ..sent(1000, 1000, 1000)
    };
    let judged = overhead(&[odd, sent(1000, 1000, 1000)], idle());
    assert_eq!(
        (judged.disordered, exceeded(&judged)),
        (1, vec![(Measure::DisorderedRequests, 0.0)])
    );
}
