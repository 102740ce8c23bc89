//! Faults survived: what a user sees of each, end to end. A module per place where things go wrong.

mod wire;
