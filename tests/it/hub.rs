//! (see main.rs)
