//! Counts of throttling (429, Retry-After), implausible token counts and local connection failures.

use sobench_core::case::Prompt;
use sobench_core::observation::{Advice, Outcome, TOO_MANY_REQUESTS, TransportCause};
use sobench_facts::{Sample, TokenSource};

/// Counts of problems that the reader of the figures should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunIssues {
    /// Requests rejected with status 429.
    pub throttled: usize,
    /// Rejected requests with a `Retry-After` header.
    pub pauses_named: usize,
    /// The longest `Retry-After` in seconds; `None` if there is none, or only dates.
    pub longest_pause_s: Option<u64>,
    /// Answers with implausible token counts, which are ignored.
    pub implausible_usage: usize,
    /// Answers with more tokens than the limit of their request.
    pub over_limit: usize,
    /// The longest of them: its tokens, and its limit.
    pub longest_over_limit: Option<(u64, u32)>,
    /// Requests that were not sent, because this machine had no connection for them.
    pub no_connection: usize,
    /// The error message of the first of them.
    pub local_error: Option<String>,
    /// Requests that count ([`Outcome::has_result`]).
    pub with_result: usize,
    /// Those without a connection to the server.
    pub unreachable: usize,
}

impl RunIssues {
    /// Counts the problems of all requests.
    pub fn new(samples: &[Sample<'_>]) -> Self {
        let mut issues = Self::default();
        for sample in samples {
            issues.with_result += usize::from(sample.outcome().has_result());
            issues.unreachable += usize::from(sample.outcome().is_unreachable());
            issues.implausible_usage +=
                usize::from(sample.outcome().is_answer() && sample.has_ignored_count());
            if let Some(excess) = excess(sample) {
                issues.over_limit += 1;
                issues.longest_over_limit = issues.longest_over_limit.max(Some(excess));
            }
            if let Outcome::Transport {
                cause: TransportCause::Local,
                message,
            } = sample.outcome()
            {
                issues.no_connection += 1;
                issues.local_error.get_or_insert_with(|| message.clone());
            }
            let Outcome::Rejected {
                status: TOO_MANY_REQUESTS,
                advice,
                ..
            } = sample.outcome()
            else {
                continue;
            };
            issues.throttled += 1;
            if let Some(Advice::RetryAfter(value)) = advice {
                issues.pauses_named += 1;
                issues.longest_pause_s = issues.longest_pause_s.max(value.trim().parse().ok());
            }
        }
        issues
    }

    /// Whether at least half of the requests found no server.
    pub fn is_mostly_unreachable(&self) -> bool {
        self.unreachable > 0 && 2 * self.unreachable >= self.with_result
    }
}

/// The tokens of an answer and its limit, if they are more: by the server's count, or because of
/// the number of its chunks. Some servers send a token in two chunks.
fn excess(sample: &Sample<'_>) -> Option<(u64, u32)> {
    let input = sample.request_input();
    let chunks = sample.request_times().chunks / 2;
    let counted = sample.tokens();
    let stated = counted
        .output
        .filter(|_| counted.output_source == TokenSource::Server);
    let tokens = stated.max(Some(chunks))?;
    let has_limit = sample.outcome().is_answer() && !matches!(input.prompt, Prompt::Audio(_));
    (has_limit && tokens > u64::from(input.output_len)).then_some((tokens, input.output_len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::{Observation, Usage};
    use sobench_facts::RequestTable;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_facts::{Judged, TokenSource, Tokens};

    #[test]
    fn local_failures_are_counted_and_the_first_is_named() {
        let failure = |cause, message: &str| TestRequest {
            outcome: Outcome::Transport {
                cause,
                message: message.to_owned(),
            },
            chunks: vec![],
            ..test_request()
        };
        let local = TransportCause::Local;
        let run = [
            test_request(),
            failure(local, "files"),
            failure(TransportCause::Connect, "refused"),
            failure(local, "ports"),
        ];
        let expected = RunIssues {
            no_connection: 2,
            local_error: Some("files".to_owned()),
            with_result: 2,
            unreachable: 1,
            ..RunIssues::default()
        };
        let found = with_samples(&run, RunIssues::new);
        assert_eq!(found, expected);
        assert!(
            found.is_mostly_unreachable(),
            "1 of 2 that reached the network"
        );
        let found = with_samples(&run[..2], RunIssues::new);
        assert!(
            !found.is_mostly_unreachable(),
            "local failures do not count"
        );
        let with_more = [&run[..], &[test_request()]].concat();
        assert!(!with_samples(&with_more, RunIssues::new).is_mostly_unreachable());
    }

    /// Checks the number of implausible answers for an answer with three chunks and this usage,
    /// whose counts come from these sources.
    #[track_caller]
    fn check_ignored(usage: Usage, sources: [TokenSource; 2], expected: usize) {
        let (case, observation, verdict) = test_request().parts(0);
        let observation = Observation {
            usage: Some(usage),
            ..observation
        };
        let mut table = RequestTable::default();
        assert!(table.push(&case, &observation, 0));
        let [input_source, output_source] = sources;
        let tokens = Tokens {
            input: Some(7),
            input_source,
            output: Some(3),
            output_source,
        };
        table.judge(
            0,
            Judged {
                tokens,
                ..Judged::from_verdict(verdict)
            },
        );
        assert_eq!(
            RunIssues::new(&table.samples()).implausible_usage,
            expected,
            "{usage:?} {sources:?}"
        );
    }

    #[test]
    fn implausible_counts_are_reported_only_if_ignored() {
        use TokenSource::{Server, Tokenizer, Unknown};
        let usage = |prompt, completion| Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            reasoning_tokens: None,
            cached_tokens: None,
            unreadable: false,
        };
        let too_few = usage(Some(7), Some(2));
        check_ignored(too_few, [Server, Tokenizer], 1);
        // Judged by an older version, which used the count.
        check_ignored(too_few, [Server, Server], 0);
        check_ignored(usage(None, Some(2)), [Tokenizer, Server], 0);
        check_ignored(usage(None, Some(2)), [Unknown, Tokenizer], 1);
        check_ignored(usage(Some(u64::MAX), Some(3)), [Unknown, Server], 1);
        check_ignored(usage(Some(7), Some(3)), [Server, Server], 0);
        check_ignored(
            Usage {
                cached_tokens: None,
                unreadable: true,
                ..usage(Some(7), None)
            },
            [Server, Tokenizer],
            1,
        );
    }

    #[test]
    fn answers_over_their_limit_are_counted() {
        // The limit is 16.
        let answer = |output: Option<u64>, chunks: u64| TestRequest {
            output,
            chunks: (1..=chunks).collect(),
            end: Some(chunks + 1),
            ..test_request()
        };
        let run = [
            answer(Some(16), 16),
            answer(Some(17), 17),
            answer(Some(40), 4),
            // Up to two chunks for each token.
            answer(None, 32),
            answer(None, 34),
        ];
        let issues = with_samples(&run, RunIssues::new);
        assert_eq!(
            (issues.over_limit, issues.longest_over_limit),
            (3, Some((40, 16)))
        );
    }

    #[test]
    fn retry_after_is_counted_and_the_longest_kept() {
        let rejected = |status, value: Option<&str>| {
            let advice = value.map(|value| Advice::RetryAfter(value.to_owned()));
            TestRequest {
                outcome: Outcome::Rejected {
                    status,
                    body: String::new(),
                    advice,
                },
                chunks: vec![],
                ..test_request()
            }
        };
        let run = [
            rejected(429, Some("7")),
            rejected(429, Some("Fri, 31 Dec 1999 23:59:59 GMT")),
            rejected(429, None),
            test_request(),
        ];
        let issues = with_samples(&run, RunIssues::new);
        assert_eq!(
            issues,
            RunIssues {
                throttled: 3,
                pauses_named: 2,
                longest_pause_s: Some(7),
                with_result: 4,
                ..RunIssues::default()
            }
        );
        let other = with_samples(
            &[rejected(503, Some("9")), rejected(400, Some("9"))],
            RunIssues::new,
        );
        assert_eq!(
            other,
            RunIssues {
                with_result: 2,
                ..RunIssues::default()
            }
        );
        assert_eq!(
            with_samples(&[rejected(429, Some("-1"))], RunIssues::new).longest_pause_s,
            None
        );
    }
}
