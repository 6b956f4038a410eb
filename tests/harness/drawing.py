# SPDX-License-Identifier: GPL-2.0-or-later
"""Elements of SVGs that follow the reader's light or dark theme: text, boxes and arrows."""

from html import escape

LINE = 17

STYLE = """<style>
text { font: 13px sans-serif; fill: #24292f }
.code { font: 13px monospace; white-space: pre }
.small { font-size: 12px; fill: #57606a }
.name { fill: #fff; text-anchor: middle }
.title { font-weight: bold; font-size: 14px }
.middle { text-anchor: middle } .end { text-anchor: end }
.bad { fill: #b3261e } .good { fill: #1a7f37 }
.paper { fill: #f6f8fa; stroke: #d0d7de }
.gpu { fill: #fff; stroke: #8c959f }
.ours { fill: #ddf4ff; stroke: #0969da }
.wait { fill: none; stroke: #8c959f; stroke-dasharray: 3 2 }
.alice { fill: #0b62c4 } .bob { fill: #b35900 }
.arrow { fill: none; stroke: #57606a; stroke-width: 1.4 } .head { fill: #57606a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9da7b1 } .paper { fill: #161b22; stroke: #3d444d }
.gpu { fill: #0d1117; stroke: #6e7681 } .bad { fill: #ff8f86 } .good { fill: #57d364 }
.ours { fill: #10294a; stroke: #4493f8 } .wait { stroke: #6e7681 }
.alice { fill: #1f6feb } .bob { fill: #bd5b00 } .name { fill: #fff }
.arrow { stroke: #9da7b1 } .head { fill: #9da7b1 }
}
</style>"""


def svg(width, height, title, about, parts):
    """TITLE and ABOUT are what a screen reader says."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title about">'
    )
    said = (f'<title id="title">{escape(title)}</title>', f'<desc id="about">{escape(about)}</desc>')
    return "\n".join([head, *said, STYLE, *parts, "</svg>", ""])


def text(x, y, words, kind=""):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" xml:space="preserve">{escape(words)}</text>'


def rect(x, y, wide, high, kind, round_by=4):
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="{round_by}"/>'


def box(x, y, wide, high, kind, title, *lines):
    """A box with its title and lines at the top."""
    yield rect(x, y, wide, high, kind)
    yield text(x + 10, y + 20, title, "title")
    for at, line in enumerate(lines):
        yield text(x + 10, y + 20 + LINE * (at + 1), line, "small")


def arrow(*points, both=False):
    """A line through POINTS, each right of, left of, above or below the one before, with a head at its end, or BOTH."""
    (x, y), *rest = points
    yield f'<path class="arrow" d="M{x:g} {y:g}' + "".join(f"L{x:g} {y:g}" for x, y in rest) + '"/>'
    yield head(points[-2], points[-1])
    if both:
        yield head(points[1], points[0])


def head(start, tip):
    (x, y), size = tip, 4
    along_x, along_y = (tip[0] > start[0]) - (tip[0] < start[0]), (tip[1] > start[1]) - (tip[1] < start[1])
    back_x, back_y = x - 2 * size * along_x, y - 2 * size * along_y
    one, other = (back_x + size * along_y, back_y + size * along_x), (back_x - size * along_y, back_y - size * along_x)
    return f'<path class="head" d="M{x:g} {y:g}L{one[0]:g} {one[1]:g}L{other[0]:g} {other[1]:g}Z"/>'
