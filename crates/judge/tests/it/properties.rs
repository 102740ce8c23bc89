//! Properties that hold for whatever is generated: instances of a schema are valid and instances
//! with one keyword broken are not; grammars and regular expressions mean what oracles of our own,
//! and a second recogniser, take them to mean.

mod breaks;
mod expression;
mod grammars;
mod regexes;
mod schemas;
mod shape;
mod source;
mod spelling;
mod syntax;
mod write;
