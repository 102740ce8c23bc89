//! Classes of characters that a grammar cannot tell apart. Knows sets of scalars, not what they are for.

use std::collections::HashMap;

use super::charset::CharSet;
use super::error::GrammarError;
use super::limits;

/// A partition of all scalars, such that every set of a grammar is a union of classes.
#[derive(Debug)]
pub(super) struct Classes {
    /// The first scalar of each segment, sorted; every scalar of a segment has the same class.
    starts: Vec<u32>,
    /// The class of each segment.
    classes: Vec<u32>,
    /// The class of each ASCII character, looked up directly.
    ascii: [u32; 128],
    count: usize,
}

impl Classes {
    /// The coarsest partition for these sets.
    ///
    /// # Errors
    /// More sets against segments than the limit.
    pub(super) fn new(sets: &[CharSet]) -> Result<Self, GrammarError> {
        let ends = sets.iter().flat_map(CharSet::ranges).flat_map(|&(first, last)| [first, last + 1]);
        let mut starts: Vec<u32> = ends.chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        if starts.len().saturating_mul(sets.len()) > limits::MAX_LOOKAHEAD_BITS {
            return Err(GrammarError::Limit { what: format!("characters times sets: {}", limits::MAX_LOOKAHEAD_BITS) });
        }
        let mut classes = vec![0_u32; starts.len()];
        let mut count = 1_u32;
        // Every set splits each class that it cuts through into what is inside and what is outside of it.
        let mut inside: HashMap<u32, u32> = HashMap::new();
        for set in sets {
            inside.clear();
            for &(first, last) in set.ranges() {
                for index in segments(&starts, first, last) {
                    classes[index] = *inside.entry(classes[index]).or_insert_with(|| {
                        count += 1;
                        count - 1
                    });
                }
            }
        }
        let count = renumber(&mut classes);
        let mut found = Self { starts, classes, ascii: [0; 128], count };
        for scalar in 0..128 {
            found.ascii[scalar as usize] = found.search(scalar);
        }
        Ok(found)
    }

    /// The class of a scalar.
    pub(super) fn of(&self, scalar: char) -> u32 {
        match self.ascii.get(scalar as usize) {
            Some(&class) => class,
            None => self.search(u32::from(scalar)),
        }
    }

    /// The classes of a set, some of them more than once.
    pub(super) fn of_set(&self, set: &CharSet) -> impl Iterator<Item = u32> {
        set.ranges().iter().flat_map(|&(first, last)| segments(&self.starts, first, last)).map(|index| self.classes[index])
    }

    /// How many classes there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn search(&self, scalar: u32) -> u32 {
        self.classes[self.starts.partition_point(|&start| start <= scalar) - 1]
    }
}

/// The segments of a range whose ends are ends of segments.
fn segments(starts: &[u32], first: u32, last: u32) -> std::ops::Range<usize> {
    starts.partition_point(|&start| start < first)..starts.partition_point(|&start| start <= last)
}

/// Numbers classes from 0 without gaps; how many there are.
fn renumber(classes: &mut [u32]) -> usize {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    for class in classes {
        let next = u32::try_from(numbers.len()).expect("fewer classes than scalars");
        *class = *numbers.entry(*class).or_insert(next);
    }
    numbers.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_share_a_class_exactly_where_no_set_tells_them_apart() {
        let range = |first: char, last: char| CharSet::new([(u32::from(first), u32::from(last))]);
        let sets = [range('a', 'z'), range('f', 'm'), range('é', 'é'), CharSet::one('\n').complement(), CharSet::default()];
        let classes = Classes::new(&sets).unwrap();
        let samples = ['a', 'e', 'f', 'm', 'n', 'z', '\n', '\0', '~', 'é', 'è', '😀', char::MAX];
        let contains = |set: &CharSet, scalar: char| set.ranges().iter().any(|r| (r.0..=r.1).contains(&u32::from(scalar)));
        for left in samples {
            for right in samples {
                let alike = sets.iter().all(|set| contains(set, left) == contains(set, right));
                assert_eq!(classes.of(left) == classes.of(right), alike, "{left:?} {right:?}");
            }
            for set in &sets {
                assert_eq!(classes.of_set(set).any(|class| class == classes.of(left)), contains(set, left), "{left:?}");
            }
        }
        assert_eq!(classes.len(), 5);
    }
}
