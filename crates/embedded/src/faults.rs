//! Faults that the embedded server injects into its answers, to test clients.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::compile_faults::CompileFaults;
use super::stats::Tally;
use sobench_core::error::{Error, Result};

/// A fault and the share of requests into which it is injected.
///
/// Written as `KIND[:MS|:N|:BYTES][@SHARE]`: `error-500`, `stall:250`, `fail-open:8`,
/// `die-on-large:100000`, `ignore-constraint@0.1`, `merge-calls@20of2000`. `MS` is the length of a
/// pause in milliseconds, `N` a number of tokens and `BYTES` a size; the kinds that have one require
/// it. `SHARE` is a number above 0 and up to 1, or a percentage, or `NofM`. The default is 1. It is a
/// share of the requests that the kind can change, such as those with two calls for `merge-calls`,
/// and of the compiles for the faults of compiles. A kind without an argument may be restricted to
/// some requests: `leak-markup-from-turn:4`, `drop-strict-above-tools:12`, `empty-above-context:8000`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The length of a pause in milliseconds, or the number of tokens or bytes.
    pub argument: Option<f64>,
    pub only: Option<Only>,
    pub share: FaultShare,
}

/// The requests that a fault is restricted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Only {
    pub by: OnlyBy,
    pub number: f64,
}

/// What the restriction of a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlyBy {
    /// From this answer of a conversation on; the first has the number 1.
    FromTurn,
    /// With more tools.
    AboveTools,
    /// With more prompt tokens.
    AboveContext,
}

impl OnlyBy {
    const ALL: [Self; 3] = [Self::FromTurn, Self::AboveTools, Self::AboveContext];

    /// The end of the names of restricted faults.
    fn suffix(self) -> &'static str {
        match self {
            Self::FromTurn => "-from-turn",
            Self::AboveTools => "-above-tools",
            Self::AboveContext => "-above-context",
        }
    }
}

impl Only {
    fn allows(self, request: &RequestTraits) -> bool {
        match self.by {
            OnlyBy::FromTurn => request.turn as f64 >= self.number,
            OnlyBy::AboveTools => request.tools as f64 > self.number,
            OnlyBy::AboveContext => f64::from(request.prompt_tokens) > self.number,
        }
    }
}

/// The requests into which a fault is injected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultShare {
    /// A share above 0 and up to 1. The request's seed decides whether the fault is injected, so
    /// that repeated runs have the same faults.
    Random(f64),
    /// Exactly `planted` of the first `eligible` requests, evenly spaced in their order of arrival.
    Exact { planted: u64, eligible: u64 },
}

/// Kinds of faults. Mid-answer faults are injected at the fifth text of a stream, or at its last
/// one if it has fewer. `KINDS` has a row for each, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The constraint is ignored: an unconstrained answer with status 200.
    IgnoreConstraint,
    /// Status 429 with `Retry-After: 1`.
    Error429,
    /// Status 500 with vLLM's error body.
    Error500,
    /// No response until the client disconnects.
    Hang,
    /// A pause before the status is sent.
    SlowHeader,
    /// A mid-answer pause.
    Stall,
    /// A mid-answer connection reset.
    Reset,
    /// The answer ends in the middle, without a finish reason and without `[DONE]`.
    Truncate,
    /// A mid-answer error event in a stream with status 200, or status 500 for a request without a
    /// stream.
    ErrorMidStream,
    /// The stream ends without `[DONE]`.
    NoDone,
    /// The requested usage is missing. A complete answer has none either.
    NoUsage,
    /// The answer names another model than the requested one.
    WrongModel,
    /// The text is in a Markdown code fence.
    ExtraText,
    /// An empty answer: one end token.
    Empty,
    /// Two calls arrive as one: the same index, and the arguments one after the other.
    MergeCalls,
    /// The schemas of strict tools are ignored: arguments without required members.
    DropStrict,
    /// Calls arrive as markup in the content.
    LeakMarkup,
    /// A call of a tool that is not offered or not allowed.
    WrongTool,
    /// A call although `tool_choice` is `none`.
    CallUnderNone,
    /// Arguments end one character early, with the finish reason `tool_calls`.
    CutArguments,
    /// Two calls have the same id.
    DuplicateId,
    /// Arguments are withheld and sent in one piece at the end of the stream.
    BufferArguments,
    /// The constraint removes the reasoning.
    SuppressThinking,
    /// The reasoning is an answer under the constraint, and the answer follows.
    ConstrainThinking,
    /// The first two characters of the answer are in the reasoning.
    ConstraintEarly,
    /// The first words of the answer are free.
    ConstraintLate,
    /// The answer is in the reasoning, in place of thoughts, and the content is empty.
    AnswerInReasoning,
    /// The content starts with the mark that ends the reasoning.
    LeakEndMarker,
    /// The reasoning takes all tokens.
    EndlessThinking,
    /// The request and one that runs at the same time under another constraint get each other's
    /// masks: this one from its start if the other runs by then, the other one from that step on.
    SwapMasks,
    /// Each token is drawn under the mask of the token before.
    MaskOffByOne,
    /// There is no mask after a number of tokens.
    FailOpen,
    /// The matcher starts anew once in mid-answer.
    RestartGrammar,
    /// The answer ends early while many requests run.
    ShortenUnderLoad,
    /// The answer ends early.
    Shorten,
    /// After a rejected draft the matcher has the draft in place of the drawn token.
    BadRollback,
    /// The server stops answering after the client went away.
    DieOnCancel,
    /// The slot of a client that went away is never freed.
    LeakSlotOnCancel,
    /// A compile allocates a number of bytes, which are never freed. Once for each constraint.
    LeakPerSchema,
    /// A compile takes a pause longer for each KiB of the constraint.
    SlowCompile,
    /// No sequence gets a token while a compile runs.
    StallNeighbours,
    /// A compile whose clients went away never ends.
    ZombieCompile,
    /// The server ends at a constraint of more than a number of bytes.
    DieOnLarge,
}

/// What a fault needs to know of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTraits {
    /// The constraint applies to the answer, as a text or as calls.
    pub(super) is_constrained: bool,
    pub(super) is_stream: bool,
    /// Number of calls that the model writes.
    pub(super) calls: usize,
    /// A called tool has an enforced schema that requires a member.
    pub(super) has_strict_call: bool,
    /// It offers tools and allows no call.
    pub(super) forbids_calls: bool,
    /// The answer starts with reasoning that is sent.
    pub(super) thinks: bool,
    /// The server drafts tokens.
    pub(super) has_drafts: bool,
    /// The number of the answer in its conversation, from 1.
    pub(super) turn: usize,
    pub(super) tools: usize,
    pub(super) prompt_tokens: u32,
}

/// Limit on the number of requests of an exact share.
const MAX_ELIGIBLE: u64 = 1_000_000_000;

/// The argument of a kind.
struct Form {
    /// Its name in the syntax.
    name: &'static str,
    parse: fn(&str) -> Option<f64>,
    /// Parts of error messages: about a missing argument and a wrong one, and an example.
    needed: &'static str,
    must_be: &'static str,
    example: &'static str,
}

const PAUSE: Form = Form {
    name: "MS",
    parse: |ms| {
        let ms = ms.parse().ok();
        ms.filter(|ms| (0.0..=600_000.0).contains(ms))
    },
    needed: "fault needs a pause in milliseconds",
    must_be: "fault pause must be from 0 to 600000 milliseconds",
    example: "250 for a pause of 250 ms",
};

const TOKENS: Form = Form {
    name: "N",
    parse: |tokens| parse_count(tokens, 1_000_000),
    needed: "fault needs a number of tokens",
    must_be: "tokens before a fault must be from 1 to 1000000",
    example: "8 for a fault after 8 tokens",
};

const BYTES: Form = Form {
    name: "BYTES",
    parse: |bytes| parse_count(bytes, 1 << 30),
    needed: "fault needs a size in bytes",
    must_be: "bytes of a fault must be from 1 to 1073741824",
    example: "1048576 for 1 MiB",
};

/// What a kind changes, and the requests that it can change.
#[derive(Clone, Copy)]
enum Site {
    Request(fn(&RequestTraits) -> bool),
    /// The masks or the end of an answer, which are changed in the batch.
    Batch(fn(&RequestTraits) -> bool),
    /// Running requests whose client goes away. They are known only then.
    Cancel,
    /// Compiles, each of which can have several requests.
    Compile,
}

const ANY: Site = Site::Request(|_| true);
const CONSTRAINED: Site = Site::Request(|request| request.is_constrained);
const CALLS: Site = Site::Request(|request| request.calls > 0);
const TWO_CALLS: Site = Site::Request(|request| request.calls > 1);
const STRICT_CALL: Site = Site::Request(|request| request.has_strict_call);
const NO_CALL: Site = Site::Request(|request| request.forbids_calls);
const CALL_STREAM: Site = Site::Request(|request| request.calls > 0 && request.is_stream);
const THINKS: Site = Site::Request(|request| request.thinks);
const THINKS_FIRST: Site = Site::Request(|request| request.thinks && request.is_constrained);
/// Reasoning before a text under a constraint.
const TEXT: Site =
    Site::Request(|request| request.thinks && request.is_constrained && request.calls == 0);
const MASKS: Site = Site::Batch(|request| request.is_constrained);
const DRAFTS: Site = Site::Batch(|request| request.is_constrained && request.has_drafts);
const END: Site = Site::Batch(|_| true);

struct Row {
    kind: FaultKind,
    /// The name without argument and share.
    name: &'static str,
    form: Option<Form>,
    site: Site,
}

const fn row(kind: FaultKind, name: &'static str, form: Option<Form>, site: Site) -> Row {
    Row {
        kind,
        name,
        form,
        site,
    }
}

/// All kinds.
static KINDS: [Row; 43] = {
    use FaultKind::*;
    [
        row(IgnoreConstraint, "ignore-constraint", None, CONSTRAINED),
        row(Error429, "error-429", None, ANY),
        row(Error500, "error-500", None, ANY),
        row(Hang, "hang", None, ANY),
        row(SlowHeader, "slow-header", Some(PAUSE), ANY),
        row(Stall, "stall", Some(PAUSE), ANY),
        row(Reset, "reset", None, ANY),
        row(Truncate, "truncate", None, ANY),
        row(ErrorMidStream, "error-mid-stream", None, ANY),
        row(NoDone, "no-done", None, ANY),
        row(NoUsage, "no-usage", None, ANY),
        row(WrongModel, "wrong-model", None, ANY),
        row(ExtraText, "extra-text", None, ANY),
        row(Empty, "empty", None, ANY),
        row(MergeCalls, "merge-calls", None, TWO_CALLS),
        row(DropStrict, "drop-strict", None, STRICT_CALL),
        row(LeakMarkup, "leak-markup", None, CALLS),
        row(WrongTool, "wrong-tool", None, CALLS),
        row(CallUnderNone, "call-under-none", None, NO_CALL),
        row(CutArguments, "cut-arguments", None, CALLS),
        row(DuplicateId, "duplicate-id", None, TWO_CALLS),
        row(BufferArguments, "buffer-arguments", None, CALL_STREAM),
        row(SuppressThinking, "suppress-thinking", None, THINKS_FIRST),
        row(ConstrainThinking, "constrain-thinking", None, TEXT),
        row(ConstraintEarly, "constraint-early", None, TEXT),
        row(ConstraintLate, "constraint-late", None, TEXT),
        row(AnswerInReasoning, "answer-in-reasoning", None, TEXT),
        row(LeakEndMarker, "leak-end-marker", None, THINKS),
        row(EndlessThinking, "endless-thinking", None, THINKS),
        row(SwapMasks, "swap-masks", None, MASKS),
        row(MaskOffByOne, "mask-off-by-one", None, MASKS),
        row(FailOpen, "fail-open", Some(TOKENS), MASKS),
        row(RestartGrammar, "restart-grammar", None, MASKS),
        row(ShortenUnderLoad, "shorten-under-load", None, END),
        row(Shorten, "shorten", None, END),
        row(BadRollback, "bad-rollback", None, DRAFTS),
        row(DieOnCancel, "die-on-cancel", None, Site::Cancel),
        row(LeakSlotOnCancel, "leak-slot-on-cancel", None, Site::Cancel),
        row(LeakPerSchema, "leak-per-schema", Some(BYTES), Site::Compile),
        row(SlowCompile, "slow-compile", Some(PAUSE), Site::Compile),
        row(StallNeighbours, "stall-neighbours", None, Site::Compile),
        row(ZombieCompile, "zombie-compile", None, Site::Compile),
        row(DieOnLarge, "die-on-large", Some(BYTES), Site::Compile),
    ]
};

impl FaultKind {
    fn row(self) -> &'static Row {
        &KINDS[self as usize]
    }
}

impl Fault {
    /// Parses `KIND[:MS|:N|:BYTES][@SHARE]`.
    ///
    /// # Errors
    /// Usage error for an unknown fault, with a list of all faults, and for invalid numbers.
    pub fn parse(text: &str) -> Result<Self> {
        let (rest, share) = text.split_once('@').unwrap_or((text, "1"));
        let share = FaultShare::parse(share).ok_or_else(|| {
            Error::usage(format!(
                "fault share must be a number above 0 and up to 1, or NofM: {text}"
            ))
            .hint("use KIND@0.1 or KIND@10% for a tenth of the requests, KIND@20of2000 for exactly 20 of 2000")
        })?;
        let (name, argument) = rest
            .split_once(':')
            .map_or((rest, None), |(name, argument)| (name, Some(argument)));
        let mut restrictions = OnlyBy::ALL.into_iter();
        let restricted = restrictions.find_map(|by| Some((name.strip_suffix(by.suffix())?, by)));
        let (name, argument, only) = match restricted {
            None => (name, argument, None),
            Some((kind, by)) => {
                let number = argument.and_then(TOKENS.parse).ok_or_else(|| {
                    Error::usage(format!(
                        "restricted fault needs a number from 1 to 1000000: {text}"
                    ))
                    .hint(format!("use {name}:8"))
                })?;
                (kind, None, Some(Only { by, number }))
            }
        };
        let row = KINDS.iter().find(|row| row.name == name).ok_or_else(|| {
            Error::usage(format!("unknown fault: {name}")).hint(format!(
                "use KIND[:MS|:N|:BYTES][@SHARE] with one of {}",
                Self::kinds().collect::<Vec<_>>().join(", ")
            ))
        })?;
        let wrong = |problem: &str, instead: String| {
            Error::usage(format!("{problem}: {text}")).hint(format!("use {instead}"))
        };
        let argument = match (&row.form, argument) {
            (None, None) => None,
            (None, Some(value)) => {
                return Err(wrong(
                    "fault has no pause, no number of tokens and no size",
                    format!("{name}@{value} if {value} is a share of the requests"),
                ));
            }
            (Some(form), argument) => {
                let problem = argument.map_or(form.needed, |_| form.must_be);
                let parsed = argument.and_then(form.parse);
                let example = || wrong(problem, format!("{name}:{}", form.example));
                Some(parsed.ok_or_else(example)?)
            }
        };
        Ok(Self {
            kind: row.kind,
            argument,
            only,
            share,
        })
    }

    /// The syntax of every fault.
    pub fn kinds() -> impl Iterator<Item = String> {
        KINDS.iter().map(|row| match &row.form {
            None => row.name.to_owned(),
            Some(form) => format!("{}:{}", row.name, form.name),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.row().name)?;
        if let Some(argument) = self.argument {
            write!(f, ":{argument}")?;
        }
        if let Some(only) = self.only {
            write!(f, "{}:{}", only.by.suffix(), only.number)?;
        }
        match self.share {
            FaultShare::Random(share) if share < 1.0 => write!(f, "@{share}"),
            FaultShare::Random(_) => Ok(()),
            FaultShare::Exact { planted, eligible } => write!(f, "@{planted}of{eligible}"),
        }
    }
}

impl FaultShare {
    fn parse(text: &str) -> Option<Self> {
        let Some((planted, eligible)) = text.split_once("of") else {
            return parse_share(text).map(Self::Random);
        };
        let (planted, eligible) = (planted.parse().ok()?, eligible.parse().ok()?);
        (planted > 0 && planted <= eligible && eligible <= MAX_ELIGIBLE)
            .then_some(Self::Exact { planted, eligible })
    }

    /// Whether the fault is injected into the eligible request with this seed and number.
    fn selects(self, unit: f64, number: u64) -> bool {
        match self {
            Self::Random(share) => unit < share,
            Self::Exact { planted, eligible } => {
                let before = |number: u64| number * planted / eligible;
                number < eligible && before(number + 1) > before(number)
            }
        }
    }
}

fn parse_share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    // A fault with a share of 0 is a mistake.
    (share > 0.0 && share <= 1.0).then_some(share)
}

fn parse_count(text: &str, most: u32) -> Option<f64> {
    let count = text.parse().ok();
    count
        .filter(|count| (1..=most).contains(count))
        .map(f64::from)
}

/// Draws the faults of requests.
pub(super) struct Planting {
    faults: Vec<Fault>,
    /// Number of eligible requests so far, for each fault.
    seen: Vec<AtomicU64>,
    /// Number of requests that ended without a fault of an exact number, for each fault. As many
    /// later ones get it.
    missed: Vec<Arc<AtomicU64>>,
    tally: Arc<Tally>,
    /// State of the faults of compiles.
    pub(super) compiles: CompileFaults,
}

impl Planting {
    pub(super) fn new(faults: &[Fault], tally: Arc<Tally>) -> Self {
        Self {
            faults: faults.to_vec(),
            seen: faults.iter().map(|_| AtomicU64::new(0)).collect(),
            missed: faults.iter().map(|_| Arc::default()).collect(),
            tally,
            compiles: CompileFaults::default(),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether a fault of this kind may be injected into some request.
    pub(super) fn plants(&self, kind: FaultKind) -> bool {
        self.faults.iter().any(|fault| fault.kind == kind)
    }

    /// Draws the faults of the request with this seed.
    pub(super) fn draw(&self, seed: u64, request: &RequestTraits) -> RequestFaults {
        self.draw_at(seed, |fault| {
            let is_allowed = fault.only.is_none_or(|only| only.allows(request));
            match fault.kind.row().site {
                Site::Request(can_change) | Site::Batch(can_change) => {
                    is_allowed && can_change(request)
                }
                Site::Cancel | Site::Compile => false,
            }
        })
    }

    /// Draws the faults of a running request whose client went away.
    pub(super) fn draw_on_cancel(&self, seed: u64) -> RequestFaults {
        self.draw_at(seed, |fault| matches!(fault.kind.row().site, Site::Cancel))
    }

    /// Draws the faults of the compile of a constraint with this fingerprint.
    pub(super) fn draw_on_compile(&self, fingerprint: &str) -> RequestFaults {
        let seed = Sha256::digest(fingerprint);
        let seed = u64::from_le_bytes(std::array::from_fn(|index| seed[index]));
        self.draw_at(seed, |fault| matches!(fault.kind.row().site, Site::Compile))
    }

    /// Draws each eligible fault independently.
    fn draw_at(&self, seed: u64, is_eligible: impl Fn(&Fault) -> bool) -> RequestFaults {
        let mut drawn = Vec::new();
        for (index, (fault, seen)) in self.faults.iter().zip(&self.seen).enumerate() {
            let row = fault.kind.row();
            if !is_eligible(fault) {
                continue;
            }
            self.tally.fault_eligible(row.name);
            let number = seen.fetch_add(1, Ordering::Relaxed);
            if fault.share.selects(unit(seed, index), number) || self.takes_missed(index) {
                let is_exact = matches!(fault.share, FaultShare::Exact { .. });
                drawn.push(DrawnFault {
                    kind: fault.kind,
                    argument: fault.argument,
                    is_injected: false,
                    missed: is_exact.then(|| Arc::clone(&self.missed[index])),
                });
            }
        }
        RequestFaults {
            drawn,
            tally: Arc::clone(&self.tally),
        }
    }

    /// Whether an earlier request ended without this fault. True once for each.
    fn takes_missed(&self, index: usize) -> bool {
        let less_one = |missed: u64| missed.checked_sub(1);
        self.missed[index]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one)
            .is_ok()
    }
}

/// A fault that was drawn for a request.
struct DrawnFault {
    kind: FaultKind,
    argument: Option<f64>,
    is_injected: bool,
    /// Set for a fault of an exact number. Another request gets it if this one ends without it.
    missed: Option<Arc<AtomicU64>>,
}

impl Drop for DrawnFault {
    fn drop(&mut self) {
        if let Some(missed) = self.missed.as_ref().filter(|_| !self.is_injected) {
            missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The faults drawn for one request. A fault is counted when it is injected, once per request. A
/// fault that is not injected, because of an earlier fault or for lack of something to change, is
/// not counted.
#[derive(Default)]
pub(super) struct RequestFaults {
    drawn: Vec<DrawnFault>,
    tally: Arc<Tally>,
}

impl RequestFaults {
    /// Whether a fault was drawn. Does not count it.
    pub(super) fn has(&self, kind: FaultKind) -> bool {
        self.drawn.iter().any(|drawn| drawn.kind == kind)
    }

    /// Whether no fault was drawn.
    pub(super) fn is_empty(&self) -> bool {
        self.drawn.is_empty()
    }

    /// The argument of a fault, if it was drawn. Does not count it.
    pub(super) fn argument(&self, kind: FaultKind) -> Option<f64> {
        self.drawn.iter().find(|drawn| drawn.kind == kind)?.argument
    }

    /// Whether a fault was drawn and must be injected now. Counts it.
    pub(super) fn inject(&mut self, kind: FaultKind) -> bool {
        let mut of_kind = self.drawn.iter_mut().filter(|drawn| drawn.kind == kind);
        let Some(first) = of_kind.next() else {
            return false;
        };
        if !std::mem::replace(&mut first.is_injected, true) {
            self.tally.fault_injected(kind.row().name);
        }
        of_kind.for_each(|drawn| drawn.is_injected = true);
        true
    }

    /// The pause of a fault that must be injected now, if it was drawn. Counts it.
    pub(super) fn inject_pause(&mut self, kind: FaultKind) -> Option<Duration> {
        let ms = self.argument(kind)?;
        self.inject(kind);
        Some(Duration::from_secs_f64(ms / 1e3))
    }

    /// The mid-answer pause, if any. Returned once.
    pub(super) fn stall(&mut self) -> Option<Duration> {
        let is_due = |drawn: &DrawnFault| drawn.kind == FaultKind::Stall && !drawn.is_injected;
        if !self.drawn.iter().any(is_due) {
            return None;
        }
        self.inject_pause(FaultKind::Stall)
    }

    /// Takes out the faults that are injected in the batch.
    pub(super) fn take_batch_faults(&mut self) -> Self {
        let is_in_batch = |drawn: &mut DrawnFault| matches!(drawn.kind.row().site, Site::Batch(_));
        Self {
            drawn: self.drawn.extract_if(.., is_in_batch).collect(),
            tally: Arc::clone(&self.tally),
        }
    }
}

/// Uniform in `[0, 1)`, determined by request and fault.
fn unit(seed: u64, fault: usize) -> f64 {
    let hash = Sha256::new()
        .chain_update(b"fault")
        .chain_update(seed.to_le_bytes())
        .chain_update(fault.to_le_bytes())
        .finalize();
    let bits = u64::from_le_bytes(std::array::from_fn(|index| hash[index]));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_parse_as_printed() {
        for (text, kind, argument, share, written) in [
            ("hang", FaultKind::Hang, None, 1.0, "hang"),
            (
                "error-500@0.25",
                FaultKind::Error500,
                None,
                0.25,
                "error-500@0.25",
            ),
            (
                "ignore-constraint@10%",
                FaultKind::IgnoreConstraint,
                None,
                0.1,
                "ignore-constraint@0.1",
            ),
            (
                "stall:250@100%",
                FaultKind::Stall,
                Some(250.0),
                1.0,
                "stall:250",
            ),
        ] {
            let fault = Fault::parse(text).unwrap();
            let expected = Fault {
                kind,
                argument,
                only: None,
                share: FaultShare::Random(share),
            };
            assert_eq!((fault, fault.to_string().as_str()), (expected, written));
        }
        let exact = Fault::parse("merge-calls@20of2000").unwrap();
        let share = FaultShare::Exact {
            planted: 20,
            eligible: 2000,
        };
        assert_eq!((exact.kind, exact.share), (FaultKind::MergeCalls, share));
        assert_eq!(exact.to_string(), "merge-calls@20of2000");
        for by in OnlyBy::ALL {
            let text = format!("leak-markup{}:4@0.5", by.suffix());
            let fault = Fault::parse(&text).unwrap();
            let only = Only { by, number: 4.0 };
            assert_eq!((fault.only, fault.to_string()), (Some(only), text));
        }
        for (place, row) in KINDS.iter().enumerate() {
            let text = match row.form {
                None => row.name.to_owned(),
                Some(_) => format!("{}:7", row.name),
            };
            let fault = Fault::parse(&text).unwrap();
            assert_eq!((fault.kind as usize, fault.to_string()), (place, text));
        }
    }

    #[test]
    fn invalid_faults_are_refused_with_a_hint() {
        for (text, message) in [
            ("hangs", "unknown fault: hangs"),
            ("", "unknown fault"),
            ("hang@2", "must be a number"),
            ("hang@0", "must be a number"),
            ("hang@", "must be a number"),
            ("hang@NaN", "must be a number"),
            ("hang@0of5", "must be a number"),
            ("hang@6of5", "must be a number"),
            ("hang@1ofx", "must be a number"),
            ("error-500:0.1", "has no pause"),
            ("stall", "needs a pause in milliseconds"),
            ("stall:-1", "must be from 0 to"),
            ("stall:600001", "must be from 0 to"),
            ("fail-open", "needs a number of tokens"),
            ("fail-open:0", "must be from 1 to"),
            ("fail-open:1.5", "must be from 1 to"),
            ("die-on-large", "needs a size in bytes"),
            ("leak-per-schema:0", "must be from 1 to"),
            ("leak-per-schema:1MB", "must be from 1 to"),
            ("empty-above-tools", "needs a number"),
            ("empty-from-turn:0", "needs a number"),
            ("hangs-from-turn:2", "unknown fault: hangs"),
            ("stall-from-turn:2", "needs a pause"),
        ] {
            let error = Fault::parse(text).unwrap_err();
            assert!(
                error.what.contains(message) && error.hint.is_some(),
                "{text}: {error}"
            );
        }
        let hint = Fault::parse("x").unwrap_err().hint.unwrap();
        assert!(Fault::kinds().all(|kind| hint.contains(&kind)), "{hint}");
    }

    fn planting(faults: &[&str]) -> Planting {
        let faults: Vec<Fault> = faults
            .iter()
            .map(|fault| Fault::parse(fault).unwrap())
            .collect();
        Planting::new(&faults, Arc::default())
    }

    fn drawn(planting: &Planting, seed: u64) -> Vec<FaultKind> {
        kinds(&planting.draw(seed, &RequestTraits::default()))
    }

    fn kinds(faults: &RequestFaults) -> Vec<FaultKind> {
        faults.drawn.iter().map(|drawn| drawn.kind).collect()
    }

    #[test]
    fn a_share_selects_that_share_of_requests_reproducibly() {
        let planting = planting(&["hang@0.3", "reset@0.3"]);
        let count = |kind| {
            (0..4000_u64)
                .filter(|seed| drawn(&planting, *seed).contains(&kind))
                .count()
        };
        for kind in [FaultKind::Hang, FaultKind::Reset] {
            assert!(
                (1100..1300).contains(&count(kind)),
                "{kind:?} {}",
                count(kind)
            );
        }
        let both = (0..4000_u64)
            .filter(|seed| drawn(&planting, *seed).len() == 2)
            .count();
        assert!(
            (280..440).contains(&both),
            "faults are drawn independently: {both}"
        );
        assert_eq!(drawn(&planting, 7), drawn(&planting, 7));
    }

    #[test]
    fn an_exact_share_selects_that_number_of_requests() {
        for (planted, eligible) in [(20, 2000), (7, 50), (1, 1), (3, 4)] {
            let planting = planting(&[&format!("hang@{planted}of{eligible}")]);
            let injected: Vec<bool> = (0..eligible * 2)
                .map(|seed| {
                    planting
                        .draw(seed, &RequestTraits::default())
                        .inject(FaultKind::Hang)
                })
                .collect();
            let count = |part: &[bool]| part.iter().filter(|is_injected| **is_injected).count();
            let eligible = usize::try_from(eligible).unwrap();
            let (first, later) = injected.split_at(eligible);
            assert_eq!(
                (count(first), count(later)),
                (usize::try_from(planted).unwrap(), 0)
            );
        }
    }

    #[test]
    fn the_next_request_gets_a_fault_that_changed_nothing() {
        let planting = planting(&["hang@2of4", "reset@0.5"]);
        let request = RequestTraits::default();
        let injected: Vec<bool> = (0..6)
            .map(|seed| {
                let mut faults = planting.draw(seed, &request);
                // Nothing to change in the second and third request.
                let changes = !(1..3).contains(&seed);
                changes && faults.inject(FaultKind::Hang)
            })
            .collect();
        assert_eq!(injected, [false, false, false, true, true, false]);
    }

    #[test]
    fn only_eligible_requests_have_a_fault() {
        let two_calls = RequestTraits {
            calls: 2,
            ..RequestTraits::default()
        };
        let planting = planting(&[
            "merge-calls",
            "buffer-arguments",
            "suppress-thinking",
            "no-done",
        ]);
        assert_eq!(
            kinds(&planting.draw(0, &two_calls)),
            [FaultKind::MergeCalls, FaultKind::NoDone]
        );
        let thinks = RequestTraits {
            thinks: true,
            is_constrained: true,
            is_stream: true,
            calls: 1,
            ..RequestTraits::default()
        };
        assert_eq!(
            kinds(&planting.draw(0, &thinks)),
            [
                FaultKind::BufferArguments,
                FaultKind::SuppressThinking,
                FaultKind::NoDone
            ]
        );
    }

    #[test]
    fn restricted_faults_are_of_some_requests() {
        let planting = planting(&[
            "hang-from-turn:4",
            "reset-above-tools:12",
            "empty-above-context:8",
        ]);
        let drawn = |turn, tools, prompt_tokens| {
            let request = RequestTraits {
                turn,
                tools,
                prompt_tokens,
                ..RequestTraits::default()
            };
            kinds(&planting.draw(0, &request))
        };
        assert_eq!(drawn(3, 12, 8), []);
        let all = [FaultKind::Hang, FaultKind::Reset, FaultKind::Empty];
        assert_eq!(drawn(4, 13, 9), all);
    }

    #[test]
    fn faults_of_cancellation_are_drawn_when_a_client_goes_away() {
        let planting = planting(&["leak-slot-on-cancel@1of2", "swap-masks", "bad-rollback"]);
        let constrained = RequestTraits {
            is_constrained: true,
            ..RequestTraits::default()
        };
        let mut faults = planting.draw(0, &constrained);
        assert_eq!(
            kinds(&faults),
            [FaultKind::SwapMasks],
            "no drafts to reject"
        );
        assert!(faults.take_batch_faults().has(FaultKind::SwapMasks));
        assert!(faults.is_empty());
        let leaks = [0, 1, 2].map(|seed| {
            planting
                .draw_on_cancel(seed)
                .inject(FaultKind::LeakSlotOnCancel)
        });
        assert_eq!(leaks, [false, true, false]);
        let drafting = RequestTraits {
            has_drafts: true,
            ..constrained
        };
        assert!(planting.draw(0, &drafting).has(FaultKind::BadRollback));
    }

    #[test]
    fn faults_of_compiles_are_drawn_by_constraint() {
        let planting = planting(&["slow-compile:1", "die-on-large:100@0.5"]);
        assert!(drawn(&planting, 0).is_empty(), "requests have none");
        let dies = |number: u32| {
            let faults = planting.draw_on_compile(&format!("constraint {number}"));
            faults.argument(FaultKind::DieOnLarge) == Some(100.0)
        };
        let count = (0..1000).filter(|number| dies(*number)).count();
        assert!((400..600).contains(&count), "{count}");
        let mut faults = planting.draw_on_compile("a");
        assert_eq!(
            faults.inject_pause(FaultKind::SlowCompile),
            Some(Duration::from_millis(1))
        );
        assert_eq!(faults.argument(FaultKind::LeakPerSchema), None);
    }
}
