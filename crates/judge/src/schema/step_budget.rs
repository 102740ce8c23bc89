//! Step budget of a validation. The validator reads the document through [`CountedJson`], each read
//! of a value is a step, and the validation stops when its steps are used up.
//!
//! The validator has no limit: a schema of forty lines can cause 2^40 reads. It can be stopped from
//! inside only by unwinding. This is not a panic (no hook runs, nothing is printed), and it ends in
//! [`Budget::run`].

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};

use jsonschema::JsonType;
use jsonschema::json::{self, Json, NodeIdentity};
use serde_json::{Map, Number, Value};

use super::decimal::Decimal;

/// Bytes of text that cost as much as one read of a value.
const BYTES_PER_STEP: usize = 32;

/// Bytes of a number whose exact parsing costs as much as one read of a value.
pub(super) const DIGITS_PER_STEP: usize = 8;

/// Additional steps of parsing a number exactly.
const STEPS_PER_NUMBER: usize = 4;

/// Maximum doublings of the cost of matching a name before the library stops.
const MAX_DOUBLINGS: usize = 10;

thread_local! {
    /// Remaining budget of the validation on this thread.
    static REMAINING: Cell<Budget> =
        const { Cell::new(Budget { steps: u64::MAX, per_read: 1, per_member: 0, backtracking: false, name_bytes: usize::MAX }) };
}

/// Budget of one validation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Total steps.
    pub steps: u64,
    /// Steps per read: more than one if the schema does much work between two reads.
    pub per_read: u64,
    /// Additional steps for each member of an object, and for each [`BYTES_PER_STEP`] of its name.
    pub per_member: u64,
    /// Whether names are matched by backtracking, whose cost can double for every second byte.
    pub backtracking: bool,
    /// Maximum bytes of a member name.
    pub name_bytes: usize,
}

/// Reason for stopping a validation, carried by the unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// All steps were used.
    Steps,
    /// A member name is longer than [`Budget::name_bytes`].
    Name,
    /// By [`abort`].
    Aborted,
}

impl Budget {
    /// Runs a validation of [`CountedJson`] values on this thread, and stops it when the budget is
    /// used up.
    pub(super) fn run<T>(self, work: impl FnOnce() -> T) -> Result<T, StopReason> {
        let outer_budget = REMAINING.replace(self);
        // Incomplete state belongs to the library and is dropped by the unwinding.
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            count_read(0);
            work()
        }));
        REMAINING.set(outer_budget);
        result.map_err(|cause| match cause.downcast::<StopReason>() {
            Ok(ended) => *ended,
            Err(cause) => panic::resume_unwind(cause),
        })
    }
}

/// Counts a read of a value, and `more` steps of related work.
///
/// # Panics
/// Unwinds to [`Budget::run`] if the budget is used up.
#[inline]
pub(super) fn count_read(more: usize) {
    let remaining = REMAINING.get();
    match remaining
        .steps
        .checked_sub(remaining.per_read.saturating_add(more as u64))
    {
        Some(steps) => REMAINING.set(Budget { steps, ..remaining }),
        None => panic::resume_unwind(Box::new(StopReason::Steps)),
    }
}

/// Stops the validation: the rest cannot change its result.
pub(super) fn abort() -> ! {
    panic::resume_unwind(Box::new(StopReason::Aborted))
}

/// JSON representation for the validator: a [`Value`] whose reads are counted.
pub(super) struct CountedJson;

/// A value of a document.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(pub &'a Value);

/// The members of an object.
pub(super) struct Members<'a>(&'a Map<String, Value>);

/// The items of an array.
pub(super) struct Items<'a>(&'a [Value]);

impl Json for CountedJson {
    type Node<'a> = Node<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        read: impl FnOnce(Node<'_>) -> T,
    ) -> T {
        *buffer = Value::String(string.to_owned());
        read(Node(buffer))
    }
}

impl<'a> json::Node<'a, CountedJson> for Node<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        count_read(0);
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        count_read(0);
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        count_read(text.map_or(0, str::len) / BYTES_PER_STEP);
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        let number = self.0.as_number();
        count_read(number.map_or(0, |number| {
            STEPS_PER_NUMBER + number.as_str().len() / DIGITS_PER_STEP
        }));
        number
    }

    fn as_boolean(&self) -> Option<bool> {
        count_read(0);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        count_read(0);
        self.0.is_null()
    }

    fn is_number(&self) -> bool {
        count_read(0);
        self.0.is_number()
    }

    fn json_type(&self) -> JsonType {
        count_read(0);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        json_equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref(self.0) as usize))
    }
}

impl<'a> json::Object<'a, CountedJson> for Members<'a> {
    type Node = Node<'a>;
    type MemberName = &'a str;
    type MembersIter = CountedIter<serde_json::map::Iter<'a>>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Node<'a>> {
        count_read(key.len() / BYTES_PER_STEP);
        self.0.get(key.as_str()).map(Node)
    }

    fn members(&self) -> Self::MembersIter {
        CountedIter(self.0.iter())
    }
}

impl<'a> json::Array<'a, CountedJson> for Items<'a> {
    type Node = Node<'a>;
    type ElementsIter = CountedIter<std::slice::Iter<'a, Value>>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> Self::ElementsIter {
        CountedIter(self.0.iter())
    }

    /// Compares normal forms, which takes linear time for all items. The library compares all items
    /// with equal hashes pairwise, and the hashes of large numbers are equal.
    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.0.iter().all(|item| seen.insert(normalized(item)))
    }
}

/// Iterates over children and counts each.
pub(super) struct CountedIter<I>(I);

impl<'a> Iterator for CountedIter<serde_json::map::Iter<'a>> {
    type Item = (&'a str, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.0.next()?;
        let Budget {
            per_member,
            backtracking,
            name_bytes,
            ..
        } = REMAINING.get();
        if key.len() > name_bytes {
            panic::resume_unwind(Box::new(StopReason::Name));
        }
        let bytes = key.len() / BYTES_PER_STEP;
        let matching = if backtracking {
            1 << (key.len() / 2).min(MAX_DOUBLINGS)
        } else {
            1
        };
        count_read(
            (per_member as usize)
                .saturating_mul(matching + bytes)
                .saturating_add(bytes),
        );
        Some((key, Node(value)))
    }
}

impl<'a> Iterator for CountedIter<std::slice::Iter<'a, Value>> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.next()?;
        count_read(0);
        Some(Node(item))
    }
}

/// Equality in JSON Schema: numbers by value, members in any order.
fn json_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(_), Value::Array(_))
        | (Value::Object(_), Value::Object(_))
        | (Value::Number(_), Value::Number(_)) => normalized(left) == normalized(right),
        (Value::String(left), Value::String(right)) => {
            let same_length = left.len() == right.len();
            count_read(if same_length {
                left.len() / BYTES_PER_STEP
            } else {
                0
            });
            same_length && left == right
        }
        (left, right) => {
            count_read(0);
            left == right
        }
    }
}

/// Normalizes each number to the spelling that equal numbers share. Recursion is limited by the
/// nesting of the document.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            count_read(0);
            items.iter().map(normalized).collect()
        }
        Value::Object(members) => {
            count_read(
                members.len()
                    + members
                        .keys()
                        .map(|key| key.len() / BYTES_PER_STEP)
                        .sum::<usize>(),
            );
            members
                .iter()
                .map(|(key, value)| (key.clone(), normalized(value)))
                .collect()
        }
        Value::Number(number) => {
            count_read(STEPS_PER_NUMBER + number.as_str().len() / DIGITS_PER_STEP);
            Value::Number(Number::from_string_unchecked(Decimal::canonical_text(
                number.as_str(),
            )))
        }
        scalar => {
            count_read(scalar.as_str().map_or(0, str::len) / BYTES_PER_STEP);
            scalar.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use jsonschema::json::{Array as _, Node as _, Object as _};
    use serde_json::json;

    use super::*;

    const SMALL_BUDGET: Budget = Budget {
        steps: 3,
        per_read: 1,
        per_member: 0,
        backtracking: false,
        name_bytes: 8,
    };
    const LARGE_BUDGET: Budget = Budget {
        steps: 1 << 40,
        ..SMALL_BUDGET
    };

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn equality_is_by_value() {
        for (left, right, expected) in [
            ("1", "1.0", true),
            ("1", "10e-1", true),
            ("-0", "0.0", true),
            ("-1", "1", false),
            ("1e400", "10e399", true),
            ("1e999999999", "1e999999998", false),
            ("9007199254740993", "9007199254740992", false),
            ("0.1", "0.10000000000000001", false),
            ("[1,{\"a\":1,\"b\":2}]", "[1.0,{\"b\":2e0,\"a\":1}]", true),
            ("{\"a\":1}", "{\"b\":1}", false),
            ("{\"a\":1}", "{\"a\":1,\"b\":2}", false),
            ("\"1\"", "1", false),
            ("true", "1", false),
            ("null", "null", true),
        ] {
            let (left, right) = (value(left), value(right));
            assert_eq!(
                LARGE_BUDGET.run(|| Node(&left).equals_value(&right)),
                Ok(expected),
                "{left} {right}"
            );
            let both = [left, right];
            assert_eq!(
                LARGE_BUDGET.run(|| Items(&both).is_unique()),
                Ok(!expected),
                "{both:?}"
            );
        }
        let tricky = [
            json!("1:a"),
            json!(["1:a"]),
            json!({"a": "b"}),
            json!({"a:b": 1}),
            json!("n"),
            json!(null),
            json!([[], []]),
        ];
        assert_eq!(LARGE_BUDGET.run(|| Items(&tricky).is_unique()), Ok(true));
    }

    #[test]
    fn a_budget_stops_its_validation_and_not_the_outer_one() {
        let items = value(&format!("[{}0]", "1,".repeat(1000)));
        let walk = || Node(&items).as_array().unwrap().elements().count();
        assert_eq!(
            Budget {
                steps: 1100,
                ..SMALL_BUDGET
            }
            .run(walk),
            Ok(1001)
        );
        assert_eq!(
            Budget {
                steps: 900,
                ..SMALL_BUDGET
            }
            .run(walk),
            Err(StopReason::Steps)
        );
        assert_eq!(
            Budget {
                steps: 1100,
                per_read: 2,
                ..SMALL_BUDGET
            }
            .run(walk),
            Err(StopReason::Steps)
        );
        assert_eq!(
            Budget {
                per_read: u64::MAX,
                ..LARGE_BUDGET
            }
            .run(|| 1),
            Err(StopReason::Steps),
            "stopped before the first read"
        );
        assert_eq!(
            LARGE_BUDGET.run(|| (SMALL_BUDGET.run(walk), walk())),
            Ok((Err(StopReason::Steps), 1001))
        );
        let named = json!({ "a name of 20 letters": 1 });
        assert_eq!(
            LARGE_BUDGET.run(|| Node(&named).as_object().unwrap().members().count()),
            Err(StopReason::Name)
        );
        assert_eq!(
            LARGE_BUDGET.run(|| -> () { abort() }),
            Err(StopReason::Aborted)
        );
    }

    #[test]
    fn other_panics_are_propagated() {
        let panic = panic::catch_unwind(|| {
            LARGE_BUDGET.run(|| -> () { panic::resume_unwind(Box::new("another")) })
        });
        assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"another"));
    }
}
