//! What client libraries read of the answers of a run.

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::verdict::Verdict;
use sobench_facts::Sample;
use sobench_judge::accuracy::Grade;
use sobench_statistics::Rate;

/// Streamed, judged answers as each client reads them.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ClientTable {
    /// All streamed answers that are judged, except unknown ones.
    pub answers: usize,
    /// The share of them that sobench judges valid, which joins calls by their index.
    pub valid_percent: f64,
    /// Those that not all clients read alike.
    pub differing: usize,
    /// Answers whose frames were too long to keep.
    pub unknown: usize,
    pub clients: Vec<ClientCounts>,
}

/// What one client reads.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ClientCounts {
    pub client: String,
    /// Shares of `answers` in percent: it raises no error; what it reads follows the constraint; it
    /// equals the reference (`null` without references).
    pub readable_percent: f64,
    pub valid_percent: f64,
    pub right_percent: Option<f64>,
    /// The first request that it reads otherwise than sobench judges it; `null` without one.
    pub example: Option<String>,
}

impl ClientTable {
    /// `None` if all clients read all answers alike, or if that is unknown.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        let judged = samples.iter().filter(|sample| {
            sample.came_as_stream() && !matches!(sample.verdict(), Verdict::NotScored { .. })
        });
        let is_unknown = |sample: &&Sample<'_>| {
            let clients = sample.clients();
            clients.is_some_and(|reads| reads.0.is_empty())
        };
        let (unknown, known): (Vec<&Sample<'_>>, Vec<&Sample<'_>>) = judged.partition(is_unknown);
        let differing = known.iter().filter_map(|sample| sample.clients());
        let (first, differing) = (differing.clone().next()?, differing.count());
        let answers = known.len();
        let percent = |count: usize| Rate::new(count, answers).map_or(0.0, |rate| rate.percent);
        let valid = known
            .iter()
            .filter(|sample| *sample.verdict() == Verdict::Valid);
        let valid_percent = percent(valid.count());
        let counts = |client: &String| {
            let (mut readable, mut valid, mut right, mut graded) = (0, 0, 0, 0);
            let mut example = None;
            for sample in &known {
                let is_valid = *sample.verdict() == Verdict::Valid;
                let is_right = sample.grade().map(|grade| grade == Grade::Right);
                let read = sample.clients().and_then(|reads| reads.0.get(client));
                let (reads, follows, equals) = read.map_or((true, is_valid, is_right), |read| {
                    (read.readable, read.valid, read.right)
                });
                readable += usize::from(reads);
                valid += usize::from(follows);
                right += usize::from(equals == Some(true));
                graded += usize::from(is_right.is_some());
                if !reads || follows != is_valid {
                    example.get_or_insert_with(|| sample.id());
                }
            }
            ClientCounts {
                client: client.clone(),
                readable_percent: percent(readable),
                valid_percent: percent(valid),
                right_percent: (graded > 0).then(|| percent(right)),
                example,
            }
        };
        Some(Self {
            answers,
            valid_percent,
            differing,
            unknown: unknown.len(),
            clients: first.0.keys().map(counts).collect(),
        })
    }
}
