"""The corpus of seeded bugs: kernels that break one rule each, beside twins that keep it.

A file ``cases/KIND.tileir`` is Tile IR text with two kernels of the same parameters: ``@bug``, and
``@twin``, which differs from it in as little as possible; their names may go on with a calling
convention, ``_Kt2_...``. It begins with a header, one comment per
fact, in this order, up to the first empty line::

    // kind: race-load-after-store        the name of the file; says what goes wrong
    // why: Textual order is no order.    why it is wrong; several lines make one text
    // expect: race                       a code that must be reported; a line for each code
    // launch: grid=2,1 x=iota:i32:8 n=8  the grid, and a SPEC for each parameter, as for
                                          ``tilewright run --arg``
    // twin: out == 2 * x                 what must hold after a run of the twin: a NumPy expression
                                          over the parameters, all of whose elements must be true;
                                          or "none"
    // seeds: 8                           schedules among which one must show the bug; 1 if any does
    // limit: 100000                      optional: iterations after which a loop is endless

In ``@bug``, a comment ``// expected-error @below {{code: part}}`` stands above each operation that
must be found guilty. A race has two sides, and which of them comes second depends on the schedule,
so a finding meets the comment if it, or a note attached to it, is at that line. How often an
operation is reported is left open, and so are further operations with a code that is expected; a
code that is not expected is a false alarm. Twins must pass without any report.

Where the specification leaves room, the corpus takes these sides:

- Lanes of one weak store race where they meet, even if they write equal values; relaxed lanes may.
- An element is memory of its own: f16 or i1 neighbours never conflict. Nibbles of one byte are
  apart for the lanes of one operation; between operations the byte is what counts.
- An uninitialized element may pass through arithmetic, selection and data movement. It must not be
  stored, printed, asserted or given to an atomic, nor decide on a branch, a trip count, an address,
  an index, an extent or the mask of a write. The mask of a load, and a row index of a load that may
  lie outside its tensor, leave open what is loaded. It settles nothing when multiplied by zero.
- A result that leaves the range of ``offset`` or ``ftoi`` may be computed, but must not be used;
  the error is at the ``offset`` or ``ftoi``. A false ``assume``, a broken overflow flag and a bad
  divisor are errors even where nothing uses the result.
- A wait without end is reported at the load or compare-and-swap that waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.run_specs import bind, parameters_of
from tilewright.diagnostics import Diagnostic, NamedLocation, Span
from tilewright.dialects.cuda_tile.ops.module import EntryOp, ModuleOp
from tilewright.text import parse

FOLDER = Path(__file__).parent / "cases"

CODES = frozenset(
    {
        "noalias-violation",
        "assertion-failed",
        "bad-step",
        "broken-assume",
        "deadlock",
        "extent-too-large",
        "float-to-int-range",
        "foreign-memory",
        "freed-memory",
        "inbounds-broken",
        "induction-overflow",
        "invalid-address",
        "misaligned-access",
        "negative-scale",
        "offset-overflow",
        "outside-index-space",
        "integer-overflow",
        "race",
        "read-only-memory",
        "shift-too-far",
        "step-limit",
        "sub-tile-index",
        "undefined-division",
        "uninitialized-value",
    }
)
"""The codes of what a kernel may do wrong while it runs."""

Value = Any
"""An array for a pointer, a Python number for everything else."""

_KEYS = ("kind", "why", "expect", "launch", "twin", "seeds", "limit")
_REPEATED = {"why", "expect"}
_OPTIONAL = {"limit"}
_FACT = re.compile(r"// (?P<key>[a-z]+): (?P<value>\S.*)")
_KIND = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_GRID = re.compile(r"grid=(\d+)(?:,(\d+))?(?:,(\d+))?")
_HEAD = re.compile(r"entry @(?P<name>[a-z]+)(?:_K\w*)?\((?P<rest>.*)")
_SITE = re.compile(r"\s*// expected-error @below \{\{(?P<code>[a-z-]+): (?P<part>[^{}]+)\}\}")


class CaseError(ValueError):
    """A file of the corpus that does not follow the rules; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Site:
    """An operation that must be reported: its line, counted from 1, the code, part of a message."""

    line: int
    code: str
    part: str


@dataclass(frozen=True, slots=True)
class Case:
    """One file of the corpus; see the module for what the fields mean."""

    path: Path
    text: str
    kind: str
    why: str
    expect: tuple[str, ...]
    grid: tuple[int, int, int]
    specs: tuple[str, ...]
    twin: str | None
    seeds: int
    limit: int | None
    sites: tuple[Site, ...]

    def module(self) -> ModuleOp:
        """The module with both kernels, freshly parsed; ``TileIRError`` if it is no Tile IR."""
        module = parse(self.text, self.path.name)
        if not isinstance(module, ModuleOp):
            raise CaseError(f"{self.path.name}: expected one cuda_tile module")
        return module

    def symbol(self, name: str) -> str:
        """The whole name of the kernel ``bug`` or ``twin``."""
        return self.entry(name).symbol

    def entry(self, name: str) -> EntryOp:
        """The kernel ``bug`` or ``twin``, to look at: of a module that is parsed once."""
        return _entry(self, _looked_at(self), name)

    def arguments(self, seed: int = 0) -> dict[str, Value]:
        """Fresh launch arguments by name, in the order of the parameters.

        ``seed`` decides on what SPECs leave to chance. ``UsageError`` if a SPEC does not fit.
        """
        parameters = parameters_of(self.entry("bug"))
        values = bind(parameters, self.specs, seed)
        return {p.name: value for p, value in zip(parameters, values, strict=True)}

    def twin_is_right(self, arguments: Mapping[str, Value]) -> bool:
        """Whether arguments that a run of the twin has updated hold what the header says."""
        if self.twin is None:
            return True
        names = {"np": np, "__builtins__": {}}
        return bool(np.all(eval(self.twin, names, dict(arguments))))

    def missing(self, findings: Iterable[Diagnostic]) -> list[Site]:
        """The sites that no finding meets: its code, its message, its line or that of a note."""
        found = [(d.code, d.message, self._lines(d)) for d in findings]
        return [
            site
            for site in self.sites
            if not any(
                code == site.code and site.part in message and site.line in lines
                for code, message, lines in found
            )
        ]

    def false_alarms(self, findings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The findings whose code the header does not announce."""
        return [finding for finding in findings if finding.code not in self.expect]

    def _lines(self, finding: Diagnostic) -> set[int]:
        places = [finding.location, *(note.location for note in finding.notes)]
        return {
            place.line
            for place in places
            if isinstance(place, Span | NamedLocation) and place.file_name == self.path.name
        }


@cache
def _looked_at(case: Case) -> ModuleOp:
    return case.module()


def load(path: Path) -> Case:
    """The case in a file; a ``CaseError`` if header, comments or kernels break the rules."""
    text = path.read_text(encoding="utf-8")
    facts = _facts(path, text)
    (kind,), (launch,), (twin,), (seeds,) = (
        facts[key] for key in ("kind", "launch", "twin", "seeds")
    )
    limit = facts.get("limit", [None])[0]
    if kind != path.stem or not _KIND.fullmatch(kind):
        raise CaseError(f"{path.name}: the kind '{kind}' is not the name of the file")
    for number in (seeds, limit):
        if number is not None and (not number.isdecimal() or int(number) == 0):
            raise CaseError(f"{path.name}: expected a number of at least 1, found '{number}'")
    grid, *specs = launch.split()
    case = Case(
        path=path,
        text=text,
        kind=kind,
        why=" ".join(facts["why"]),
        expect=tuple(facts["expect"]),
        grid=_grid(path, grid),
        specs=tuple(specs),
        twin=None if twin == "none" else twin,
        seeds=int(seeds),
        limit=None if limit is None else int(limit),
        sites=tuple(_sites(path, text)),
    )
    _check(case)
    return case


@cache
def cases() -> tuple[Case, ...]:
    """The whole corpus, by kind in alphabetical order."""
    return tuple(load(path) for path in sorted(FOLDER.glob("*.tileir")))


def _facts(path: Path, text: str) -> dict[str, list[str]]:
    """The values of each key of the header."""
    facts: dict[str, list[str]] = {}
    order = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            break
        fact = _FACT.fullmatch(line)
        if fact is None or fact["key"] not in _KEYS:
            raise CaseError(f"{path.name}:{number}: expected `// KEY: VALUE`, found '{line}'")
        key, position = fact["key"], _KEYS.index(fact["key"])
        if position < order or (key in facts and key not in _REPEATED):
            raise CaseError(f"{path.name}:{number}: '{key}' is out of place")
        order = position
        facts.setdefault(key, []).append(fact["value"])
    if missing := [key for key in _KEYS if key not in facts and key not in _OPTIONAL]:
        raise CaseError(f"{path.name}: the header lacks {', '.join(missing)}")
    return facts


def _grid(path: Path, text: str) -> tuple[int, int, int]:
    extents = _GRID.fullmatch(text)
    if extents is None:
        raise CaseError(f"{path.name}: expected grid=X[,Y[,Z]] first in launch, found '{text}'")
    x, y, z = (int(extent or 1) for extent in extents.groups())
    return x, y, z


def _sites(path: Path, text: str) -> list[Site]:
    found: list[Site] = []
    for number, line in enumerate(text.split("\n"), 1):
        if "expected-" not in line:
            continue
        site = _SITE.fullmatch(line)
        if site is None:
            raise CaseError(
                f"{path.name}:{number}: expected `// expected-error @below {{{{...}}}}`"
            )
        found.append(Site(number + 1, site["code"], site["part"].strip()))
    return found


def _entry(case: Case, module: ModuleOp, name: str) -> EntryOp:
    for entry in module.entries:
        if entry.symbol.partition("_K")[0] == name:
            return entry
    raise CaseError(f"{case.path.name}: there is no kernel @{name}")


def _check(case: Case) -> None:
    """Codes are known, sites are in the bug and have exactly the codes that are expected."""
    where = case.path.name
    if unknown := {*case.expect} - CODES:
        raise CaseError(f"{where}: there is no code {', '.join(sorted(unknown))}")
    if {site.code for site in case.sites} != {*case.expect}:
        raise CaseError(f"{where}: the comments expect other codes than the header")
    lines = case.text.split("\n")
    heads = [(n, head) for n, line in enumerate(lines, 1) if (head := _HEAD.fullmatch(line))]
    if [head["name"] for _, head in heads] != ["bug", "twin"]:
        raise CaseError(f"{where}: expected the kernels @bug and @twin, in this order")
    (bug, bug_head), (twin, twin_head) = heads
    if bug_head["rest"] != twin_head["rest"]:
        raise CaseError(f"{where}: @bug and @twin have other parameters")
    if outside := [site.line for site in case.sites if not bug <= site.line < twin]:
        raise CaseError(f"{where}:{outside[0]}: only @bug may expect an error")
