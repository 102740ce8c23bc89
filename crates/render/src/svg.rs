//! Charts as inline SVG: cumulative curves over a logarithmic axis, and stacked bars. Knows no run,
//! no engine and no style sheet: colours are classes (`c0`, `c1` ...), which the page defines for
//! light and dark.

use std::fmt::Write as _;

use super::axis::Axis;
use super::escape::escape;

/// The size of a chart, and of the frame around its plot.
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// Height of a bar, and of the gap after it.
const BAR: f64 = 26.0;
const BAR_GAP: f64 = 12.0;

/// How the share of durations is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// 0 to 100 %.
    Even,
    /// As many nines as there are: 90, 99, 99.9 %. The tail is what this shows.
    Nines,
}

/// One curve.
pub struct Curve {
    pub name: String,
    /// Which colour.
    pub colour: usize,
    /// Over the common set rather than the engine's own: dashed.
    pub dashed: bool,
    /// Durations in ns with the share (0 to 1) that does not exceed them, in order.
    pub points: Vec<(u64, f64)>,
}

/// One bar of parts.
pub struct Bar {
    pub name: String,
    pub parts: Vec<Part>,
}

/// A part of a bar.
pub struct Part {
    pub name: String,
    /// The class that colours it.
    pub class: &'static str,
    pub count: u64,
}

/// Curves of cumulative shares over an axis of durations. `title` is what a screen reader says.
pub fn cumulative(title: &str, curves: &[Curve], shares: Shares, axis: &Axis) -> String {
    let mut chart = open(title, false, WIDTH, HEIGHT);
    for (ns, name) in axis.ticks() {
        let at = x_of(axis, *ns);
        // The last name would leave the picture.
        let anchor = if *ns < axis.end_ns() { "middle" } else { "end" };
        let (top, bottom, label) = (TOP, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 16.0);
        let _ = write!(
            chart,
            r#"<line class="grid" x1="{at:.1}" y1="{top}" x2="{at:.1}" y2="{bottom}"/>"#
        );
        let _ = write!(
            chart,
            r#"<text class="axis" x="{at:.1}" y="{label}" text-anchor="{anchor}">{name}</text>"#
        );
    }
    for (share, name) in shares.ticks() {
        let at = shares.y_of(*share);
        let (left, right, label) = (LEFT, WIDTH - RIGHT, LEFT - 6.0);
        let _ = write!(
            chart,
            r#"<line class="grid" x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}"/>"#
        );
        let _ = write!(
            chart,
            r#"<text class="axis" x="{label}" y="{:.1}" text-anchor="end">{name}</text>"#,
            at + 4.0
        );
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let _ = write!(
        chart,
        r#"<text class="axis" x="{middle}" y="{}" text-anchor="middle">duration</text>"#,
        HEIGHT - 6.0
    );
    for curve in curves.iter().filter(|it| !it.points.is_empty()) {
        let dashed = if curve.dashed { " dashed" } else { "" };
        let (colour, path) = (curve.colour % COLOURS, path(&curve.points, shares, axis));
        let name = escape(&curve.name);
        let _ = write!(
            chart,
            r#"<path class="curve c{colour}{dashed}" d="{path}"><title>{name}</title></path>"#
        );
    }
    chart.push_str("</svg>");
    chart
}

/// Bars of equal length, each part as wide as its share of the bar.
pub fn stacked(title: &str, bars: &[Bar]) -> String {
    let (label_width, width) = (120.0, 2.0 * WIDTH);
    let height = bars.len() as f64 * (BAR + BAR_GAP) + BAR_GAP;
    let mut chart = open(title, true, width, height);
    for (place, bar) in bars.iter().enumerate() {
        let top = BAR_GAP + place as f64 * (BAR + BAR_GAP);
        let baseline = top + 0.68 * BAR;
        let (right, name) = (label_width - 8.0, escape(&bar.name));
        let _ = write!(
            chart,
            r#"<text class="label" x="{right}" y="{baseline:.1}" text-anchor="end">{name}</text>"#
        );
        let total: u64 = bar.parts.iter().map(|it| it.count).sum();
        let mut left = label_width;
        for part in bar.parts.iter().filter(|it| it.count > 0) {
            let wide = (width - label_width) * part.count as f64 / total as f64;
            let (class, name, count) = (part.class, escape(&part.name), part.count);
            let _ = write!(
                chart,
                r#"<rect class="{class}" x="{left:.2}" y="{top:.1}" width="{wide:.2}" height="{BAR}"><title>{name}: {count}</title></rect>"#
            );
            // A number that does not fit into its part is left to the table.
            if wide > 9.0 * count.to_string().len() as f64 + 8.0 {
                let middle = left + wide / 2.0;
                let _ = write!(
                    chart,
                    r#"<text class="count" x="{middle:.1}" y="{baseline:.1}" text-anchor="middle">{count}</text>"#
                );
            }
            left += wide;
        }
    }
    chart.push_str("</svg>");
    chart
}

/// How many colours the page has to define.
pub const COLOURS: usize = 5;

impl Shares {
    fn ticks(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Even => &[
                (0.0, "0 %"),
                (0.25, "25 %"),
                (0.5, "50 %"),
                (0.75, "75 %"),
                (1.0, "100 %"),
            ],
            Self::Nines => &[
                (0.0, "0 %"),
                (0.9, "90 %"),
                (0.99, "99 %"),
                (0.999, "99.9 %"),
                (0.9999, "99.99 %"),
                (0.99999, "99.999 %"),
            ],
        }
    }

    /// The height at which a share stands; in nines, what lies beyond the last tick stands on it.
    fn y_of(self, share: f64) -> f64 {
        let part = match self {
            Self::Even => share,
            Self::Nines => (-(1.0 - share).max(1e-5).log10() / 5.0).min(1.0),
        };
        HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
    }
}

/// The begin of a chart; a wide one scrolls where the page is too narrow.
pub fn open(title: &str, is_wide: bool, width: f64, height: f64) -> String {
    let (title, class) = (escape(title), if is_wide { r#" class="wide""# } else { "" });
    format!(
        r#"<svg{class} viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title>"#
    )
}

/// Where a duration stands.
fn x_of(axis: &Axis, ns: f64) -> f64 {
    LEFT + axis.part_of(ns) * (WIDTH - LEFT - RIGHT)
}

/// A staircase through the points, one step a pixel at most. What is longer than the axis is not
/// drawn: the curve ends at its edge.
fn path(points: &[(u64, f64)], shares: Shares, axis: &Axis) -> String {
    let x_of = |ns: f64| x_of(axis, ns);
    let beyond = points.partition_point(|(ns, _)| *ns as f64 <= axis.end_ns());
    let (shown, cut_off) = points.split_at(beyond);
    let start = shown
        .first()
        .map_or(WIDTH - RIGHT, |(ns, _)| x_of(*ns as f64));
    let mut path = format!("M{start:.1} {:.1}", shares.y_of(0.0));
    let mut here = start;
    for (place, (ns, share)) in shown.iter().enumerate() {
        let x = x_of(*ns as f64);
        let next = shown.get(place + 1).map(|(ns, _)| x_of(*ns as f64));
        // Of the points within a pixel the last has the share of them all.
        if next.is_some_and(|next| next.floor() <= x.floor() && next <= here + 1.0) {
            continue;
        }
        let _ = write!(path, "H{x:.1}");
        // All of them is no number of nines: the curve ends with the share that is shorter than the
        // longest.
        if shares == Shares::Even || *share < 1.0 {
            let _ = write!(path, "V{:.1}", shares.y_of(*share));
        }
        here = x;
    }
    if !cut_off.is_empty() {
        let _ = write!(path, "H{:.1}", WIDTH - RIGHT);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_keep_what_is_beyond_them_at_their_ends() {
        let axis = Axis::microsecond_to_ten_seconds();
        for (ns, expected) in [
            (0.0, LEFT),
            (1e3, LEFT),
            (1e10, WIDTH - RIGHT),
            (1e15, WIDTH - RIGHT),
        ] {
            assert!((x_of(&axis, ns) - expected).abs() < 1e-9, "{ns}");
        }
        for shares in [Shares::Even, Shares::Nines] {
            assert!((shares.y_of(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9);
            assert!((shares.y_of(1.0) - TOP).abs() < 1e-9);
        }
    }

    #[test]
    fn a_curve_ends_at_its_last_point_and_has_few_steps() {
        let points: Vec<(u64, f64)> = (1..=100_000_u32)
            .map(|it| (1_000 + u64::from(it), f64::from(it) / 200_000.0))
            .collect();
        let drawn = path(&points, Shares::Even, &Axis::microsecond_to_ten_seconds());
        assert!(drawn.matches('H').count() < WIDTH as usize);
        assert!(
            drawn.ends_with(&format!("V{:.1}", Shares::Even.y_of(0.5))),
            "{drawn}"
        );
    }

    #[test]
    fn what_is_beyond_the_axis_does_not_count_as_done() {
        let axis = Axis::microsecond_to_ten_seconds();
        let half = format!("V{:.1}", Shares::Even.y_of(0.5));
        let edge = format!("H{:.1}", WIDTH - RIGHT);
        let drawn = path(
            &[(1_000_000, 0.5), (60_000_000_000, 1.0)],
            Shares::Even,
            &axis,
        );
        assert!(drawn.ends_with(&format!("{half}{edge}")), "{drawn}");
        let tail = path(&[(1_000_000, 0.9), (2_000_000, 1.0)], Shares::Nines, &axis);
        assert!(
            tail.ends_with(&format!(
                "V{:.1}H{:.1}",
                Shares::Nines.y_of(0.9),
                x_of(&axis, 2e6)
            )),
            "{tail}"
        );
    }
}
