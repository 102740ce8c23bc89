//! Step budget of a validation: the validator reads the document through [`Counted`], each look at
//! a value is a step, and the validation stops where its steps are used up.
//!
//! The validator itself has no bound: a schema of forty lines can ask for 2^40 looks. Stopping it
//! from inside takes an unwinding. That is not a panic (no hook runs, nothing is printed), and it
//! ends in [`Budget::spend`].

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};

use jsonschema::JsonType;
use jsonschema::json::{self, Json, NodeIdentity};
use serde_json::{Map, Number, Value};

use super::decimal::Decimal;

/// Bytes of text that cost as much to go through as one look at a value.
const BYTES_PER_STEP: usize = 32;

/// Bytes of a number that cost as much to read exactly as one look at a value.
pub(super) const DIGITS_PER_STEP: usize = 8;

/// What reading a number exactly costs more than another look.
const STEPS_PER_NUMBER: usize = 4;

/// How often the cost of matching a name can double before the library gives it up.
const MOST_DOUBLINGS: usize = 10;

thread_local! {
    /// What the validation on this thread may still take.
    static LEFT: Cell<Budget> =
        const { Cell::new(Budget { steps: u64::MAX, each: 1, member: 0, backtracks: false, name_bytes: usize::MAX }) };
}

/// What one validation may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Steps in all.
    pub steps: u64,
    /// Steps that each look costs: more than one where the schema does much between two looks.
    pub each: u64,
    /// Steps more for each member of an object, and for as many bytes of its name as cost a step.
    pub member: u64,
    /// Whether names are matched by backtracking, which can take twice as long for every second
    /// byte.
    pub backtracks: bool,
    /// The longest name that a member may have.
    pub name_bytes: usize,
}

/// Why a validation was ended; carried by the unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All steps were taken.
    Steps,
    /// A member's name is over [`Budget::name_bytes`].
    Name,
    /// By [`give_up`].
    GivenUp,
}

impl Budget {
    /// Runs a validation of [`Counted`] values on this thread; stops where the budget is used up.
    pub(super) fn spend<T>(self, work: impl FnOnce() -> T) -> Result<T, Ended> {
        let before = LEFT.replace(self);
        // What is left half done is the library's, and is dropped with the unwinding.
        let done = panic::catch_unwind(AssertUnwindSafe(|| {
            step(0);
            work()
        }));
        LEFT.set(before);
        done.map_err(|cause| match cause.downcast::<Ended>() {
            Ok(ended) => *ended,
            Err(cause) => panic::resume_unwind(cause),
        })
    }
}

/// Counts a look at a value, and `more` of what else is done with it.
///
/// # Panics
/// Unwinds to [`Budget::spend`] where the budget is used up.
#[inline]
pub(super) fn step(more: usize) {
    let left = LEFT.get();
    match left
        .steps
        .checked_sub(left.each.saturating_add(more as u64))
    {
        Some(steps) => LEFT.set(Budget { steps, ..left }),
        None => panic::resume_unwind(Box::new(Ended::Steps)),
    }
}

/// Ends the validation: what is left cannot change what comes of it.
pub(super) fn give_up() -> ! {
    panic::resume_unwind(Box::new(Ended::GivenUp))
}

/// The representation: a [`Value`] whose readers are counted.
pub(super) struct Counted;

/// A value of a document.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(pub &'a Value);

/// The members of an object.
pub(super) struct Members<'a>(&'a Map<String, Value>);

/// The items of an array.
pub(super) struct Items<'a>(&'a [Value]);

impl Json for Counted {
    type Node<'a> = Node<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        look: impl FnOnce(Node<'_>) -> T,
    ) -> T {
        *buffer = Value::String(string.to_owned());
        look(Node(buffer))
    }
}

impl<'a> json::Node<'a, Counted> for Node<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        step(0);
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        step(0);
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        step(text.map_or(0, str::len) / BYTES_PER_STEP);
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        let number = self.0.as_number();
        step(number.map_or(0, |number| {
            STEPS_PER_NUMBER + number.as_str().len() / DIGITS_PER_STEP
        }));
        number
    }

    fn as_boolean(&self) -> Option<bool> {
        step(0);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        step(0);
        self.0.is_null()
    }

    fn is_number(&self) -> bool {
        step(0);
        self.0.is_number()
    }

    fn json_type(&self) -> JsonType {
        step(0);
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
        equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref(self.0) as usize))
    }
}

impl<'a> json::Object<'a, Counted> for Members<'a> {
    type Node = Node<'a>;
    type MemberName = &'a str;
    type MembersIter = Walk<serde_json::map::Iter<'a>>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Node<'a>> {
        step(key.len() / BYTES_PER_STEP);
        self.0.get(key.as_str()).map(Node)
    }

    fn members(&self) -> Self::MembersIter {
        Walk(self.0.iter())
    }
}

impl<'a> json::Array<'a, Counted> for Items<'a> {
    type Node = Node<'a>;
    type ElementsIter = Walk<std::slice::Iter<'a, Value>>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> Self::ElementsIter {
        Walk(self.0.iter())
    }

    /// By a form that equal values share, so that it takes linear time whatever the items are. The
    /// library's own way compares all items with each other where their hashes agree, and large
    /// numbers all do.
    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.0.iter().all(|item| seen.insert(normal(item)))
    }
}

/// Goes through children, counting each.
pub(super) struct Walk<I>(I);

impl<'a> Iterator for Walk<serde_json::map::Iter<'a>> {
    type Item = (&'a str, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.0.next()?;
        let Budget {
            member,
            backtracks,
            name_bytes,
            ..
        } = LEFT.get();
        if key.len() > name_bytes {
            panic::resume_unwind(Box::new(Ended::Name));
        }
        let bytes = key.len() / BYTES_PER_STEP;
        let matching = if backtracks {
            1 << (key.len() / 2).min(MOST_DOUBLINGS)
        } else {
            1
        };
        step(
            (member as usize)
                .saturating_mul(matching + bytes)
                .saturating_add(bytes),
        );
        Some((key, Node(value)))
    }
}

impl<'a> Iterator for Walk<std::slice::Iter<'a, Value>> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.next()?;
        step(0);
        Some(Node(item))
    }
}

/// Equality as JSON Schema has it: numbers by value, members in any order.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(_), Value::Array(_))
        | (Value::Object(_), Value::Object(_))
        | (Value::Number(_), Value::Number(_)) => normal(left) == normal(right),
        (Value::String(left), Value::String(right)) => {
            let same_length = left.len() == right.len();
            step(if same_length {
                left.len() / BYTES_PER_STEP
            } else {
                0
            });
            same_length && left == right
        }
        (left, right) => {
            step(0);
            left == right
        }
    }
}

/// The value with each number in the one spelling that equal numbers share. Recursion is bounded by
/// the nesting of the document.
fn normal(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            step(0);
            items.iter().map(normal).collect()
        }
        Value::Object(members) => {
            step(
                members.len()
                    + members
                        .keys()
                        .map(|key| key.len() / BYTES_PER_STEP)
                        .sum::<usize>(),
            );
            members
                .iter()
                .map(|(key, value)| (key.clone(), normal(value)))
                .collect()
        }
        Value::Number(number) => {
            step(STEPS_PER_NUMBER + number.as_str().len() / DIGITS_PER_STEP);
            Value::Number(Number::from_string_unchecked(Decimal::spelling(
                number.as_str(),
            )))
        }
        scalar => {
            step(scalar.as_str().map_or(0, str::len) / BYTES_PER_STEP);
            scalar.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use jsonschema::json::{Array as _, Node as _, Object as _};
    use serde_json::json;

    use super::*;

    const TIGHT: Budget = Budget {
        steps: 3,
        each: 1,
        member: 0,
        backtracks: false,
        name_bytes: 8,
    };
    const AMPLE: Budget = Budget {
        steps: 1 << 40,
        ..TIGHT
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
                AMPLE.spend(|| Node(&left).equals_value(&right)),
                Ok(expected),
                "{left} {right}"
            );
            let both = [left, right];
            assert_eq!(
                AMPLE.spend(|| Items(&both).is_unique()),
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
        assert_eq!(AMPLE.spend(|| Items(&tricky).is_unique()), Ok(true));
    }

    #[test]
    fn a_budget_ends_the_work_and_the_one_around_it_goes_on() {
        let items = value(&format!("[{}0]", "1,".repeat(1000)));
        let walk = || Node(&items).as_array().unwrap().elements().count();
        assert_eq!(
            Budget {
                steps: 1100,
                ..TIGHT
            }
            .spend(walk),
            Ok(1001)
        );
        assert_eq!(
            Budget {
                steps: 900,
                ..TIGHT
            }
            .spend(walk),
            Err(Ended::Steps)
        );
        assert_eq!(
            Budget {
                steps: 1100,
                each: 2,
                ..TIGHT
            }
            .spend(walk),
            Err(Ended::Steps)
        );
        assert_eq!(
            Budget {
                each: u64::MAX,
                ..AMPLE
            }
            .spend(|| 1),
            Err(Ended::Steps),
            "before anything was done"
        );
        assert_eq!(
            AMPLE.spend(|| (TIGHT.spend(walk), walk())),
            Ok((Err(Ended::Steps), 1001))
        );
        let named = json!({ "a name of 20 letters": 1 });
        assert_eq!(
            AMPLE.spend(|| Node(&named).as_object().unwrap().members().count()),
            Err(Ended::Name)
        );
        assert_eq!(AMPLE.spend(|| -> () { give_up() }), Err(Ended::GivenUp));
    }

    #[test]
    fn other_panics_go_on() {
        let caught = panic::catch_unwind(|| {
            AMPLE.spend(|| -> () { panic::resume_unwind(Box::new("another")) })
        });
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"another"));
    }
}
