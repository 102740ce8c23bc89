//! The requests of a run in columns, some hundred bytes each, so that two runs of a million requests
//! fit into memory. Texts of answers stay in the file. A column that a file does not have is empty.

use super::pair_facts::PairFacts;
use crate::metrics::registry::{Figure, Metric, RequestValues, ValueColumns};
use sobench_core::case::Arm;
use sobench_facts::columns::{Bits, Column, Dense, Maybe, Texts, columns};
use sobench_facts::compact_ids::{CompactId, Ids};

/// Maximum number of gaps of a run that are kept; of longer runs, only the number and the sum of each
/// request's gaps are kept. The bootstrap could not resample more of them either
/// ([`super::measure::MAX_STEPS`]).
pub const MAX_GAPS_KEPT: usize = 5_000_000;

columns! {
    /// One request, as far as its file describes it. Unknown values are `None`.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Request in RequestView.request: RequestColumns {
        /// The id of the case; unique within a dataset.
        case: Option<String> => Ids,
        /// The arm of the request.
        arm: Option<Arm> => Bits<Option<Arm>>,
        /// Whether there is an answer, complete or truncated.
        answered: bool => Bits<bool>,
        /// Whether the server had compiled its constraint before: neither a first use nor one that
        /// waited for it. Known from run logs.
        later_use: bool => Bits<bool>,
        /// Values for rates and distributions, including metrics in which the request does not count
        /// ([`Requests::in_rate`], [`Requests::in_distribution`]).
        values: RequestValues => ValueColumns,
        /// The number and the sum of the gaps between its chunks, in milliseconds.
        gaps: Gaps => GapColumns,
        /// When it was sent, in seconds from the start of the run.
        sent_s: Option<f64> => Dense<Option<f64>, f64>,
        /// Input tokens.
        input_tokens: Option<u64> => Dense<Option<u64>, u64>,
        /// Output tokens.
        output_tokens: Option<u64> => Dense<Option<u64>, u64>,
        /// The verdict or the failure as text; `None` if the file has no answers.
        verdict: Option<String> => Texts,
        /// Requests in flight when it was sent, itself included; from a run log.
        in_flight: Option<u64> => Dense<Option<u64>, u32>,
        /// Equal for copies: the same request with the same answer. From a run log.
        copy: Option<u64> => Dense<Option<u64>, u64>,
        /// What pairs are grouped by; `None` if it does not count in the correct rate, and in other
        /// files than run logs.
        pair_facts: Option<PairFacts> => Maybe<PairFacts>,
        /// The offset of its line in a run log; `None` for other files.
        offset: Option<u64> => Dense<Option<u64>, u64>,
    }
}

/// The requests of a run in file order.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    rows: u32,
    request: RequestColumns,
}

/// A view of one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    table: &'a Requests,
    row: u32,
}

/// The gaps between a request's chunks, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Gaps {
    Each(Vec<f64>),
    /// Only the number and sum of gaps, which is enough for a mean.
    Sum {
        n: u64,
        total_ms: f64,
    },
}

/// The number and the sum of each request's gaps, and the single gaps of all.
#[derive(Clone, Debug, Default)]
pub struct GapColumns {
    count: Dense<u64, u32>,
    total_ms: Dense<f64>,
    /// In [`Requests::finish`], those of requests with an answer, ascending.
    each: Vec<OwnedValue>,
    kept: GapsKept,
}

/// Whether single gaps are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GapsKept {
    #[default]
    All,
    /// The file has the number and the sum of each request's gaps.
    OnlySums,
    /// There are more than [`MAX_GAPS_KEPT`].
    TooMany,
}

/// A gap and the index of its request. Means are computed from the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OwnedValue {
    pub(super) value: f32,
    pub(super) owner: u32,
}

impl OwnedValue {
    /// The gap in milliseconds: to the nanosecond below 16 ms, with 24 bits of precision above.
    pub(super) fn ms(self) -> f64 {
        const NS_PER_MS: f64 = 1e6;
        (f64::from(self.value) * NS_PER_MS).round() / NS_PER_MS
    }
}

/// Sorts values, and equal ones by their request.
pub(super) fn sort(values: &mut [OwnedValue]) {
    values.sort_unstable_by(|a, b| {
        let order = a.value.total_cmp(&b.value);
        order.then(a.owner.cmp(&b.owner))
    });
}

impl Default for Gaps {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl Column for GapColumns {
    type Value = Gaps;
    type Shown<'a> = (u64, f64);

    fn set(&mut self, row: u32, gaps: Gaps) {
        let (count, total_ms) = match &gaps {
            Gaps::Each(gaps) => (gaps.len() as u64, gaps.iter().sum()),
            Gaps::Sum { n, total_ms } => (*n, *total_ms),
        };
        self.count.set(row, count);
        self.total_ms.set(row, total_ms);
        match gaps {
            Gaps::Sum { n: 0, .. } => {}
            Gaps::Sum { .. } => self.kept = GapsKept::OnlySums,
            Gaps::Each(gaps) if self.kept == GapsKept::All => {
                let owned = gaps.into_iter().map(|value| OwnedValue {
                    value: value as f32,
                    owner: row,
                });
                self.each.extend(owned);
                if self.each.len() > MAX_GAPS_KEPT {
                    self.kept = GapsKept::TooMany;
                }
            }
            Gaps::Each(_) => {}
        }
        if self.kept != GapsKept::All {
            self.each = Vec::new();
        }
    }

    fn get(&self, row: u32) -> (u64, f64) {
        (self.count.get(row), self.total_ms.get(row))
    }

    fn value(&self, row: u32) -> Gaps {
        let (n, total_ms) = self.get(row);
        Gaps::Sum { n, total_ms }
    }

    fn reserve(&mut self, rows: usize) {
        self.count.reserve(rows);
        self.total_ms.reserve(rows);
    }
}

impl Requests {
    /// Room for requests and gaps whose numbers are known; 0 if they are not.
    pub fn with_capacity(requests: usize, gaps: u64) -> Self {
        let mut all = Self::default();
        all.request.reserve(requests);
        let gaps = usize::try_from(gaps).unwrap_or(usize::MAX);
        if gaps <= MAX_GAPS_KEPT {
            all.request.gaps.each.reserve_exact(gaps);
        }
        all
    }

    /// Adds a request. [`Requests::finish`] follows the last one.
    pub fn push(&mut self, request: Request) {
        self.request.set(self.rows, request);
        self.rows += 1;
    }

    /// Completes the columns after the last request.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.request.values.fill(self.rows as usize);
        let answered = &self.request.answered;
        let gaps = &mut self.request.gaps.each;
        gaps.retain(|gap| answered.get(gap.owner));
        sort(gaps);
        self
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The request at an index.
    ///
    /// # Panics
    /// The index is out of bounds.
    pub fn get(&self, index: usize) -> RequestView<'_> {
        assert!(index < self.len(), "request {index} of {}", self.len());
        RequestView {
            table: self,
            row: index as u32,
        }
    }

    /// Every request in file order.
    pub fn iter(&self) -> impl Iterator<Item = RequestView<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// For each request, whether it is a hit in a rate; `None` if it does not count.
    pub fn in_rate(&self, rate: Figure) -> impl Iterator<Item = Option<bool>> {
        let column = self.request.values.hits(rate.metric);
        self.iter().map(move |request| {
            let hit = column?.get(request.row)?;
            rate.counts(request.arm()).then_some(hit)
        })
    }

    /// For each request, its value in a distribution with one value per request; `None` if it does not
    /// count.
    pub fn in_distribution(&self, metric: &Metric) -> impl Iterator<Item = Option<f64>> {
        let column = self.request.values.values(metric);
        self.iter().map(move |request| {
            let value = column?.get(request.row)?;
            metric.counts(request.answered()).then_some(value)
        })
    }

    /// The values of a metric by request, including those that do not count. A missing
    /// one is NaN.
    pub(super) fn column(&self, metric: &Metric) -> Option<&[f64]> {
        Some(self.request.values.values(metric)?.packed())
    }

    /// The gaps of requests with an answer, ascending; empty unless all are kept.
    pub(super) fn sorted_gaps(&self) -> &[OwnedValue] {
        &self.request.gaps.each
    }

    /// Whether single gaps are kept.
    pub fn gaps_kept(&self) -> GapsKept {
        self.request.gaps.kept
    }

    /// The ids of the cases.
    pub(super) fn ids(&self) -> &Ids {
        &self.request.case
    }
}

impl FromIterator<Request> for Requests {
    fn from_iter<I: IntoIterator<Item = Request>>(requests: I) -> Self {
        let requests = requests.into_iter();
        let mut all = Self::with_capacity(requests.size_hint().0, 0);
        requests.for_each(|request| all.push(request));
        all.finish()
    }
}

impl RequestView<'_> {
    /// The index in the run.
    pub fn index(&self) -> usize {
        self.row as usize
    }

    /// The id of the case among [`Requests::ids`]; `None` if the file has none.
    pub(super) fn id(&self) -> Option<CompactId> {
        self.table.request.case.compact(self.row)
    }

    /// Whether the request is a hit of a rate, including one in which it does not count.
    pub fn hit(&self, metric: &Metric) -> Option<bool> {
        self.table.request.values.hits(metric)?.get(self.row)
    }

    /// The value of the request in a distribution, including one in which it does not count.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.table.request.values.values(metric)?.get(self.row)
    }

    /// Whether it is a hit in a rate; `None` if it does not count in the rate.
    pub fn in_rate(&self, rate: Figure) -> Option<bool> {
        self.hit(rate.metric).filter(|_| rate.counts(self.arm()))
    }

    /// Its value in a distribution with one value per request; `None` if it does not count.
    pub fn in_distribution(&self, metric: &Metric) -> Option<f64> {
        self.value(metric)
            .filter(|_| metric.counts(self.answered()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::request;
    use crate::metrics::registry::{latencies, rates};

    #[test]
    fn values_round_trip_and_unknown_ones_stay_unknown() {
        let known = Request {
            case: Some("json-7".into()),
            gaps: Gaps::Each(vec![2.0, 1.0]),
            ..request().with(&latencies::TPOT, 5.0)
        };
        let unknown = Request {
            answered: true,
            ..Request::default()
        };
        let failed = Request {
            answered: false,
            gaps: Gaps::Each(vec![9.0]),
            ..known.clone()
        };
        let requests: Requests = [unknown, known.clone(), failed].into_iter().collect();
        let [first, second, third] = [0, 1, 2].map(|index| requests.get(index));
        assert_eq!(
            (first.case(), first.arm(), first.verdict()),
            (None, None, None)
        );
        assert_eq!(
            (
                first.hit(&rates::CORRECT_RATE),
                first.value(&latencies::TTFT)
            ),
            (None, None)
        );
        assert_eq!(
            (first.sent_s(), first.input_tokens(), first.output_tokens()),
            (None, None, None)
        );
        assert_eq!((second.case(), second.arm()), (known.case, known.arm));
        assert_eq!(
            second.in_rate(Figure::new(&rates::CORRECT_RATE)),
            Some(true)
        );
        assert_eq!(second.in_distribution(&latencies::TPOT), Some(5.0));
        assert_eq!(
            (second.sent_s(), second.output_tokens()),
            (Some(0.0), Some(3))
        );
        assert_eq!((second.gaps(), second.verdict()), ((2, 3.0), Some("valid")));
        let tpots: Vec<_> = requests.in_distribution(&latencies::TPOT).collect();
        assert_eq!(
            tpots,
            [None, Some(5.0), None],
            "a failed request has no latency"
        );
        assert_eq!(third.value(&latencies::TPOT), Some(5.0));
        let hits: Vec<_> = requests
            .in_rate(Figure::new(&rates::CORRECT_RATE))
            .collect();
        assert_eq!(hits, [None, Some(true), Some(true)]);
        let gaps: Vec<(f64, u32)> = requests
            .sorted_gaps()
            .iter()
            .map(|gap| (gap.ms(), gap.owner))
            .collect();
        assert_eq!(gaps, [(1.0, 1), (2.0, 1)]);
    }

    #[test]
    fn sums_replace_too_many_gaps() {
        let of_gaps = |gaps| Request { gaps, ..request() };
        let each = |count| of_gaps(Gaps::Each(vec![1.0; count]));
        let sum = of_gaps(Gaps::Sum {
            n: 2,
            total_ms: 3.0,
        });
        for (run, expected) in [
            (vec![each(3), each(0)], (GapsKept::All, 3)),
            (vec![each(3), sum], (GapsKept::OnlySums, 0)),
            (
                vec![each(MAX_GAPS_KEPT), each(1), each(1)],
                (GapsKept::TooMany, 0),
            ),
        ] {
            let requests: Requests = run.into_iter().collect();
            assert_eq!(
                (requests.gaps_kept(), requests.sorted_gaps().len()),
                expected
            );
        }
    }

    #[test]
    fn gaps_below_16_ms_are_exact_to_the_nanosecond() {
        for ns in [1_u32, 999, 5_107_685, 7_654_321, 15_999_999] {
            let ms = f64::from(ns) / 1e6;
            let gap = OwnedValue {
                value: ms as f32,
                owner: 0,
            };
            assert_eq!(gap.ms(), ms);
        }
    }

    #[test]
    fn a_gap_takes_few_bytes() {
        assert_eq!(size_of::<OwnedValue>(), 8);
    }
}
