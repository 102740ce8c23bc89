//! Parsers of values from a closed list. `--help` and errors list the values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use sobench_core::output_format::OutputFormat;

/// A value, its name, and its line in `--help`.
#[derive(Clone, Copy, Debug)]
pub struct Described<T>(pub T, pub &'static str, pub &'static str);

/// Parses one of these values by its name.
pub fn named<T>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> + use<T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(values.iter().map(|value| name(*value))).map(move |typed| {
        *values
            .iter()
            .find(|value| name(**value) == typed)
            .expect("the parser let only listed names through")
    })
}

/// Parses one of the output formats of a command.
pub fn formats(formats: &'static [OutputFormat]) -> impl TypedValueParser<Value = OutputFormat> {
    named(formats, OutputFormat::name)
}

/// Parses one of these values by its name. A value with an empty description is listed in `--help`
/// without one.
pub fn described<T>(values: &'static [Described<T>]) -> impl TypedValueParser<Value = T> + use<T>
where
    T: Clone + Send + Sync + 'static,
{
    let possible = |Described(_, name, line): &Described<T>| {
        let value = PossibleValue::new(*name);
        if line.is_empty() {
            value
        } else {
            value.help(*line)
        }
    };
    PossibleValuesParser::new(values.iter().map(possible)).map(move |typed| {
        let found = values.iter().find(|Described(_, name, _)| *name == typed);
        found
            .expect("the parser let only listed names through")
            .0
            .clone()
    })
}
