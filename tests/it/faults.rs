//! Faults survived: whatever breaks, the run comes back with what it learned, and accounts for
//! every request. A module per place where things go wrong.

mod machine;
mod proxies;
mod run;
mod several;
mod wire;
