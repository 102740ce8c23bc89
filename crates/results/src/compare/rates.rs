//! The difference of two independent proportions. [`sobench_statistics::paired`] has paired ones.

use super::side::Share;
use sobench_statistics::Wilson;
use sobench_statistics::distributions::z_score;

/// The interval of the difference of two independent proportions, second minus first: Newcombe,
/// "Interval estimation for the difference between independent proportions" (Statistics in Medicine
/// 17, 1998), method 10, which combines two Wilson intervals.
pub fn newcombe_interval(first: Share, second: Share, level: f64) -> Option<(f64, f64)> {
    if first.of == 0 || second.of == 0 {
        return None;
    }
    let z = z_score(level);
    let (first, second) = (
        Wilson::new(first.hits, first.of, z),
        Wilson::new(second.hits, second.of, z),
    );
    let difference = second.share - first.share;
    Some((
        difference - second.down().hypot(first.up()),
        difference + second.up().hypot(first.down()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_statistics::paired::Pairs;

    fn near(found: (f64, f64), expected: (f64, f64)) {
        assert!(
            (found.0 - expected.0).abs() < 6e-5 && (found.1 - expected.1).abs() < 6e-5,
            "{found:?} is not {expected:?}"
        );
    }

    /// Expected: table II of Newcombe's paper on independent proportions.
    #[test]
    fn independent_proportions_match_newcombe() {
        for (a, b, expected) in [
            ((48, 80), (56, 70), (0.0524, 0.3339)),
            ((3, 10), (9, 10), (0.1705, 0.8090)),
            ((0, 10), (10, 10), (0.6075, 1.0)),
            ((0, 20), (0, 10), (-0.1611, 0.2775)),
        ] {
            let share = |(hits, of)| Share { hits, of };
            near(
                newcombe_interval(share(a), share(b), 0.95).unwrap(),
                expected,
            );
        }
        assert_eq!(
            newcombe_interval(Share { hits: 0, of: 0 }, Share { hits: 1, of: 1 }, 0.95),
            None
        );
    }

    #[test]
    fn agreeing_pairs_have_a_narrower_interval() {
        let pairs = Pairs {
            both: 940,
            only_a: 20,
            only_b: 20,
            neither: 20,
        };
        let (low, high) = pairs.interval(0.95).unwrap();
        let (wide_low, wide_high) = newcombe_interval(
            Share {
                hits: 960,
                of: 1000,
            },
            Share {
                hits: 960,
                of: 1000,
            },
            0.95,
        )
        .unwrap();
        assert!(wide_low < low && low < 0.0 && 0.0 < high && high < wide_high);
        assert!(
            (low + high).abs() < 1e-12,
            "equal shares have a symmetric interval"
        );
        // Without failing cases there is no agreement to use, and both intervals are equal.
        let all = Pairs {
            both: 200,
            ..Pairs::default()
        };
        near(
            all.interval(0.95).unwrap(),
            newcombe_interval(
                Share { hits: 200, of: 200 },
                Share { hits: 200, of: 200 },
                0.95,
            )
            .unwrap(),
        );
        assert_eq!(
            (
                Pairs::default().interval(0.95),
                Pairs::default().difference()
            ),
            (None, None)
        );
    }
}
