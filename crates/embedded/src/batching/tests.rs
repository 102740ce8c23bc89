//! Tests of the batching loop with matchers that block on a gate.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver as StdReceiver, Sender as StdSender, channel as std_channel};

use tokio::runtime::Runtime;

use super::*;
use crate::drafts::Drafter;
use crate::faults::{Fault, RequestTraits};
use crate::generation::{FinishReason, Limits, Part};
use crate::mask_faults::MaskFaults;
use crate::model::Sampling;
use crate::stats::ServerStats;
use crate::testing::{MaskOnly, no_stats, shared_model};
use crate::timetable::ManualClock;
use sobench_core::constraint::Constraint;
use sobench_core::speed::{Speed, SpeedProfile};
use sobench_engine::vocabulary::shared;
use sobench_engine::{self as engine, EngineName, EnginePolicy, Matcher, TokenId, TokenMask};

/// Allows one token repeatedly. Reports before each mask, and waits for its gate if it has one.
pub(super) struct Gated {
    pub(super) started: StdSender<TokenId>,
    pub(super) gate: Gate,
    pub(super) token: TokenId,
    pub(super) panics: bool,
}

/// Blocks each mask until it is opened.
pub(super) type Gate = Option<Arc<Mutex<StdReceiver<()>>>>;

impl Gated {
    fn matcher(self) -> Box<dyn Matcher> {
        Box::new(MaskOnly(move |mask: &mut TokenMask| {
            let _ = self.started.send(self.token);
            assert!(!self.panics, "requested by the test");
            if let Some(gate) = &self.gate {
                // A gate without a key is open.
                let _ = gate.lock().unwrap().recv();
            }
            mask.allow(self.token);
        }))
    }
}

/// A batching loop with a model and the reports of its matchers.
struct Harness {
    batcher: Batcher,
    batching: Batching,
    tally: Arc<Tally>,
    started: (StdSender<TokenId>, StdReceiver<TokenId>),
    runtime: Runtime,
}

fn planting(faults: &[&str], tally: &Arc<Tally>) -> Planting {
    let faults: Vec<Fault> = faults
        .iter()
        .map(|fault| Fault::parse(fault).unwrap())
        .collect();
    Planting::new(&faults, Arc::clone(tally))
}

/// The options of a loop with slots for this number of sequences.
fn slots(max_batch: usize) -> Batching {
    Batching {
        max_batch,
        threads: 2,
        timetable: Timetable::new(&Speed::default()).unwrap(),
        clock: Clock::System,
        step_timeout: STEP_TIMEOUT,
        speculate: 0,
        kv_tokens: None,
    }
}

/// The gate of a matcher that does not block.
pub(super) const OPEN: Gate = None;

/// A gate, and its key. Dropping the key opens the gate.
pub(super) fn gate() -> (StdSender<()>, Gate) {
    let (sender, receiver) = std_channel();
    (sender, Some(Arc::new(Mutex::new(receiver))))
}

/// A generation that ends with its last token.
pub(super) fn generation(matcher: Option<Gated>, max_tokens: u32) -> Box<Generation> {
    generation_with(matcher.map(Gated::matcher), max_tokens)
}

fn generation_with(matcher: Option<Box<dyn Matcher>>, max_tokens: u32) -> Box<Generation> {
    let writer = shared_model().writer("p", Sampling::default(), 0, max_tokens);
    Box::new(Generation::new(
        shared(),
        writer,
        matcher,
        Limits {
            max_tokens,
            ignore_eos: true,
            ..Limits::default()
        },
    ))
}

impl Harness {
    fn new(max_batch: usize, step_timeout: Duration) -> Self {
        Self::with(Batching {
            step_timeout,
            ..slots(max_batch)
        })
    }

    /// A loop at the speed of a profile, with one thread for masks and this clock.
    fn timed(profile: SpeedProfile, clock: &Arc<ManualClock>) -> Self {
        Self::with(Batching {
            max_batch: 8,
            threads: 1,
            timetable: Timetable::new(&profile.into()).unwrap(),
            clock: Clock::Manual(Arc::clone(clock)),
            step_timeout: STEP_TIMEOUT,
            speculate: 0,
            kv_tokens: None,
        })
    }

    fn with(batching: Batching) -> Self {
        Self::with_faults(batching, &[])
    }

    /// A loop that injects faults into requests whose client goes away.
    fn with_faults(batching: Batching, faults: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let tally = Arc::new(Tally::default());
        let handle = runtime.handle();
        Self {
            batcher: Batcher::start(
                batching.clone(),
                Arc::clone(&tally),
                Arc::new(planting(faults, &tally)),
                handle,
            )
            .unwrap(),
            batching,
            tally,
            started: std_channel(),
            runtime,
        }
    }

    fn submit(&self, matcher: Option<Gated>, max_tokens: u32, delivery: Delivery) -> Tokens {
        self.submit_generation(generation(matcher, max_tokens), delivery, 0)
    }

    fn submit_generation(
        &self,
        generation: Box<Generation>,
        delivery: Delivery,
        prompt_tokens: u32,
    ) -> Tokens {
        let Batching {
            timetable, clock, ..
        } = &self.batching;
        self.batcher.submit(Submission {
            generation: *generation,
            pacer: timetable.start(clock.now()),
            delivery,
            prompt_tokens,
            seed: 0,
        })
    }

    fn gated(&self, token: TokenId, gate: Gate) -> Option<Gated> {
        Some(Gated {
            started: self.started.0.clone(),
            gate,
            token,
            panics: false,
        })
    }

    /// The token of the next started mask.
    fn next_mask(&self) -> TokenId {
        self.started.1.recv().unwrap()
    }

    /// Reads a sequence to its end: the number of tokens, and the error, if any.
    fn read(&self, mut tokens: Tokens) -> (usize, Option<EngineError>) {
        self.runtime.block_on(async {
            let mut seen = 0;
            while let Some(update) = tokens.next().await {
                match update {
                    Ok(progress) => seen = progress.tokens as usize,
                    Err(error) => return (seen, Some(error)),
                }
            }
            (seen, None)
        })
    }

    /// Reads a sequence to its end, and returns its text and its finish reason.
    fn read_text(&self, mut tokens: Tokens) -> (String, FinishReason) {
        self.runtime.block_on(async {
            let mut text = String::new();
            loop {
                let progress = tokens.next().await.unwrap().unwrap();
                text.push_str(&progress.piece.text);
                if let Some(finish) = progress.piece.finish {
                    return (text, finish);
                }
            }
        })
    }

    fn stats(&self) -> ServerStats {
        let mut stats = no_stats();
        self.tally.fill(&mut stats);
        stats
    }
}

#[test]
fn sequences_beyond_the_batch_size_run_in_order() {
    let harness = Harness::new(1, STEP_TIMEOUT);
    let (key, gate) = gate();
    let first = harness.submit(harness.gated(5, gate), 2, Delivery::Pieces);
    assert_eq!(harness.next_mask(), 5);
    let others: Vec<Tokens> = (6..9)
        .map(|token| harness.submit(harness.gated(token, OPEN), 2, Delivery::Pieces))
        .collect();
    let stats = harness.stats();
    assert_eq!((stats.running, stats.waiting), (1, 3));
    drop(key);
    assert_eq!(harness.read(first), (2, None));
    others
        .into_iter()
        .for_each(|tokens| assert_eq!(harness.read(tokens), (2, None)));
    assert_eq!(
        (0..7).map(|_| harness.next_mask()).collect::<Vec<_>>(),
        [5, 6, 6, 7, 7, 8, 8]
    );
    let stats = harness.stats();
    assert_eq!(
        (stats.running, stats.waiting, stats.largest_batch),
        (0, 0, 1)
    );
    assert_eq!(
        (stats.steps, stats.tokens, stats.masks, stats.ended.length),
        (8, 8, 8, 4),
        "one sequence per step"
    );
}

#[test]
fn sequences_within_the_batch_size_are_stepped_together() {
    let harness = Harness::new(8, STEP_TIMEOUT);
    let (key, gate) = gate();
    let held = harness.submit(harness.gated(5, gate), 3, Delivery::Pieces);
    assert_eq!(harness.next_mask(), 5);
    let others: Vec<Tokens> = (6..9)
        .map(|token| harness.submit(harness.gated(token, OPEN), 3, Delivery::Pieces))
        .collect();
    assert_eq!(
        (harness.stats().running, harness.stats().waiting),
        (1, 3),
        "sequences that arrive during a step wait for its end"
    );
    drop(key);
    std::iter::once(held)
        .chain(others)
        .for_each(|tokens| assert_eq!(harness.read(tokens), (3, None)));
    let stats = harness.stats();
    assert_eq!(
        (stats.steps, stats.tokens, stats.largest_batch),
        (4, 12, 4),
        "one step alone, two of four, one of three"
    );
    assert_eq!((stats.masks, stats.mask_ns.is_some()), (12, true));
}

#[test]
fn a_panic_fails_only_its_own_sequence() {
    let harness = Harness::new(8, STEP_TIMEOUT);
    let panics = Gated {
        panics: true,
        ..harness.gated(5, OPEN).unwrap()
    };
    let panicked = harness.submit(Some(panics), 4, Delivery::Pieces);
    assert!(matches!(
        harness.read(panicked),
        (0, Some(EngineError::Crashed { .. }))
    ));
    assert_eq!(
        harness.read(harness.submit(harness.gated(6, OPEN), 4, Delivery::Pieces)),
        (4, None)
    );
    assert_eq!(
        (harness.stats().ended.failed, harness.stats().ended.length),
        (1, 1)
    );
}

#[test]
fn a_hanging_mask_fails_only_its_own_sequence() {
    // A short timeout keeps the test fast. It does not apply to unconstrained sequences.
    let harness = Harness::new(8, Duration::from_millis(1));
    let (key, gate) = gate();
    let hanging = harness.submit(harness.gated(6, gate), 4, Delivery::Pieces);
    let free = harness.submit(None, 4, Delivery::Pieces);
    let (seen, error) = harness.read(hanging);
    assert!(
        seen == 0
            && matches!(&error, Some(EngineError::TooLarge { message: words }) if words.contains("0.001 s")),
        "{error:?}"
    );
    assert_eq!(harness.read(free), (4, None), "the loop continues");
    assert_eq!(
        (harness.batcher.stuck(), harness.stats().ended.failed),
        (1, 1)
    );
    drop(key);
    while harness.batcher.stuck() != 0 {
        thread::yield_now();
    }
}

#[test]
fn stuck_masks_are_limited() {
    let harness = Harness::new(MAX_STUCK_STEPS + 1, Duration::from_millis(1));
    let (key, gate) = gate();
    for _ in 0..MAX_STUCK_STEPS {
        let hanging = harness.submit(harness.gated(5, gate.clone()), 4, Delivery::Pieces);
        assert!(harness.read(hanging).1.is_some());
    }
    let refused = harness.read(harness.submit(harness.gated(6, OPEN), 4, Delivery::Pieces));
    assert!(
        matches!(&refused, (0, Some(EngineError::TooLarge { message })) if message.contains("still running")),
        "{refused:?}"
    );
    assert_eq!(
        harness.read(harness.submit(None, 4, Delivery::Pieces)),
        (4, None),
        "unconstrained sequences are answered"
    );
    drop((key, gate));
    while harness.batcher.stuck() != 0 {
        thread::yield_now();
    }
}

#[test]
fn a_disconnect_frees_the_slot() {
    let harness = Harness::new(1, STEP_TIMEOUT);
    let (key, gate) = gate();
    let gone = harness.submit(harness.gated(5, gate), 1000, Delivery::Pieces);
    assert_eq!(harness.next_mask(), 5);
    let queued = harness.submit(harness.gated(6, OPEN), 4, Delivery::Pieces);
    let last = harness.submit(harness.gated(7, OPEN), 4, Delivery::Pieces);
    drop((gone, queued, key));
    assert_eq!(harness.read(last), (4, None));
    let seen: HashSet<TokenId> = harness.started.1.try_iter().collect();
    assert!(
        !seen.contains(&6),
        "it left the queue before its first step"
    );
    let stats = harness.stats();
    assert_eq!(
        (
            stats.running,
            stats.waiting,
            stats.ended.gone,
            stats.ended.length
        ),
        (0, 0, 2, 1)
    );
}

#[test]
fn an_answer_delivered_at_its_end_is_one_piece() {
    let harness = Harness::new(4, STEP_TIMEOUT);
    let mut tokens = harness.submit(harness.gated(0, OPEN), 3, Delivery::AtEnd);
    let update = harness.runtime.block_on(tokens.next()).unwrap().unwrap();
    let piece = Piece {
        text: "!!!".into(),
        finish: Some(FinishReason::Length),
        ..Piece::default()
    };
    assert_eq!(update, Progress { piece, tokens: 3 });
    assert_eq!(harness.runtime.block_on(tokens.next()), None);
}

/// The time in ms from the start of a batch to the end of its last answer, at the speed of one
/// H100. All sequences start in the same step. `mask_ms` is the cost of each mask, `None` without
/// constraints.
fn batch_ms(sequences: usize, prompt_tokens: u32, tokens: u32, mask_ms: Option<f64>) -> f64 {
    let clock = ManualClock::start();
    let harness = Harness::timed(SpeedProfile::H100For8b, &clock);
    // The first sequence holds the loop until the others wait.
    let (key, gate) = gate();
    let held = harness.submit(harness.gated(5, gate), 1, Delivery::Pieces);
    harness.next_mask();
    let submit = |_| {
        let matcher = mask_ms.map(|ms| {
            let clock = Arc::clone(&clock);
            Box::new(MaskOnly(move |mask: &mut TokenMask| {
                clock.advance(Duration::from_secs_f64(ms / 1e3));
                mask.allow(5);
            })) as Box<dyn Matcher>
        });
        harness.submit_generation(
            generation_with(matcher, tokens),
            Delivery::Pieces,
            prompt_tokens,
        )
    };
    let batch: Vec<Tokens> = (0..sequences).map(submit).collect();
    drop(key);
    assert_eq!(harness.read(held), (1, None));
    for answer in batch {
        assert_eq!(harness.read(answer), (tokens as usize, None));
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    ms(clock.passed()) - ms(harness.batching.timetable.step_time(1, 0))
}

#[track_caller]
fn assert_ms(found: f64, expected: f64) {
    assert!(
        // The time of a prompt token is rounded to nanoseconds.
        (found - expected).abs() < 0.01,
        "{found} ms, not {expected} ms"
    );
}

#[test]
fn masks_add_only_what_exceeds_the_step() {
    // One step of the model takes 7.5 ms, and 0.08 ms more for each sequence.
    for (sequences, mask_ms, added_ms) in [
        (1, 0.0, 0.0),
        (1, 3.0, 0.0),
        (1, 7.58, 0.0),
        (1, 10.0, 10.0 - 7.58),
        (4, 1.9, 0.0),
        (4, 2.5, 4.0 * 2.5 - 7.82),
    ] {
        let without = batch_ms(sequences, 0, 5, None);
        assert_ms(without, 5.0 * (7.5 + 0.08 * sequences as f64));
        let with = batch_ms(sequences, 0, 5, Some(mask_ms));
        assert_ms(with - without, 5.0 * added_ms);
    }
}

#[test]
fn prompts_take_time_once_and_hide_masks() {
    // 900 tokens take 20 ms.
    assert_ms(batch_ms(1, 900, 1, None), 27.58);
    assert_ms(batch_ms(2, 900, 3, None), 40.0 + 3.0 * 7.66);
    assert_ms(batch_ms(1, 900, 2, Some(20.0)), 27.58 + 20.0);
}

#[test]
fn prompts_beyond_the_limit_of_a_step_wait() {
    // Two prompts fit into a step of 8,192 tokens.
    let third = batch_ms(3, 3600, 1, None);
    assert_ms(third, 7.66 + 160.0 + 7.58 + 80.0);
    assert_ms(batch_ms(1, 9000, 1, None), 7.58 + 200.0);
}

/// An answer to `prompt` under a regular expression, if any, with the faults of `planting`.
fn answer(prompt: &str, regex: Option<&str>, max_tokens: u32, planting: &Planting) -> Generation {
    let constraint = regex.map(|regex| Arc::new(Constraint::Regex(regex.into())));
    let matcher = constraint.as_deref().map(|constraint| {
        let engine = engine::open(EngineName::Guidance, &shared(), &EnginePolicy::default());
        engine
            .unwrap()
            .compile(constraint)
            .unwrap()
            .matcher()
            .unwrap()
    });
    let traits = RequestTraits {
        is_constrained: matcher.is_some(),
        has_drafts: true,
        ..RequestTraits::default()
    };
    let faults = planting.draw(1, &traits).take_batch_faults();
    Generation::from_parts(
        shared(),
        shared_model().writer(prompt, Sampling::default(), 5, max_tokens),
        vec![Part {
            matcher,
            constraint,
            ..Part::default()
        }],
        Limits {
            max_tokens,
            ignore_eos: regex.is_none(),
            ..Limits::default()
        },
        Some(Drafter::new(shared().encode(prompt), 2)),
        MaskFaults::new(faults, planting.plants(FaultKind::SwapMasks)),
    )
}

/// The texts of answers that start in the same step.
fn together(harness: &Harness, generations: Vec<Generation>) -> Vec<(String, FinishReason)> {
    let (key, gate) = gate();
    let held = harness.submit(harness.gated(5, gate), 1, Delivery::Pieces);
    harness.next_mask();
    let running: Vec<Tokens> = generations
        .into_iter()
        .map(|generation| harness.submit_generation(Box::new(generation), Delivery::AtEnd, 10))
        .collect();
    drop(key);
    assert_eq!(harness.read(held), (1, None));
    running
        .into_iter()
        .map(|tokens| harness.read_text(tokens))
        .collect()
}

#[test]
fn preempted_answers_do_not_change() {
    let generations = |planting: &Planting| -> Vec<Generation> {
        (0..6)
            .map(|number| {
                let regex = (number % 2 == 0).then_some("([a-z]+ ){20}");
                answer(&format!("prompt {number} of the"), regex, 50, planting)
            })
            .collect()
    };
    let unlimited = Harness::with(slots(8));
    let expected = together(&unlimited, generations(&planting(&[], &unlimited.tally)));
    assert_eq!(unlimited.stats().preemptions, 0);
    let limited = Harness::with(Batching {
        kv_tokens: Some(130),
        speculate: 2,
        ..slots(8)
    });
    let found = together(&limited, generations(&planting(&[], &limited.tally)));
    assert_eq!(found, expected);
    let stats = limited.stats();
    assert!(stats.preemptions > 0, "{stats:?}");
    assert_eq!((stats.running, stats.waiting), (0, 0));
}

#[test]
fn a_preemption_takes_the_time_of_its_tokens() {
    // Prompts of 450 tokens take 10 ms each. Of two answers, the second does not fit for long.
    let time_ms = |kv_tokens| {
        let clock = ManualClock::start();
        let harness = Harness::with(Batching {
            max_batch: 8,
            threads: 1,
            timetable: Timetable::new(&SpeedProfile::H100For8b.into()).unwrap(),
            clock: Clock::Manual(Arc::clone(&clock)),
            step_timeout: STEP_TIMEOUT,
            speculate: 0,
            kv_tokens,
        });
        let (key, gate) = gate();
        let held = harness.submit(harness.gated(5, gate), 1, Delivery::Pieces);
        harness.next_mask();
        let running = [0, 1]
            .map(|_| harness.submit_generation(generation_with(None, 10), Delivery::AtEnd, 450));
        drop(key);
        assert_eq!(harness.read(held), (1, None));
        for tokens in running {
            assert_eq!(harness.read(tokens).0, 10);
        }
        let ms = clock.passed().as_secs_f64() * 1e3;
        (ms, harness.stats().preemptions)
    };
    let (unlimited, none) = time_ms(None);
    let (limited, preemptions) = time_ms(Some(908));
    assert_eq!((none, preemptions), (0, 1));
    assert!(limited > unlimited + 10.0, "{limited} {unlimited}");
}

#[test]
fn swapped_masks_give_each_answer_the_other_constraint() {
    let harness = Harness::with(slots(8));
    let planting = planting(&["swap-masks@1of3"], &harness.tally);
    let (first, second) = ("alpha[0-9]{12}", "beta[a-f]{12}");
    let generations = vec![
        answer("p", Some(second), 40, &planting),
        answer("q", Some(second), 40, &planting),
        answer("r", Some(first), 40, &planting),
    ];
    let texts = together(&harness, generations);
    assert_eq!(harness.stats().faults, [("swap-masks".to_owned(), 1)]);
    assert!(texts[0].0.starts_with("alpha"), "{texts:?}");
    assert!(texts[1].0.starts_with("beta"), "{texts:?}");
    assert!(texts[2].0.starts_with("beta"), "{texts:?}");
    assert!(
        texts
            .iter()
            .all(|(_, finish)| *finish == FinishReason::Stop)
    );
}

#[test]
fn masks_are_not_swapped_with_the_same_constraint() {
    let harness = Harness::with(slots(8));
    let planting = planting(&["swap-masks"], &harness.tally);
    let generations = vec![answer("p", Some("ab[0-9]{9}"), 40, &planting), {
        let unplanted = self::planting(&["swap-masks@1of1"], &harness.tally);
        let _ = unplanted.draw(
            0,
            &RequestTraits {
                is_constrained: true,
                ..RequestTraits::default()
            },
        );
        answer("q", Some("ab[0-9]{9}"), 40, &unplanted)
    }];
    let texts = together(&harness, generations);
    assert!(texts.iter().all(|(text, _)| text.starts_with("ab")));
    assert_eq!(harness.stats().faults, []);
}

#[test]
fn answers_are_shortened_while_many_sequences_run() {
    let harness = Harness::with(slots(32));
    let planting = planting(&["shorten-under-load"], &harness.tally);
    let generations = |count| -> Vec<Generation> {
        (0..count)
            .map(|_| answer("the", None, 40, &planting))
            .collect()
    };
    let alone = together(&harness, generations(2));
    assert!(
        alone
            .iter()
            .all(|(_, finish)| *finish == FinishReason::Length)
    );
    assert_eq!(harness.stats().faults, []);
    let tokens_before = harness.stats().tokens;
    let crowd = together(&harness, generations(16));
    assert!(
        crowd
            .iter()
            .all(|(_, finish)| *finish == FinishReason::Stop)
    );
    assert_eq!(
        harness.stats().faults,
        [("shorten-under-load".to_owned(), 16)]
    );
    assert!(harness.stats().tokens - tokens_before < 16 * 20);
}

#[test]
fn a_leaked_slot_is_never_freed() {
    let harness = Harness::with_faults(slots(2), &["leak-slot-on-cancel@1of2"]);
    let leave = |expected: usize| {
        let (key, gate) = gate();
        let gone = harness.submit(harness.gated(5, gate), 1000, Delivery::Pieces);
        harness.next_mask();
        drop((gone, key));
        // The disconnect is handled before the sequence that follows it.
        let next = harness.submit(harness.gated(6, OPEN), 1, Delivery::Pieces);
        assert_eq!(harness.read(next), (1, None));
        harness.started.1.try_iter().for_each(drop);
        assert_eq!(harness.stats().running, expected);
    };
    leave(0);
    leave(1);
    let stats = harness.stats();
    assert_eq!(stats.faults, [("leak-slot-on-cancel".to_owned(), 1)]);
    assert_eq!(
        stats.fault_eligible,
        [("leak-slot-on-cancel".to_owned(), 2)]
    );
    assert_eq!(stats.ended.gone, 1);
}

#[test]
fn a_server_that_dies_fails_all_sequences() {
    let harness = Harness::with_faults(slots(8), &["die-on-cancel"]);
    let (key, gate) = gate();
    let gone = harness.submit(harness.gated(5, gate), 1000, Delivery::Pieces);
    harness.next_mask();
    let other = harness.submit(harness.gated(6, OPEN), 1000, Delivery::Pieces);
    assert!(!harness.batcher.is_dead());
    drop((gone, key));
    let died = |tokens| {
        matches!(
            harness.read(tokens).1,
            Some(EngineError::Crashed { message }) if message.contains("died")
        )
    };
    assert!(died(other));
    while !harness.batcher.is_dead() {
        thread::yield_now();
    }
    assert!(died(harness.submit(None, 1, Delivery::Pieces)));
    let stats = harness.stats();
    assert_eq!((stats.running, stats.waiting), (0, 0));
    assert_eq!(stats.faults, [("die-on-cancel".to_owned(), 1)]);
}
