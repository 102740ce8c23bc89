//! Columns of values that only some requests have.

use std::collections::HashMap;
use std::marker::PhantomData;

use super::Column;

/// Rows of a page.
const PAGE: u32 = 64;

/// Values in pages of consecutive rows.
///
/// If all rows have one, it takes the size of an `Option<T>` in memory. A hash map would take more
/// than twice as much, and half of that again whenever it grows.
#[derive(Clone, Debug)]
pub struct Sparse<T>(HashMap<u32, Box<[Option<T>]>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone + 'static> Column for Sparse<T> {
    type Value = Option<T>;
    type Shown<'a> = Option<&'a T>;

    fn set(&mut self, row: u32, value: Option<T>) {
        let empty = || (0..PAGE).map(|_| None).collect();
        let page = match &value {
            None => self.0.get_mut(&(row / PAGE)),
            Some(_) => Some(self.0.entry(row / PAGE).or_insert_with(empty)),
        };
        if let Some(page) = page {
            page[(row % PAGE) as usize] = value;
        }
    }

    fn get(&self, row: u32) -> Option<&T> {
        // Most kinds of values occur in few runs.
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(row / PAGE))?[(row % PAGE) as usize].as_ref()
    }

    fn value(&self, row: u32) -> Option<T> {
        self.get(row).cloned()
    }
}

/// As [`Sparse`], for small values, which are stored as an `R`.
#[derive(Clone, Debug)]
pub struct Copied<T, R = T> {
    packed: Sparse<R>,
    of: PhantomData<T>,
}

impl<T, R> Default for Copied<T, R> {
    fn default() -> Self {
        Self {
            packed: Sparse::default(),
            of: PhantomData,
        }
    }
}

impl<T: From<R> + 'static, R: From<T> + Copy + 'static> Column for Copied<T, R> {
    type Value = Option<T>;
    type Shown<'a> = Option<T>;

    fn set(&mut self, row: u32, value: Option<T>) {
        self.packed.set(row, value.map(R::from));
    }

    fn get(&self, row: u32) -> Option<T> {
        self.packed.get(row).copied().map(T::from)
    }

    fn value(&self, row: u32) -> Option<T> {
        self.get(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_any_row() {
        let mut values = Sparse::default();
        assert_eq!(values.get(0), None);
        let rows = [0, 63, 64, 1_000_000, u32::MAX];
        for row in rows {
            values.set(row, Some("before"));
            values.set(row, Some("after"));
        }
        for row in rows {
            assert_eq!(values.get(row), Some(&"after"));
        }
        for other in [1, 65, u32::MAX - 1] {
            assert_eq!(values.get(other), None);
        }
        assert_eq!(values.0.len(), 4, "two rows are in the first page");
        values.set(64, None);
        values.set(5_000, None);
        assert_eq!((values.get(64), values.0.len()), (None, 4));
    }
}
