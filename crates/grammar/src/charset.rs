//! Sets of Unicode scalars.

/// A set of Unicode scalars as sorted, disjoint, non-adjacent ranges with both ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet(Vec<(u32, u32)>);

/// The largest Unicode scalar.
const LAST: u32 = char::MAX as u32;

impl CharSet {
    /// The union of these ranges; a range with reversed ends is empty.
    pub(super) fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut ranges: Vec<(u32, u32)> = ranges
            .into_iter()
            .filter(|(first, last)| first <= last)
            .collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => {
                    previous.1 = previous.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The set of one scalar.
    pub(super) fn one(scalar: char) -> Self {
        Self(vec![(u32::from(scalar), u32::from(scalar))])
    }

    /// Every scalar.
    pub(super) fn all() -> Self {
        Self(vec![(0, LAST)])
    }

    /// The complement. Surrogates are not scalars, so their membership is irrelevant.
    pub(super) fn complement(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(first, last) in &self.0 {
            if next < first {
                gaps.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            gaps.push((next, LAST));
        }
        Self(gaps)
    }

    /// The union.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied())
    }

    /// The sorted, disjoint ranges with both ends included.
    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether the set contains this scalar.
    pub(super) fn contains(&self, scalar: char) -> bool {
        let scalar = u32::from(scalar);
        let after = self.0.partition_point(|&(first, _)| first <= scalar);
        after > 0 && scalar <= self.0[after - 1].1
    }

    /// Whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranges: &[(u32, u32)], merged: &[(u32, u32)], complement: &[(u32, u32)]) {
        let set = CharSet::new(ranges.iter().copied());
        assert_eq!(set.ranges(), merged);
        assert_eq!(set.complement().ranges(), complement);
        assert_eq!(set.complement().complement(), set);
        assert_eq!(set.union(&set.complement()), CharSet::all());
        for scalar in ['\0', '\u{5}', '\t', 'a', '{', char::MAX] {
            let within = merged
                .iter()
                .any(|range| (range.0..=range.1).contains(&u32::from(scalar)));
            assert_eq!(
                (set.contains(scalar), set.complement().contains(scalar)),
                (within, !within),
                "{scalar:?}"
            );
        }
    }

    #[test]
    fn merges_sorts_and_complements() {
        check(&[], &[], &[(0, LAST)]);
        check(&[(0, LAST)], &[(0, LAST)], &[]);
        check(
            &[(98, 122), (97, 97)],
            &[(97, 122)],
            &[(0, 96), (123, LAST)],
        );
        check(
            &[(5, 9), (7, 20), (40, 40), (9, 3)],
            &[(5, 20), (40, 40)],
            &[(0, 4), (21, 39), (41, LAST)],
        );
        check(
            &[(0, 3), (LAST, LAST)],
            &[(0, 3), (LAST, LAST)],
            &[(4, LAST - 1)],
        );
    }
}
