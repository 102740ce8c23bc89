//! Bit-exact ports of Python behaviour: the random number generators of CPython and NumPy, and JSON
//! with `NaN`.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod nan;
pub mod random;
