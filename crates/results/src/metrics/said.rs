//! What servers said beside their answers, and what this machine lacked, that the reader of the
//! figures has to hear of. Knows no rendering.

use super::Sample;
use sobench_core::observation::{Advice, Outcome, TOO_MANY_REQUESTS, TransportCause};

/// How often, and the most of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Requests that were refused with 429.
    pub throttled: usize,
    /// Those of them that named a pause (`Retry-After`).
    pub pauses_named: usize,
    /// The longest pause that was named in seconds; `None` where none was, or only dates.
    pub longest_pause_s: Option<u64>,
    /// Answers with token counts that cannot be right, which are in no figure.
    pub senseless_usage: usize,
    /// Requests that this machine had no connection for.
    pub not_sent: usize,
    /// What it lacked, for the first of them.
    pub lacking: Option<String>,
}

impl Said {
    /// Looks through all requests.
    pub fn of(samples: &[Sample<'_>]) -> Self {
        let mut said = Self::default();
        for sample in samples {
            said.senseless_usage +=
                usize::from(sample.outcome().is_answer() && sample.left_a_count_out());
            if let Outcome::Transport {
                cause: TransportCause::Local,
                message,
            } = sample.outcome()
            {
                said.not_sent += 1;
                said.lacking.get_or_insert_with(|| message.clone());
            }
            let Outcome::Rejected {
                status: TOO_MANY_REQUESTS,
                advice,
                ..
            } = sample.outcome()
            else {
                continue;
            };
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
    use crate::metrics::ledger::Ledger;
    use crate::metrics::testing::{Made, made, with_samples};
    use crate::metrics::{Judged, TokenSource, Tokens};
    use sobench_core::observation::{Observation, Usage};

    #[test]
    fn what_this_machine_lacked_is_counted_and_named_once() {
        let lacking = |cause, message: &str| Made {
            outcome: Outcome::Transport {
                cause,
                message: message.to_owned(),
            },
            chunks: vec![],
            ..made()
        };
        let local = TransportCause::Local;
        let run = [
            made(),
            lacking(local, "files"),
            lacking(TransportCause::Connect, "refused"),
            lacking(local, "ports"),
        ];
        let expected = Said {
            not_sent: 2,
            lacking: Some("files".to_owned()),
            ..Said::default()
        };
        assert_eq!(with_samples(&run, Said::of), expected);
    }

    /// How many answers a count was left out of, of an answer of three chunks with this usage, for
    /// which these counted.
    #[track_caller]
    fn check_left_out(usage: Usage, sources: [TokenSource; 2], expected: usize) {
        let (case, observation, verdict) = made().parts(0);
        let observation = Observation {
            usage: Some(usage),
            ..observation
        };
        let mut ledger = Ledger::default();
        assert!(ledger.push(&case, &observation, 0));
        let [input_source, output_source] = sources;
        let tokens = Tokens {
            input: Some(7),
            input_source,
            output: Some(3),
            output_source,
        };
        ledger.judge(
            0,
            Judged {
                verdict,
                tokens,
                vllm_correct: None,
                white_space_run: false,
                right_call: None,
            },
        );
        assert_eq!(
            Said::of(&ledger.samples()).senseless_usage,
            expected,
            "{usage:?} {sources:?}"
        );
    }

    #[test]
    fn a_count_that_is_in_the_figures_is_not_said_to_be_in_none() {
        use TokenSource::{Server, Tokenizer, Unknown};
        let usage = |prompt, completion| Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            unreadable: false,
        };
        let too_few = usage(Some(7), Some(2));
        check_left_out(too_few, [Server, Tokenizer], 1);
        // As it was judged before anybody looked: the figures have it.
        check_left_out(too_few, [Server, Server], 0);
        check_left_out(usage(None, Some(2)), [Tokenizer, Server], 0);
        check_left_out(usage(None, Some(2)), [Unknown, Tokenizer], 1);
        check_left_out(usage(Some(u64::MAX), Some(3)), [Unknown, Server], 1);
        check_left_out(usage(Some(7), Some(3)), [Server, Server], 0);
        check_left_out(
            Usage {
                unreadable: true,
                ..usage(Some(7), None)
            },
            [Server, Tokenizer],
            1,
        );
    }

    #[test]
    fn pauses_are_counted_and_the_longest_kept() {
        let refused = |status, value: Option<&str>| {
            let advice = value.map(|value| Advice::RetryAfter(value.to_owned()));
            Made {
                outcome: Outcome::Rejected {
                    status,
                    body: String::new(),
                    advice,
                },
                chunks: vec![],
                ..made()
            }
        };
        let run = [
            refused(429, Some("7")),
            refused(429, Some("Fri, 31 Dec 1999 23:59:59 GMT")),
            refused(429, None),
            made(),
        ];
        let said = with_samples(&run, Said::of);
        assert_eq!(
            said,
            Said {
                throttled: 3,
                pauses_named: 2,
                longest_pause_s: Some(7),
                ..Said::default()
            }
        );
        let other = with_samples(
            &[refused(503, Some("9")), refused(400, Some("9"))],
            Said::of,
        );
        assert_eq!(other, Said::default());
        assert_eq!(
            with_samples(&[refused(429, Some("-1"))], Said::of).longest_pause_s,
            None
        );
    }
}
