//! Fault tests: after any fault the run reports its results and accounts for every request. One
//! module per area.

mod machine;
mod proxies;
mod run;
mod several;
mod wire;
