//! The scalar in which a start of a document ends. Keywords ask of it what it may become.

use std::cell::{Cell, RefCell};

use serde_json::Value;

use super::step_budget::Node;
use super::unfinished_number::UnfinishedNumber;

thread_local! {
    /// The address of the value; 0 for none.
    static ADDRESS: Cell<usize> = const { Cell::new(0) };
    static NUMBER: RefCell<Option<UnfinishedNumber>> = const { RefCell::new(None) };
}

/// Resets the scalar of this thread.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        ADDRESS.set(0);
        NUMBER.take();
    }
}

/// Runs a validation on this thread, of a document in which `scalar` is unfinished.
pub(super) fn with<T>(scalar: &Value, work: impl FnOnce() -> T) -> T {
    let _reset = Reset;
    ADDRESS.set(std::ptr::from_ref(scalar).addr());
    let number = scalar.as_number();
    NUMBER.set(number.map(|number| UnfinishedNumber::parse(number.as_str())));
    work()
}

/// Whether a value is the unfinished scalar.
#[inline]
pub(super) fn is_open(value: Node<'_>) -> bool {
    let address = ADDRESS.get();
    address != 0
        && matches!(value, Node::Built(value) if std::ptr::from_ref(value).addr() == address)
}

/// What `test` says of the unfinished number, if `value` is it.
#[inline]
pub(super) fn number(
    value: Node<'_>,
    test: impl FnOnce(&UnfinishedNumber) -> bool,
) -> Option<bool> {
    is_open(value)
        .then(|| NUMBER.with_borrow(|number| number.as_ref().map(test)))
        .flatten()
}
