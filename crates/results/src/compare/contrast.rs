//! The difference of two sides in a rate. The methods are those of [`sobench_statistics::contrast`].

use super::bootstrap::SideId;
use super::pairing::Pairing;
use super::side::Side;
use crate::metrics::registry::Figure;
use sobench_statistics::Rate;
use sobench_statistics::contrast::{self, Hits, MIN_JUDGED, RateContrast};

/// A rate of a side over all its runs, with the interval of the number of requests that they are worth:
/// repeats of a case count as far as they vary. The unit is the place in the run. `None` without
/// requests that count.
pub fn rate(rate: Figure, side: &Side) -> Option<Rate> {
    contrast::rate(&hits(rate, side, &[])?)
}

/// The hits of all runs of a side by case, or by place in the run without numbers of cases; `None` if a
/// run has no requests.
fn hits(rate: Figure, side: &Side, cases: &[u32]) -> Option<Hits> {
    let mut hits = Hits::default();
    let mut cases = cases.iter();
    for requests in side.run_requests()? {
        let copies = requests.iter().map(|request| request.copy());
        let run = requests.in_rate(rate).zip(copies).enumerate();
        let run = run.map(|(place, (hit, copy))| {
            let case = cases.next().map_or(place, |case| *case as usize);
            hit.map(|hit| (case, copy.map(|copy| copy as u32), hit))
        });
        hits.add_run(run.flatten());
    }
    Some(hits)
}

/// The difference of a rate over the requests of both sides; `None` if a side has none that counts.
/// The unit is the case, if the requests are not paired the place in the run.
pub(super) fn contrast(
    rate: Figure,
    a: &Side,
    b: &Side,
    pairing: &Pairing,
) -> Option<RateContrast> {
    let a = hits(rate, a, pairing.case_numbers(SideId::A))?;
    let b = hits(rate, b, pairing.case_numbers(SideId::B))?;
    let paired = (*pairing != Pairing::None)
        .then(|| RateContrast::paired(&a, &b))
        .flatten();
    paired
        .filter(|paired: &RateContrast| {
            let pairs = paired.pairs();
            pairs.is_some_and(|pairs| pairs.clusters >= MIN_JUDGED)
        })
        .or_else(|| RateContrast::unpaired(&a, &b))
}
