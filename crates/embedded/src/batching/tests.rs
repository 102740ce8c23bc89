//! Tests of the batching loop with matchers that block on a gate.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver as StdReceiver, Sender as StdSender, channel as std_channel};

use tokio::runtime::Runtime;

use super::*;
use crate::generation::{FinishReason, Limits};
use crate::model::Sampling;
use crate::stats::ServerStats;
use crate::testing::{no_stats, shared_model};
use sobench_engine::vocabulary::shared;
use sobench_engine::{Matcher, TokenId, TokenMask};

/// Allows one token repeatedly. Reports before each mask, and waits for its gate if it has one.
pub(super) struct Gated {
    pub(super) started: StdSender<TokenId>,
    pub(super) gate: Gate,
    pub(super) token: TokenId,
    pub(super) panics: bool,
}

/// Blocks each mask until it is opened.
pub(super) type Gate = Option<Arc<Mutex<StdReceiver<()>>>>;

impl Matcher for Gated {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        let _ = self.started.send(self.token);
        assert!(!self.panics, "requested by the test");
        if let Some(gate) = &self.gate {
            // A gate without a key is open.
            let _ = gate.lock().unwrap().recv();
        }
        *mask = TokenMask::new(shared().len());
        mask.allow(self.token);
        Ok(())
    }
    fn commit(&mut self, _: TokenId) -> Result<(), EngineError> {
        Ok(())
    }
    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        Ok(false)
    }
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        Vec::new()
    }
    fn rollback(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }
    fn fork(&self) -> Box<dyn Matcher> {
        panic!("not used by these tests")
    }
}

/// A batching loop with a model and the reports of its matchers.
struct Harness {
    batcher: Batcher,
    tally: Arc<Tally>,
    started: (StdSender<TokenId>, StdReceiver<TokenId>),
    timetable: Timetable,
    runtime: Runtime,
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
    let writer = shared_model().writer("p", Sampling::default(), 0, max_tokens);
    let matcher = matcher.map(|matcher| Box::new(matcher) as Box<dyn Matcher>);
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
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let timetable = Timetable::new(0.0, 0.0, 0.0).unwrap();
        let tally = Arc::new(Tally::default());
        let batching = Batching {
            max_batch,
            threads: 2,
            timetable,
            step_timeout,
        };
        Self {
            batcher: Batcher::start(batching, Arc::clone(&tally), runtime.handle()).unwrap(),
            tally,
            started: std_channel(),
            timetable,
            runtime,
        }
    }

    fn submit(&self, matcher: Option<Gated>, max_tokens: u32, delivery: Delivery) -> Tokens {
        self.batcher.submit(
            *generation(matcher, max_tokens),
            self.timetable.start(),
            delivery,
        )
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
    assert_eq!(
        (
            stats.masks,
            stats.mask_ns.is_some(),
            stats.step_ns.is_some()
        ),
        (12, true, true)
    );
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
        stop: None,
    };
    assert_eq!(update, Progress { piece, tokens: 3 });
    assert_eq!(harness.runtime.block_on(tokens.next()), None);
}
