//! Faults that the embedded server injects into its answers, to test clients.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::compile_faults::CompileFaults;
use super::stats::Tally;
use sobench_core::error::{Error, Result};

/// The longest injected pause: ten minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A fault and the share of requests into which it is injected.
///
/// Written as `KIND[:MS|:N|:BYTES][@SHARE]`: `error-500`, `stall:250`, `fail-open:8`,
/// `die-on-large:100000`, `ignore-constraint@0.1`, `merge-calls@20of2000`. `MS` is the length of a
/// pause in milliseconds, `N` a number of tokens and `BYTES` a size; the kinds that have one require
/// it. `SHARE` is a number above 0 and up to 1, or a percentage, or `NofM`. The default is 1. It is a
/// share of the requests that the kind can change, such as those with two calls for `merge-calls`,
/// and of the compiles for the faults of compiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    pub share: FaultShare,
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
/// one if it has fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The constraint is ignored: an unconstrained answer with status 200.
    IgnoreConstraint,
    /// Status 400 with vLLM's error body.
    Error400,
    /// Status 429 with `Retry-After: 1`.
    Error429,
    /// Status 500 with vLLM's error body.
    Error500,
    /// Status 503 with a plain-text body.
    Error503,
    /// No response until the client disconnects.
    Hang,
    /// A pause before the status is sent.
    SlowHeader(Duration),
    /// A mid-answer pause.
    Stall(Duration),
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
    /// An invalid UTF-8 byte in the answer's text.
    InvalidUtf8,
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
    /// There is no mask after this number of tokens.
    FailOpen(u32),
    /// The matcher starts anew once in mid-answer.
    RestartGrammar,
    /// The answer ends early while many requests run.
    ShortenUnderLoad,
    /// After a rejected draft the matcher has the draft in place of the drawn token.
    BadRollback,
    /// The server stops answering after the client went away.
    DieOnCancel,
    /// The slot of a client that went away is never freed.
    LeakSlotOnCancel,
    /// A compile allocates this number of bytes, which are never freed. Once for each constraint.
    LeakPerSchema(u64),
    /// A compile takes this time longer for each KiB of the constraint.
    SlowCompile(Duration),
    /// No sequence gets a token while a compile runs.
    StallNeighbours,
    /// A compile whose clients went away never ends.
    ZombieCompile,
    /// The server ends at a constraint of more than this number of bytes.
    DieOnLarge(u64),
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
}

/// Limit on the number of requests of an exact share.
const MAX_ELIGIBLE: u64 = 1_000_000_000;

/// The largest number of tokens of a fault.
const MAX_TOKENS: u32 = 1_000_000;

/// The largest number of bytes of a fault: 1 GiB.
const MAX_BYTES: u64 = 1 << 30;

/// Whether a kind has an argument, and the kind with it.
#[derive(Clone, Copy)]
enum Form {
    Plain(FaultKind),
    Pause(fn(Duration) -> FaultKind),
    Tokens(fn(u32) -> FaultKind),
    Bytes(fn(u64) -> FaultKind),
}

/// All kinds by name.
const KINDS: [(&str, Form); 45] = [
    (
        "ignore-constraint",
        Form::Plain(FaultKind::IgnoreConstraint),
    ),
    ("error-400", Form::Plain(FaultKind::Error400)),
    ("error-429", Form::Plain(FaultKind::Error429)),
    ("error-500", Form::Plain(FaultKind::Error500)),
    ("error-503", Form::Plain(FaultKind::Error503)),
    ("hang", Form::Plain(FaultKind::Hang)),
    ("slow-header", Form::Pause(FaultKind::SlowHeader)),
    ("stall", Form::Pause(FaultKind::Stall)),
    ("reset", Form::Plain(FaultKind::Reset)),
    ("truncate", Form::Plain(FaultKind::Truncate)),
    ("error-mid-stream", Form::Plain(FaultKind::ErrorMidStream)),
    ("no-done", Form::Plain(FaultKind::NoDone)),
    ("no-usage", Form::Plain(FaultKind::NoUsage)),
    ("wrong-model", Form::Plain(FaultKind::WrongModel)),
    ("invalid-utf8", Form::Plain(FaultKind::InvalidUtf8)),
    ("extra-text", Form::Plain(FaultKind::ExtraText)),
    ("empty", Form::Plain(FaultKind::Empty)),
    ("merge-calls", Form::Plain(FaultKind::MergeCalls)),
    ("drop-strict", Form::Plain(FaultKind::DropStrict)),
    ("leak-markup", Form::Plain(FaultKind::LeakMarkup)),
    ("wrong-tool", Form::Plain(FaultKind::WrongTool)),
    ("call-under-none", Form::Plain(FaultKind::CallUnderNone)),
    ("cut-arguments", Form::Plain(FaultKind::CutArguments)),
    ("duplicate-id", Form::Plain(FaultKind::DuplicateId)),
    ("buffer-arguments", Form::Plain(FaultKind::BufferArguments)),
    (
        "suppress-thinking",
        Form::Plain(FaultKind::SuppressThinking),
    ),
    (
        "constrain-thinking",
        Form::Plain(FaultKind::ConstrainThinking),
    ),
    ("constraint-early", Form::Plain(FaultKind::ConstraintEarly)),
    ("constraint-late", Form::Plain(FaultKind::ConstraintLate)),
    (
        "answer-in-reasoning",
        Form::Plain(FaultKind::AnswerInReasoning),
    ),
    ("leak-end-marker", Form::Plain(FaultKind::LeakEndMarker)),
    ("endless-thinking", Form::Plain(FaultKind::EndlessThinking)),
    ("swap-masks", Form::Plain(FaultKind::SwapMasks)),
    ("mask-off-by-one", Form::Plain(FaultKind::MaskOffByOne)),
    ("fail-open", Form::Tokens(FaultKind::FailOpen)),
    ("restart-grammar", Form::Plain(FaultKind::RestartGrammar)),
    (
        "shorten-under-load",
        Form::Plain(FaultKind::ShortenUnderLoad),
    ),
    ("bad-rollback", Form::Plain(FaultKind::BadRollback)),
    ("die-on-cancel", Form::Plain(FaultKind::DieOnCancel)),
    (
        "leak-slot-on-cancel",
        Form::Plain(FaultKind::LeakSlotOnCancel),
    ),
    ("leak-per-schema", Form::Bytes(FaultKind::LeakPerSchema)),
    ("slow-compile", Form::Pause(FaultKind::SlowCompile)),
    ("stall-neighbours", Form::Plain(FaultKind::StallNeighbours)),
    ("zombie-compile", Form::Plain(FaultKind::ZombieCompile)),
    ("die-on-large", Form::Bytes(FaultKind::DieOnLarge)),
];

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
        let (_, form) = KINDS
            .into_iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| {
                Error::usage(format!("unknown fault: {name}")).hint(format!(
                    "use KIND[:MS|:N|:BYTES][@SHARE] with one of {}",
                    Self::kinds().collect::<Vec<_>>().join(", ")
                ))
            })?;
        let kind = form.parse(name, argument, text)?;
        Ok(Self { kind, share })
    }

    /// The syntax of every fault.
    pub fn kinds() -> impl Iterator<Item = String> {
        KINDS.into_iter().map(|(name, form)| match form {
            Form::Plain(_) => name.to_owned(),
            Form::Pause(_) => format!("{name}:MS"),
            Form::Tokens(_) => format!("{name}:N"),
            Form::Bytes(_) => format!("{name}:BYTES"),
        })
    }
}

impl Form {
    /// The kind `name` with its argument. `text` is the whole fault, for errors.
    fn parse(self, name: &str, argument: Option<&str>, text: &str) -> Result<FaultKind> {
        let pause_hint = format!("use {name}:250 for a pause of 250 ms");
        let tokens_hint = format!("use {name}:8 for a fault after 8 tokens");
        let bytes_hint = format!("use {name}:1048576 for 1 MiB");
        match (self, argument) {
            (Self::Plain(kind), None) => Ok(kind),
            (Self::Plain(_), Some(value)) => Err(Error::usage(format!(
                "fault has no pause, no number of tokens and no size: {text}"
            ))
            .hint(format!(
                "use {name}@{value} if {value} is a share of the requests"
            ))),
            (Self::Pause(kind), Some(ms)) => parse_pause(ms).map(kind).ok_or_else(|| {
                Error::usage(format!(
                    "fault pause must be from 0 to 600000 milliseconds: {text}"
                ))
                .hint(pause_hint)
            }),
            (Self::Pause(_), None) => Err(Error::usage(format!(
                "fault needs a pause in milliseconds: {text}"
            ))
            .hint(pause_hint)),
            (Self::Tokens(kind), Some(tokens)) => {
                let tokens = tokens
                    .parse()
                    .ok()
                    .filter(|tokens| (1..=MAX_TOKENS).contains(tokens));
                tokens.map(kind).ok_or_else(|| {
                    Error::usage(format!(
                        "tokens before a fault must be from 1 to {MAX_TOKENS}: {text}"
                    ))
                    .hint(tokens_hint)
                })
            }
            (Self::Tokens(_), None) => Err(Error::usage(format!(
                "fault needs a number of tokens: {text}"
            ))
            .hint(tokens_hint)),
            (Self::Bytes(kind), Some(bytes)) => {
                let bytes = bytes
                    .parse()
                    .ok()
                    .filter(|bytes| (1..=MAX_BYTES).contains(bytes));
                bytes.map(kind).ok_or_else(|| {
                    Error::usage(format!(
                        "bytes of a fault must be from 1 to {MAX_BYTES}: {text}"
                    ))
                    .hint(bytes_hint)
                })
            }
            (Self::Bytes(_), None) => {
                Err(Error::usage(format!("fault needs a size in bytes: {text}")).hint(bytes_hint))
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.kind {
            FaultKind::SlowHeader(pause)
            | FaultKind::Stall(pause)
            | FaultKind::SlowCompile(pause) => {
                write!(f, ":{}", pause.as_secs_f64() * 1e3)?;
            }
            FaultKind::FailOpen(tokens) => write!(f, ":{tokens}")?,
            FaultKind::LeakPerSchema(bytes) | FaultKind::DieOnLarge(bytes) => {
                write!(f, ":{bytes}")?;
            }
            _ => {}
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

impl FaultKind {
    /// The name without argument and share.
    pub fn name(self) -> &'static str {
        let is_kind = |form: Form| match (form, self) {
            (Form::Plain(kind), _) => kind == self,
            (
                Form::Pause(kind),
                Self::SlowHeader(pause) | Self::Stall(pause) | Self::SlowCompile(pause),
            ) => kind(pause) == self,
            (Form::Tokens(kind), Self::FailOpen(tokens)) => kind(tokens) == self,
            (Form::Bytes(kind), Self::LeakPerSchema(bytes) | Self::DieOnLarge(bytes)) => {
                kind(bytes) == self
            }
            _ => false,
        };
        let named = KINDS.into_iter().find(|(_, form)| is_kind(*form));
        named.map_or("", |(name, _)| name)
    }

    /// Whether it changes masks or the end of an answer, which happens in the batch.
    fn is_in_batch(self) -> bool {
        matches!(
            self,
            Self::SwapMasks
                | Self::MaskOffByOne
                | Self::FailOpen(_)
                | Self::RestartGrammar
                | Self::ShortenUnderLoad
                | Self::BadRollback
        )
    }

    /// Whether it applies to requests whose client goes away while they run. Such requests are
    /// known only then.
    fn is_on_cancel(self) -> bool {
        matches!(self, Self::DieOnCancel | Self::LeakSlotOnCancel)
    }

    /// Whether it applies to compiles, each of which can have several requests.
    fn is_on_compile(self) -> bool {
        matches!(
            self,
            Self::LeakPerSchema(_)
                | Self::SlowCompile(_)
                | Self::StallNeighbours
                | Self::ZombieCompile
                | Self::DieOnLarge(_)
        )
    }

    /// Whether it can change the answer to such a request.
    fn is_eligible(self, request: &RequestTraits) -> bool {
        let RequestTraits {
            is_constrained,
            is_stream,
            calls,
            has_strict_call,
            forbids_calls,
            thinks,
            has_drafts,
        } = *request;
        match self {
            Self::IgnoreConstraint
            | Self::SwapMasks
            | Self::MaskOffByOne
            | Self::FailOpen(_)
            | Self::RestartGrammar => is_constrained,
            Self::BadRollback => is_constrained && has_drafts,
            Self::MergeCalls | Self::DuplicateId => calls > 1,
            Self::DropStrict => has_strict_call,
            Self::LeakMarkup | Self::WrongTool | Self::CutArguments => calls > 0,
            Self::CallUnderNone => forbids_calls,
            Self::BufferArguments => calls > 0 && is_stream,
            Self::SuppressThinking => thinks && is_constrained,
            Self::ConstrainThinking
            | Self::ConstraintEarly
            | Self::ConstraintLate
            | Self::AnswerInReasoning => thinks && is_constrained && calls == 0,
            Self::LeakEndMarker | Self::EndlessThinking => thinks,
            _ => true,
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

fn parse_pause(ms: &str) -> Option<Duration> {
    let pause = Duration::try_from_secs_f64(ms.parse::<f64>().ok()? / 1e3).ok()?;
    (pause <= LONGEST_PAUSE).then_some(pause)
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
        self.request_faults(&self.drawn(seed, |kind| {
            !kind.is_on_cancel() && !kind.is_on_compile() && kind.is_eligible(request)
        }))
    }

    /// Draws the faults of a running request whose client went away.
    pub(super) fn draw_on_cancel(&self, seed: u64) -> RequestFaults {
        self.request_faults(&self.drawn(seed, FaultKind::is_on_cancel))
    }

    /// Draws the faults of the compile of a constraint with this fingerprint.
    pub(super) fn draw_on_compile(&self, fingerprint: &str) -> RequestFaults {
        let seed = Sha256::digest(fingerprint);
        let seed = u64::from_le_bytes(std::array::from_fn(|index| seed[index]));
        self.request_faults(&self.drawn(seed, FaultKind::is_on_compile))
    }

    fn request_faults(&self, drawn: &[usize]) -> RequestFaults {
        let exact = |index: &usize| {
            let fault = self.faults[*index];
            matches!(fault.share, FaultShare::Exact { .. }).then(|| PlannedFault {
                kind: fault.kind,
                missed: Arc::clone(&self.missed[*index]),
                is_injected: false,
            })
        };
        RequestFaults {
            planned: drawn.iter().filter_map(exact).collect(),
            drawn: drawn.iter().map(|index| self.faults[*index].kind).collect(),
            counted: Vec::new(),
            tally: Arc::clone(&self.tally),
        }
    }

    /// The places of the faults to inject, each drawn independently.
    fn drawn(&self, seed: u64, is_eligible: impl Fn(FaultKind) -> bool) -> Vec<usize> {
        let mut drawn = Vec::new();
        for (index, (fault, seen)) in self.faults.iter().zip(&self.seen).enumerate() {
            if !is_eligible(fault.kind) {
                continue;
            }
            self.tally.fault_eligible(fault.kind.name());
            let number = seen.fetch_add(1, Ordering::Relaxed);
            if fault.share.selects(unit(seed, index), number) || self.takes_missed(index) {
                drawn.push(index);
            }
        }
        drawn
    }

    /// Whether an earlier request ended without this fault. True once for each.
    fn takes_missed(&self, index: usize) -> bool {
        let less_one = |missed: u64| missed.checked_sub(1);
        self.missed[index]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one)
            .is_ok()
    }
}

/// A drawn fault of an exact number. Another request gets it if this one ends without it.
struct PlannedFault {
    kind: FaultKind,
    missed: Arc<AtomicU64>,
    is_injected: bool,
}

impl Drop for PlannedFault {
    fn drop(&mut self) {
        if !self.is_injected {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The faults drawn for one request. A fault is counted when it is injected, once per request. A
/// fault that is not injected, because of an earlier fault or for lack of something to change, is
/// not counted.
#[derive(Default)]
pub(super) struct RequestFaults {
    drawn: Vec<FaultKind>,
    planned: Vec<PlannedFault>,
    counted: Vec<&'static str>,
    tally: Arc<Tally>,
}

impl RequestFaults {
    /// Whether a fault was drawn. Does not count it.
    pub(super) fn has(&self, kind: FaultKind) -> bool {
        self.drawn.contains(&kind)
    }

    /// Whether no fault was drawn.
    pub(super) fn is_empty(&self) -> bool {
        self.drawn.is_empty()
    }

    /// Whether a fault was drawn and must be injected now. Counts it.
    pub(super) fn inject(&mut self, kind: FaultKind) -> bool {
        let is_drawn = self.has(kind);
        for planned in &mut self.planned {
            planned.is_injected |= planned.kind == kind;
        }
        if is_drawn && !self.counted.contains(&kind.name()) {
            self.counted.push(kind.name());
            self.tally.fault_injected(kind.name());
        }
        is_drawn
    }

    /// Takes out the faults that are injected in the batch.
    pub(super) fn take_batch_faults(&mut self) -> Self {
        let (in_batch, others) = self
            .drawn
            .iter()
            .partition::<Vec<FaultKind>, _>(|kind| kind.is_in_batch());
        self.drawn = others;
        let is_in_batch = |planned: &mut PlannedFault| planned.kind.is_in_batch();
        Self {
            drawn: in_batch,
            planned: self.planned.extract_if(.., is_in_batch).collect(),
            counted: Vec::new(),
            tally: Arc::clone(&self.tally),
        }
    }

    /// The number of tokens after which there is no mask, if any.
    pub(super) fn fail_open(&self) -> Option<u32> {
        self.drawn.iter().find_map(|kind| match kind {
            FaultKind::FailOpen(tokens) => Some(*tokens),
            _ => None,
        })
    }

    /// The bytes that a compile leaks, if any. Does not count it.
    pub(super) fn leak_per_schema(&self) -> Option<u64> {
        self.drawn.iter().find_map(|kind| match kind {
            FaultKind::LeakPerSchema(bytes) => Some(*bytes),
            _ => None,
        })
    }

    /// The size of a constraint above which the server dies, if any. Does not count it.
    pub(super) fn die_on_large(&self) -> Option<u64> {
        self.drawn.iter().find_map(|kind| match kind {
            FaultKind::DieOnLarge(bytes) => Some(*bytes),
            _ => None,
        })
    }

    /// The additional time of a compile for each KiB of its constraint, if any.
    pub(super) fn slow_compile(&mut self) -> Option<Duration> {
        let time = self.drawn.iter().find_map(|kind| match kind {
            FaultKind::SlowCompile(time) => Some(*time),
            _ => None,
        })?;
        self.inject(FaultKind::SlowCompile(time)).then_some(time)
    }

    /// The pause before the status, if any.
    pub(super) fn slow_header(&mut self) -> Option<Duration> {
        let time = self.drawn.iter().find_map(|kind| {
            if let FaultKind::SlowHeader(time) = kind {
                Some(*time)
            } else {
                None
            }
        })?;
        self.inject(FaultKind::SlowHeader(time)).then_some(time)
    }

    /// The mid-answer pause, if any. Returned once.
    pub(super) fn stall(&mut self) -> Option<Duration> {
        let time = self.drawn.iter().find_map(|kind| {
            if let FaultKind::Stall(time) = kind {
                Some(*time)
            } else {
                None
            }
        })?;
        let first = !self.counted.contains(&FaultKind::Stall(time).name());
        (first && self.inject(FaultKind::Stall(time))).then_some(time)
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
        let stall = FaultKind::Stall(Duration::from_millis(250));
        for (text, kind, share, written) in [
            ("hang", FaultKind::Hang, 1.0, "hang"),
            (
                "error-500@0.25",
                FaultKind::Error500,
                0.25,
                "error-500@0.25",
            ),
            (
                "ignore-constraint@10%",
                FaultKind::IgnoreConstraint,
                0.1,
                "ignore-constraint@0.1",
            ),
            ("stall:250", stall, 1.0, "stall:250"),
            ("stall:250@100%", stall, 1.0, "stall:250"),
        ] {
            let fault = Fault::parse(text).unwrap();
            let share = FaultShare::Random(share);
            assert_eq!(
                (fault, fault.to_string().as_str()),
                (Fault { kind, share }, written)
            );
        }
        let exact = Fault::parse("merge-calls@20of2000").unwrap();
        let share = FaultShare::Exact {
            planted: 20,
            eligible: 2000,
        };
        assert_eq!((exact.kind, exact.share), (FaultKind::MergeCalls, share));
        assert_eq!(exact.to_string(), "merge-calls@20of2000");
        for (name, form) in KINDS {
            let text = match form {
                Form::Plain(_) => name.to_owned(),
                Form::Pause(_) | Form::Tokens(_) | Form::Bytes(_) => format!("{name}:7"),
            };
            let fault = Fault::parse(&text).unwrap();
            assert_eq!((fault.kind.name(), fault.to_string()), (name, text));
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
        planting.draw(seed, &RequestTraits::default()).drawn
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
            planting.draw(0, &two_calls).drawn,
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
            planting.draw(0, &thinks).drawn,
            [
                FaultKind::BufferArguments,
                FaultKind::SuppressThinking,
                FaultKind::NoDone
            ]
        );
    }

    #[test]
    fn faults_of_cancellation_are_drawn_when_a_client_goes_away() {
        let planting = planting(&["leak-slot-on-cancel@1of2", "swap-masks", "bad-rollback"]);
        let constrained = RequestTraits {
            is_constrained: true,
            ..RequestTraits::default()
        };
        let mut faults = planting.draw(0, &constrained);
        assert_eq!(faults.drawn, [FaultKind::SwapMasks], "no drafts to reject");
        assert!(faults.take_batch_faults().has(FaultKind::SwapMasks));
        assert!(faults.drawn.is_empty());
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
            faults.die_on_large() == Some(100)
        };
        let count = (0..1000).filter(|number| dies(*number)).count();
        assert!((400..600).contains(&count), "{count}");
        let mut faults = planting.draw_on_compile("a");
        assert_eq!(faults.slow_compile(), Some(Duration::from_millis(1)));
        assert_eq!(faults.leak_per_schema(), None);
    }
}
