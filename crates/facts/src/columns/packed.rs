//! Columns with a number of some bits or bytes for each row.

use std::marker::PhantomData;

use super::Column;
use sobench_core::case::Arm;
use sobench_judge::accuracy::Grade;

/// A value that is stored as an `R`.
pub trait Pack<R>: Copy {
    /// In place of a missing value.
    const MISSING: R;
    fn pack(self) -> R;
    fn unpack(packed: R) -> Self;

    /// Whether it is missing, and so needs no place at the end of a column.
    fn is_missing(packed: R) -> bool
    where
        R: PartialEq,
    {
        packed == Self::MISSING
    }
}

/// Values as `R`s.
#[derive(Clone, Debug)]
pub struct Dense<T, R = T> {
    packed: Vec<R>,
    of: PhantomData<T>,
}

impl<T, R> Default for Dense<T, R> {
    fn default() -> Self {
        Self {
            packed: Vec::new(),
            of: PhantomData,
        }
    }
}

impl<T: Pack<R>, R: Copy> Dense<T, R> {
    /// The packed values of this many rows.
    pub fn fill(&mut self, rows: usize) {
        self.packed.resize(rows, T::MISSING);
    }

    /// The packed values, up to the last row with one.
    pub fn packed(&self) -> &[R] {
        &self.packed
    }
}

impl<T: Pack<R> + 'static, R: Copy + PartialEq + 'static> Column for Dense<T, R> {
    type Value = T;
    type Shown<'a> = T;

    fn set(&mut self, row: u32, value: T) {
        let (row, packed) = (row as usize, value.pack());
        match self.packed.get_mut(row) {
            Some(known) => *known = packed,
            None if T::is_missing(packed) => {}
            None => {
                self.packed.resize(row, T::MISSING);
                self.packed.push(packed);
            }
        }
    }

    fn get(&self, row: u32) -> T {
        T::unpack(self.packed.get(row as usize).copied().unwrap_or(T::MISSING))
    }

    fn value(&self, row: u32) -> T {
        self.get(row)
    }

    fn reserve(&mut self, rows: usize) {
        self.packed.reserve_exact(rows);
    }
}

impl Pack<u64> for u64 {
    const MISSING: u64 = 0;
    fn pack(self) -> u64 {
        self
    }
    fn unpack(packed: u64) -> Self {
        packed
    }
}

impl Pack<u64> for Option<u64> {
    const MISSING: u64 = u64::MAX;
    fn pack(self) -> u64 {
        self.unwrap_or(u64::MAX)
    }
    fn unpack(packed: u64) -> Self {
        (packed != u64::MAX).then_some(packed)
    }
}

impl Pack<f64> for f64 {
    const MISSING: f64 = 0.0;
    fn pack(self) -> f64 {
        self
    }
    fn unpack(packed: f64) -> Self {
        packed
    }
}

/// NaN is missing.
impl Pack<f64> for Option<f64> {
    const MISSING: f64 = f64::NAN;
    fn pack(self) -> f64 {
        self.unwrap_or(f64::NAN)
    }
    fn unpack(packed: f64) -> Self {
        (!packed.is_nan()).then_some(packed)
    }
    fn is_missing(packed: f64) -> bool {
        packed.is_nan()
    }
}

/// Saturated below the missing value.
impl Pack<u32> for Option<u64> {
    const MISSING: u32 = u32::MAX;
    fn pack(self) -> u32 {
        self.map_or(u32::MAX, |number| {
            u32::try_from(number).map_or(u32::MAX - 1, |number| number.min(u32::MAX - 1))
        })
    }
    fn unpack(packed: u32) -> Self {
        (packed != u32::MAX).then(|| u64::from(packed))
    }
}

/// Saturated.
impl Pack<u32> for u64 {
    const MISSING: u32 = 0;
    fn pack(self) -> u32 {
        u32::try_from(self).unwrap_or(u32::MAX)
    }
    fn unpack(packed: u32) -> Self {
        Self::from(packed)
    }
}

/// Numbers of requests, inputs and texts, which fit.
impl Pack<u32> for usize {
    const MISSING: u32 = 0;
    fn pack(self) -> u32 {
        self as u32
    }
    fn unpack(packed: u32) -> Self {
        packed as Self
    }
}

/// Numbers and offsets, which are below the missing value.
impl Pack<u32> for Option<u32> {
    const MISSING: u32 = u32::MAX;
    fn pack(self) -> u32 {
        self.unwrap_or(u32::MAX)
    }
    fn unpack(packed: u32) -> Self {
        (packed != u32::MAX).then_some(packed)
    }
}

/// A value of few bits. The missing value is 0.
pub trait Few: Copy {
    /// A divisor of 64.
    const BITS: u32;
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

/// Values of few bits.
#[derive(Clone, Debug)]
pub struct Bits<T> {
    words: Vec<u64>,
    of: PhantomData<T>,
}

impl<T> Default for Bits<T> {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            of: PhantomData,
        }
    }
}

impl<T: Few> Bits<T> {
    const MASK: u64 = u64::MAX >> (64 - T::BITS);

    /// The word of a row, and the place in it.
    fn place(row: u32) -> (usize, u32) {
        let in_word = 64 / T::BITS;
        ((row / in_word) as usize, row % in_word * T::BITS)
    }
}

impl<T: Few + 'static> Column for Bits<T> {
    type Value = T;
    type Shown<'a> = T;

    fn set(&mut self, row: u32, value: T) {
        let (word, place) = Self::place(row);
        let bits = value.to_bits();
        debug_assert!(bits <= Self::MASK, "{bits:#x} does not fit");
        if word >= self.words.len() {
            if bits == 0 {
                return;
            }
            self.words.resize(word + 1, 0);
        }
        self.words[word] = self.words[word] & !(Self::MASK << place) | bits << place;
    }

    fn get(&self, row: u32) -> T {
        let (word, place) = Self::place(row);
        let word = self.words.get(word).copied().unwrap_or_default();
        T::from_bits(word >> place & Self::MASK)
    }

    fn value(&self, row: u32) -> T {
        self.get(row)
    }
}

impl Few for bool {
    const BITS: u32 = 1;
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

impl Few for Option<bool> {
    const BITS: u32 = 2;
    fn to_bits(self) -> u64 {
        self.map_or(0, |is_set| 2 | u64::from(is_set))
    }
    fn from_bits(bits: u64) -> Self {
        (bits & 2 != 0).then_some(bits & 1 != 0)
    }
}

impl Few for Arm {
    const BITS: u32 = 4;
    fn to_bits(self) -> u64 {
        place(&Self::ALL, &self)
    }
    fn from_bits(bits: u64) -> Self {
        Self::ALL[bits as usize]
    }
}

impl Few for Option<Arm> {
    const BITS: u32 = 4;
    fn to_bits(self) -> u64 {
        self.map_or(0, |arm| 1 + place(&Arm::ALL, &arm))
    }
    fn from_bits(bits: u64) -> Self {
        Arm::ALL.get((bits as usize).wrapping_sub(1)).copied()
    }
}

impl Few for Option<Grade> {
    const BITS: u32 = 4;
    fn to_bits(self) -> u64 {
        self.map_or(0, |grade| 1 + place(&Grade::ALL, &grade))
    }
    fn from_bits(bits: u64) -> Self {
        Grade::ALL.get((bits as usize).wrapping_sub(1)).copied()
    }
}

/// Numbers below 16.
impl Few for u64 {
    const BITS: u32 = 4;
    fn to_bits(self) -> u64 {
        self
    }
    fn from_bits(bits: u64) -> Self {
        bits
    }
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u64 {
    let place = all.iter().position(|known| known == one);
    place.expect("the list has every value") as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<C: Column + Default>(values: &[C::Value])
    where
        C::Value: Clone + std::fmt::Debug + PartialEq,
    {
        let mut column = C::default();
        let rows = || (0..).step_by(7).zip(values);
        for (row, value) in rows() {
            column.set(row, value.clone());
        }
        for (row, value) in rows() {
            assert_eq!(column.value(row), *value, "row {row}");
        }
        for (row, value) in rows() {
            column.set(row, values[values.len() - 1].clone());
            column.set(row, value.clone());
            assert_eq!(column.value(row), *value, "set again in row {row}");
        }
    }

    #[test]
    fn values_round_trip() {
        check::<Bits<bool>>(&[true, false, true, true, false]);
        check::<Bits<Option<bool>>>(&[None, Some(true), Some(false), None, Some(true)]);
        check::<Bits<Arm>>(&Arm::ALL);
        check::<Bits<Option<Arm>>>(&[&Arm::ALL.map(Some)[..], &[None]].concat());
        let grades = Grade::ALL.map(Some);
        check::<Bits<Option<Grade>>>(&[&grades[..], &[None]].concat());
        check::<Bits<u64>>(&[15, 0, 7]);
        check::<Dense<u64>>(&[0, 1, u64::MAX]);
        check::<Dense<Option<u64>, u64>>(&[None, Some(0), Some(u64::MAX - 1)]);
        check::<Dense<Option<u32>, u32>>(&[Some(0), None, Some(9)]);
        check::<Dense<usize, u32>>(&[5, 0, 1 << 20]);
        check::<Dense<Option<f64>, f64>>(&[None, Some(0.0), Some(-1.5), None]);
    }

    #[test]
    fn missing_values_at_the_end_take_no_memory() {
        let mut column = Dense::<Option<u64>, u64>::default();
        column.set(3, Some(1));
        column.set(1_000_000, None);
        assert_eq!(column.packed.len(), 4);
        assert_eq!((column.get(0), column.get(1_000_000)), (None, None));
        let mut unknown = Dense::<Option<f64>, f64>::default();
        unknown.set(1_000_000, None);
        assert!(unknown.packed().is_empty());
        let mut bits = Bits::<bool>::default();
        bits.set(1_000_000, false);
        assert!(bits.words.is_empty() && !bits.get(7));
    }

    #[test]
    fn large_numbers_are_saturated() {
        let mut column = Dense::<Option<u64>, u32>::default();
        column.set(0, Some(u64::MAX));
        assert_eq!(column.get(0), Some(u64::from(u32::MAX) - 1));
    }
}
