//! Faults that are planted into the embedded server's answers, so that clients can be tried on
//! them. Knows neither HTTP nor JSON.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::stats::Tally;
use sobench_core::error::{Error, Result};

/// Longest pause that a fault may make: ten minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A fault and the share of requests that it strikes.
///
/// Written `KIND[:MS][@SHARE]`: `error-500`, `stall:250`, `ignore-constraint@0.1`. `MS` are the
/// milliseconds of a pause and belong to the kinds that pause, where they must be given; `SHARE` is
/// a number above 0 and up to 1, or a percentage, and 1 if there is none. Which requests are struck
/// follows from their seed, so that the same run has the same faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Above 0, up to 1.
    pub share: f64,
}

/// What goes wrong. Faults in mid-answer strike with the fifth text of a stream, or with its last
/// one where it has fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The constraint is read and dropped: an unconstrained answer with status 200.
    IgnoreConstraint,
    /// Status 400 with vLLM's error body.
    Error400,
    /// Status 429 with `Retry-After: 1`.
    Error429,
    /// Status 500 with vLLM's error body.
    Error500,
    /// Status 503 with a body that is plain text.
    Error503,
    /// No answer at all, for as long as the client waits.
    Hang,
    /// A pause before the status is sent.
    SlowHeader(Duration),
    /// A pause in mid-answer.
    Stall(Duration),
    /// The connection is reset in mid-answer.
    Reset,
    /// The answer ends in the middle, without a finish reason and without `[DONE]`.
    Truncate,
    /// An error event inside a 200 stream, in mid-answer; status 500 where no stream was asked for.
    ErrorMidStream,
    /// The stream ends without `[DONE]`.
    NoDone,
    /// The usage that was asked for does not come; a whole answer has none.
    NoUsage,
    /// The answer names a model that was not asked for.
    WrongModel,
    /// A byte that is not UTF-8 inside the answer's text.
    InvalidUtf8,
    /// The text comes inside a Markdown code fence.
    ExtraText,
    /// The answer is empty: one end token.
    Empty,
}

/// A name, whether it is followed by a pause, and the kind with that pause.
type Named = (&'static str, bool, fn(Duration) -> FaultKind);

/// Every kind.
const KINDS: [Named; 17] = [
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
    /// Reads `KIND[:MS][@SHARE]`.
    ///
    /// # Errors
    /// A usage error for a fault that nobody knows, which lists them all, and for numbers that are
    /// none.
    pub fn parse(text: &str) -> Result<Self> {
        let (rest, share) = text.split_once('@').unwrap_or((text, "1"));
        let share = parse_share(share).ok_or_else(|| {
            Error::usage(format!(
                "fault's share is not a number above 0 and up to 1: {text}"
            ))
            .hint("write KIND@0.1 or KIND@10% for a tenth of the requests")
        })?;
        let (name, pause) = rest
            .split_once(':')
            .map_or((rest, None), |(name, pause)| (name, Some(pause)));
        let (_, pauses, kind) = KINDS
            .into_iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| {
                Error::usage(format!("unknown fault: {name}")).hint(format!(
                    "write KIND[:MS][@SHARE] with one of {}",
                    Self::kinds().collect::<Vec<_>>().join(", ")
                ))
            })?;
        let pause = match (pauses, pause) {
            (true, Some(ms)) => parse_pause(ms).ok_or_else(|| {
                Error::usage(format!(
                    "fault's pause is not milliseconds from 0 to 600000: {text}"
                ))
                .hint(format!("write {name}:250 for a quarter of a second"))
            })?,
            (true, None) => {
                return Err(Error::usage(format!("fault needs milliseconds: {text}"))
                    .hint(format!("write {name}:250")));
            }
            (false, Some(value)) => {
                return Err(
                    Error::usage(format!("fault takes no value: {text}")).hint(format!(
                        "write {name}@{value} if {value} is the share of requests it is to strike"
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

    /// How faults are written, every one of them.
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
    // A fault that strikes nobody is a slip of the pen.
    (share > 0.0 && share <= 1.0).then_some(share)
}

fn parse_pause(ms: &str) -> Option<Duration> {
    let pause = Duration::try_from_secs_f64(ms.parse::<f64>().ok()? / 1e3).ok()?;
    (pause <= LONGEST_PAUSE).then_some(pause)
}

/// Those of `faults` that strike the request of this seed. Each draws on its own.
fn struck(faults: &[Fault], seed: u64) -> Vec<FaultKind> {
    let strikes =
        |(index, fault): (usize, &Fault)| (unit(seed, index) < fault.share).then_some(fault.kind);
    faults.iter().enumerate().filter_map(strikes).collect()
}

/// The faults that one request has drawn. A fault counts as one that has struck when it does, once
/// a request: one that the client never meets, because another came before it or there was nothing
/// for it to spoil, is not counted.
pub(super) struct Planted {
    struck: Vec<FaultKind>,
    counted: Vec<&'static str>,
    tally: Arc<Tally>,
}

impl Planted {
    /// Draws those of `faults` that strike the request of this seed.
    pub(super) fn new(faults: &[Fault], seed: u64, tally: Arc<Tally>) -> Self {
        Self {
            struck: struck(faults, seed),
            counted: Vec::new(),
            tally,
        }
    }

    /// Whether a fault was drawn; it is not counted yet.
    pub(super) fn has(&self, kind: FaultKind) -> bool {
        self.struck.contains(&kind)
    }

    /// Whether a fault was drawn that strikes here and now.
    pub(super) fn strikes(&mut self, kind: FaultKind) -> bool {
        let strikes = self.has(kind);
        if strikes && !self.counted.contains(&kind.name()) {
            self.counted.push(kind.name());
            self.tally.struck(kind.name());
        }
        strikes
    }

    /// The pause before the status, if one is to be made now.
    pub(super) fn slow_header(&mut self) -> Option<Duration> {
        let time = self.struck.iter().find_map(|kind| {
            if let FaultKind::SlowHeader(time) = kind {
                Some(*time)
            } else {
                None
            }
        })?;
        self.strikes(FaultKind::SlowHeader(time)).then_some(time)
    }

    /// The pause in mid-answer, if one is to be made now; there is one at most.
    pub(super) fn stall(&mut self) -> Option<Duration> {
        let time = self.struck.iter().find_map(|kind| {
            if let FaultKind::Stall(time) = kind {
                Some(*time)
            } else {
                None
            }
        })?;
        let first = !self.counted.contains(&FaultKind::Stall(time).name());
        (first && self.strikes(FaultKind::Stall(time))).then_some(time)
    }
}

/// Uniform in `[0, 1)`, of a request and a fault.
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
    fn faults_are_read_and_written() {
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
    fn wrong_faults_are_refused_with_a_hint() {
        for (text, words) in [
            ("hangs", "unknown fault: hangs"),
            ("", "unknown fault"),
            ("hang@2", "not a number"),
            ("hang@0", "not a number"),
            ("hang@", "not a number"),
            ("hang@NaN", "not a number"),
            ("error-500:0.1", "takes no value"),
            ("stall", "needs milliseconds"),
            ("stall:-1", "not milliseconds"),
            ("stall:600001", "not milliseconds"),
        ] {
            let error = Fault::parse(text).unwrap_err();
            assert!(
                error.what.contains(words) && error.hint.is_some(),
                "{text}: {error}"
            );
        }
        let hint = Fault::parse("x").unwrap_err().hint.unwrap();
        assert!(Fault::kinds().all(|kind| hint.contains(&kind)), "{hint}");
    }

    #[test]
    fn a_share_strikes_that_share_and_the_same_requests_again() {
        let faults = [
            Fault::parse("hang@0.3").unwrap(),
            Fault::parse("reset@0.3").unwrap(),
            Fault {
                kind: FaultKind::Empty,
                share: 0.0,
            },
        ];
        let struck = |kind| {
            (0..4000_u64)
                .filter(|seed| super::struck(&faults, *seed).contains(&kind))
                .count()
        };
        for kind in [FaultKind::Hang, FaultKind::Reset] {
            assert!(
                (1100..1300).contains(&struck(kind)),
                "{kind:?} {}",
                struck(kind)
            );
        }
        assert_eq!(struck(FaultKind::Empty), 0);
        let both = (0..4000_u64)
            .filter(|seed| super::struck(&faults, *seed).len() == 2)
            .count();
        assert!(
            (280..440).contains(&both),
            "they strike independently: {both}"
        );
        assert_eq!(super::struck(&faults, 7), super::struck(&faults, 7));
    }
}
