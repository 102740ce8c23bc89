//! Values that only some requests of a run have.

use std::collections::HashMap;

/// Requests of a page.
const PAGE: u32 = 64;

/// Values by the number of their request, in pages of consecutive requests.
///
/// If all requests have one, it takes the size of an `Option<T>` in memory. A hash map would take more
/// than twice as much, and half of that again whenever it grows.
#[derive(Clone, Debug)]
pub(super) struct ByRequest<T>(HashMap<u32, Box<[Option<T>]>>);

impl<T> Default for ByRequest<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> ByRequest<T> {
    /// Sets the value of a request.
    pub(super) fn insert(&mut self, request: u32, value: T) {
        let empty = || (0..PAGE).map(|_| None).collect();
        let page = self.0.entry(request / PAGE).or_insert_with(empty);
        page[(request % PAGE) as usize] = Some(value);
    }

    /// The value of a request.
    pub(super) fn get(&self, request: u32) -> Option<&T> {
        // Most kinds of values occur in few runs.
        if self.0.is_empty() {
            return None;
        }
        let page = self.0.get(&(request / PAGE))?;
        page[(request % PAGE) as usize].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_any_number() {
        let mut values = ByRequest::default();
        assert_eq!(values.get(0), None);
        let numbers = [0, 63, 64, 1_000_000, u32::MAX];
        for number in numbers {
            values.insert(number, "before");
            values.insert(number, "after");
        }
        for number in numbers {
            assert_eq!(values.get(number), Some(&"after"));
        }
        for other in [1, 65, u32::MAX - 1] {
            assert_eq!(values.get(other), None);
        }
        assert_eq!(values.0.len(), 4, "two requests are in the first page");
    }
}
