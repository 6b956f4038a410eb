# SPDX-License-Identifier: GPL-2.0-or-later
"""The table at the end of a run of the live tests: the result for every known way to bypass a typed limit."""

_found = {}


def take(report):
    """Records the outcome of one test that is marked as a bypass."""
    properties = dict(report.user_properties)
    if "bypass" not in properties or (report.when != "call" and report.passed):
        return
    reason = properties.get("not applicable")
    outcome = "OPEN" if report.failed else "n/a" if reason else "closed"
    _found.setdefault(tuple(properties["bypass"]), {})[properties["release"]] = (outcome, reason)


def lines():
    if not _found:
        return
    releases = sorted({release for row in _found.values() for release in row})
    yield ""
    yield f"{'ways round a typed limit':56}" + "".join(f"{release:>8}" for release in releases)
    notes = []
    for (number, title), row in sorted(_found.items()):
        cells = [row.get(release, ("-", None)) for release in releases]
        yield f"{number:>3} {title:52}" + "".join(f"{outcome:>8}" for outcome, _ in cells)
        reasons = {reason for _, reason in cells if reason}
        notes += [f"{number:>3} n/a: {reason}" for reason in sorted(reasons)]
    yield from notes
