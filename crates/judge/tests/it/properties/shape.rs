//! Generated schemas in a form that can be written for any draft, sampled and violated.

use serde_json::{Map, Value};

use super::source::Source;

/// A set of JSON values.
#[derive(Debug)]
pub(super) enum Shape {
    Anything,
    Null,
    Boolean,
    /// Lengths in characters.
    Text {
        least: usize,
        most: usize,
    },
    /// A text of at least `least` characters, except for the text of exactly `least` tildes.
    TextExcept {
        least: usize,
    },
    NotString,
    Matching(&'static Samples),
    Format(&'static Samples),
    Number(Range),
    /// Integers below or above a number, which itself matches both sides.
    NotEqual(i128),
    Choice {
        values: Vec<Value>,
        single: bool,
    },
    List {
        of: Box<Shape>,
        least: usize,
        most: usize,
    },
    /// Distinct integers.
    Distinct,
    /// Values at fixed positions, which may be missing at the end, and the values after them.
    Tuple {
        parts: Vec<Shape>,
        rest: Rest,
    },
    /// At least `least` and at most `most` nulls among numbers.
    CountedNulls {
        least: usize,
        most: usize,
    },
    Record(Record),
    /// Values of several types. `exactly` selects `oneOf` instead of `anyOf`.
    Either {
        parts: Vec<Shape>,
        exactly: bool,
    },
    /// The inner shape, with each keyword in a separate subschema.
    SeparateKeywords(Box<Shape>),
    /// The inner shape, as a named definition.
    Named {
        name: String,
        of: Box<Shape>,
    },
    /// `{"value": .., "next": {..}}`, of any depth.
    Chain {
        name: String,
        value: Box<Shape>,
    },
}

/// An argument of a keyword with valid and invalid texts.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) source: &'static str,
    pub(super) good: &'static [&'static str],
    pub(super) bad: &'static [&'static str],
}

/// Numbers `n * 10^-scale`, in steps, from `low` to `high`.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) integer: bool,
    pub(super) scale: u32,
    /// 1 if unrestricted.
    pub(super) step: i128,
    pub(super) low: Option<Bound>,
    pub(super) high: Option<Bound>,
    /// A number in the range.
    pub(super) inner: i128,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) at: i128,
    pub(super) exclusive: bool,
}

/// Values besides the named ones.
#[derive(Debug)]
pub(super) enum Rest {
    Anything,
    Nothing,
    Only(Box<Shape>),
    /// Members whose names start with `x-`.
    Prefixed(Box<Shape>),
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) members: Vec<Member>,
    pub(super) rest: Rest,
    /// The longest name, in characters.
    pub(super) name_most: Option<usize>,
    /// The second of these optional members is required if the first is present.
    pub(super) dependent: Option<(usize, usize)>,
    pub(super) least: usize,
    pub(super) most: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
}

const NAMES: [&str; 12] = [
    "a",
    "b",
    "$ref",
    "b/c",
    "d~e",
    "",
    "é",
    "type",
    "per%25cent",
    "a b",
    "\"q\"",
    "😀",
];

const DEFINITIONS: [&str; 7] = [
    "plain",
    "with space",
    "sla/sh",
    "til~de",
    "per%cent",
    "quo\"te",
    "ünï",
];

const LETTERS: [char; 10] = ['a', 'Z', '7', ' ', '"', '\\', 'é', '😀', '\n', '\u{1}'];

const PATTERNS: &[Samples] = &[
    Samples {
        source: "^[a-z]{2,4}$",
        good: &["ab", "wxyz"],
        bad: &["a", "abcde", "aB", "ab\n"],
    },
    Samples {
        source: "^\\d+$",
        good: &["0", "123"],
        bad: &["", "1a", "\u{663}"],
    },
    Samples {
        source: "ab|cd",
        good: &["ab", "xcdx"],
        bad: &["", "acbd", "AB"],
    },
    Samples {
        source: "^\\w+\\s\\w+$",
        good: &["a b", "_\u{a0}9"],
        bad: &["ab", "é é", "a b "],
    },
    Samples {
        source: "^(?=.*\\d)[a-z0-9]+$",
        good: &["a1", "7"],
        bad: &["a", "A1"],
    },
    Samples {
        source: "^.$",
        good: &["a", "é", "😀"],
        bad: &["", "ab", "\n", "\u{2028}"],
    },
    Samples {
        source: "^(a|b)\\1$",
        good: &["aa", "bb"],
        bad: &["ab", "a"],
    },
    Samples {
        source: "\\bend$",
        good: &["end", "the end"],
        bad: &["bend", "end."],
    },
    Samples {
        source: "^\\p{Lu}",
        good: &["Ab", "É"],
        bad: &["ab", "1"],
    },
    Samples {
        source: "[^x]",
        good: &["y", "xy"],
        bad: &["", "xx"],
    },
];

const FORMATS: &[Samples] = &[
    Samples {
        source: "date",
        good: &["2024-02-29"],
        bad: &["2023-02-29", "2024-2-9", "today"],
    },
    Samples {
        source: "date-time",
        good: &["2024-02-29T23:59:59Z", "1990-12-31T15:59:60-08:00"],
        bad: &["2024-02-29"],
    },
    Samples {
        source: "time",
        good: &["08:30:06Z", "08:30:06.5+00:20"],
        bad: &["25:00:00Z", "08:30:06"],
    },
    Samples {
        source: "email",
        good: &["a@example.com"],
        bad: &["a.example.com", "@example.com"],
    },
    Samples {
        source: "ipv4",
        good: &["192.0.2.1"],
        bad: &["192.0.2.256", "192.0.2"],
    },
    Samples {
        source: "ipv6",
        good: &["::1", "2001:db8::1"],
        bad: &["12345::", "1::2::3"],
    },
    Samples {
        source: "uri",
        good: &["https://example.com/a?b#c"],
        bad: &["/a", "ht tp://x"],
    },
    Samples {
        source: "uuid",
        good: &["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
        bad: &["2eb8aa08", "2eb8aa08aa9811eab4aa73b441d16380"],
    },
    Samples {
        source: "hostname",
        good: &["example.com"],
        bad: &["-a.com", "a_b.com"],
    },
    Samples {
        source: "duration",
        good: &["P1Y2M", "PT5S"],
        bad: &["P", "1Y"],
    },
    Samples {
        source: "json-pointer",
        good: &["/a/b~1c", ""],
        bad: &["a", "/~2"],
    },
];

impl Shape {
    /// Draws a shape with nested shapes up to `depth`.
    pub(super) fn draw(source: &mut Source, depth: usize) -> Self {
        let kind = source.below(if depth == 0 { 5 } else { 12 });
        match kind {
            0..5 => Self::scalar(source),
            5 | 6 => Self::Record(Record::draw(source, depth)),
            7 | 8 => Self::list(source, depth),
            9 => Self::either(source, depth),
            10 => Self::Named {
                name: definition(source),
                of: Box::new(Self::draw(source, depth - 1)),
            },
            _ => Self::Chain {
                name: definition(source),
                value: Box::new(Self::draw(source, depth - 1)),
            },
        }
    }

    fn scalar(source: &mut Source) -> Self {
        match source.below(12) {
            0 => Self::Boolean,
            1 => Self::Null,
            2 => Self::text(source),
            3 => Self::Number(Range::draw(source)),
            4 => Self::Matching(source.pick(PATTERNS)),
            5 => Self::Format(source.pick(FORMATS)),
            6 => Self::TextExcept {
                least: 1 + source.below(3),
            },
            7 => Self::NotEqual(source.below(100) as i128 - 50),
            8 => Self::choice(source),
            9 => Self::Anything,
            10 => Self::NotString,
            _ => Self::SeparateKeywords(Box::new(if source.once_in(2) {
                Self::Number(Range::draw(source))
            } else {
                Self::text(source)
            })),
        }
    }

    fn text(source: &mut Source) -> Self {
        let least = source.below(4);
        Self::Text {
            least,
            most: least + source.below(4),
        }
    }

    fn choice(source: &mut Source) -> Self {
        let single = source.once_in(2);
        let mut values: Vec<Value> = Vec::new();
        for _ in 0..if single { 1 } else { 1 + source.below(3) } {
            let value = any_value(source, 2);
            if !values.iter().any(|known| json_equal(known, &value)) {
                values.push(value);
            }
        }
        Self::Choice { values, single }
    }

    fn list(source: &mut Source, depth: usize) -> Self {
        match source.below(4) {
            0 => {
                let least = source.below(3);
                let most = (least + source.below(3)).max(1);
                Self::List {
                    of: Box::new(Self::draw(source, depth - 1)),
                    least,
                    most,
                }
            }
            1 => Self::Distinct,
            2 => {
                let parts = (0..1 + source.below(3))
                    .map(|_| Self::draw(source, depth - 1))
                    .collect();
                Self::Tuple {
                    parts,
                    rest: Rest::draw(source, depth, 3),
                }
            }
            _ => {
                let least = 1 + source.below(2);
                Self::CountedNulls {
                    least,
                    most: least + source.below(3),
                }
            }
        }
    }

    fn either(source: &mut Source, depth: usize) -> Self {
        let order = source.permutation(6);
        let parts = order[..2 + source.below(3)].iter().map(|kind| match kind {
            0 => Self::Null,
            1 => Self::Boolean,
            2 => Self::text(source),
            3 => Self::Number(Range::draw(source)),
            4 => Self::List {
                of: Box::new(Self::draw(source, depth - 1)),
                least: 1,
                most: 2,
            },
            _ => Self::Record(Record::draw(source, depth)),
        });
        let parts = parts.collect();
        Self::Either {
            parts,
            exactly: source.once_in(2),
        }
    }

    /// Draws a value of this shape.
    pub(super) fn sample(&self, source: &mut Source) -> Value {
        match self {
            Self::Anything => any_value(source, 2),
            Self::Null => Value::Null,
            Self::Boolean => Value::Bool(source.once_in(2)),
            Self::Text { least, most } => Value::from(text(source, *least, *most)),
            Self::TextExcept { least } => Value::from(text(source, *least, least + 2)),
            Self::NotString => [
                Value::Null,
                Value::Bool(true),
                number(5, 1),
                Value::Array(Vec::new()),
            ][source.below(4)]
            .clone(),
            Self::Matching(samples) | Self::Format(samples) => {
                Value::from(*source.pick(samples.good))
            }
            Self::Number(range) => range.sample(source),
            Self::NotEqual(at) => number(at + [1, -1, 12345, -77][source.below(4)], 0),
            Self::Choice { values, .. } => source.pick(values).clone(),
            Self::List { of, least, most } => (0..least + source.below(most - least + 1))
                .map(|_| of.sample(source))
                .collect(),
            Self::Distinct => {
                let (start, step) = (source.below(20) as i128 - 10, 1 + source.below(3) as i128);
                (0..source.below(5))
                    .map(|index| number(start + step * index as i128, 0))
                    .collect()
            }
            Self::Tuple { parts, rest } => {
                let mut values: Vec<Value> = parts.iter().map(|part| part.sample(source)).collect();
                match source.below(3) {
                    0 => values.truncate(source.below(parts.len() + 1)),
                    1 => {}
                    _ => values.extend(rest.sample(source)),
                }
                Value::Array(values)
            }
            Self::CountedNulls { least, most } => {
                let mut values = vec![Value::Null; least + source.below(most - least + 1)];
                for _ in 0..source.below(3) {
                    values.insert(
                        source.below(values.len() + 1),
                        number(source.below(9) as i128, 0),
                    );
                }
                Value::Array(values)
            }
            Self::Record(record) => record.sample(source),
            Self::Either { parts, .. } => source.pick(parts).sample(source),
            Self::SeparateKeywords(of) | Self::Named { of, .. } => of.sample(source),
            Self::Chain { value, .. } => {
                let link = |value| Map::from_iter([("value".to_owned(), value)]);
                let mut chain = link(value.sample(source));
                for _ in 0..source.below(3) {
                    let mut longer = link(value.sample(source));
                    longer.insert("next".to_owned(), Value::Object(chain));
                    chain = longer;
                }
                Value::Object(chain)
            }
        }
    }
}

impl Range {
    fn draw(source: &mut Source) -> Self {
        let integer = source.once_in(2);
        let scale = if integer { 0 } else { source.below(4) as u32 };
        let step = *source.pick(&[1, 2, 5, 7, 25, 1000]);
        // Around the limits of 64-bit integers and floats.
        let about = *source.pick(&[
            0,
            100,
            -3,
            1 << 53,
            i64::MAX as i128,
            -(1 << 63),
            10_i128.pow(30),
        ]);
        let inner = (about + source.below(50) as i128).div_euclid(step) * step;
        let bound = |source: &mut Source, sign: i128| {
            let exclusive = source.once_in(2);
            let away = source.below(30) as i128 + i128::from(exclusive);
            source.once_in(2).then_some(Bound {
                at: inner + sign * away,
                exclusive,
            })
        };
        Self {
            integer,
            scale,
            step,
            low: bound(source, -1),
            high: bound(source, 1),
            inner,
        }
    }

    fn sample(&self, source: &mut Source) -> Value {
        let reach = (
            self.lowest()
                .map_or(5, |low| (self.inner - low) / self.step),
            self.highest()
                .map_or(5, |high| (high - self.inner) / self.step),
        );
        let steps =
            source.below(usize::try_from(reach.0 + reach.1 + 1).expect("bounds are near")) as i128;
        number(
            self.inner
                + if steps <= reach.1 {
                    steps
                } else {
                    reach.1 - steps
                } * self.step,
            self.scale,
        )
    }

    /// The smallest number in the range.
    pub(super) fn lowest(&self) -> Option<i128> {
        self.low.map(|low| low.at + i128::from(low.exclusive))
    }

    /// The largest number in the range.
    pub(super) fn highest(&self) -> Option<i128> {
        self.high.map(|high| high.at - i128::from(high.exclusive))
    }
}

impl Rest {
    fn draw(source: &mut Source, depth: usize, kinds: usize) -> Self {
        match source.below(kinds) {
            0 => Self::Anything,
            1 => Self::Nothing,
            2 => Self::Only(Box::new(Shape::draw(source, depth - 1))),
            _ => Self::Prefixed(Box::new(Shape::draw(source, depth - 1))),
        }
    }

    fn sample(&self, source: &mut Source) -> Vec<Value> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Anything => (0..source.below(3)).map(|_| any_value(source, 1)).collect(),
            Self::Only(shape) | Self::Prefixed(shape) => {
                (0..source.below(3)).map(|_| shape.sample(source)).collect()
            }
        }
    }
}

impl Record {
    fn draw(source: &mut Source, depth: usize) -> Self {
        let order = source.permutation(NAMES.len());
        let members: Vec<Member> = order[..source.below(4)]
            .iter()
            .map(|name| Member {
                name: NAMES[*name],
                shape: Shape::draw(source, depth - 1),
                required: source.once_in(2),
            })
            .collect();
        let rest = Rest::draw(source, depth, 4);
        let optional: Vec<usize> = (0..members.len())
            .filter(|index| !members[*index].required)
            .collect();
        let dependent =
            (optional.len() > 1 && source.once_in(2)).then(|| (optional[0], optional[1]));
        let emptiable = !members.is_empty() && optional.len() == members.len();
        let open = matches!(rest, Rest::Anything);
        let (name_most, least, most) = match source.below(4) {
            1 if open => (Some(12), 0, None),
            2 if emptiable => (None, 1, None),
            3 if open => (None, 0, Some(members.len() + 2)),
            _ => (None, 0, None),
        };
        Self {
            members,
            rest,
            name_most,
            dependent,
            least,
            most,
        }
    }

    fn sample(&self, source: &mut Source) -> Value {
        let mut present: Vec<bool> = self
            .members
            .iter()
            .map(|member| member.required || source.once_in(2))
            .collect();
        if self.least > 0 && !present.contains(&true) {
            present[0] = true;
        }
        if let Some((first, second)) = self.dependent {
            present[second] |= present[first];
        }
        let mut members = Map::new();
        for (member, _) in self
            .members
            .iter()
            .zip(present)
            .filter(|(_, present)| *present)
        {
            members.insert(member.name.to_owned(), member.shape.sample(source));
        }
        let prefix = if matches!(self.rest, Rest::Prefixed(_)) {
            "x-"
        } else {
            "more "
        };
        for (index, value) in self.rest.sample(source).into_iter().enumerate() {
            members.insert(format!("{prefix}{index}"), value);
        }
        Value::Object(members)
    }
}

fn definition(source: &mut Source) -> String {
    (*source.pick(&DEFINITIONS)).to_owned()
}

/// Whether two values are equal in JSON Schema, where 1.0 equals 1. Numbers must have no exponent.
pub(super) fn json_equal(one: &Value, other: &Value) -> bool {
    fn digits(number: &str) -> &str {
        if number.contains('.') {
            number.trim_end_matches('0').trim_end_matches('.')
        } else {
            number
        }
    }
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            digits(one.as_str()) == digits(other.as_str())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| json_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| json_equal(one, other)))
        }
        (one, other) => one == other,
    }
}

/// `n * 10^-scale` without an exponent.
pub(super) fn number(n: i128, scale: u32) -> Value {
    let (sign, digits) = (
        if n < 0 { "-" } else { "" },
        format!("{:0>width$}", n.abs(), width = scale as usize + 1),
    );
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    let point = if fraction.is_empty() { "" } else { "." };
    serde_json::from_str(&format!("{sign}{whole}{point}{fraction}"))
        .expect("decimal numbers are valid JSON")
}

fn text(source: &mut Source, least: usize, most: usize) -> String {
    (0..least + source.below(most - least + 1))
        .map(|_| *source.pick(&LETTERS))
        .collect()
}

/// Draws any value with nested values up to `depth`.
fn any_value(source: &mut Source, depth: usize) -> Value {
    match source.below(if depth == 0 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => Value::Bool(source.once_in(2)),
        2 => number(source.below(2000) as i128 - 1000, source.below(3) as u32),
        3 => Value::from(text(source, 0, 3)),
        4 => (0..source.below(3))
            .map(|_| any_value(source, depth - 1))
            .collect(),
        _ => {
            let members = (0..source.below(3)).map(|_| {
                (
                    (*source.pick(&NAMES)).to_owned(),
                    any_value(source, depth - 1),
                )
            });
            Value::Object(members.collect())
        }
    }
}
