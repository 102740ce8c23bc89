//! Requests in flight at instants of each request: their number when it was sent, and its rank among
//! them when its answer starts.

use sobench_facts::RequestTimes;
use sobench_facts::Sample;

/// An event of a request, in the order of events at the same time: ends come before starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End,
    Start,
    FirstContent,
}

/// The indices of the requests that were sent, in the order of sending.
pub(super) fn order_of_sending(samples: &[Sample<'_>]) -> Vec<u32> {
    let sent = |(sample, index): (&Sample<'_>, u32)| {
        sample.request_times().sent_ns.is_some().then_some(index)
    };
    let mut order: Vec<u32> = samples.iter().zip(0..).filter_map(sent).collect();
    order.sort_unstable_by_key(|index| (samples[*index as usize].request_times().sent_ns, *index));
    order
}

/// For each start, in their order, the number in flight, itself included. Each end is after its
/// start; an end at the time of another start comes before it.
pub(super) fn levels(
    starts_ns: impl Iterator<Item = u64>,
    mut ends_ns: Vec<u64>,
) -> impl Iterator<Item = u64> {
    ends_ns.sort_unstable();
    let mut ended = 0;
    starts_ns.zip(1..).map(move |(start_ns, started)| {
        while ends_ns.get(ended).is_some_and(|end_ns| *end_ns <= start_ns) {
            ended += 1;
        }
        started - ended as u64
    })
}

/// For each request, the number in flight when it was sent, itself included; `None` for one that was
/// not sent.
pub(crate) fn when_sent(samples: &[Sample<'_>]) -> Vec<Option<u64>> {
    let order = order_of_sending(samples);
    let sent = || order.iter().map(|index| &samples[*index as usize]);
    let starts_ns = sent().filter_map(|sample| sample.request_times().sent_ns);
    let ends_ns = sent().filter_map(|sample| end_ns(&sample.request_times(), None));
    let mut in_flight = vec![None; samples.len()];
    for (index, level) in order.iter().zip(levels(starts_ns, ends_ns.collect())) {
        in_flight[*index as usize] = Some(level);
    }
    in_flight
}

/// The end of a request that was sent, after its start: `open_ns` if it is unknown.
pub(super) fn end_ns(times: &RequestTimes, open_ns: Option<u64>) -> Option<u64> {
    let least_ns = times.sent_ns?.saturating_add(1);
    let end_ns = times.end_ns.or(times.last_content_ns).or(open_ns)?;
    Some(end_ns.max(least_ns))
}

/// For each request, its rank in the order of sending among the requests in flight at its first
/// content, from 1; `None` without content. Servers that fill their batch in the order of arrival
/// have the request in about this row of it.
pub(super) fn ranks(samples: &[Sample<'_>]) -> Vec<Option<u64>> {
    let order = order_of_sending(samples);
    let mut places = vec![0; samples.len()];
    for (place, index) in order.iter().enumerate() {
        places[*index as usize] = place;
    }
    let mut in_flight = Counts::new(order.len());
    let mut ranks = vec![None; samples.len()];
    for (_, event, index) in events(samples) {
        let place = places[index];
        match event {
            Event::Start => in_flight.add(place, 1),
            Event::End => in_flight.add(place, -1),
            Event::FirstContent => {
                ranks[index] = u64::try_from(in_flight.before(place))
                    .ok()
                    .map(|before| before + 1);
            }
        }
    }
    ranks
}

/// For each request, the number in flight at its first content, itself included; `None` without
/// content.
pub(super) fn when_started(samples: &[Sample<'_>]) -> Vec<Option<f64>> {
    let (mut in_flight, mut levels) = (0_u32, vec![None; samples.len()]);
    let mut has_ended = vec![false; samples.len()];
    for (_, event, index) in events(samples) {
        match event {
            Event::Start => in_flight += 1,
            Event::End => {
                in_flight = in_flight.saturating_sub(1);
                has_ended[index] = true;
            }
            // The end of an answer in one piece is its first content.
            Event::FirstContent => {
                levels[index] = Some(f64::from(in_flight + u32::from(has_ended[index])));
            }
        }
    }
    levels
}

/// For each request that was sent, the seconds since the end of the last one, or 0 with others in
/// flight and for the first one.
pub(super) fn idle_before_s(samples: &[Sample<'_>]) -> Vec<Option<f64>> {
    let (mut in_flight, mut last_end_ns) = (0_u32, None);
    let mut idle_s = vec![None; samples.len()];
    for (at_ns, event, index) in events(samples) {
        match event {
            Event::Start => {
                let since_ns = last_end_ns.filter(|_| in_flight == 0).unwrap_or(at_ns);
                idle_s[index] = Some((at_ns - since_ns) as f64 / 1e9);
                in_flight += 1;
            }
            Event::End => {
                in_flight = in_flight.saturating_sub(1);
                last_end_ns = Some(at_ns);
            }
            Event::FirstContent => {}
        }
    }
    idle_s
}

/// The bin of a number in flight, or of a rank: 1, 2, 3 to 4, 5 to 8 and so on.
pub(super) fn bin(number: u64) -> (u64, u64) {
    let to = number.next_power_of_two();
    (to / 2 + 1, to)
}

/// Starts, first contents and ends of the requests that were sent, in the order of time.
fn events(samples: &[Sample<'_>]) -> Vec<(u64, Event, usize)> {
    let mut events = Vec::with_capacity(3 * samples.len());
    for (index, sample) in samples.iter().enumerate() {
        let times = sample.request_times();
        let Some(sent_ns) = times.sent_ns else {
            continue;
        };
        events.push((sent_ns, Event::Start, index));
        events.extend(end_ns(&times, None).map(|end_ns| (end_ns, Event::End, index)));
        let first_ns = times.first_content_ns.map(|first_ns| first_ns.max(sent_ns));
        events.extend(first_ns.map(|first_ns| (first_ns, Event::FirstContent, index)));
    }
    events.sort_unstable();
    events
}

/// Counts by place, with sums over the first places: a tree of Fenwick (1994).
struct Counts(Vec<i64>);

impl Counts {
    fn new(places: usize) -> Self {
        Self(vec![0; places + 1])
    }

    fn add(&mut self, place: usize, change: i64) {
        let mut node = place + 1;
        while node < self.0.len() {
            self.0[node] += change;
            node += node & node.wrapping_neg();
        }
    }

    /// The sum over the places before `place`.
    fn before(&self, place: usize) -> i64 {
        let (mut node, mut sum) = (place, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_testkit::random::Random;

    #[test]
    fn numbers_and_ranks_match_counting() {
        let mut random = Random(5);
        let run: Vec<TestRequest<'_>> = (0..200)
            .map(|index| {
                let sent = random.below(1000);
                let first = sent + random.below(60);
                TestRequest {
                    sent: (index % 17 != 0).then_some(sent),
                    chunks: if index % 5 == 0 { vec![] } else { vec![first] },
                    end: Some(first + random.below(60)),
                    ..test_request()
                }
            })
            .collect();
        with_samples(&run, |samples| {
            let order = |index: usize| (samples[index].request_times().sent_ns, index);
            let is_in_flight = |index: usize, at_ns: u64, includes_start: bool| {
                let times = samples[index].request_times();
                let (Some(sent_ns), Some(end_ns)) = (times.sent_ns, times.end_ns) else {
                    return false;
                };
                (sent_ns < at_ns || includes_start && sent_ns == at_ns)
                    && end_ns.max(sent_ns + 1) > at_ns
            };
            let (levels, ranks) = (when_sent(samples), ranks(samples));
            for (index, sample) in samples.iter().enumerate() {
                let times = sample.request_times();
                let level = times.sent_ns.map(|sent_ns| {
                    let others = (0..samples.len()).filter(|other| {
                        *other != index
                            && is_in_flight(*other, sent_ns, true)
                            && order(*other) < order(index)
                    });
                    others.count() as u64 + 1
                });
                assert_eq!(levels[index], level, "{index}");
                let first_ns = times.sent_ns.and(times.first_content_ns);
                let rank = first_ns.map(|first_ns| {
                    let others = (0..samples.len()).filter(|other| {
                        order(*other) < order(index) && is_in_flight(*other, first_ns, true)
                    });
                    others.count() as u64 + 1
                });
                assert_eq!(ranks[index], rank, "{index}");
            }
        });
    }

    #[test]
    fn bins_double() {
        let bins = [1, 2, 3, 4, 5, 8, 9].map(bin);
        assert_eq!(
            bins,
            [(1, 1), (2, 2), (3, 4), (3, 4), (5, 8), (5, 8), (9, 16)]
        );
    }
}
