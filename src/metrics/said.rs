//! What servers said beside their answers that the reader of the figures has to hear of. Knows no rendering.

use super::Sample;
use crate::observation::{Advice, Outcome};

/// The status of a server that has too much to do, or a limit on how fast it may be asked (RFC 6585, section 4).
const TOO_MANY_REQUESTS: u16 = 429;

/// How often, and the most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Requests that were refused with 429.
    pub throttled: usize,
    /// Those of them that named a pause (`Retry-After`).
    pub pauses_named: usize,
    /// The longest pause that was named in seconds; `None` where none was, or only dates.
    pub longest_pause_s: Option<u64>,
    /// Answers with token counts that cannot be right, which are in no figure.
    pub senseless_usage: usize,
}

impl Said {
    /// Looks through all requests.
    pub fn of(samples: &[Sample<'_>]) -> Self {
        let mut said = Self::default();
        for sample in samples {
            said.senseless_usage += usize::from(sample.outcome().is_answer() && !sample.usage_makes_sense());
            let Outcome::Rejected { status: TOO_MANY_REQUESTS, advice, .. } = sample.outcome() else { continue };
            said.throttled += 1;
            if let Some(Advice::RetryAfter(value)) = advice {
                said.pauses_named += 1;
                said.longest_pause_s = said.longest_pause_s.max(value.trim().parse().ok());
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};

    #[test]
    fn pauses_are_counted_and_the_longest_kept() {
        let refused = |status, value: Option<&str>| {
            let advice = value.map(|value| Advice::RetryAfter(value.to_owned()));
            Made { outcome: Outcome::Rejected { status, body: String::new(), advice }, chunks: vec![], ..made() }
        };
        let run = [refused(429, Some("7")), refused(429, Some("Fri, 31 Dec 1999 23:59:59 GMT")), refused(429, None), made()];
        let said = with_samples(&run, Said::of);
        assert_eq!(said, Said { throttled: 3, pauses_named: 2, longest_pause_s: Some(7), senseless_usage: 0 });
        let other = with_samples(&[refused(503, Some("9")), refused(400, Some("9"))], Said::of);
        assert_eq!(other, Said::default());
        assert_eq!(with_samples(&[refused(429, Some("-1"))], Said::of).longest_pause_s, None);
    }
}
