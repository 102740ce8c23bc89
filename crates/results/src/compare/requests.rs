//! The requests of a run in columns, some hundred bytes each, so that two runs of a million requests
//! fit into memory. Texts of answers stay in the file.

use indexmap::IndexSet;

use super::side::{Gaps, Request};
use crate::metrics::registry::{Kind, Metric, RequestValues, latencies};
use sobench_core::case::Arm;
use sobench_facts::compact_ids::{CompactId, CompactIds};

/// Maximum number of gaps of a run that are kept; of longer runs, only the number and the sum of each
/// request's gaps are kept. The bootstrap could not resample more of them either
/// ([`super::measure::MAX_STEPS`]).
pub const MAX_GAPS_KEPT: usize = 5_000_000;

/// Missing numbers.
const NONE: u32 = u32::MAX;

/// The requests of a run in file order.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    rows: Vec<Row>,
    /// Values by the metric's index in [`Metric::ALL`], for metrics with any; NaN for requests without
    /// a value.
    values: Vec<(u8, Vec<f64>)>,
    /// Of requests with an answer, ascending.
    gaps: Vec<OwnedValue>,
    gaps_kept: GapsKept,
    ids: CompactIds,
    verdicts: IndexSet<String>,
    /// Offsets of the requests' lines in a run log; empty for other files.
    offsets: Vec<u64>,
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

/// A gap and the index of its request. Means are computed from the sums in [`Row`].
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

/// One request.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: CompactId,
    /// Bits of rates by the metric's index: whether the value is known, and whether it is a hit.
    known: u64,
    hits: u64,
    /// NaN if unknown.
    sent_s: f64,
    gaps_total_ms: f64,
    gaps: u32,
    verdict: u32,
    /// Tokens; [`NONE`] if unknown or not below it.
    input_tokens: u32,
    output_tokens: u32,
    arm: Option<Arm>,
    answered: bool,
}

/// A view of one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    requests: &'a Requests,
    row: &'a Row,
    index: usize,
}

/// Sorts values, and equal ones by their request.
pub(super) fn sort(values: &mut [OwnedValue]) {
    values.sort_unstable_by(|a, b| {
        let order = a.value.total_cmp(&b.value);
        order.then(a.owner.cmp(&b.owner))
    });
}

impl Requests {
    /// Room for requests and gaps whose numbers are known; 0 if they are not.
    pub fn with_capacity(requests: usize, gaps: u64) -> Self {
        let gaps = usize::try_from(gaps).unwrap_or(usize::MAX);
        let is_kept = gaps <= MAX_GAPS_KEPT;
        Self {
            rows: Vec::with_capacity(requests),
            gaps: Vec::with_capacity(if is_kept { gaps } else { 0 }),
            ..Self::default()
        }
    }

    /// Adds a request. [`Requests::finish`] follows the last one.
    pub fn push(&mut self, request: &Request) {
        let (gaps, gaps_total_ms) = request.gaps.sum();
        let id = request.case.as_deref().map(|id| self.ids.add(id));
        let verdict = request.verdict.as_deref();
        let tokens =
            |known: Option<u64>| known.map_or(NONE, |known| u32::try_from(known).unwrap_or(NONE));
        let row = Row {
            id: id.unwrap_or(CompactId::MISSING),
            known: request.values.known_hits(),
            hits: request.values.hits(),
            sent_s: request.sent_s.unwrap_or(f64::NAN),
            gaps_total_ms,
            gaps: u32::try_from(gaps).unwrap_or(u32::MAX),
            verdict: verdict.map_or(NONE, |verdict| number(&mut self.verdicts, verdict)),
            input_tokens: tokens(request.input_tokens),
            output_tokens: tokens(request.output_tokens),
            arm: request.arm,
            answered: request.answered,
        };
        self.add_values(&request.values);
        self.add_gaps(request);
        self.rows.push(row);
    }

    /// Adds a request whose line in the run log starts at `offset`.
    pub fn push_line(&mut self, request: &Request, offset: u64) {
        self.offsets.push(offset);
        self.push(request);
    }

    fn add_values(&mut self, values: &RequestValues) {
        let before = self.rows.len();
        for (metric, value) in values.values() {
            let place = self.values.iter().position(|(known, _)| *known == metric);
            let place = place.unwrap_or_else(|| {
                self.values
                    .push((metric, Vec::with_capacity(self.rows.capacity())));
                self.values.len() - 1
            });
            let column = &mut self.values[place].1;
            column.resize(before, f64::NAN);
            column.push(value);
        }
    }

    fn add_gaps(&mut self, request: &Request) {
        match &request.gaps {
            Gaps::Sum { n: 0, .. } => {}
            Gaps::Sum { .. } => self.gaps_kept = GapsKept::OnlySums,
            Gaps::Each(gaps) if request.answered && self.gaps_kept == GapsKept::All => {
                let owner = self.rows.len() as u32;
                let owned = gaps.iter().map(|value| OwnedValue {
                    value: *value as f32,
                    owner,
                });
                self.gaps.extend(owned);
                if self.gaps.len() > MAX_GAPS_KEPT {
                    self.gaps_kept = GapsKept::TooMany;
                }
            }
            Gaps::Each(_) => {}
        }
        if self.gaps_kept != GapsKept::All {
            self.gaps = Vec::new();
        }
    }

    /// Completes the columns after the last request.
    #[must_use]
    pub fn finish(mut self) -> Self {
        for (_, column) in &mut self.values {
            column.resize(self.rows.len(), f64::NAN);
        }
        sort(&mut self.gaps);
        self
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The request at an index.
    ///
    /// # Panics
    /// The index is out of bounds.
    pub fn get(&self, index: usize) -> RequestView<'_> {
        RequestView {
            requests: self,
            row: &self.rows[index],
            index,
        }
    }

    /// Every request in file order.
    pub fn iter(&self) -> impl Iterator<Item = RequestView<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// For each request, whether it is a hit in a rate; `None` if it does not count.
    pub fn in_rate(&self, metric: &Metric) -> impl Iterator<Item = Option<bool>> {
        let (among, bit) = match metric.kind {
            Kind::Rate { among, .. } => (Some(among), 1 << metric.index()),
            _ => (None, 0_u64),
        };
        self.rows.iter().map(move |row| {
            let counts = among?.counts(row.arm, row.answered) && row.known & bit != 0;
            counts.then_some(row.hits & bit != 0)
        })
    }

    /// For each request, its value in a distribution with one value per request; `None` if it does not
    /// count.
    pub fn in_distribution(&self, metric: &Metric) -> impl Iterator<Item = Option<f64>> {
        let column = self.column(metric);
        let among = match metric.kind {
            Kind::Distribution { among, .. } => Some(among),
            _ => None,
        };
        self.rows.iter().enumerate().map(move |(index, row)| {
            let value = column?[index];
            let counts = among?.counts(row.arm, row.answered) && !value.is_nan();
            counts.then_some(value)
        })
    }

    /// The values of a metric by request, including those that do not count. A missing
    /// one is NaN.
    pub(super) fn column(&self, metric: &Metric) -> Option<&[f64]> {
        let index = metric.index();
        let found = self
            .values
            .iter()
            .find(|(own, _)| usize::from(*own) == index);
        found.map(|(_, column)| column.as_slice())
    }

    /// The gaps of requests with an answer, ascending; empty unless all are kept.
    pub(super) fn sorted_gaps(&self) -> &[OwnedValue] {
        &self.gaps
    }

    /// Whether single gaps are kept.
    pub fn gaps_kept(&self) -> GapsKept {
        self.gaps_kept
    }

    /// The ids of the cases.
    pub(super) fn ids(&self) -> &CompactIds {
        &self.ids
    }

    /// The offset of a request's line in the run log; `None` for other files.
    pub(super) fn offset(&self, index: usize) -> Option<u64> {
        self.offsets.get(index).copied()
    }
}

fn known_tokens(tokens: u32) -> Option<u64> {
    (tokens != NONE).then(|| u64::from(tokens))
}

fn number(known: &mut IndexSet<String>, text: &str) -> u32 {
    let found = known.get_index_of(text);
    found.unwrap_or_else(|| known.insert_full(text.to_owned()).0) as u32
}

impl FromIterator<Request> for Requests {
    fn from_iter<I: IntoIterator<Item = Request>>(requests: I) -> Self {
        let requests = requests.into_iter();
        let mut all = Self::with_capacity(requests.size_hint().0, 0);
        requests.for_each(|request| all.push(&request));
        all.finish()
    }
}

impl RequestView<'_> {
    /// The index in the run.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The id of the case; `None` if the file has none.
    pub fn case(&self) -> Option<String> {
        self.requests.ids.text(self.row.id)
    }

    /// The id of the case among [`Requests::ids`]; `None` if the file has none.
    pub(super) fn id(&self) -> Option<CompactId> {
        Some(self.row.id).filter(|id| *id != CompactId::MISSING)
    }

    /// The arm of the request.
    pub fn arm(&self) -> Option<Arm> {
        self.row.arm
    }

    /// Whether there is an answer, complete or truncated.
    pub fn answered(&self) -> bool {
        self.row.answered
    }

    /// Whether the request is a hit of a rate, including one in which it does not count.
    pub fn hit(&self, metric: &Metric) -> Option<bool> {
        let bit = 1_u64.checked_shl(metric.index() as u32)?;
        (self.row.known & bit != 0).then_some(self.row.hits & bit != 0)
    }

    /// The value of the request in a distribution, including one in which it does not count.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        let value = self.requests.column(metric)?[self.index];
        (!value.is_nan()).then_some(value)
    }

    /// Whether it is a hit in a rate; `None` if it does not count in the rate.
    pub fn in_rate(&self, metric: &Metric) -> Option<bool> {
        match metric.kind {
            Kind::Rate { among, .. } => self
                .hit(metric)
                .filter(|_| among.counts(self.arm(), self.answered())),
            _ => None,
        }
    }

    /// Its value in a distribution with one value per request; `None` if it does not count.
    pub fn in_distribution(&self, metric: &Metric) -> Option<f64> {
        match metric.kind {
            Kind::Distribution { among, .. } => self
                .value(metric)
                .filter(|_| among.counts(self.arm(), self.answered())),
            _ => None,
        }
    }

    /// The number and the sum of its gaps between chunks, in milliseconds.
    pub fn gaps(&self) -> (u64, f64) {
        (u64::from(self.row.gaps), self.row.gaps_total_ms)
    }

    /// When it was sent, in seconds from the start of the run.
    pub fn sent_s(&self) -> Option<f64> {
        Some(self.row.sent_s).filter(|sent_s| !sent_s.is_nan())
    }

    /// Time of the last content, in seconds from the start of the run, if there is an answer.
    pub fn ended_s(&self) -> Option<f64> {
        Some(self.sent_s()? + self.in_distribution(&latencies::E2EL)? / 1000.0)
    }

    /// Input tokens.
    pub fn input_tokens(&self) -> Option<u64> {
        known_tokens(self.row.input_tokens)
    }

    /// Output tokens.
    pub fn output_tokens(&self) -> Option<u64> {
        known_tokens(self.row.output_tokens)
    }

    /// The verdict or the failure as text; `None` if the file has no answers.
    pub fn verdict(&self) -> Option<&str> {
        let verdict = self
            .requests
            .verdicts
            .get_index(self.row.verdict as usize)?;
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::request;
    use crate::metrics::registry::rates;

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
        assert_eq!(second.in_rate(&rates::CORRECT_RATE), Some(true));
        assert_eq!(second.in_distribution(&latencies::TPOT), Some(5.0));
        assert_eq!(
            (second.ended_s(), second.output_tokens()),
            (Some(0.03), Some(3))
        );
        assert_eq!((second.gaps(), second.verdict()), ((2, 3.0), Some("valid")));
        let tpots: Vec<_> = requests.in_distribution(&latencies::TPOT).collect();
        assert_eq!(
            tpots,
            [None, Some(5.0), None],
            "a failed request has no latency"
        );
        assert_eq!(third.value(&latencies::TPOT), Some(5.0));
        let hits: Vec<_> = requests.in_rate(&rates::CORRECT_RATE).collect();
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
    fn a_request_takes_few_bytes() {
        assert!(size_of::<Row>() <= 64, "{}", size_of::<Row>());
        assert_eq!(size_of::<OwnedValue>(), 8);
        let rates = Metric::ALL.iter().filter(|metric| metric.is_rate());
        assert!(rates.clone().all(|metric| metric.index() < 64));
    }
}
