//! The requests that the client abandons (`--cancel-rate`).

use sobench_core::case::Case;
use sobench_core::load::Cancellation;
use sobench_pycompat::random::PythonRandom;

/// Separates this choice from the other streams of the seed: the ASCII codes of `gone` above its 64
/// bits.
const GONE_STREAM: u128 = 0x676f_6e65 << 64;

/// Chooses the requests that are abandoned: exactly the share of them, rounded, and at least one.
/// The seed and the number of requests determine the choice.
pub(crate) fn plan(cases: &mut [Case], cancellation: Cancellation, seed: u64) {
    let share = (cases.len() as f64 * cancellation.rate).round() as usize;
    let count = share.clamp(1, cases.len().max(1)).min(cases.len());
    let mut random = PythonRandom::from_u128(GONE_STREAM | u128::from(seed));
    for index in random.sample(cases.len(), count) {
        cases[index].cancel_after = Some(cancellation.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::load::CancelAfter;
    use sobench_facts::testing::test_request;

    fn planned(requests: usize, rate: f64, seed: u64) -> Vec<usize> {
        let mut cases: Vec<Case> = (0..requests)
            .map(|index| test_request().parts(index).0)
            .collect();
        let after = CancelAfter::Seconds(0.5);
        plan(&mut cases, Cancellation { rate, after }, seed);
        let planned = cases.iter().enumerate().filter_map(|(index, case)| {
            case.cancel_after.map(|own| {
                assert_eq!(own, after);
                index
            })
        });
        planned.collect()
    }

    #[test]
    fn the_seed_chooses_an_exact_share() {
        for (requests, rate, count) in [
            (200, 0.1, 20),
            (15, 0.1, 2),
            (10, 1.0, 10),
            (10, 0.001, 1),
            (0, 0.5, 0),
        ] {
            assert_eq!(planned(requests, rate, 1).len(), count, "{requests} {rate}");
        }
        assert_eq!(planned(200, 0.1, 1), planned(200, 0.1, 1));
        assert_ne!(planned(200, 0.1, 1), planned(200, 0.1, 2));
    }
}
