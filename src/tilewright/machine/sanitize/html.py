"""A sanitizer report as one HTML page that needs nothing else: no network, no files, no script.

What a script adds is only that hovering a place lights up the others of the same site.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from tilewright.diagnostics import SourceFile, find_code
from tilewright.diagnostics.display import printable
from tilewright.machine.sanitize.drawing import draw
from tilewright.machine.sanitize.json_report import to_json
from tilewright.machine.sanitize.listing import Listings, Site
from tilewright.machine.sanitize.page_style import SCRIPT, STYLE
from tilewright.machine.sanitize.reporting import SanitizerDiagnostic

if TYPE_CHECKING:
    from tilewright.machine.sanitize.sanitizer import SanitizeReport

_CONTEXT_LINES = 3
_MAX_LISTED_LINES = 20_000
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class _Party:
    """An operation that takes part in a finding. ``side`` is 2 for the one that is reported, 1 for
    those that explain it; ``key`` is the same wherever the party is shown."""

    key: str
    side: int
    says: str
    site: Site | None
    source: tuple[SourceFile, Site] | None


@dataclass(slots=True)
class _Page:
    report: SanitizeReport
    listings: Listings
    parties: list[list[_Party]] = field(default_factory=list[list[_Party]])
    """Those of each finding."""

    def party(self, key: str, side: int, says: str, op: Operation | None) -> _Party:
        if op is None:
            return _Party(key, side, says, None, None)
        listings = self.listings
        return _Party(key, side, says, listings.site(op), listings.source_site(op))

    def parties_of(self, number: int, finding: SanitizerDiagnostic) -> list[_Party]:
        """The operations of a finding in the order in which they matter: the reported one last."""
        diagnostic, accesses = finding.diagnostic, finding.accesses
        is_pair = len(accesses) == 2
        operation = self.listings.operation
        explaining = [
            (note.message, op)
            for note in diagnostic.notes
            if (op := operation(note.location)) is not None
        ]
        # A module that was never text or bytecode has no places; its accesses still know theirs.
        if not explaining and is_pair:
            explaining = [(diagnostic.notes[0].message, accesses[0].op)]
        reported = operation(diagnostic.location)
        says = "this operation"
        if accesses:
            order = "(2) " if is_pair else ""
            access = accesses[-1]
            reported = reported or access.op
            says = f"{order}tile block {access.block}: {access.kind} of {access.elements}"
        found = [*explaining, (says, reported)]
        return [
            self.party(f"f{number}-s{place}", 2 if place == len(found) else 1, words, op)
            for place, (words, op) in enumerate(found, 1)
        ]


def render_html(
    report: SanitizeReport,
    module: Operation,
    *,
    sources: Mapping[str, str] | None = None,
    title: str = "",
) -> str:
    """The page for the report of a module.

    ``sources`` gives the texts of source files by the names that debug information uses; others
    are read from disk where they exist. ``title`` is for the head of the page; by default the name
    of the kernel.
    """
    page = _Page(report, Listings.of(module, sources or {}))
    page.parties = [page.parties_of(n, f) for n, f in enumerate(report.findings, 1)]
    heading = title or f"Sanitizer report: {report.launch.entry}"
    data = json.dumps(to_json(report), allow_nan=False).replace("<", "\\u003c")
    body = [
        _header(report, heading),
        _summary(page),
        *(_finding(page, n, f) for n, f in enumerate(report.findings, 1)),
        *_listings(page),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(heading)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + f'\n<script type="application/json" id="report-data">{data}</script>\n'
        f"<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    """Text as HTML; characters that could hide or reorder others are made visible."""
    return escape(printable(text))


def _header(report: SanitizeReport, heading: str) -> str:
    launch, count = report.launch, len(report.findings)
    seeds = ", ".join(map(str, report.seeds))
    verdict = (
        '<p class="verdict good">Nothing found.</p>'
        if report.is_clean
        else f'<p class="verdict bad">{count} finding{"s" * (count > 1)}</p>'
    )
    facts = [
        ("kernel", f"<code>{_text(launch.entry)}</code>"),
        ("grid", _text(" x ".join(map(str, launch.grid)))),
        ("schedule seeds", _text(seeds)),
        *((f"<code>{_text(name)}</code>", _text(value)) for name, value in launch.arguments),
    ]
    rows = "\n".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<header>\n<h1>{_text(heading)}</h1>\n{verdict}\n<dl class="facts">\n{rows}\n</dl>\n</header>'


def _summary(page: _Page) -> str:
    if page.report.is_clean:
        return ""
    rows: list[str] = []
    for number, finding in enumerate(page.report.findings, 1):
        diagnostic, reported = finding.diagnostic, page.parties[number - 1][-1]
        rows.append(
            f'<tr><td><a href="#finding-{number}">{number}</a></td>'
            f'<td class="nowrap"><code>{_text(diagnostic.code)}</code></td>'
            f"<td>{_text(diagnostic.message)}</td>"
            f'<td class="nowrap">{_place_link(page, reported)}</td></tr>'
        )
    return (
        '<div class="scroll"><table class="summary">\n'
        "<thead><tr><th>#</th><th>code</th><th>what</th><th>where</th></tr></thead>\n"
        "<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table></div>"
    )


def _place_link(page: _Page, party: _Party) -> str:
    """Where the party is: links into the listings."""
    found: list[str] = []
    if party.site is not None:
        name = page.listings.module.name
        found.append(f'<a href="#ir-{party.site.line}">{_text(f"{name}:{party.site.line}")}</a>')
    if party.source is not None:
        file, site = party.source
        anchor = f"src{_source_number(page, file)}-{site.line}"
        found.append(f'<a href="#{anchor}">{_text(f"{file.name}:{site.line}")}</a>')
    return "<br>".join(found) or '<span class="faint">unknown</span>'


def _source_number(page: _Page, file: SourceFile) -> int:
    return list(page.listings.sources.values()).index(file) + 1


def _finding(page: _Page, number: int, finding: SanitizerDiagnostic) -> str:
    diagnostic, parties = finding.diagnostic, page.parties[number - 1]
    code = find_code(diagnostic.code)
    about = "" if code is None else f"{code.summary} {code.explanation}".strip()
    parts = [
        f'<section class="finding" id="finding-{number}">',
        f'<h2><span class="badge">{_text(diagnostic.code)}</span>{_text(diagnostic.message)}</h2>',
        _sites(page, parties),
        f'<p class="help">Help: {_text(diagnostic.help)}</p>' if diagnostic.help else "",
        _figure(number, finding),
        _excerpts(page, parties),
        f'<p class="faint">{_text(about)}</p>' if about else "",
        _other_notes(finding),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _sites(page: _Page, parties: Sequence[_Party]) -> str:
    items = "\n".join(
        f'<li data-site="{p.key}"><span class="key side{p.side}"></span>{_text(p.says)} '
        f'<span class="faint">at {_place_link(page, p)}</span></li>'
        for p in parties
    )
    return f'<ul class="sites">\n{items}\n</ul>'.replace("<br>", ", ")


def _other_notes(finding: SanitizerDiagnostic) -> str:
    """What the diagnostic says beyond its places."""
    notes = [note.message for note in finding.diagnostic.notes if note.location is None]
    return f'<p class="faint">{_text("; ".join(notes))}</p>' if notes else ""


def _figure(number: int, finding: SanitizerDiagnostic) -> str:
    drawing = draw(finding.accesses, finding.conflict, f"f{number}")
    if drawing is None:
        return ""
    two = len(finding.accesses) > 1
    legend = [
        (f"side{2 if place == len(finding.accesses) else 1}",
         f"{f'({place}) ' if two else ''}{a.kind} {a.ordering} by tile block {a.block}: {a.elements}")
        for place, a in enumerate(finding.accesses, 1)
    ]  # fmt: skip
    if finding.conflict:
        legend.append(("conflict", "both" if two else _conflict_words(finding)))
    items = "\n".join(
        f'<li><span class="key {kind}"></span>{_text(words)}</li>' for kind, words in legend
    )
    elements = finding.accesses[-1].elements
    notes = " ".join(drawing.notes)
    shape = " x ".join(map(str, elements.shape)) or "a scalar"
    caption = f"{_text(elements.tensor)} ({_text(shape)}). {_text(notes)}".strip()
    return (
        f'<figure>\n<div class="scroll">{drawing.svg}</div>\n'
        f"<figcaption>{caption}\n<ul>\n{items}\n</ul></figcaption>\n</figure>"
    )


def _conflict_words(finding: SanitizerDiagnostic) -> str:
    return "several elements at one address" if finding.diagnostic.code == "race" else "outside"


def _excerpts(page: _Page, parties: Sequence[_Party]) -> str:
    """The lines around the sites: of the module, and beside them of the sources."""
    module = page.listings.module
    here = [(p.site, p) for p in parties if p.site is not None]
    columns: list[str] = []
    if here:
        columns.append(_excerpt(module, module.name, "ir", here))
    files = {id(p.source[0]): p.source[0] for p in parties if p.source is not None}
    for file in files.values():
        there = [(p.source[1], p) for p in parties if p.source is not None and p.source[0] is file]
        columns.append(_excerpt(file, file.name, f"src{_source_number(page, file)}", there))
    if not columns:
        return ""
    return '<div class="beside">\n' + "\n".join(columns) + "\n</div>"


def _excerpt(file: SourceFile, name: str, anchor: str, sites: Iterable[tuple[Site, _Party]]) -> str:
    marked: dict[int, list[tuple[Site, _Party]]] = {}
    for site, party in sites:
        marked.setdefault(site.line, []).append((site, party))
    shown = sorted(
        {
            line
            for at in marked
            for line in range(at - _CONTEXT_LINES, at + _CONTEXT_LINES + 1)
            if 1 <= line <= _line_count(file)
        }
    )
    rows: list[str] = []
    for previous, line in zip([shown[0] - 1, *shown], shown, strict=False):
        if line != previous + 1:
            rows.append('<span class="row gap"><span class="n">...</span></span>')
        link = f'<a class="n" href="#{anchor}-{line}">{line}</a>'
        here = marked.get(line, [])
        rows.append(_row(file, line, here, link))
        rows += [
            f'<span class="row says side{p.side}" data-site="{p.key}">{_text(p.says)}</span>'
            for _, p in here
        ]
    return f'<div>\n<h3>{_text(name)}</h3>\n<pre class="code">{"".join(rows)}</pre>\n</div>'


def _row(
    file: SourceFile, line: int, here: Sequence[tuple[Site, _Party]], number: str, id: str = ""
) -> str:
    """One line of a text, with what the first site on it means marked."""
    text = file.line_text(line)
    content, classes, site_key = _text(text), "row", ""
    if here:
        # The reported side wins where both are at one line.
        site, party = max(here, key=lambda pair: pair[1].side)
        before, meant, after = text[: site.start], text[site.start : site.end], text[site.end :]
        content = f"{_text(before)}<mark>{_text(meant)}</mark>{_text(after)}"
        classes = f"row side{party.side}"
        site_key = f' data-site="{party.key}"'
    identity = f' id="{id}"' if id else ""
    return f'<span class="{classes}"{identity}{site_key}>{number}{content}\n</span>'


def _line_count(file: SourceFile) -> int:
    """Without the empty line behind a last line end."""
    return file.line_count - file.text.endswith("\n")


def _listings(page: _Page) -> list[str]:
    """The whole texts, where the links lead."""
    if page.report.is_clean:
        return []
    parties = [party for several in page.parties for party in several]
    module = page.listings.module
    found = [
        _listing(
            module,
            module.name if page.listings.is_printed else f"Module: {module.name}",
            "ir",
            [(p.site, p) for p in parties if p.site is not None],
        )
    ]
    for number, file in enumerate(page.listings.sources.values(), 1):
        there = [(p.source[1], p) for p in parties if p.source is not None and p.source[0] is file]
        found.append(_listing(file, f"Source: {file.name}", f"src{number}", there))
    return found


def _listing(file: SourceFile, name: str, anchor: str, sites: Sequence[tuple[Site, _Party]]) -> str:
    marked: dict[int, list[tuple[Site, _Party]]] = {}
    for site, party in sites:
        marked.setdefault(site.line, []).append((site, party))
    # A line that something leads to is always there.
    lines = sorted({*range(1, min(_line_count(file), _MAX_LISTED_LINES) + 1), *marked})
    rows = [
        _row(
            file,
            line,
            marked.get(line, []),
            f'<a class="n" href="#{anchor}-{line}">{line}</a>',
            f"{anchor}-{line}",
        )
        for line in lines
    ]
    cut = _line_count(file) - len(lines)
    note = f'\n<p class="faint">{cut} lines are skipped.</p>' if cut > 0 else ""
    return (
        f'<details class="listing" id="{anchor}">\n<summary>{_text(name)}</summary>\n'
        f'<pre class="code">{"".join(rows)}</pre>{note}\n</details>'
    )
