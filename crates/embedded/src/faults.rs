//! Faults that the embedded server injects into its answers, to test clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::stats::Tally;
use sobench_core::error::{Error, Result};

/// The longest injected pause: ten minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A fault and the share of requests into which it is injected.
///
/// Written as `KIND[:MS][@SHARE]`: `error-500`, `stall:250`, `ignore-constraint@0.1`. `MS` is the
/// length of a pause in milliseconds, required by the kinds with a pause. `SHARE` is a number above
/// 0 and up to 1, or a percentage. The default is 1. The request's seed decides whether the fault
/// is injected, so that repeated runs have the same faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Above 0, up to 1.
    pub share: f64,
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
}

/// A name, whether a pause follows it, and the kind with that pause.
type KindEntry = (&'static str, bool, fn(Duration) -> FaultKind);

/// All kinds.
const KINDS: [KindEntry; 17] = [
    ("ignore-constraint", false, |_| FaultKind::IgnoreConstraint),
    ("error-400", false, |_| FaultKind::Error400),
    ("error-429", false, |_| FaultKind::Error429),
    ("error-500", false, |_| FaultKind::Error500),
    ("error-503", false, |_| FaultKind::Error503),
    ("hang", false, |_| FaultKind::Hang),
    ("slow-header", true, FaultKind::SlowHeader),
    ("stall", true, FaultKind::Stall),
    ("reset", false, |_| FaultKind::Reset),
    ("truncate", false, |_| FaultKind::Truncate),
    ("error-mid-stream", false, |_| FaultKind::ErrorMidStream),
    ("no-done", false, |_| FaultKind::NoDone),
    ("no-usage", false, |_| FaultKind::NoUsage),
    ("wrong-model", false, |_| FaultKind::WrongModel),
    ("invalid-utf8", false, |_| FaultKind::InvalidUtf8),
    ("extra-text", false, |_| FaultKind::ExtraText),
    ("empty", false, |_| FaultKind::Empty),
];

impl Fault {
    /// Parses `KIND[:MS][@SHARE]`.
    ///
    /// # Errors
    /// Usage error for an unknown fault, with a list of all faults, and for invalid numbers.
    pub fn parse(text: &str) -> Result<Self> {
        let (rest, share) = text.split_once('@').unwrap_or((text, "1"));
        let share = parse_share(share).ok_or_else(|| {
            Error::usage(format!(
                "fault share must be a number above 0 and up to 1: {text}"
            ))
            .hint("use KIND@0.1 or KIND@10% for a tenth of the requests")
        })?;
        let (name, pause) = rest
            .split_once(':')
            .map_or((rest, None), |(name, pause)| (name, Some(pause)));
        let (_, pauses, kind) = KINDS
            .into_iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| {
                Error::usage(format!("unknown fault: {name}")).hint(format!(
                    "use KIND[:MS][@SHARE] with one of {}",
                    Self::kinds().collect::<Vec<_>>().join(", ")
                ))
            })?;
        let pause = match (pauses, pause) {
            (true, Some(ms)) => parse_pause(ms).ok_or_else(|| {
                Error::usage(format!(
                    "fault pause must be from 0 to 600000 milliseconds: {text}"
                ))
                .hint(format!("use {name}:250 for a pause of 250 ms"))
            })?,
            (true, None) => {
                return Err(
                    Error::usage(format!("fault needs a pause in milliseconds: {text}"))
                        .hint(format!("use {name}:250 for a pause of 250 ms")),
                );
            }
            (false, Some(value)) => {
                return Err(
                    Error::usage(format!("fault has no pause: {text}")).hint(format!(
                        "use {name}@{value} if {value} is a share of the requests"
                    )),
                );
            }
            (false, None) => Duration::ZERO,
        };
        Ok(Self {
            kind: kind(pause),
            share,
        })
    }

    /// The syntax of every fault.
    pub fn kinds() -> impl Iterator<Item = String> {
        KINDS.into_iter().map(|(name, pauses, _)| {
            if pauses {
                format!("{name}:MS")
            } else {
                name.to_owned()
            }
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if let FaultKind::SlowHeader(pause) | FaultKind::Stall(pause) = self.kind {
            write!(f, ":{}", pause.as_secs_f64() * 1e3)?;
        }
        if self.share < 1.0 {
            write!(f, "@{}", self.share)
        } else {
            Ok(())
        }
    }
}

impl FaultKind {
    /// The name without pause and share.
    pub fn name(self) -> &'static str {
        let named = KINDS.into_iter().find(|(_, _, kind)| match self {
            Self::SlowHeader(pause) | Self::Stall(pause) => kind(pause) == self,
            _ => kind(Duration::ZERO) == self,
        });
        named.map_or("", |(name, ..)| name)
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

/// The faults to inject into the request with this seed, each drawn independently.
fn drawn(faults: &[Fault], seed: u64) -> Vec<FaultKind> {
    let draw =
        |(index, fault): (usize, &Fault)| (unit(seed, index) < fault.share).then_some(fault.kind);
    faults.iter().enumerate().filter_map(draw).collect()
}

/// The faults drawn for one request. A fault is counted when it is injected, once per request. A
/// fault that is not injected, because of an earlier fault or for lack of something to change, is
/// not counted.
pub(super) struct RequestFaults {
    drawn: Vec<FaultKind>,
    counted: Vec<&'static str>,
    tally: Arc<Tally>,
}

impl RequestFaults {
    /// Draws the faults for the request with this seed.
    pub(super) fn new(faults: &[Fault], seed: u64, tally: Arc<Tally>) -> Self {
        Self {
            drawn: drawn(faults, seed),
            counted: Vec::new(),
            tally,
        }
    }

    /// Whether a fault was drawn. Does not count it.
    pub(super) fn has(&self, kind: FaultKind) -> bool {
        self.drawn.contains(&kind)
    }

    /// Whether a fault was drawn and must be injected now. Counts it.
    pub(super) fn inject(&mut self, kind: FaultKind) -> bool {
        let is_drawn = self.has(kind);
        if is_drawn && !self.counted.contains(&kind.name()) {
            self.counted.push(kind.name());
            self.tally.fault_injected(kind.name());
        }
        is_drawn
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
            assert_eq!(
                (fault, fault.to_string().as_str()),
                (Fault { kind, share }, written)
            );
        }
        for (name, pauses, _) in KINDS {
            let fault = Fault::parse(&if pauses {
                format!("{name}:7")
            } else {
                name.to_owned()
            })
            .unwrap();
            assert_eq!(fault.kind.name(), name);
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
            ("error-500:0.1", "has no pause"),
            ("stall", "needs a pause in milliseconds"),
            ("stall:-1", "must be from 0 to"),
            ("stall:600001", "must be from 0 to"),
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

    #[test]
    fn a_share_selects_that_share_of_requests_reproducibly() {
        let faults = [
            Fault::parse("hang@0.3").unwrap(),
            Fault::parse("reset@0.3").unwrap(),
            Fault {
                kind: FaultKind::Empty,
                share: 0.0,
            },
        ];
        let count = |kind| {
            (0..4000_u64)
                .filter(|seed| drawn(&faults, *seed).contains(&kind))
                .count()
        };
        for kind in [FaultKind::Hang, FaultKind::Reset] {
            assert!(
                (1100..1300).contains(&count(kind)),
                "{kind:?} {}",
                count(kind)
            );
        }
        assert_eq!(count(FaultKind::Empty), 0);
        let both = (0..4000_u64)
            .filter(|seed| drawn(&faults, *seed).len() == 2)
            .count();
        assert!(
            (280..440).contains(&both),
            "faults are drawn independently: {both}"
        );
        assert_eq!(drawn(&faults, 7), drawn(&faults, 7));
    }
}
