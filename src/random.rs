//! The pseudo-random streams of CPython's `random` and NumPy's legacy `RandomState`, so that a seed means here what it means there.
