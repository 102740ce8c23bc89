//! Serialises numbers that JSON cannot represent: infinity as the string `inf`, as vLLM does, and
//! durations in seconds. For `#[serde(with = "...")]`.

/// The JSON Schema of [`number_or_inf`].
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum NumberOrInf {
    Number(f64),
    Infinite(#[schemars(regex(pattern = "^inf$"))] String),
}

/// A number, or `"inf"`.
pub mod number_or_inf {
    use serde::{Deserializer, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        super::number_or_inf_or_null::serialize(&Some(*number), serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Neither a number nor `"inf"`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        super::number_or_inf_or_null::deserialize(deserializer)?
            .ok_or_else(|| serde::de::Error::custom("expected a number"))
    }
}

/// A number, `"inf"`, or `null`.
pub mod number_or_inf_or_null {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    /// Writes it.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<S: Serializer>(
        number: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) if number.is_infinite() => serializer.serialize_str("inf"),
            Some(number) => serializer.serialize_f64(*number),
            None => serializer.serialize_none(),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// None of the three.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(None),
            Value::String(text) if text == "inf" => Ok(Some(f64::INFINITY)),
            Value::Number(number) => Ok(number.as_f64()),
            other => Err(serde::de::Error::custom(format!(
                "expected a number or \"inf\": {other}"
            ))),
        }
    }
}

/// A duration in seconds.
pub mod seconds {
    use std::time::Duration;

    use serde::{Deserializer, Serialize, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        duration.as_secs_f64().serialize(serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Not a number, or no duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::seconds_or_null::deserialize(deserializer)?
            .ok_or_else(|| serde::de::Error::custom("expected a duration"))
    }
}

/// A duration in seconds, or `null`.
pub mod seconds_or_null {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration
            .map(|duration| duration.as_secs_f64())
            .serialize(serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Not a number, or no duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        seconds
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct All {
        #[serde(with = "super::number_or_inf")]
        rate: f64,
        #[serde(with = "super::number_or_inf_or_null")]
        other: Option<f64>,
        #[serde(with = "super::seconds")]
        time: Duration,
        #[serde(with = "super::seconds_or_null")]
        idle: Option<Duration>,
    }

    #[test]
    fn values_read_back() {
        let all = All {
            rate: f64::INFINITY,
            other: Some(2.5),
            time: Duration::from_nanos(1_500_000_001),
            idle: None,
        };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            text,
            r#"{"rate":"inf","other":2.5,"time":1.500000001,"idle":null}"#
        );
        assert_eq!(serde_json::from_str::<All>(&text).unwrap(), all);
        for wrong in [
            r#"{"rate":"fast","other":null,"time":1,"idle":null}"#,
            r#"{"rate":1,"other":null,"time":-1,"idle":null}"#,
        ] {
            assert!(serde_json::from_str::<All>(wrong).is_err(), "{wrong}");
        }
    }
}
