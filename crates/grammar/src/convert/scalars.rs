//! Scalars and sets of them as both notations' writers need them. Knows no notation.

use super::super::charset::CharSet;

/// A set as a character class would list it.
pub(super) struct Listing {
    /// Whether what is listed is what the set does not have.
    pub(super) negated: bool,
    /// First and last of each range.
    pub(super) ranges: Vec<(char, char)>,
}

/// The shorter of the two ways to list a set; `None` for a set that has no scalar.
pub(super) fn listing(set: &CharSet) -> Option<Listing> {
    let (inside, outside) = (scalar_ranges(set), scalar_ranges(&set.complement()));
    if inside.is_empty() {
        return None;
    }
    // A set that goes up to the last scalar is meant as what it leaves out: `[^"]`.
    let to_the_end = inside.last().is_some_and(|&(_, last)| last == char::MAX);
    let negated = !outside.is_empty()
        && (outside.len() < inside.len() || to_the_end && outside.len() == inside.len());
    Some(Listing {
        negated,
        ranges: if negated { outside } else { inside },
    })
}

/// The only scalar of a set, if it has no other.
pub(super) fn only(set: &CharSet) -> Option<char> {
    match set.ranges() {
        &[(first, last)] if first == last => char::from_u32(first),
        _ => None,
    }
}

/// Whether a scalar can be written as it is: others are written by their numbers, so that nothing
/// in a text is out of sight.
pub(super) fn shows(scalar: char) -> bool {
    (' '..='~').contains(&scalar) || scalar.is_alphanumeric()
}

/// The ranges of a set without the surrogates, which are no scalars.
fn scalar_ranges(set: &CharSet) -> Vec<(char, char)> {
    let clipped = set
        .ranges()
        .iter()
        .flat_map(|&(first, last)| [(first, last.min(0xD7FF)), (first.max(0xE000), last)]);
    let scalars = clipped.filter(|(first, last)| first <= last);
    scalars
        .filter_map(|(first, last)| Some((char::from_u32(first)?, char::from_u32(last)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranges: &[(u32, u32)], expected: Option<(bool, &[(char, char)])>) {
        let found = listing(&CharSet::new(ranges.iter().copied()));
        assert_eq!(
            found
                .as_ref()
                .map(|found| (found.negated, &found.ranges[..])),
            expected,
            "{ranges:?}"
        );
    }

    #[test]
    fn sets_are_listed_the_short_way_and_without_surrogates() {
        let last = u32::from(char::MAX);
        check(&[], None);
        check(&[(0xD800, 0xDFFF)], None);
        check(&[(97, 122)], Some((false, &[('a', 'z')])));
        check(&[(0, 33), (35, last)], Some((true, &[('"', '"')])));
        check(&[(128, last)], Some((true, &[('\0', '\u{7f}')])));
        check(
            &[(0, last)],
            Some((false, &[('\0', '\u{D7FF}'), ('\u{E000}', char::MAX)])),
        );
        check(
            &[(0xD000, 0xD900), (0xDA00, 0xE001)],
            Some((false, &[('\u{D000}', '\u{D7FF}'), ('\u{E000}', '\u{E001}')])),
        );
    }
}
