//! A report as a value, and its renderings. Pure: printing never computes.
