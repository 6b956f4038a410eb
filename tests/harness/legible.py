# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the text of an SVG can be read: it stays in its box and in the picture, and neither other text, a line nor a
sign covers it. Widths are those of DejaVu Sans, the widest of the usual fonts; no browser is needed."""

import re
import xml.etree.ElementTree as ElementTree

# How wide characters are, in hundredths of the font's size.
WIDTHS = {
    " ijlI,.:;'|": 34, "fJtr()[]/-`": 41, "sczL\"*_": 56, "kvxyaeoTFPEgbdhnpquSZKCXYVRA0123456789$": 66,
    "BDUNHGOQ&": 79, "w~+=<>#": 84, "Mm%W@…": 99,
}
WIDTH = {character: width / 100 for characters, width in WIDTHS.items() for character in characters}
BOLD, MONOSPACE = 1.1, 0.602
# A sign or the key of a legend, in pixels.
SIGN = 16


def faults(picture):
    """A line for each fault in the SVG with this text."""
    root = ElementTree.fromstring(picture)
    _, _, wide, high = map(float, (root.get("viewBox") or f"0 0 {root.get('width')} {root.get('height')}").split())
    shapes = [element for element in root.iter() if not element.get("transform")]
    style = "".join(element.text for element in shapes if name(element) == "style").split("@media")[0]
    texts = [(words(element), extent(element, rules(style))) for element in shapes if name(element) == "text"]
    rects = [rectangle(element) for element in shapes if name(element) in ("rect", "circle")]
    lines = [line for element in shapes for line in segments(element)]
    for at, (said, inner) in enumerate(texts):
        # The point where the text begins or ends tells whose it is.
        around = [box for box in rects if box[2] - box[0] > SIGN and is_in(middle(inner), box)]
        room = min(around, key=area, default=(0, 0, wide, high))
        if not (is_in(inner[:2], room) and is_in(inner[2:], room)):
            yield f"'{said}' leaves its box"
        yield from (f"'{said}' and '{other}' overlap" for other, box in texts[at + 1 :] if overlap(inner, box))
        signs = [box for box in rects if box[2] - box[0] <= SIGN]
        if any(overlap(inner, box) for box in signs):
            yield f"a sign covers '{said}'"
        if any(overlap(inner, box) for box in lines):
            yield f"a line goes through '{said}'"


def name(element):
    return element.tag.split("}")[-1]


def words(element):
    return " ".join("".join(element.itertext()).split())


def rules(style):
    """[(selector, declarations)] of a style sheet."""
    return [(selector.strip(), what) for selector, what in re.findall(r"([^{}]+){([^}]*)}", style)]


def extent(element, style):
    """Left, top, right and bottom of a text."""
    classes = [f".{one}" for one in (element.get("class") or "").split()]
    said = "".join(f"{key}: {value};" for key, value in element.items() if key.startswith(("font", "text")))
    said = "".join(f"{what};" for selector, what in style if selector in ("text", *classes)) + said
    said += element.get("style") or ""
    size = float(re.findall(r"font(?:-size)?: ?([\d.]+)", said)[-1])
    shown = words(element)
    if "monospace" in said:
        width = MONOSPACE * len("".join(element.itertext()))
    else:
        width = sum(WIDTH.get(character, 1) for character in shown) * (BOLD if "bold" in said else 1)
    x, y = float(element.get("x")), float(element.get("y"))
    shift = re.fullmatch(r"([\d.-]+)(em|ex)", element.get("dy") or "0em")
    y += float(shift[1]) * size * (1 if shift[2] == "em" else 0.5)
    before = {"middle": 0.5, "end": 1}.get((re.findall(r"text-anchor: ?(\w+)", said) or ["start"])[-1], 0)
    left = x - before * width * size
    return left, y - 0.75 * size, left + width * size, y + 0.2 * size


def rectangle(element):
    if name(element) == "circle":
        x, y, radius = (float(element.get(key)) for key in ("cx", "cy", "r"))
        return x - radius, y - radius, x + radius, y + radius
    if element.get("width") == "100%" or element.get("x") is None:
        return 0, 0, 1e9, 1e9
    x, y, wide, high = (float(element.get(key)) for key in ("x", "y", "width", "height"))
    return x, y, x + wide, y + high


def segments(element):
    """The straight lines of a path, as boxes without a width or a height; other paths have none."""
    path = element.get("d") or ""
    if name(element) != "path" or not re.fullmatch(r"[MLHV\d. -]+", path):
        return
    x = y = 0.0
    for letter, numbers in re.findall(r"([MLHV])([^MLHV]*)", path):
        numbers = list(map(float, numbers.split()))
        to_x = numbers[0] if letter != "V" else x
        to_y = numbers[-1] if letter != "H" else y
        if letter != "M":
            yield min(x, to_x), min(y, to_y), max(x, to_x), max(y, to_y)
        x, y = to_x, to_y


def middle(box):
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def area(box):
    return (box[2] - box[0]) * (box[3] - box[1])


def is_in(point, box):
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
