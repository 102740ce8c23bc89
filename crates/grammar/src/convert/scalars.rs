//! Scalars and character sets in the form that the writers need.

use super::super::charset::CharSet;

/// The content of a character class.
pub(super) struct ClassRanges {
    /// Whether the ranges are the complement.
    pub(super) negated: bool,
    /// First and last scalar of each range.
    pub(super) ranges: Vec<(char, char)>,
}

/// The shorter form of a set, positive or negated; `None` for an empty set.
pub(super) fn class_ranges(set: &CharSet) -> Option<ClassRanges> {
    let (inside, outside) = (scalar_ranges(set), scalar_ranges(&set.complement()));
    if inside.is_empty() {
        return None;
    }
    // A set up to the last scalar is more readable negated: `[^"]`.
    let to_the_end = inside.last().is_some_and(|&(_, last)| last == char::MAX);
    let negated = !outside.is_empty()
        && (outside.len() < inside.len() || to_the_end && outside.len() == inside.len());
    Some(ClassRanges {
        negated,
        ranges: if negated { outside } else { inside },
    })
}

/// The single scalar of a set; `None` if it has more.
pub(super) fn only(set: &CharSet) -> Option<char> {
    match set.ranges() {
        &[(first, last)] if first == last => char::from_u32(first),
        _ => None,
    }
}

/// Whether a scalar is written literally. Others are written as escapes, so that nothing is
/// invisible.
pub(super) fn is_visible(scalar: char) -> bool {
    (' '..='~').contains(&scalar) || scalar.is_alphanumeric()
}

/// The ranges of a set without surrogates, which are not scalars.
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
        let found = class_ranges(&CharSet::new(ranges.iter().copied()));
        assert_eq!(
            found
                .as_ref()
                .map(|found| (found.negated, &found.ranges[..])),
            expected,
            "{ranges:?}"
        );
    }

    #[test]
    fn sets_use_the_shorter_form_without_surrogates() {
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
