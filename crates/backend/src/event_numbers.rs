//! The numbers of a stream's events (`sequence_number` of `/v1/responses`): which are missing, come
//! twice, or are out of order.

use std::collections::BTreeSet;

use sobench_core::departure::{Departure, Departures};

/// Maximum number of missing events that are kept.
const MAX_MISSING: u64 = 1024;

#[derive(Debug, Default)]
pub(super) struct EventNumbers {
    /// The first number, and that of the next event; `None` without numbers.
    expected: Option<(u64, u64)>,
    missing: BTreeSet<u64>,
    /// The first of them.
    repeated: Option<u64>,
    swapped: Option<u64>,
}

impl EventNumbers {
    /// Adds the number of the next event.
    pub(super) fn add(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        let (first, next) = *self.expected.get_or_insert((number, number));
        if number >= next {
            let last_kept = next.saturating_add(MAX_MISSING);
            self.missing.extend(next..number.min(last_kept));
            self.expected = Some((first, number.saturating_add(1)));
        } else if self.missing.remove(&number) {
            self.swapped.get_or_insert(number);
        } else {
            self.repeated.get_or_insert(number);
        }
    }

    /// Adds what the numbers show once the stream has ended.
    pub(super) fn add_departures(&self, departures: &mut Departures) {
        // Some servers send the same number with each event.
        if self
            .expected
            .is_none_or(|(first, next)| next <= first.saturating_add(1))
        {
            return;
        }
        for (departure, number) in [
            (Departure::LostEvents, self.missing.first()),
            (Departure::RepeatedEvents, self.repeated.as_ref()),
            (Departure::SwappedEvents, self.swapped.as_ref()),
        ] {
            if let Some(number) = number {
                departures.add(departure, &format!("first: number {number}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Departure::{LostEvents, RepeatedEvents, SwappedEvents};

    #[test]
    fn numbers_show_what_is_lost_doubled_or_swapped() {
        for (numbers, expected) in [
            (&[0, 1, 2, 3][..], &[][..]),
            (&[1, 2, 3], &[]),
            (&[0, 1, 3, 4], &[(LostEvents, 2)]),
            (&[0, 1, 1, 2], &[(RepeatedEvents, 1)]),
            (&[0, 2, 1, 3], &[(SwappedEvents, 1)]),
            (
                &[0, 2, 1, 1, 5],
                &[(LostEvents, 3), (RepeatedEvents, 1), (SwappedEvents, 1)],
            ),
            (&[0, 0, 0], &[]),
            (&[7], &[]),
            (&[0, u64::MAX, 5], &[(LostEvents, 1), (SwappedEvents, 5)]),
            (&[], &[]),
        ] {
            let mut events = EventNumbers::default();
            numbers.iter().for_each(|number| events.add(Some(*number)));
            events.add(None);
            let mut departures = Departures::default();
            events.add_departures(&mut departures);
            let expected: Vec<_> = expected
                .iter()
                .map(|(departure, number)| (*departure, format!("first: number {number}")))
                .collect();
            let found: Vec<_> = departures
                .iter()
                .map(|(departure, example)| (departure, example.to_owned()))
                .collect();
            assert_eq!(found, expected, "{numbers:?}");
        }
    }
}
