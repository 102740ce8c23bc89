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
use jsonschema::json::{self, Json, JsonNumber, NodeIdentity};
use serde_json::{Map, Number, Value};

use super::decimal::Decimal;
use crate::text_values::{TextItems, TextMembers, TextNode, TextView, to_number};

/// Bytes of text that cost as much as one read of a value.
const BYTES_PER_STEP: usize = 32;

/// Bytes of a number whose exact parsing costs as much as one read of a value.
pub(super) const DIGITS_PER_STEP: usize = 8;

/// Additional steps of parsing a number exactly.
const STEPS_PER_NUMBER: usize = 4;

/// The largest exponent whose power of ten the library makes: its limit on digits.
const MAX_EXPONENT: usize = 10_000;

/// The square of an exponent that costs as much as one read of a value.
const EXPONENT_SQUARE_PER_STEP: usize = 8192;

/// Maximum doublings of the cost of matching a name before the library stops.
const MAX_DOUBLINGS: usize = 10;

/// The budget of a validation, and what is left of it. Each read needs two of the fields, so they are
/// not in one cell.
struct Meter {
    steps: Cell<u64>,
    per_read: Cell<u64>,
    per_member: Cell<u64>,
    backtracking: Cell<bool>,
    name_bytes: Cell<usize>,
}

thread_local! {
    /// Of the validation on this thread.
    static METER: Meter = const {
        Meter {
            steps: Cell::new(u64::MAX),
            per_read: Cell::new(1),
            per_member: Cell::new(0),
            backtracking: Cell::new(false),
            name_bytes: Cell::new(usize::MAX),
        }
    };
}

impl Meter {
    /// Starts a budget, and returns what is left of the one before.
    fn replace(&self, budget: Budget) -> Budget {
        Budget {
            steps: self.steps.replace(budget.steps),
            per_read: self.per_read.replace(budget.per_read),
            per_member: self.per_member.replace(budget.per_member),
            backtracking: self.backtracking.replace(budget.backtracking),
            name_bytes: self.name_bytes.replace(budget.name_bytes),
        }
    }

    /// Counts a read of a value, and `more` steps.
    #[inline]
    fn count(&self, more: u64) {
        let steps = self.per_read.get().saturating_add(more);
        match self.steps.get().checked_sub(steps) {
            Some(remaining) => self.steps.set(remaining),
            None => stop(StopReason::Steps),
        }
    }

    /// Counts a read of a member with this name, which may be matched against patterns.
    #[inline]
    fn count_member(&self, name: &str) {
        if name.len() > self.name_bytes.get() {
            stop(StopReason::Name);
        }
        let bytes = (name.len() / BYTES_PER_STEP) as u64;
        let matching = if self.backtracking.get() {
            1 << (name.len() / 2).min(MAX_DOUBLINGS)
        } else {
            1
        };
        let patterns = self.per_member.get().saturating_mul(matching + bytes);
        self.count(patterns.saturating_add(bytes));
    }
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
        let outer = METER.with(|meter| meter.replace(self));
        // Incomplete state belongs to the library and is dropped by the unwinding.
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            count_read(0);
            work()
        }));
        METER.with(|meter| meter.replace(outer));
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
    METER.with(|meter| meter.count(more as u64));
}

/// Stops the validation: the rest cannot change its result.
pub(super) fn abort() -> ! {
    stop(StopReason::Aborted)
}

#[cold]
fn stop(why: StopReason) -> ! {
    panic::resume_unwind(Box::new(why))
}

/// JSON representation for the validator, whose reads are counted.
pub(super) struct CountedJson;

/// A value of a document.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    /// Of a document that is judged as its text has it.
    Text(TextNode<'a>),
    /// A value that was built: of a document whose violation is explained, or whose text needs the
    /// complete reader, and of a schema.
    Built(&'a Value),
}

/// What a value is.
#[derive(Clone, Copy)]
pub(super) enum View<'a> {
    Null,
    Boolean(bool),
    Number(NumberText<'a>),
    String(&'a str),
    Array(Items<'a>),
    Object(Members<'a>),
}

/// A number as written. Spellings of one number differ.
#[derive(Clone, Copy)]
pub(super) struct NumberText<'a>(pub &'a str);

/// The members of an object.
#[derive(Clone, Copy)]
pub(super) enum Members<'a> {
    Text(TextMembers<'a>),
    Built(&'a Map<String, Value>),
}

/// The items of an array.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    Text(TextItems<'a>),
    Built(&'a [Value]),
}

impl<'a> Node<'a> {
    /// What the value is. Not counted as a read.
    #[inline]
    pub(super) fn view(self) -> View<'a> {
        match self {
            Self::Text(node) => match node.view() {
                TextView::Null => View::Null,
                TextView::Boolean(value) => View::Boolean(value),
                TextView::Number(written) => View::Number(NumberText(written)),
                TextView::String(text) => View::String(text),
                TextView::Array(items) => View::Array(Items::Text(items)),
                TextView::Object(members) => View::Object(Members::Text(members)),
            },
            Self::Built(value) => match value {
                Value::Null => View::Null,
                Value::Bool(value) => View::Boolean(*value),
                Value::Number(number) => View::Number(NumberText(number.as_str())),
                Value::String(text) => View::String(text),
                Value::Array(items) => View::Array(Items::Built(items)),
                Value::Object(members) => View::Object(Members::Built(members)),
            },
        }
    }
}

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
        read(Node::Built(buffer))
    }
}

impl<'a> json::Node<'a, CountedJson> for Node<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = NumberText<'a>;

    #[inline]
    fn as_object(&self) -> Option<Members<'a>> {
        count_read(0);
        match self.view() {
            View::Object(members) => Some(members),
            _ => None,
        }
    }

    #[inline]
    fn as_array(&self) -> Option<Items<'a>> {
        count_read(0);
        match self.view() {
            View::Array(items) => Some(items),
            _ => None,
        }
    }

    #[inline]
    fn as_string(&self) -> Option<Cow<'a, str>> {
        let View::String(text) = self.view() else {
            count_read(0);
            return None;
        };
        count_read(text.len() / BYTES_PER_STEP);
        Some(Cow::Borrowed(text))
    }

    #[inline]
    fn as_number(&self) -> Option<NumberText<'a>> {
        let View::Number(number) = self.view() else {
            count_read(0);
            return None;
        };
        count_read(number.steps());
        Some(number)
    }

    #[inline]
    fn as_boolean(&self) -> Option<bool> {
        count_read(0);
        match self.view() {
            View::Boolean(value) => Some(value),
            _ => None,
        }
    }

    #[inline]
    fn is_null(&self) -> bool {
        count_read(0);
        matches!(self.view(), View::Null)
    }

    #[inline]
    fn is_number(&self) -> bool {
        count_read(0);
        matches!(self.view(), View::Number(_))
    }

    #[inline]
    fn json_type(&self) -> JsonType {
        count_read(0);
        match self.view() {
            View::Null => JsonType::Null,
            View::Boolean(_) => JsonType::Boolean,
            View::Number(_) => JsonType::Number,
            View::String(_) => JsonType::String,
            View::Array(_) => JsonType::Array,
            View::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        json_equal(*self, Node::Built(expected))
    }

    fn to_value(&self) -> Cow<'a, Value> {
        match self {
            Self::Text(node) => Cow::Owned(node.to_value()),
            Self::Built(value) => Cow::Borrowed(value),
        }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(match self {
            Self::Text(node) => node.address(),
            Self::Built(value) => std::ptr::from_ref(*value) as usize,
        }))
    }
}

impl NumberText<'_> {
    /// Steps of parsing the number exactly. The library makes the power of ten of an exponent up to
    /// [`MAX_EXPONENT`], in a time that grows with its square.
    fn steps(self) -> usize {
        let exponent = self.0.split_once(['e', 'E']);
        let exponent = exponent.and_then(|(_, exponent)| exponent.parse::<i64>().ok());
        let exponent = exponent.map_or(0, |exponent| exponent.unsigned_abs() as usize);
        let power = if exponent <= MAX_EXPONENT {
            exponent * exponent / EXPONENT_SQUARE_PER_STEP
        } else {
            0
        };
        STEPS_PER_NUMBER + self.0.len() / DIGITS_PER_STEP + power
    }
}

impl JsonNumber for NumberText<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    fn as_f64(&self) -> Option<f64> {
        self.0
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }

    fn to_number(&self) -> Cow<'_, Number> {
        Cow::Owned(to_number(self.0))
    }

    #[inline]
    fn is_integer(&self) -> bool {
        // In linear time, where the library's way makes the power of ten of an exponent.
        self.is_written_as_integer() || Decimal::parse(self.0).exponent() >= 0
    }

    #[inline]
    fn is_written_as_integer(&self) -> bool {
        !self
            .0
            .bytes()
            .any(|byte| matches!(byte, b'.' | b'e' | b'E'))
    }
}

impl<'a> json::Object<'a, CountedJson> for Members<'a> {
    type Node = Node<'a>;
    type MemberName = &'a str;
    type MembersIter = CountedMembers<'a>;

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Text(members) => members.len(),
            Self::Built(members) => members.len(),
        }
    }

    #[inline]
    fn get(&self, key: &String) -> Option<Node<'a>> {
        count_read(key.len() / BYTES_PER_STEP);
        match self {
            Self::Text(members) => members.get(key).map(Node::Text),
            Self::Built(members) => Map::get(members, key).map(Node::Built),
        }
    }

    fn members(&self) -> CountedMembers<'a> {
        CountedMembers(self.uncounted())
    }
}

impl<'a> json::Array<'a, CountedJson> for Items<'a> {
    type Node = Node<'a>;
    type ElementsIter = CountedItems<'a>;

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Text(items) => items.len(),
            Self::Built(items) => items.len(),
        }
    }

    fn elements(&self) -> CountedItems<'a> {
        CountedItems(self.uncounted())
    }

    /// Compares normal forms, which takes linear time for all items. The library compares all items
    /// with equal hashes pairwise, and the hashes of large numbers are equal.
    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(json::Array::len(self));
        self.uncounted().all(|item| seen.insert(normalized(item)))
    }
}

impl<'a> Items<'a> {
    fn uncounted(self) -> ItemsIter<'a> {
        match self {
            Self::Text(items) => ItemsIter::Text(items),
            Self::Built(items) => ItemsIter::Built(items.iter()),
        }
    }
}

impl<'a> Members<'a> {
    fn uncounted(self) -> MembersIter<'a> {
        match self {
            Self::Text(members) => MembersIter::Text(members),
            Self::Built(members) => MembersIter::Built(members.iter()),
        }
    }
}

/// Iterates over members.
enum MembersIter<'a> {
    Text(TextMembers<'a>),
    Built(serde_json::map::Iter<'a>),
}

/// Iterates over items.
enum ItemsIter<'a> {
    Text(TextItems<'a>),
    Built(std::slice::Iter<'a, Value>),
}

/// Iterates over members and counts each.
pub(super) struct CountedMembers<'a>(MembersIter<'a>);

/// Iterates over items and counts each.
pub(super) struct CountedItems<'a>(ItemsIter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Text(members) => members
                .next()
                .map(|(name, member)| (name, Node::Text(member))),
            Self::Built(members) => members
                .next()
                .map(|(name, member)| (&**name, Node::Built(member))),
        }
    }
}

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Text(items) => items.next().map(Node::Text),
            Self::Built(items) => items.next().map(Node::Built),
        }
    }
}

impl<'a> Iterator for CountedMembers<'a> {
    type Item = (&'a str, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (name, member) = self.0.next()?;
        METER.with(|meter| meter.count_member(name));
        Some((name, member))
    }
}

impl<'a> Iterator for CountedItems<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.next()?;
        count_read(0);
        Some(item)
    }
}

/// Equality in JSON Schema: numbers by value, members in any order.
fn json_equal(left: Node<'_>, right: Node<'_>) -> bool {
    let same_form = || normalized(left) == normalized(right);
    match (left.view(), right.view()) {
        (View::Array(items), View::Array(others)) => {
            count_read(0);
            json::Array::len(&items) == json::Array::len(&others) && same_form()
        }
        (View::Object(members), View::Object(others)) => {
            count_read(0);
            json::Object::len(&members) == json::Object::len(&others) && same_form()
        }
        (View::Number(_), View::Number(_)) => same_form(),
        (View::String(left), View::String(right)) => {
            let same_length = left.len() == right.len();
            count_read(if same_length {
                left.len() / BYTES_PER_STEP
            } else {
                0
            });
            same_length && left == right
        }
        (View::Boolean(left), View::Boolean(right)) => {
            count_read(0);
            left == right
        }
        (left, right) => {
            count_read(0);
            matches!((left, right), (View::Null, View::Null))
        }
    }
}

/// Normalizes each number to the spelling that equal numbers share. Recursion is limited by the
/// nesting of documents and schemas.
fn normalized(value: Node<'_>) -> Value {
    match value.view() {
        View::Array(items) => {
            count_read(0);
            items.uncounted().map(normalized).collect()
        }
        View::Object(members) => {
            let names = members.uncounted().map(|(name, _)| name.len());
            count_read(
                json::Object::len(&members)
                    + names.map(|bytes| bytes / BYTES_PER_STEP).sum::<usize>(),
            );
            members
                .uncounted()
                .map(|(name, member)| (name.to_owned(), normalized(member)))
                .collect()
        }
        View::Number(number) => {
            count_read(number.steps());
            Value::Number(Number::from_string_unchecked(Decimal::canonical_text(
                number.0,
            )))
        }
        View::String(text) => {
            count_read(text.len() / BYTES_PER_STEP);
            Value::String(text.to_owned())
        }
        View::Boolean(value) => {
            count_read(0);
            Value::Bool(value)
        }
        View::Null => {
            count_read(0);
            Value::Null
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
                LARGE_BUDGET.run(|| Node::Built(&left).equals_value(&right)),
                Ok(expected),
                "{left} {right}"
            );
            let both = [left, right];
            assert_eq!(
                LARGE_BUDGET.run(|| Items::Built(&both).is_unique()),
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
        assert_eq!(
            LARGE_BUDGET.run(|| Items::Built(&tricky).is_unique()),
            Ok(true)
        );
    }

    #[test]
    fn a_budget_stops_its_validation_and_not_the_outer_one() {
        let items = value(&format!("[{}0]", "1,".repeat(1000)));
        let walk = || Node::Built(&items).as_array().unwrap().elements().count();
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
            LARGE_BUDGET.run(|| Node::Built(&named).as_object().unwrap().members().count()),
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
