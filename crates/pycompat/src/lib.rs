//! What Python does, to the bit: the random streams of CPython and NumPy, and JSON with `NaN` in
//! it.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod nan;
pub mod random;
