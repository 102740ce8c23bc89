//! Lines through points as inline SVG, for figures over a load.

use std::fmt::Write as _;

use super::axis::Axis;
use super::dots::shape;
use super::escape::escape;
use super::svg::{BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, add_columns, add_lines, open};

/// A line.
pub struct Line {
    pub name: String,
    /// Colour index, which also chooses the shape of its points.
    pub colour: usize,
    pub dashed: bool,
    /// Points from left to right. Points with a value that is not finite are left out.
    pub points: Vec<(f64, f64)>,
    /// A point that has a ring and this name.
    pub mark: Option<((f64, f64), String)>,
}

/// The two axes with the text below the horizontal one. The unit of the vertical axis is in the
/// title.
pub struct Axes<'a> {
    pub x: &'a Axis,
    pub y: &'a Axis,
    pub x_unit: &'a str,
}

/// Draws the lines. `reference` is a value of the vertical axis with a horizontal line.
pub fn lines(title: &str, lines: &[Line], axes: &Axes<'_>, reference: Option<f64>) -> String {
    let mut chart = open(title, false, WIDTH, HEIGHT);
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let (x_of, y_of) = (|value| axes.x_of(value), |value| axes.y_of(value));
    add_columns(
        &mut chart,
        axes.x.ticks(),
        x_of,
        [TOP, bottom, bottom + 18.0],
    );
    add_lines(&mut chart, axes.y.ticks(), y_of, [LEFT, right]);
    let (middle, label) = (f64::midpoint(LEFT, right), HEIGHT - 6.0);
    let _ = write!(
        chart,
        r#"<text class="axis" x="{middle}" y="{label}" text-anchor="middle">{}</text>"#,
        escape(axes.x_unit)
    );
    if let Some(reference) = reference {
        let at = axes.y_of(reference);
        let _ = write!(
            chart,
            r#"<line class="reference" x1="{LEFT}" y1="{at:.1}" x2="{right}" y2="{at:.1}"/>"#
        );
    }
    lines
        .iter()
        .for_each(|line| add_line(&mut chart, line, axes));
    chart.push_str("</svg>");
    chart
}

fn add_line(chart: &mut String, line: &Line, axes: &Axes<'_>) {
    let colour = line.colour % COLOURS;
    let place = |(x, y): (f64, f64)| (axes.x_of(x), axes.y_of(y));
    let is_finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let points: Vec<(f64, f64)> = line
        .points
        .iter()
        .copied()
        .filter(is_finite)
        .map(place)
        .collect();
    let _ = write!(chart, "<g><title>{}</title>", escape(&line.name));
    if points.len() > 1 {
        let corners: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        let dashed = if line.dashed { " dashed" } else { "" };
        let _ = write!(
            chart,
            r#"<path class="curve c{colour}{dashed}" d="M{}"/>"#,
            corners.join("L")
        );
    }
    let hollow = if line.dashed { " hollow" } else { "" };
    for (x, y) in points {
        let _ = write!(
            chart,
            r#"<path class="dot{hollow} c{colour}" d="{}"/>"#,
            shape(colour, x, y)
        );
    }
    if let Some((point, name)) = line.mark.as_ref().filter(|(point, _)| is_finite(point)) {
        let (x, y) = place(*point);
        let _ = write!(
            chart,
            r#"<circle class="curve c{colour}" cx="{x:.1}" cy="{y:.1}" r="11"><title>{}</title></circle>"#,
            escape(name)
        );
    }
    chart.push_str("</g>");
}

impl Axes<'_> {
    fn x_of(&self, value: f64) -> f64 {
        LEFT + self.x.position(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y_of(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.position(value) * (HEIGHT - BOTTOM - TOP)
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Range;
    use super::*;

    #[test]
    fn a_line_goes_through_its_points_and_skips_unknown_ones() {
        let (x, y) = (
            Axis::linear([0.0, 1.0].into_iter(), Range::Data).unwrap(),
            Axis::linear([0.0, 100.0].into_iter(), Range::Data).unwrap(),
        );
        let axes = Axes {
            x: &x,
            y: &y,
            x_unit: "req/s",
        };
        let line = Line {
            name: "a & b".to_owned(),
            colour: 7,
            dashed: true,
            points: vec![(0.0, 0.0), (0.5, f64::NAN), (1.0, 100.0)],
            mark: Some(((1.0, 100.0), "knee".to_owned())),
        };
        let drawn = lines("t", &[line], &axes, Some(100.0));
        let (left, right) = (axes.x_of(0.0), axes.x_of(1.0));
        for part in [
            format!(
                r#"class="curve c2 dashed" d="M{left:.1} {:.1}L{right:.1} {:.1}""#,
                HEIGHT - BOTTOM,
                TOP
            ),
            format!(r#"<circle class="curve c2" cx="{right:.1}" cy="{TOP:.1}""#),
            "a &amp; b".to_owned(),
        ] {
            assert!(drawn.contains(&part), "{part} in {drawn}");
        }
        assert_eq!(drawn.matches("dot hollow").count(), 2);
    }
}
