"""Pictures of the results chapter."""

import math
from html import escape

from common import MARKS, TITLES, WORDS, title

STYLE = """
svg { font: 14px system-ui, sans-serif; }
.page { fill: #ffffff; } text { fill: #24292f; } .weak { fill: #57606a; font-size: 13px; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.guidance { --c: #1f5fd0; } .xgrammar { --c: #b8540b; } .xgrammar-cpp { --c: #7a3fc0; } .outlines { --c: #1a7f4b; }
.enforced { --c: #1a7f4b; } .no_violation_seen { --c: #9cc3ad; } .under_enforced { --c: #c4352b; } .rejected { --c: #c79a1b; }
.crashed { --c: #7a3fc0; } .undecided { --c: #8c959f; } .not_asked { --c: #d0d7de; } .added { --c: #1f5fd0; }
.line { stroke: var(--c); stroke-width: 2.2; fill: none; } .fill { fill: var(--c); }
.number { fill: #ffffff; } .number.no_violation_seen, .number.rejected { fill: #24292f; }
.xgrammar-cpp.line { stroke-dasharray: 7 4; }
@media (prefers-color-scheme: dark) {
  .page { fill: #1e2129; } text { fill: #e6e9ef; } .weak { fill: #a9b1bd; } .grid { stroke: #3a404c; }
  .number { fill: #1e2129; } .number.no_violation_seen { fill: #e6e9ef; } .number.rejected { fill: #1e2129; }
  .guidance { --c: #6ea8ff; } .xgrammar { --c: #f0975a; } .xgrammar-cpp { --c: #c39bff; } .outlines { --c: #5fd39a; }
  .enforced { --c: #3fb27a; } .no_violation_seen { --c: #2f5f4a; } .under_enforced { --c: #ff6f66; } .rejected { --c: #e3b341; }
  .crashed { --c: #c39bff; } .undecided { --c: #8b949e; } .not_asked { --c: #3a404c; } .added { --c: #6ea8ff; }
}
"""
WIDTH = 560


def svg(height, label, body):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        f' aria-label="{escape(label)}">\n<style>{STYLE}</style>\n<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def text_at(x, y, text, kind="", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def legend(names, titles, y):
    """Names with their colours, in lines that fit; with the height that they take."""
    body, x = [], 14
    for name in names:
        width = 30 + 7.8 * len(titles[name])
        if x + width > WIDTH:
            x, y = 14, y + 21
        body += [f'<rect class="fill {name}" x="{x}" y="{y - 10}" width="14" height="10" rx="2"/>', text_at(x + 19, y, titles[name])]
        x += width
    return body, y


class Curves:
    """A chart of curves over a logarithmic axis of durations. The vertical axis is a share: linear, or logarithmic for tails."""

    def __init__(self, title, label, low_ns, high_ns, tail=False):
        self.title, self.label, self.tail, self.curves = title, label, tail, {}
        self.low, self.high = math.floor(math.log10(low_ns)), math.ceil(math.log10(high_ns))

    def add(self, name, points):
        """Points of ns and share (0 to 1), in order."""
        self.curves[name] = points

    def svg(self):
        body = [text_at(14, 24, self.title)]
        keys, bottom = legend(self.curves, TITLES, 48)
        top, left, right = bottom + 16, 62, WIDTH - 18
        foot = top + 240
        body += keys
        floor = 1e-4

        def across(ns):
            return left + (right - left) * (math.log10(max(ns, 10**self.low)) - self.low) / (self.high - self.low)

        def down(value):
            if self.tail:
                return foot - (foot - top) * (math.log10(max(value, floor)) - math.log10(floor)) / -math.log10(floor)
            return foot - (foot - top) * value

        shares = [1, 0.1, 0.01, 0.001, 0.0001] if self.tail else [0, 0.25, 0.5, 0.75, 1]
        for value in shares:
            body.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{down(value):.1f}" y2="{down(value):.1f}"/>')
            body.append(text_at(left - 6, down(value) + 5, f"{100 * value:g} %", "weak", "end"))
        for power in range(self.low, self.high + 1):
            x = across(10**power)
            body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{foot}"/>')
            name = {0: "1 ns", 1: "10 ns", 2: "100 ns", 3: "1 µs", 4: "10 µs", 5: "100 µs", 6: "1 ms", 7: "10 ms", 8: "100 ms", 9: "1 s"}
            end = "end" if power == self.high else "middle"
            body.append(text_at(x + (6 if end == "end" else 0), foot + 19, name.get(power, f"{10 ** (power - 9)} s"), "weak", end))
        for name, points in self.curves.items():
            steps = [f"{across(ns):.1f},{down(value):.1f}" for ns, value in points]
            body.append(f'<polyline class="line {name}" points="{" ".join(dict.fromkeys(steps))}"/>')
        body.append(text_at((left + right) / 2, foot + 40, self.label, "weak", "middle"))
        return svg(foot + 54, self.title, body)


def cumulative(durations, of):
    """Share of all things that took at most each duration: a staircase."""
    points, ordered = [], sorted(duration for duration in durations if not math.isinf(duration))
    for number, ns in enumerate(ordered, 1):
        points += [(ns, (number - 1) / of), (ns, number / of)]
    return points


def tail(counts):
    """Share of masks that took longer than each duration."""
    total, left, points = sum(counts.values()), sum(counts.values()), []
    for ns in sorted(counts):
        left -= counts[ns]
        points.append((ns, left / total))
    return [(ns, value) for ns, value in points if value > 0]


def verdicts(files):
    """The verdicts that a feature has on some server."""
    return [verdict for verdict in MARKS if any(file["result"]["servers"][0]["counts"].get(verdict) for file in files.values())]


def verdict_bars(files):
    """A bar for each server: its features by verdict."""
    names = verdicts(files)
    heading = "JSON Schema features by verdict"
    body = [text_at(14, 24, heading)]
    keys, bottom = legend(names, WORDS, 48)
    body += keys
    y, left, right = bottom + 22, 216, WIDTH - 18
    for name, file in files.items():
        counts = file["result"]["servers"][0]["counts"]
        total, x = sum(counts.values()), left
        body.append(text_at(left - 8, y + 16, title(name), "", "end"))
        for verdict in names:
            number = counts.get(verdict, 0)
            width = (right - left) * number / total
            if number:
                body.append(f'<rect class="fill {verdict}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="22"/>')
            if width > 24:
                body.append(f'<text x="{x + width / 2:.1f}" y="{y + 16}" text-anchor="middle" class="number {verdict}">{number}</text>')
            x += width
        y += 30
    return svg(y + 6, heading, body)


def added_bars(rows):
    """Added time per token with its interval, a line for each server."""
    title = "Time that the constraint adds to each token (ms), with the interval"
    values = [value for _, _, low, high in rows for value in (low, high, 0)]
    low, high = min(values), max(values)
    left, right, y = 216, WIDTH - 24, 44
    body = [text_at(14, 24, title)]

    def across(value):
        return left + (right - left) * (value - low) / ((high - low) or 1)

    body.append(f'<line class="grid" x1="{across(0):.1f}" x2="{across(0):.1f}" y1="36" y2="{y + 30 * len(rows)}"/>')
    for name, middle, least, most in rows:
        body.append(text_at(left - 8, y + 15, name, "", "end"))
        body.append(f'<line class="line added" x1="{across(least):.1f}" x2="{across(most):.1f}" y1="{y + 10}" y2="{y + 10}"/>')
        body.append(f'<circle class="fill added" cx="{across(middle):.1f}" cy="{y + 10}" r="5"/>')
        y += 30
    shown = [value for value in (low, high) if abs(across(value) - across(0)) > 36]
    for value in (0, *shown):
        body.append(text_at(across(value), y + 18, f"{value:.1f}", "weak", "middle"))
    return svg(y + 32, title, body)


def speed_bars(rows):
    """Two bars for each row: tokens per second without and with the constraint."""
    heading = "Output tokens per second on one H200, by requests in flight and engine"
    body = [text_at(14, 24, heading)]
    keys, bottom = legend(["undecided", "added"], {"undecided": "without the constraint", "added": "with it"}, 48)
    body += keys
    y, left, right = bottom + 20, 130, WIDTH - 66
    most = max(without for _, without, _ in rows)
    for name, without, with_it in rows:
        body.append(text_at(left - 8, y + 17, name, "", "end"))
        for offset, kind, value in ((0, "undecided", without), (13, "added", with_it)):
            width = (right - left) * value / most
            body.append(f'<rect class="fill {kind}" x="{left}" y="{y + offset}" width="{width:.1f}" height="11"/>')
            body.append(text_at(left + width + 5, y + offset + 10, f"{value:,.0f}", "weak"))
        y += 36
    return svg(y + 6, heading, body)
