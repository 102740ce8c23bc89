//! The dispatcher with a paused clock and a fake server: every instant is exact, and nothing
//! sleeps.
//!
//! tokio's paused time advances only when every task waits, directly to the next timer. It counts
//! whole milliseconds.

use std::sync::Mutex;

use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use super::*;
use crate::exchange::Body;
use sobench_core::case::Turn;
use sobench_core::load::ErrorLimits;
use sobench_core::run_event::AnswerForm;
use sobench_core::schedule::{Pace, Ramp, RampStrategy, Rate, due_times};

/// A server that takes `takes(index)` milliseconds for each request and records when each was sent.
struct Fake {
    start: Instant,
    takes: fn(usize) -> u64,
    fails: fn(usize) -> bool,
    sent: Arc<Mutex<Vec<(usize, u64)>>>,
}

impl Executor for Fake {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn wait_until(&self, at: Duration) {
        tokio::time::sleep_until(self.start + at).await;
    }

    type Location = ();

    fn locate(&self) -> ((), Option<Handle>) {
        ((), None)
    }

    async fn exchange(&self, prepared: Prepared, (): ()) -> Observation {
        let ns = |fake: &Self| super::super::clock::as_ns(fake.start.elapsed());
        let sent_ns = ns(self);
        self.sent
            .lock()
            .unwrap()
            .push((prepared.index, sent_ns / 1_000_000));
        tokio::time::sleep(Duration::from_millis((self.takes)(prepared.index))).await;
        let timing = Timing {
            sent_ns: Some(sent_ns),
            end_ns: Some(ns(self)),
            ..Timing::default()
        };
        let failed = Outcome::StreamError {
            message: "broken".to_owned(),
        };
        let outcome = if (self.fails)(prepared.index) {
            failed
        } else {
            Outcome::Completed
        };
        Observation {
            timing,
            ..unsent(prepared.index, prepared.due, outcome)
        }
    }
}

/// The result of a run.
struct DispatchResult {
    /// Index and millisecond of each request, in the order of sending.
    sent: Vec<(usize, u64)>,
    /// Indices of the cancelled cases.
    cancelled: Vec<usize>,
    /// The millisecond in which the last request ended.
    ended: u64,
    /// The index at which the breaker tripped.
    broke: Option<usize>,
}

async fn run(
    due_ms: &[u64],
    cap: Option<usize>,
    until: Until,
    takes: fn(usize) -> u64,
) -> DispatchResult {
    run_until_stopped(due_ms, cap, until, takes, |_| {}).await
}

async fn run_until_stopped(
    due_ms: &[u64],
    cap: Option<usize>,
    until: Until,
    takes: fn(usize) -> u64,
    stopping: impl FnOnce(Shutdown),
) -> DispatchResult {
    run_with_faults(
        due_ms,
        cap,
        until,
        takes,
        |_| false,
        ErrorLimits::default(),
        stopping,
    )
    .await
}

async fn run_with_faults(
    due_ms: &[u64],
    cap: Option<usize>,
    until: Until,
    takes: fn(usize) -> u64,
    fails: fn(usize) -> bool,
    limits: ErrorLimits,
    stopping: impl FnOnce(Shutdown),
) -> DispatchResult {
    let mut queue = Queue::new("", due_ms.len());
    let body = queue.body(Body::Bytes(Default::default(), AnswerForm::Streamed));
    due_ms
        .iter()
        .enumerate()
        .for_each(|(index, due)| queue.push(index, Duration::from_millis(*due), body, None));
    run_queue(queue, cap, until, takes, fails, limits, stopping).await
}

async fn run_queue(
    queue: Queue,
    cap: Option<usize>,
    until: Until,
    takes: fn(usize) -> u64,
    fails: fn(usize) -> bool,
    limits: ErrorLimits,
    stopping: impl FnOnce(Shutdown),
) -> DispatchResult {
    let shutdown = Shutdown::new();
    let breaker = Breaker::new(limits, shutdown.clone());
    stopping(shutdown.clone());
    let sent = Arc::default();
    let fake = Fake {
        start: Instant::now(),
        takes,
        fails,
        sent: Arc::clone(&sent),
    };
    let start = fake.start;
    let (sender, mut events) = unbounded_channel();
    dispatch(
        fake,
        queue,
        DispatchSettings {
            max_concurrency: cap,
            until,
            shutdown,
            breaker,
        },
        sender,
    )
    .await;
    let ended = start.elapsed().as_millis() as u64;
    let mut cancelled = Vec::new();
    let (mut answered, mut broke) = (0, None);
    while let Some(event) = events.recv().await {
        match event {
            RunEvent::Ended(seen) if seen.outcome == Outcome::Cancelled => {
                cancelled.push(seen.case_index);
            }
            RunEvent::Ended(seen) => {
                answered += 1;
                // Only the server takes time here, so there is no client send delay.
                assert_eq!(
                    seen.timing.ready_ns, seen.timing.sent_ns,
                    "{}",
                    seen.case_index
                );
            }
            RunEvent::Started { .. }
            | RunEvent::Sent { .. }
            | RunEvent::Repeated(_)
            | RunEvent::ServerSampled { .. } => {}
            RunEvent::ErrorLimitReached(tripped) => {
                assert_eq!(broke.replace(tripped.index), None, "reported once");
            }
        }
    }
    let sent = sent.lock().unwrap().clone();
    assert_eq!(answered, sent.len(), "every request that was sent ends");
    DispatchResult {
        sent,
        cancelled,
        ended,
        broke,
    }
}

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

#[tokio::test(start_paused = true)]
async fn without_a_cap_every_request_is_sent_when_due() {
    let ran = run(&[0, 0, 5, 1000, 1000, 1001], None, Until::LastCase, |_| {
        60_000
    })
    .await;
    assert_eq!(
        ran.sent,
        [(0, 0), (1, 0), (2, 5), (3, 1000), (4, 1000), (5, 1001)]
    );
    assert_eq!((ran.ended, ran.cancelled), (61_001, vec![]));
}

#[tokio::test(start_paused = true)]
async fn the_cap_delays_requests_in_due_order() {
    // The first of two slots is free again at 100, the second at 30, 60, 90 ...
    let takes = |index| if index == 0 { 100 } else { 30 };
    let ran = run(&[0, 0, 1, 2, 80, 500], Some(2), Until::LastCase, takes).await;
    assert_eq!(
        ran.sent,
        [(0, 0), (1, 0), (2, 30), (3, 60), (4, 90), (5, 500)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_cycles_until_its_time_is_over() {
    let ran = run(&[0, 0, 0], Some(2), Until::Cycling(seconds(1)), |_| 300).await;
    let expected: Vec<(usize, u64)> = [0, 300, 600, 900]
        .into_iter()
        .flat_map(|at| [at, at])
        .enumerate()
        .collect();
    assert_eq!(ran.sent, expected);
    assert_eq!(
        (ran.ended, ran.cancelled),
        (1200, vec![]),
        "requests under way may end, and none is missing"
    );
}

#[tokio::test(start_paused = true)]
async fn an_instant_server_does_not_extend_the_loop() {
    let ran = run(
        &[0, 0],
        Some(1),
        Until::Cycling(Duration::from_millis(3)),
        |_| 1,
    )
    .await;
    assert_eq!(ran.sent, [(0, 0), (1, 1), (2, 2)]);
    let none = run(&[], Some(1), Until::Cycling(seconds(1)), |_| 1).await;
    assert_eq!((none.sent, none.ended), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn the_first_of_count_and_time_ends_sending() {
    let ran = run(
        &[100, 900, 1000, 1001],
        None,
        Until::Time(seconds(1)),
        |_| 10,
    )
    .await;
    assert_eq!(
        (ran.sent, ran.cancelled),
        (vec![(0, 100), (1, 900), (2, 1000)], vec![]),
        "due at the very end is in time"
    );
    let ran = run(&[100, 200], None, Until::Time(seconds(9)), |_| 10).await;
    assert_eq!((ran.sent, ran.ended), (vec![(0, 100), (1, 200)], 210));
    let ran = run(&[0, 0, 0, 0], Some(1), Until::Time(seconds(1)), |_| 600).await;
    assert_eq!(
        (ran.sent, ran.cancelled),
        (vec![(0, 0), (1, 600)], vec![]),
        "the rest was not requested"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_delayed_past_the_end_are_not_sent() {
    let ran = run(
        &[100, 200, 300, 2000],
        Some(1),
        Until::Time(seconds(1)),
        |_| 5000,
    )
    .await;
    assert_eq!(
        (ran.sent, ran.cancelled),
        (vec![(0, 100)], vec![1, 2]),
        "and what is due later is not"
    );
}

#[tokio::test(start_paused = true)]
async fn a_signal_cancels_unsent_requests() {
    let stop_at_250 = |shutdown: Shutdown| {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(250)).await;
            shutdown.request();
        });
    };
    let ran = run_until_stopped(
        &[0, 100, 400, 500],
        None,
        Until::LastCase,
        |_| 1000,
        stop_at_250,
    )
    .await;
    assert_eq!(
        (ran.sent, ran.cancelled, ran.ended),
        (vec![(0, 0), (1, 100)], vec![2, 3], 1100)
    );
    let ran = run_until_stopped(
        &[0],
        Some(1),
        Until::Cycling(seconds(60)),
        |_| 100,
        stop_at_250,
    )
    .await;
    assert_eq!(
        (ran.sent, ran.cancelled),
        (vec![(0, 0), (1, 100), (2, 200)], vec![])
    );
}

/// A server that requests a shutdown while the dispatcher waits, and frees the slot afterwards.
struct StopsBetweenChecks {
    fake: Fake,
    shutdown: Shutdown,
}

impl Executor for StopsBetweenChecks {
    fn now(&self) -> Duration {
        self.fake.now()
    }

    /// Returns at once, as if the case were due; the dispatcher has looked for a signal just before.
    async fn wait_until(&self, at: Duration) {
        if !at.is_zero() {
            self.shutdown.request();
        }
    }

    type Location = ();

    fn locate(&self) -> ((), Option<Handle>) {
        ((), None)
    }

    async fn exchange(&self, prepared: Prepared, (): ()) -> Observation {
        self.fake.exchange(prepared, ()).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_signal_just_before_a_request_is_sent_cancels_it() {
    let mut queue = Queue::new("", 3);
    let body = queue.body(Body::Bytes(Default::default(), AnswerForm::Streamed));
    for index in 0..3 {
        queue.push(index, Duration::from_millis(index as u64), body, None);
    }
    let shutdown = Shutdown::new();
    let sent = Arc::default();
    let executor = StopsBetweenChecks {
        fake: Fake {
            start: Instant::now(),
            takes: |_| 10,
            fails: |_| false,
            sent: Arc::clone(&sent),
        },
        shutdown: shutdown.clone(),
    };
    let options = DispatchSettings {
        max_concurrency: None,
        until: Until::LastCase,
        breaker: Breaker::new(ErrorLimits::default(), shutdown.clone()),
        shutdown,
    };
    let (sender, mut events) = unbounded_channel();
    dispatch(executor, queue, options, sender).await;
    assert_eq!(*sent.lock().unwrap(), [(0, 0)]);
    let mut cancelled = vec![];
    while let Some(event) = events.recv().await {
        if let RunEvent::Ended(seen) = event
            && seen.outcome == Outcome::Cancelled
        {
            cancelled.push(seen.case_index);
        }
    }
    assert_eq!(cancelled, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn after_too_many_errors_no_request_is_sent_and_those_in_flight_end() {
    let in_a_row = |most| ErrorLimits {
        max_consecutive_errors: Some(most),
        ..ErrorLimits::default()
    };
    // One at a time: the slot of the last tolerated error is not used again.
    let ran = run_with_faults(
        &[0; 6],
        Some(1),
        Until::LastCase,
        |_| 10,
        |index| index >= 2,
        in_a_row(2),
        drop,
    )
    .await;
    assert_eq!(
        (ran.sent, ran.broke, ran.cancelled),
        (vec![(0, 0), (1, 10), (2, 20), (3, 30)], Some(3), vec![4, 5])
    );
    // A long request beside them may end.
    let takes = |index| if index == 0 { 500 } else { 10 };
    let ran = run_with_faults(
        &[0, 0, 5, 300],
        None,
        Until::LastCase,
        takes,
        |index| index > 0,
        in_a_row(2),
        drop,
    )
    .await;
    assert_eq!(
        (ran.sent, ran.broke),
        (vec![(0, 0), (1, 0), (2, 5)], Some(2))
    );
    assert_eq!((ran.cancelled, ran.ended), (vec![3], 500));
    let rate = ErrorLimits {
        max_error_rate: Some(0.5),
        ..ErrorLimits::default()
    };
    let ran = run_with_faults(
        &[0; 60],
        Some(1),
        Until::LastCase,
        |_| 1,
        |index| index >= 15,
        rate,
        drop,
    )
    .await;
    assert_eq!(
        (ran.sent.len(), ran.broke, ran.cancelled.len()),
        (31, Some(30), 29),
        "sent and not sent are what was planned"
    );
}

#[tokio::test(start_paused = true)]
async fn random_schedules_are_followed_exactly() {
    let ramp = Ramp {
        strategy: RampStrategy::Linear,
        start_rps: 1,
        end_rps: 50,
    };
    for pace in [Pace::Steady(Rate::PerSecond(20.0)), Pace::Ramp(ramp)] {
        let due = due_times(200, pace, 1.0, 3);
        let due_ms: Vec<u64> = due.iter().map(|at| at.as_millis() as u64).collect();
        let ran = run(&due_ms, None, Until::LastCase, |index| 1 + index as u64 % 7).await;
        let expected: Vec<(usize, u64)> = due_ms.into_iter().enumerate().collect();
        assert_eq!(ran.sent, expected, "{pace:?}");
    }
}

/// The send times of a queue with `cap` slots: each request at the later of its due time and the
/// earliest free slot.
fn reference(due_ms: &[u64], cap: usize, takes: fn(usize) -> u64) -> Vec<(usize, u64)> {
    let mut free_at = vec![0; cap];
    let send = |(index, due): (usize, &u64)| {
        let slot = free_at.iter_mut().min().expect("the cap is at least one");
        let at = (*slot).max(*due);
        *slot = at + takes(index);
        (index, at)
    };
    due_ms.iter().enumerate().map(send).collect()
}

#[tokio::test(start_paused = true)]
async fn dispatch_matches_a_reference_queue() {
    let takes = |index: usize| 1 + (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 97;
    for seed in 0..25 {
        let due = due_times(60, Pace::Steady(Rate::PerSecond(40.0)), 0.4, seed);
        let due_ms: Vec<u64> = due.iter().map(|at| at.as_millis() as u64).collect();
        for cap in [1, 2, 3, 7, 60] {
            let ran = run(&due_ms, Some(cap), Until::LastCase, takes).await;
            assert_eq!(
                ran.sent,
                reference(&due_ms, cap, takes),
                "seed {seed}, cap {cap}"
            );
            assert!(ran.cancelled.is_empty());
        }
    }
}

/// The turns that a turn follows, and its delay.
type Following<'a> = (&'a [u32], u64);

/// Sessions by their start in milliseconds and their turns: which turns end before each, and the delay
/// after them.
async fn run_sessions(
    sessions: &[(u64, &[Following<'_>])],
    cap: Option<usize>,
    until: Until,
    fails: fn(usize) -> bool,
    stopping: impl FnOnce(Shutdown),
) -> DispatchResult {
    let mut queue = Queue::new("", 0);
    let body = queue.body(Body::Bytes(Default::default(), AnswerForm::Streamed));
    let mut index = 0;
    for (session, (due, turns)) in sessions.iter().enumerate() {
        for (position, (after, delay_ms)) in turns.iter().enumerate() {
            let turn = Turn {
                session: session as u32,
                turn: position as u32 + 1,
                after: after.to_vec(),
                delay_ms: *delay_ms,
                ..Turn::default()
            };
            queue.push_turn(index, Duration::from_millis(*due), body, None, &turn, None);
            index += 1;
        }
    }
    let limits = ErrorLimits::default();
    run_queue(queue, cap, until, |_| 100, fails, limits, stopping).await
}

/// Three turns, one after the other, with a delay of 50 ms before the second.
const THREE: &[(&[u32], u64)] = &[(&[], 0), (&[1], 50), (&[2], 0)];

#[tokio::test(start_paused = true)]
async fn a_turn_is_sent_when_the_one_before_it_has_ended_and_its_delay_has_passed() {
    let sessions = [(0, THREE), (30, THREE)];
    let ran = run_sessions(&sessions, None, Until::LastCase, |_| false, |_| {}).await;
    assert_eq!(
        ran.sent,
        [(0, 0), (3, 30), (1, 150), (4, 180), (2, 250), (5, 280)]
    );
    assert_eq!((ran.ended, ran.cancelled), (380, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_session_holds_its_slot_between_its_turns() {
    let sessions = [(0, THREE), (0, THREE)];
    let ran = run_sessions(&sessions, Some(1), Until::LastCase, |_| false, |_| {}).await;
    assert_eq!(
        ran.sent,
        [(0, 0), (1, 150), (2, 250), (3, 350), (4, 500), (5, 600)]
    );
}

#[tokio::test(start_paused = true)]
async fn branches_run_side_by_side_and_are_joined() {
    let branches: &[(&[u32], u64)] = &[(&[], 0), (&[1], 0), (&[1], 30), (&[2, 3], 5)];
    let ran = run_sessions(
        &[(0, branches)],
        Some(1),
        Until::LastCase,
        |_| false,
        |_| {},
    )
    .await;
    assert_eq!(ran.sent, [(0, 0), (1, 100), (2, 130), (3, 235)]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_an_answer_ends_its_session() {
    let sessions = [(0, THREE), (0, THREE)];
    let fails = |index| index == 1;
    let ran = run_sessions(&sessions, Some(1), Until::LastCase, fails, |_| {}).await;
    assert_eq!(ran.sent, [(0, 0), (1, 150), (3, 250), (4, 400), (5, 500)]);
    assert_eq!(ran.cancelled, [2]);
}

#[tokio::test(start_paused = true)]
async fn sessions_end_with_the_time_of_the_run() {
    // The second turn is due at 150 ms, the third at 250 ms.
    let end = Until::Time(Duration::from_millis(200));
    let ran = run_sessions(&[(0, THREE), (0, THREE)], Some(1), end, |_| false, |_| {}).await;
    assert_eq!(ran.sent, [(0, 0), (1, 150)]);
    assert_eq!(
        ran.cancelled,
        [2],
        "a session that has not started is not missing"
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_are_cycled_with_indices_of_their_own() {
    let end = Until::Cycling(Duration::from_millis(500));
    let ran = run_sessions(&[(0, THREE)], Some(1), end, |_| false, |_| {}).await;
    assert_eq!(ran.sent, [(0, 0), (1, 150), (2, 250), (3, 350), (4, 500)]);
    assert_eq!(ran.cancelled, [5]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_cancels_the_turns_that_wait() {
    let stopping = |shutdown: Shutdown| {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(120)).await;
            shutdown.drain();
        });
    };
    let sessions = [(0, THREE), (0, THREE)];
    let ran = run_sessions(&sessions, Some(1), Until::LastCase, |_| false, stopping).await;
    assert_eq!((ran.sent, ran.ended), (vec![(0, 0)], 120));
    let mut cancelled = ran.cancelled;
    cancelled.sort_unstable();
    assert_eq!(cancelled, [1, 2, 3, 4, 5]);
}
