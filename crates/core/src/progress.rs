//! Progress of work through input files.

/// Gets how much of an input has been worked on, in bytes or another unit.
pub trait Progress: Sync {
    /// There is more to work on.
    fn expect(&self, more: u64);

    /// More has been worked on.
    fn advance(&self, by: u64);
}

/// Ignores progress.
impl Progress for () {
    fn expect(&self, _more: u64) {}

    fn advance(&self, _by: u64) {}
}
