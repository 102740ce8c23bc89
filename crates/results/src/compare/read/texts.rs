//! Reads the texts of some answers of a result file.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::text::JsonText;

/// The texts of the wanted answers of run `number` of a file, by their index.
///
/// # Errors
/// The file has changed.
pub(super) fn texts(
    file: impl Read,
    number: usize,
    wanted: &HashSet<usize>,
) -> serde_json::Result<HashMap<usize, String>> {
    let mut text = JsonText::new(file);
    let mut values = text.deserializer();
    for _ in 0..number {
        IgnoredAny::deserialize(&mut values)?;
    }
    RunTexts(wanted).deserialize(&mut values)
}

/// Reads the texts of a run.
struct RunTexts<'w>(&'w HashSet<usize>);

impl<'de> DeserializeSeed<'de> for RunTexts<'_> {
    type Value = HashMap<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RunTexts<'_> {
    type Value = HashMap<usize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut of_outputs, mut generated) = (HashMap::new(), HashMap::new());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "outputs" => {
                    let text = |output: Generated| output.generated;
                    of_outputs = map.next_value_seed(Wanted(self.0, text))?;
                }
                "generated_texts" => {
                    generated = map.next_value_seed(Wanted(self.0, |text: Option<String>| text))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        generated.extend(of_outputs);
        Ok(generated)
    }
}

/// A record of `outputs`.
#[derive(Deserialize)]
struct Generated {
    generated: Option<String>,
}

/// Reads the wanted elements of an array; the function gets the text of an element.
struct Wanted<'w, T>(&'w HashSet<usize>, fn(T) -> Option<String>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Wanted<'_, T> {
    type Value = HashMap<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Wanted<'_, T> {
    type Value = HashMap<usize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(HashMap::new())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<Self::Value, S::Error> {
        let mut found = HashMap::new();
        for index in 0.. {
            if self.0.contains(&index) {
                let Some(element) = sequence.next_element()? else {
                    break;
                };
                found.extend((self.1)(element).map(|text| (index, text)));
            } else if sequence.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_wanted_answers_are_read() {
        let file = r#"{"generated_texts": ["x"]}
            {"std": NaN, "generated_texts": ["a", "b", null, "d"], "outputs": [{"generated": "A"}, {}]}
            {"outputs": null}"#;
        let read = |number: usize, wanted: &[usize]| {
            let wanted = wanted.iter().copied().collect();
            let found = texts(file.as_bytes(), number, &wanted).unwrap();
            let mut found: Vec<(usize, String)> = found.into_iter().collect();
            found.sort();
            found
        };
        let text = |index: usize, text: &str| (index, text.to_owned());
        assert_eq!(read(0, &[0, 1]), [text(0, "x")]);
        assert_eq!(read(1, &[0, 1, 2]), [text(0, "A"), text(1, "b")]);
        assert_eq!(read(1, &[3, 9]), [text(3, "d")]);
        assert!(read(2, &[0]).is_empty());
    }
}
