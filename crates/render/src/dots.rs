//! Rows of dots over one axis as inline SVG: forest plots, dot plots and dumbbells.

use std::fmt::Write as _;

use super::axis::Axis;
use super::escape::escape;
use super::svg::{COLOURS, WIDTH, add_columns, open};

/// Margins of the axis, height of a row with its name, and of the axis below the rows.
const SIDE: f64 = 22.0;
const ROW: f64 = 46.0;
const FOOT: f64 = 44.0;

/// Distance from the top of a row to its text and to its dots.
const TEXT: f64 = 17.0;
const LINE: f64 = 31.0;

/// Half the size of a dot.
const DOT: f64 = 6.0;

/// A row: a name with its numbers in words, and below them dots and a line on the axis.
pub struct Row {
    pub name: String,
    /// The numbers of the row, for example value, interval and n.
    pub text: String,
    /// Colour index, which also chooses the shape of the dots.
    pub colour: usize,
    pub dots: Vec<Dot>,
    /// A line from one value to another: an interval, or the distance between two dots.
    pub line: Option<(f64, f64)>,
}

/// A dot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    pub value: f64,
    /// Hollow: for the second value of a row.
    pub hollow: bool,
}

/// Draws the rows. `reference` is a value with a vertical line, for example 0. Without a finite
/// value, a row has only its text.
pub fn rows(title: &str, unit: &str, rows: &[Row], axis: &Axis, reference: Option<f64>) -> String {
    let bottom = rows.len() as f64 * ROW + 4.0;
    let mut chart = open(title, false, WIDTH, bottom + FOOT);
    let x_of = |value| x_of(axis, value);
    add_columns(&mut chart, axis.ticks(), x_of, [0.0, bottom, bottom + 16.0]);
    let (middle, label) = (WIDTH / 2.0, bottom + 37.0);
    let _ = write!(
        chart,
        r#"<text class="axis" x="{middle}" y="{label}" text-anchor="middle">{}</text>"#,
        escape(unit)
    );
    if let Some(reference) = reference {
        let at = x_of(reference);
        let _ = write!(
            chart,
            r#"<line class="reference" x1="{at:.1}" y1="0" x2="{at:.1}" y2="{bottom}"/>"#
        );
    }
    for (place, row) in rows.iter().enumerate() {
        add_row(&mut chart, row, axis, place as f64 * ROW);
    }
    chart.push_str("</svg>");
    chart
}

fn add_row(chart: &mut String, row: &Row, axis: &Axis, top: f64) {
    let (text_y, y) = (top + TEXT, top + LINE);
    let (name, text, right) = (escape(&row.name), escape(&row.text), WIDTH - 4.0);
    let _ = write!(
        chart,
        r#"<g><title>{name}: {text}</title><text class="label" x="4" y="{text_y}">{name}</text><text class="number" x="{right}" y="{text_y}" text-anchor="end">{text}</text>"#
    );
    let colour = row.colour % COLOURS;
    if let Some((low, high)) = row
        .line
        .filter(|(low, high)| low.is_finite() && high.is_finite())
    {
        let (left, right) = (x_of(axis, low.min(high)), x_of(axis, low.max(high)));
        let _ = write!(
            chart,
            r#"<line class="curve c{colour}" x1="{left:.1}" y1="{y}" x2="{right:.1}" y2="{y}"/>"#
        );
    }
    for dot in row.dots.iter().filter(|dot| dot.value.is_finite()) {
        let class = if dot.hollow { "dot hollow" } else { "dot" };
        let shape = shape(colour, x_of(axis, dot.value), y);
        let _ = write!(chart, r#"<path class="{class} c{colour}" d="{shape}"/>"#);
    }
    chart.push_str("</g>");
}

/// The outline of the dot of a colour: circle, square, diamond, triangle, or triangle on its tip.
pub(crate) fn shape(colour: usize, x: f64, y: f64) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let corner =
            |(right, down): &(f64, f64)| format!("{:.1} {:.1}", x + right * DOT, y + down * DOT);
        let corners: Vec<String> = corners.iter().map(corner).collect();
        format!("M{}Z", corners.join("L"))
    };
    match colour {
        0 => {
            let (left, width) = (x - DOT, 2.0 * DOT);
            format!("M{left:.1} {y:.1}a{DOT} {DOT} 0 1 0 {width} 0a{DOT} {DOT} 0 1 0 -{width} 0Z")
        }
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        3 => polygon(&[(0.0, -1.1), (1.15, 0.9), (-1.15, 0.9)]),
        _ => polygon(&[(0.0, 1.1), (1.15, -0.9), (-1.15, -0.9)]),
    }
}

fn x_of(axis: &Axis, value: f64) -> f64 {
    SIDE + axis.position(value) * (WIDTH - 2.0 * SIDE)
}

#[cfg(test)]
mod tests {
    use super::super::axis::Range;
    use super::*;

    fn row(name: &str, value: f64, line: Option<(f64, f64)>) -> Row {
        Row {
            name: name.to_owned(),
            text: "n = 3".to_owned(),
            colour: 1,
            dots: vec![Dot {
                value,
                hollow: false,
            }],
            line,
        }
    }

    #[test]
    fn a_row_is_at_its_values() {
        let axis = Axis::linear([0.0, 10.0].into_iter(), Range::Data).unwrap();
        let drawn = rows(
            "t",
            "ms",
            &[row("a", 5.0, Some((10.0, 0.0)))],
            &axis,
            Some(0.0),
        );
        let (left, right) = (SIDE, WIDTH - SIDE);
        for part in [
            format!(r#"<line class="curve c1" x1="{left:.1}" y1="31" x2="{right:.1}" y2="31"/>"#),
            format!(r#"<line class="reference" x1="{left:.1}""#),
            format!(r#"d="M{:.1} "#, WIDTH / 2.0 - 0.9 * DOT),
        ] {
            assert!(drawn.contains(&part), "{part} in {drawn}");
        }
    }

    #[test]
    fn unknown_values_are_text_only_and_text_is_escaped() {
        let axis = Axis::linear([0.0, 1.0].into_iter(), Range::Data).unwrap();
        let drawn = rows(
            "<t>",
            "\"ms\"",
            &[row("<b>&", f64::NAN, Some((0.0, f64::INFINITY)))],
            &axis,
            None,
        );
        assert!(
            !drawn.contains("<path") && !drawn.contains("curve") && !drawn.contains("NaN"),
            "{drawn}"
        );
        for text in ["&lt;t&gt;", "&quot;ms&quot;", "&lt;b&gt;&amp;"] {
            assert!(drawn.contains(text), "{text} in {drawn}");
        }
        assert!(!drawn.contains("<b>"));
    }

    #[test]
    fn each_colour_has_its_own_shape() {
        let shapes: std::collections::HashSet<String> =
            (0..COLOURS).map(|colour| shape(colour, 0.0, 0.0)).collect();
        assert_eq!(shapes.len(), COLOURS);
    }
}
