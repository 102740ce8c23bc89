//! The loop on its own, with matchers that wait to be told.

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

/// Allows one token over and over. Before each mask it reports and, where it has a gate, waits for
/// it.
pub(super) struct Gated {
    pub(super) began: StdSender<TokenId>,
    pub(super) gate: Gate,
    pub(super) token: TokenId,
    pub(super) panics: bool,
}

/// Something to wait for before each mask.
pub(super) type Gate = Option<Arc<Mutex<StdReceiver<()>>>>;

impl Matcher for Gated {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        let _ = self.began.send(self.token);
        assert!(!self.panics, "as told");
        if let Some(gate) = &self.gate {
            // A gate whose keeper has gone stands open.
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
        panic!("nobody forks here")
    }
}

/// A loop, what its matchers report, and a model.
struct World {
    batcher: Batcher,
    tally: Arc<Tally>,
    began: (StdSender<TokenId>, StdReceiver<TokenId>),
    timetable: Timetable,
    runtime: Runtime,
}

/// A matcher that nothing holds up.
pub(super) const OPEN: Gate = None;

/// A gate, and the key that opens it by being dropped.
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

impl World {
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
            began: std_channel(),
            timetable,
            runtime,
        }
    }

    fn begin(&self, matcher: Option<Gated>, max_tokens: u32, delivery: Delivery) -> Tokens {
        self.batcher.begin(
            *generation(matcher, max_tokens),
            self.timetable.arrival(),
            delivery,
        )
    }

    fn gated(&self, token: TokenId, gate: Gate) -> Option<Gated> {
        Some(Gated {
            began: self.began.0.clone(),
            gate,
            token,
            panics: false,
        })
    }

    /// The next matcher to begin a mask.
    fn next_mask(&self) -> TokenId {
        self.began.1.recv().unwrap()
    }

    /// Everything that is said of a sequence: the tokens, or the error after so many.
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
fn sequences_beyond_the_batch_wait_their_turn_in_order() {
    let world = World::new(1, STEP_TIMEOUT);
    let (key, gate) = gate();
    let first = world.begin(world.gated(5, gate), 2, Delivery::Pieces);
    assert_eq!(world.next_mask(), 5);
    let others: Vec<Tokens> = (6..9)
        .map(|token| world.begin(world.gated(token, OPEN), 2, Delivery::Pieces))
        .collect();
    let stats = world.stats();
    assert_eq!((stats.running, stats.waiting), (1, 3));
    drop(key);
    assert_eq!(world.read(first), (2, None));
    others
        .into_iter()
        .for_each(|tokens| assert_eq!(world.read(tokens), (2, None)));
    assert_eq!(
        (0..7).map(|_| world.next_mask()).collect::<Vec<_>>(),
        [5, 6, 6, 7, 7, 8, 8]
    );
    let stats = world.stats();
    assert_eq!(
        (stats.running, stats.waiting, stats.largest_batch),
        (0, 0, 1)
    );
    assert_eq!(
        (stats.steps, stats.tokens, stats.masks, stats.ended.length),
        (8, 8, 8, 4),
        "one sequence a step"
    );
}

#[test]
fn sequences_that_fit_are_stepped_together() {
    let world = World::new(8, STEP_TIMEOUT);
    let (key, gate) = gate();
    let held = world.begin(world.gated(5, gate), 3, Delivery::Pieces);
    assert_eq!(world.next_mask(), 5);
    let others: Vec<Tokens> = (6..9)
        .map(|token| world.begin(world.gated(token, OPEN), 3, Delivery::Pieces))
        .collect();
    assert_eq!(
        (world.stats().running, world.stats().waiting),
        (1, 3),
        "who comes during a step waits for its end"
    );
    drop(key);
    std::iter::once(held)
        .chain(others)
        .for_each(|tokens| assert_eq!(world.read(tokens), (3, None)));
    let stats = world.stats();
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
fn a_panic_costs_its_own_sequence() {
    let world = World::new(8, STEP_TIMEOUT);
    let panics = Gated {
        panics: true,
        ..world.gated(5, OPEN).unwrap()
    };
    let panicked = world.begin(Some(panics), 4, Delivery::Pieces);
    assert!(matches!(
        world.read(panicked),
        (0, Some(EngineError::Crashed { .. }))
    ));
    assert_eq!(
        world.read(world.begin(world.gated(6, OPEN), 4, Delivery::Pieces)),
        (4, None)
    );
    assert_eq!(
        (world.stats().ended.failed, world.stats().ended.length),
        (1, 1)
    );
}

#[test]
fn a_hanging_mask_costs_its_own_sequence() {
    // Short, so that the test is; sequences without a constraint run no library and have no time to
    // keep.
    let world = World::new(8, Duration::from_millis(1));
    let (key, gate) = gate();
    let hanging = world.begin(world.gated(6, gate), 4, Delivery::Pieces);
    let free = world.begin(None, 4, Delivery::Pieces);
    let (seen, error) = world.read(hanging);
    assert!(
        seen == 0
            && matches!(&error, Some(EngineError::TooLarge { words }) if words.contains("0.001 s")),
        "{error:?}"
    );
    assert_eq!(world.read(free), (4, None), "the loop goes on");
    assert_eq!((world.batcher.stuck(), world.stats().ended.failed), (1, 1));
    drop(key);
    while world.batcher.stuck() != 0 {
        thread::yield_now();
    }
}

#[test]
fn only_so_many_masks_are_left_hanging() {
    let world = World::new(MAX_STUCK_STEPS + 1, Duration::from_millis(1));
    let (key, gate) = gate();
    for _ in 0..MAX_STUCK_STEPS {
        let hanging = world.begin(world.gated(5, gate.clone()), 4, Delivery::Pieces);
        assert!(world.read(hanging).1.is_some());
    }
    let refused = world.read(world.begin(world.gated(6, OPEN), 4, Delivery::Pieces));
    assert!(
        matches!(&refused, (0, Some(EngineError::TooLarge { words })) if words.contains("still run")),
        "{refused:?}"
    );
    assert_eq!(
        world.read(world.begin(None, 4, Delivery::Pieces)),
        (4, None),
        "others are answered"
    );
    drop((key, gate));
    while world.batcher.stuck() != 0 {
        thread::yield_now();
    }
}

#[test]
fn who_goes_away_makes_room() {
    let world = World::new(1, STEP_TIMEOUT);
    let (key, gate) = gate();
    let gone = world.begin(world.gated(5, gate), 1000, Delivery::Pieces);
    assert_eq!(world.next_mask(), 5);
    let queued = world.begin(world.gated(6, OPEN), 4, Delivery::Pieces);
    let last = world.begin(world.gated(7, OPEN), 4, Delivery::Pieces);
    drop((gone, queued, key));
    assert_eq!(world.read(last), (4, None));
    let seen: HashSet<TokenId> = world.began.1.try_iter().collect();
    assert!(!seen.contains(&6), "it left the queue before its turn");
    let stats = world.stats();
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
fn a_whole_answer_comes_at_once() {
    let world = World::new(4, STEP_TIMEOUT);
    let mut whole = world.begin(world.gated(0, OPEN), 3, Delivery::Whole);
    let update = world.runtime.block_on(whole.next()).unwrap().unwrap();
    let piece = Piece {
        text: "!!!".into(),
        finish: Some(FinishReason::Length),
        stop: None,
    };
    assert_eq!(update, Progress { piece, tokens: 3 });
    assert_eq!(world.runtime.block_on(whole.next()), None);
}
