//! The verdict on the client, measure by measure.

use super::*;
use crate::metrics::testing::{Made, made, with_samples};

/// A request that was due and ready at one millisecond and sent at another, with its first token
/// 100 ms later.
fn sent(due: u64, ready: u64, sent: u64) -> Made<'static> {
    Made {
        due,
        ready: Some(ready),
        sent: Some(sent),
        chunks: vec![sent + 100, sent + 110],
        end: Some(sent + 111),
        ..made()
    }
}

fn part(run: &[Made<'_>], cost: ClientCost) -> ClientPart {
    with_samples(run, |samples| {
        ClientPart::of(samples, &MetricsOptions::default(), cost, 0)
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

fn doubts(part: &ClientPart) -> Vec<(Measure, f64)> {
    part.doubts
        .iter()
        .map(|it| (it.measure, it.limit))
        .collect()
}

#[test]
fn a_client_in_time_is_trusted() {
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 100, at * 100, at * 100))
        .collect();
    let part = part(&run, idle());
    assert_eq!(
        (part.verdict, doubts(&part)),
        (ClientVerdict::NotTheBottleneck, vec![])
    );
    assert_eq!(
        (part.own_delay_ms.n, part.own_delay_ms.max, part.burst),
        (100, Some(0.0), None)
    );
    assert_eq!(
        (part.rate_deviation_percent, part.held_by_cap),
        (Some(0.0), 0)
    );
    assert_eq!(part.cpu_percent, Some(10.0));
    assert_eq!(
        part.cpu_s_per_million_output_tokens,
        Some(2.0 * 1e6 / 300.0)
    );
}

#[test]
fn waiting_for_a_slot_is_not_the_clients_doing() {
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 10, at * 100, at * 100))
        .collect();
    let part = part(&run, idle());
    assert_eq!(
        (part.verdict, part.held_by_cap),
        (ClientVerdict::NotTheBottleneck, 100)
    );
}

#[test]
fn lateness_of_its_own_is() {
    // 31 ms late, each of them; the rate at the end is off by 31 ms of 10 s.
    let run: Vec<_> = (1..=100)
        .map(|at| sent(at * 100, at * 100, at * 100 + 31))
        .collect();
    let part = part(&run, idle());
    assert_eq!(part.verdict, ClientVerdict::DoNotTrust);
    assert_eq!(
        doubts(&part),
        [(Measure::OwnDelayP99Ms, MAX_OWN_DELAY_P99_MS)]
    );
    assert_eq!(part.doubts[0].value, 31.0);
}

#[test]
fn a_rate_that_is_not_kept_is_doubted() {
    let run = [sent(1000, 1000, 1000), sent(2000, 2000, 2020)];
    let judged = part(&run, idle());
    assert_eq!(
        doubts(&judged),
        [
            (Measure::OwnDelayP99Ms, 2.0),
            (Measure::RateDeviationPercent, 0.5)
        ]
    );
    assert!((judged.rate_deviation_percent.unwrap() + 0.990_099).abs() < 1e-5);
}

#[test]
fn a_burst_has_a_width_and_no_lateness() {
    let burst = |last: u64| (0..=last).map(|at| sent(0, 0, at)).collect::<Vec<_>>();
    let narrow = part(&burst(40), idle());
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
        (narrow.own_delay_ms.n, narrow.rate_deviation_percent),
        (0, None)
    );
    let wide = part(&burst(51), idle());
    assert_eq!(
        doubts(&wide),
        [(Measure::BurstWidthMs, 50.0)],
        "half of the median TTFT of 100 ms"
    );
    let one = part(&[sent(0, 0, 90)], idle());
    assert_eq!(
        one.verdict,
        ClientVerdict::NotTheBottleneck,
        "one request is no burst"
    );
}

#[test]
fn a_fast_server_asks_for_a_faster_client() {
    for (first_ms, limit) in [
        (None, 2.0),
        (Some(500.0), 2.0),
        (Some(10.0), 1.0),
        (Some(1.0), 0.5),
    ] {
        assert_eq!(own_delay_limit_ms(first_ms), limit, "{first_ms:?}");
    }
}

#[test]
fn a_busy_machine_is_doubted_unless_the_server_is_in_it() {
    let busy = ClientCost {
        cpu_s: Some(19.0),
        machine_busy_percent: Some(97.0),
        ..idle()
    };
    let run = [sent(1000, 1000, 1000)];
    let judged = part(&run, busy);
    assert_eq!(
        doubts(&judged),
        [
            (Measure::CpuPercent, 85.0),
            (Measure::MachineBusyPercent, 90.0)
        ]
    );
    assert_eq!(
        part(
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
fn one_thread_on_many_cores_is_full_at_one() {
    let run = [sent(1000, 1000, 1000)];
    let many = ClientCost {
        cpu_s: Some(9.5),
        cores: Some(64),
        ..idle()
    };
    assert_eq!(part(&run, many).cpu_percent, Some(100.0 * 9.5 / 640.0));
    let judged = part(
        &run,
        ClientCost {
            threads: Some(1),
            ..many
        },
    );
    assert_eq!(
        (judged.cpu_percent, doubts(&judged)),
        (Some(95.0), vec![(Measure::CpuPercent, 85.0)])
    );
    assert_eq!(
        part(
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
fn what_several_runs_took_is_no_cost_of_one_ones_tokens() {
    let run = [sent(1000, 1000, 1000)];
    let alone = part(&run, idle());
    let beside = part(
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
fn what_nobody_measured_is_nothing() {
    let judged = part(
        &[Made {
            sent: None,
            ready: None,
            end: None,
            chunks: vec![],
            ..made()
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
        (judged.own_delay_ms.n, judged.verdict),
        (0, ClientVerdict::NotTheBottleneck)
    );
}

#[test]
fn instants_out_of_order_are_doubted_whatever_else_is_fine() {
    let odd = Made {
        end: Some(1050),
        ..sent(1000, 1000, 1000)
    };
    let judged = part(&[odd, sent(1000, 1000, 1000)], idle());
    assert_eq!(
        (judged.disordered, doubts(&judged)),
        (1, vec![(Measure::DisorderedRequests, 0.0)])
    );
}
