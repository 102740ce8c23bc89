//! `pandas.Series.describe` of a column, as vLLM's script saves it.

use serde_json::{Value, json};

use sobench_statistics::Summary;

/// pandas' percentiles.
const QUARTILES: [f64; 3] = [25.0, 50.0, 75.0];

/// Eight figures of a column. A figure that does not exist for none or one value is `null`: pandas'
/// `NaN` is not JSON.
pub(super) fn describe(values: Vec<f64>) -> Value {
    let summary = Summary::new(values, &QUARTILES);
    let quartile = |place: usize| {
        summary
            .percentiles
            .get(place)
            .and_then(|percentile| percentile.value)
    };
    // A float, as in pandas.
    let count = summary.n as f64;
    json!({
        "count": count,
        "mean": summary.mean,
        // Of the sample (n - 1), not of the population as elsewhere.
        "std": summary.std.filter(|_| summary.n > 1).map(|std| std * (count / (count - 1.0)).sqrt()),
        "min": summary.min,
        "25%": quartile(0),
        "50%": quartile(1),
        "75%": quartile(2),
        "max": summary.max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_pandas() {
        // pandas 2: Series([1, 2, 4, 8]).describe() and Series([3]).describe(), whose std is NaN.
        let mut four = describe(vec![1.0, 2.0, 4.0, 8.0]);
        let std = four["std"].take();
        assert!((std.as_f64().unwrap() - 3.095_695_936_834_452).abs() < 1e-12);
        assert_eq!(
            four.to_string(),
            "{\"count\":4.0,\"mean\":3.75,\"std\":null,\"min\":1.0,\"25%\":1.75,\"50%\":3.0,\"75%\":5.0,\"max\":8.0}"
        );
        let one = describe(vec![3.0]);
        assert_eq!((&one["count"], &one["std"]), (&json!(1.0), &Value::Null));
        assert_eq!((&one["min"], &one["25%"]), (&json!(3.0), &json!(3.0)));
        let none = describe(vec![]);
        assert_eq!(
            (&none["count"], &none["mean"], &none["50%"]),
            (&json!(0.0), &Value::Null, &Value::Null)
        );
    }
}
