//! What `pandas.Series.describe` says of a column, as the script saves it. Knows no report.

use serde::Serialize;

use crate::statistics::Summary;

/// pandas' percentiles.
const QUARTILES: [f64; 3] = [25.0, 50.0, 75.0];

/// A column in eight figures. What a column without values, or with one, does not have is `null`: pandas' `NaN` is no JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Description {
    /// How many values; a float, as in pandas.
    count: f64,
    mean: Option<f64>,
    /// Of the sample (n - 1), and not of the population as everywhere else.
    std: Option<f64>,
    min: Option<f64>,
    #[serde(rename = "25%")]
    lower_quartile: Option<f64>,
    #[serde(rename = "50%")]
    median: Option<f64>,
    #[serde(rename = "75%")]
    upper_quartile: Option<f64>,
    max: Option<f64>,
}

impl Description {
    pub(super) fn of(values: Vec<f64>) -> Self {
        let summary = Summary::of(values, &QUARTILES);
        let quartile = |place: usize| summary.percentiles.get(place).and_then(|it| it.value);
        let count = summary.n as f64;
        Self {
            count,
            mean: summary.mean,
            std: summary.std.filter(|_| summary.n > 1).map(|std| std * (count / (count - 1.0)).sqrt()),
            min: summary.min,
            lower_quartile: quartile(0),
            median: quartile(1),
            upper_quartile: quartile(2),
            max: summary.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_pandas_says() {
        // pandas 2: Series([1, 2, 4, 8]).describe() and Series([3]).describe(), whose std is NaN.
        let four = Description::of(vec![1.0, 2.0, 4.0, 8.0]);
        assert!((four.std.unwrap() - 3.095_695_936_834_452).abs() < 1e-12);
        let rest = Description { std: None, ..four };
        let text = |it: &Description| serde_json::to_string(it).unwrap();
        assert_eq!(
            text(&rest),
            "{\"count\":4.0,\"mean\":3.75,\"std\":null,\"min\":1.0,\"25%\":1.75,\"50%\":3.0,\"75%\":5.0,\"max\":8.0}"
        );
        let one = Description::of(vec![3.0]);
        assert_eq!((one.count, one.std, one.min, one.lower_quartile), (1.0, None, Some(3.0), Some(3.0)));
        let none = Description::of(vec![]);
        assert_eq!((none.count, none.mean, none.median), (0.0, None, None));
    }
}
