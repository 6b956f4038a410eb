# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws the panels of the Grafana dashboard from a Prometheus' data, as an SVG, because Debian has no Grafana. The
panels, their places, titles and expressions are the dashboard's; this file defines their look."""

import time
from html import escape

import monitoring

COLUMN, ROW, GAP = 44, 26, 6
COLOURS = ["#3366bb", "#dd7722", "#339944", "#bb3355", "#7755aa", "#887744", "#22889a", "#888888"]
# There is one sample per second.
RATE = "20s"
LABEL = 'font-size="12" fill="#555"'


def write(server, seconds, path):
    """The last SECONDS of data in SERVER."""
    end = int(time.time())
    panels = monitoring.panels()
    width = 24 * COLUMN + GAP
    height = max(at["y"] + at["h"] for at in (panel["gridPos"] for panel in panels)) * ROW + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="DejaVu Sans, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#f4f5f7"/>',
    ]
    for panel in panels:
        at = panel["gridPos"]
        box = (at["x"] * COLUMN + GAP, at["y"] * ROW + GAP, at["w"] * COLUMN - GAP, at["h"] * ROW - GAP)
        parts += frame(panel["title"], *box)
        draw = stat if panel["type"] == "stat" else lines
        parts += draw(server, panel, end - seconds, end, *box)
    path.write_text("\n".join([*parts, "</svg>", ""]))


def frame(title, x, y, width, height):
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="#fff" stroke="#d5d8dc"/>'
    yield f'<text x="{x + 8}" y="{y + 18}" font-size="12" font-weight="bold" fill="#333">{escape(title)}</text>'


def shown(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    return f"{value:.0f} s" if unit == "s" else f"{value:.4g}"


def scale(values, unit):
    """The upper end of an axis with four parts, each a round number; a whole number for things that are counted."""
    least = 0.25 if unit == "percentunit" else 1.0
    rounds = [least * step * 10**power for power in range(9) for step in (1, 2, 3, 4, 5)]
    return 4 * next(part for part in rounds if 4 * part >= max(values, default=0))


def stat(server, panel, _start, end, x, y, width, height):
    rows = server.api("query", query=monitoring.expression(panel["targets"][0], RATE), time=end)["result"]
    value = shown(float(rows[0]["value"][1]), panel["fieldConfig"]["defaults"]["unit"]) if rows else "-"
    yield (
        f'<text x="{x + width / 2}" y="{y + height / 2 + 20}" font-size="28" text-anchor="middle" fill="#339944">'
        f"{escape(value)}</text>"
    )


def series(server, panel, start, end):
    """(name, [(time, value)]) for every line."""
    for target in panel["targets"]:
        parameters = {"query": monitoring.expression(target, RATE), "start": start, "end": end, "step": 1}
        for row in server.api("query_range", **parameters)["result"]:
            name = target["legendFormat"]
            for label, value in row["metric"].items():
                name = name.replace("{{%s}}" % label, value)
            yield name, [(float(when), float(value)) for when, value in row["values"]]


def lines(server, panel, start, end, x, y, width, height):
    every = list(series(server, panel, start, end))
    unit = panel["fieldConfig"]["defaults"]["unit"]
    top = scale([value for _, points in every for _, value in points], unit)
    left, right, upper, lower = x + 50, x + width - 10, y + 34, y + height - 42
    for part in range(5):
        level = lower - (lower - upper) * part / 4
        yield f'<line x1="{left}" x2="{right}" y1="{level:.1f}" y2="{level:.1f}" stroke="#e5e7ea"/>'
        yield f'<text x="{left - 5}" y="{level + 3:.1f}" text-anchor="end" {LABEL}>{shown(top * part / 4, unit)}</text>'
    for part in range(5):
        when, at = (end - start) * part / 4, left + (right - left) * part / 4
        # The last one would leave the panel.
        anchor = "end" if part == 4 else "middle"
        yield f'<text x="{at:.1f}" y="{lower + 15}" text-anchor="{anchor}" {LABEL}>{when:.0f} s</text>'
    legend = left
    for number, (name, points) in enumerate(every):
        colour = COLOURS[number % len(COLOURS)]
        path = steps(points, start, end, top, left, right, upper, lower)
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
        yield f'<rect x="{legend:.1f}" y="{lower + 27}" width="9" height="3" fill="{colour}"/>'
        yield f'<text x="{legend + 13:.1f}" y="{lower + 32}" {LABEL}>{escape(name)}</text>'
        legend += 26 + 7.4 * len(name)


def steps(points, start, end, top, left, right, upper, lower):
    """A line that changes in steps; only the points where it changes, and interrupted where there is no value."""
    parts, last = [], None
    for when, value in points:
        at = left + (right - left) * (when - start) / (end - start)
        level = lower - (lower - upper) * value / top
        if last is None or when - last[0] > 2:
            if last:
                parts.append(f"H{last[1]:.1f}")
            parts.append(f"M{at:.1f} {level:.1f}")
        elif level != last[2]:
            parts.append(f"H{at:.1f}V{level:.1f}")
        last = (when, at, level)
    return "".join([*parts, f"H{last[1]:.1f}"]) if last else ""
