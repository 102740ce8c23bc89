//! Searches for the cause of a failure with few attempts: which elements of a list, and from which
//! number on.

/// The elements of a list that fail together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Together {
    /// The failure is there without any element.
    Without,
    /// These, in the order of the list. Without any one of them nothing fails.
    These(Vec<usize>),
    /// More than [`MAX_TOGETHER`]. The first ones, of this number, fail, and one less does not.
    First(usize),
}

/// The most elements that are searched for one by one.
pub const MAX_TOGETHER: usize = 4;

/// Numbers between two of which powers of two are tried first.
const MANY: u64 = 1 << 16;

/// Which of `count` elements fail together, if all of them do. Of a list that fails, a longer list
/// fails as well. For k elements this takes about k times the logarithm of `count` attempts.
///
/// # Errors
/// Those of an attempt.
pub fn together<E>(
    count: usize,
    mut fails: impl FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Together, E> {
    let mut found: Vec<usize> = Vec::new();
    let (mut end, mut first) = (count, 0);
    loop {
        let mut sorted = found.clone();
        sorted.sort_unstable();
        if fails(&sorted)? {
            return Ok(match sorted.is_empty() {
                true => Together::Without,
                false => Together::These(sorted),
            });
        }
        if found.len() == MAX_TOGETHER {
            return Ok(Together::First(first));
        }
        // Fewer elements than `low` do not fail with those that are found, `high` ones do.
        let (mut low, mut high) = (0, end);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let mut tried: Vec<usize> = (0..middle).chain(found.iter().copied()).collect();
            tried.sort_unstable();
            match fails(&tried)? {
                true => high = middle,
                false => low = middle,
            }
        }
        if high == 0 {
            // No element is left, although the failure needs one: it is not repeatable.
            return Ok(Together::First(first));
        }
        if found.is_empty() {
            first = high;
        }
        found.push(high - 1);
        end = high - 1;
    }
}

/// The least number from `low` (which does not fail) to `high` (which fails) that fails. `precision`
/// is the share of it that two numbers may differ by: 0 finds the exact one.
///
/// # Errors
/// Those of an attempt.
pub fn threshold<E>(
    mut low: u64,
    mut high: u64,
    precision: f64,
    mut fails: impl FnMut(u64) -> Result<bool, E>,
) -> Result<(u64, u64), E> {
    while high - low > 1 && (high - low) as f64 > precision * high as f64 {
        let middle = middle(low, high);
        match fails(middle)? {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok((low, high))
}

/// A number between both. Of large numbers it is a power of two, which limits often are, and the
/// number below it at last.
fn middle(low: u64, high: u64) -> u64 {
    let (first, last) = (low.max(1).ilog2() + 1, (high - 1).ilog2());
    match high - low > MANY {
        true if first <= last => 1 << first.midpoint(last),
        true if high.is_power_of_two() => high - 1,
        _ => low.midpoint(high),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn searched(count: usize, fails: impl Fn(&[usize]) -> bool) -> (Together, usize) {
        let mut attempts = 0;
        let found = together::<Infallible>(count, |tried| {
            attempts += 1;
            Ok(fails(tried))
        });
        (found.unwrap(), attempts)
    }

    #[test]
    fn elements_that_fail_together_are_found_in_few_attempts() {
        for place in [0, 7, 46] {
            let (found, attempts) = searched(47, |tried| tried.contains(&place));
            assert_eq!(found, Together::These(vec![place]));
            assert!(attempts <= 8, "{attempts}");
        }
        let (found, attempts) = searched(1000, |tried| tried.contains(&3) && tried.contains(&900));
        assert_eq!(found, Together::These(vec![3, 900]));
        assert!(attempts <= 23, "{attempts}");
        assert_eq!(searched(9, |_| true), (Together::Without, 1));
        assert_eq!(
            searched(47, |tried| tried.len() >= 32).0,
            Together::First(32)
        );
        assert_eq!(
            searched(1, |tried| tried.len() == 1).0,
            Together::These(vec![0])
        );
        // Not repeatable: it ends.
        assert_eq!(searched(0, |_| false).0, Together::First(0));
        assert_eq!(searched(5, |_| false).0, Together::First(5));
    }

    #[test]
    fn the_least_number_that_fails_is_found() {
        let found = |precision| {
            threshold::<Infallible>(0, 10_000, precision, |tried| Ok(tried >= 2000)).unwrap()
        };
        assert_eq!(found(0.0), (1999, 2000));
        let mut attempts = 0;
        for least in [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1_000_000_007, 3] {
            let found = threshold::<Infallible>(1, u64::MAX, 0.0, |tried| {
                attempts += 1;
                Ok(tried >= least)
            });
            assert_eq!(found.unwrap(), (least - 1, least));
        }
        assert!(attempts <= 150, "{attempts}");
        let (low, high) = found(0.1);
        assert!(low < 2000 && high >= 2000 && (high - low) as f64 <= 0.1 * high as f64);
    }
}
