//! Inline SVG charts: cumulative curves over a logarithmic axis, and stacked bars. Colours are CSS
//! classes (`c0`, `c1` ...) that the page defines for light and dark mode.

use std::fmt::{Display, Write as _};

use super::axis::Axis;
use super::escape::escape;

/// Size of a chart, and margins of its plot area.
pub(crate) const WIDTH: f64 = 540.0;
pub(crate) const HEIGHT: f64 = 300.0;
pub(crate) const LEFT: f64 = 66.0;
pub(crate) const RIGHT: f64 = 24.0;
pub(crate) const TOP: f64 = 12.0;
pub(crate) const BOTTOM: f64 = 42.0;

/// Height of a bar, and of the gap after it.
const BAR: f64 = 26.0;
const BAR_GAP: f64 = 12.0;

/// Scale of the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareScale {
    /// 0 to 100 %.
    Even,
    /// Logarithmic in the remaining share: 90, 99, 99.9 %. Shows the tail.
    Nines,
}

/// One curve.
pub struct Curve {
    pub name: String,
    /// Colour index.
    pub colour: usize,
    /// Dashed: for the common set of entries in place of the engine's own.
    pub dashed: bool,
    /// Durations in ns with the share (0 to 1) that does not exceed them, sorted.
    pub points: Vec<(u64, f64)>,
}

/// A stacked bar.
pub struct Bar {
    pub name: String,
    pub parts: Vec<Part>,
}

/// A part of a bar.
pub struct Part {
    pub name: String,
    /// CSS class of its colour.
    pub class: &'static str,
    pub count: u64,
}

/// Cumulative curves over an axis of durations. `title` is for screen readers.
pub fn cumulative(title: &str, curves: &[Curve], shares: ShareScale, axis: &Axis) -> String {
    let mut chart = open(title, false, WIDTH, HEIGHT);
    let bottom = HEIGHT - BOTTOM;
    add_columns(
        &mut chart,
        axis.ticks(),
        |ns| x_of(axis, ns),
        [TOP, bottom, bottom + 18.0],
    );
    let y_of = |share| shares.y_of(share);
    add_lines(&mut chart, shares.ticks(), y_of, [LEFT, WIDTH - RIGHT]);
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let _ = write!(
        chart,
        r#"<text class="axis" x="{middle}" y="{}" text-anchor="middle">duration</text>"#,
        HEIGHT - 6.0
    );
    for curve in curves.iter().filter(|curve| !curve.points.is_empty()) {
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

/// Stacked bars of equal length; each part is as wide as its share.
pub fn stacked(title: &str, bars: &[Bar]) -> String {
    let (label_width, width) = (120.0, 2.0 * WIDTH);
    let height = bars.len() as f64 * (BAR + BAR_GAP) + BAR_GAP;
    let mut chart = open(title, true, width, height);
    for (position, bar) in bars.iter().enumerate() {
        let top = BAR_GAP + position as f64 * (BAR + BAR_GAP);
        let baseline = top + 0.68 * BAR;
        let (right, name) = (label_width - 8.0, escape(&bar.name));
        let _ = write!(
            chart,
            r#"<text class="label" x="{right}" y="{baseline:.1}" text-anchor="end">{name}</text>"#
        );
        let total: u64 = bar.parts.iter().map(|part| part.count).sum();
        let mut left = label_width;
        for part in bar.parts.iter().filter(|part| part.count > 0) {
            let wide = (width - label_width) * part.count as f64 / total as f64;
            let (class, name, count) = (part.class, escape(&part.name), part.count);
            let _ = write!(
                chart,
                r#"<rect class="{class}" x="{left:.2}" y="{top:.1}" width="{wide:.2}" height="{BAR}"><title>{name}: {count}</title></rect>"#
            );
            // Numbers that do not fit are only in the table.
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

/// Number of colours that the page must define.
pub const COLOURS: usize = 5;

impl ShareScale {
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

    /// Vertical position of a share; with `Nines`, shares above the last tick are at the last tick.
    fn y_of(self, share: f64) -> f64 {
        let part = match self {
            Self::Even => share,
            Self::Nines => (-(1.0 - share).max(1e-5).log10() / 5.0).min(1.0),
        };
        HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
    }
}

/// Opening tag of a chart; wide charts scroll horizontally if needed.
pub fn open(title: &str, is_wide: bool, width: f64, height: f64) -> String {
    let (title, class) = (escape(title), if is_wide { r#" class="wide""# } else { "" });
    format!(
        r#"<svg{class} viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title>"#
    )
}

/// Vertical grid lines from `top` to `bottom`, each with its name below at `label`.
pub fn add_columns(
    chart: &mut String,
    ticks: &[(f64, String)],
    x_of: impl Fn(f64) -> f64,
    [top, bottom, label]: [f64; 3],
) {
    for (value, name) in ticks {
        let at = x_of(*value);
        let _ = write!(
            chart,
            r#"<line class="grid" x1="{at:.1}" y1="{top}" x2="{at:.1}" y2="{bottom}"/><text class="axis" x="{at:.1}" y="{label}" text-anchor="middle">{name}</text>"#
        );
    }
}

/// Horizontal grid lines from `left` to `right`, each with its name on the left.
pub fn add_lines(
    chart: &mut String,
    ticks: &[(f64, impl Display)],
    y_of: impl Fn(f64) -> f64,
    [left, right]: [f64; 2],
) {
    for (value, name) in ticks {
        let at = y_of(*value);
        let (label, baseline) = (left - 6.0, at + 4.0);
        let _ = write!(
            chart,
            r#"<line class="grid" x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}"/><text class="axis" x="{label}" y="{baseline:.1}" text-anchor="end">{name}</text>"#
        );
    }
}

/// Horizontal position of a duration.
fn x_of(axis: &Axis, ns: f64) -> f64 {
    LEFT + axis.position(ns) * (WIDTH - LEFT - RIGHT)
}

/// A step curve through the points with at most one step per pixel. Durations beyond the axis are
/// not drawn: the curve ends at its edge.
fn path(points: &[(u64, f64)], shares: ShareScale, axis: &Axis) -> String {
    let x_of = |ns: f64| x_of(axis, ns);
    let beyond = points.partition_point(|(ns, _)| *ns as f64 <= axis.end());
    let (shown, cut_off) = points.split_at(beyond);
    let start = shown
        .first()
        .map_or(WIDTH - RIGHT, |(ns, _)| x_of(*ns as f64));
    let mut path = format!("M{start:.1} {:.1}", shares.y_of(0.0));
    let mut here = start;
    for (position, (ns, share)) in shown.iter().enumerate() {
        let x = x_of(*ns as f64);
        let next = shown.get(position + 1).map(|(ns, _)| x_of(*ns as f64));
        // Of the points within a pixel, the last one includes the share of the others.
        if next.is_some_and(|next| next.floor() <= x.floor() && next <= here + 1.0) {
            continue;
        }
        let _ = write!(path, "H{x:.1}");
        // 100 % is not a number of nines, so the curve ends with the share below the longest
        // duration.
        if shares == ShareScale::Even || *share < 1.0 {
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
    fn values_beyond_an_axis_are_at_its_ends() {
        let axis = Axis::microsecond_to_ten_seconds();
        for (ns, expected) in [
            (0.0, LEFT),
            (1e3, LEFT),
            (1e10, WIDTH - RIGHT),
            (1e15, WIDTH - RIGHT),
        ] {
            assert!((x_of(&axis, ns) - expected).abs() < 1e-9, "{ns}");
        }
        for shares in [ShareScale::Even, ShareScale::Nines] {
            assert!((shares.y_of(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9);
            assert!((shares.y_of(1.0) - TOP).abs() < 1e-9);
        }
    }

    #[test]
    fn a_curve_ends_at_its_last_point_and_has_few_steps() {
        let points: Vec<(u64, f64)> = (1..=100_000_u32)
            .map(|index| (1_000 + u64::from(index), f64::from(index) / 200_000.0))
            .collect();
        let drawn = path(
            &points,
            ShareScale::Even,
            &Axis::microsecond_to_ten_seconds(),
        );
        assert!(drawn.matches('H').count() < WIDTH as usize);
        assert!(
            drawn.ends_with(&format!("V{:.1}", ShareScale::Even.y_of(0.5))),
            "{drawn}"
        );
    }

    #[test]
    fn durations_beyond_the_axis_do_not_raise_the_curve() {
        let axis = Axis::microsecond_to_ten_seconds();
        let half = format!("V{:.1}", ShareScale::Even.y_of(0.5));
        let edge = format!("H{:.1}", WIDTH - RIGHT);
        let drawn = path(
            &[(1_000_000, 0.5), (60_000_000_000, 1.0)],
            ShareScale::Even,
            &axis,
        );
        assert!(drawn.ends_with(&format!("{half}{edge}")), "{drawn}");
        let tail = path(
            &[(1_000_000, 0.9), (2_000_000, 1.0)],
            ShareScale::Nines,
            &axis,
        );
        assert!(
            tail.ends_with(&format!(
                "V{:.1}H{:.1}",
                ShareScale::Nines.y_of(0.9),
                x_of(&axis, 2e6)
            )),
            "{tail}"
        );
    }
}
