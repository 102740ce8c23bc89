//! Property tests: instances of a generated schema are valid, and instances with one violated
//! keyword are not. Grammars and regular expressions agree with independent oracles and a second
//! recognizer.

mod expression;
mod grammars;
mod prefixes;
mod regexes;
mod schemas;
mod shape;
mod source;
mod spelling;
mod syntax;
mod violations;
mod write;
