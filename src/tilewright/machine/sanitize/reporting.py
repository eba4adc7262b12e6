"""What the sanitizer finds: codes, uninitialized values, and the collection of findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, NamedLocation, Note, Severity, Span, define_code
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.declare import enum_property
from tilewright.dialects.source_map import location_of
from tilewright.launching.codes import source_note
from tilewright.machine.accesses import AccessSite, kind_of
from tilewright.machine.state import Machine
from tilewright.machine.tensors import ArrayNames, Box, Elements, outside_of
from tilewright.machine.values import Registers, TensorView
from tilewright.numerics.arrays import Array

if TYPE_CHECKING:
    from tilewright.machine.sanitize.events import Event
    from tilewright.machine.sanitize.races import Race
    from tilewright.machine.sanitize.signals import Signal

UNINITIALIZED = define_code(
    "uninitialized-value",
    "An undefined value is used where it affects the result.",
    "Undefined are: elements outside a tensor, unless the view has a padding value; masked-off "
    "elements of a load, unless it has a padding operand; fresh alloca memory. Arithmetic on them "
    "is fine; they must not reach a store, a branch, an address, an atomic, an assertion or a "
    "print.",
    was=("undetermined-value",),
)
OVERFLOW_FLAG = define_code(
    "integer-overflow",
    "An operation overflows although its overflow flag excludes it.",
    was=("overflow-promise",),
    help="drop the overflow flag, or use a wider type",
)
SHIFT_TOO_FAR = define_code(
    "shift-too-far",
    "A shift amount is not less than the width of the element type.",
    help="keep the shift amount below the width of the type, or select the result for larger "
    "amounts",
)
FLOAT_TO_INT = define_code(
    "float-to-int-range",
    "ftoi converts NaN or a number out of range of the result type, and the result is used.",
    "Without `saturating` the result of such a conversion is undefined.",
    help="clamp the operand to the range of the result type, or convert with `saturating`",
)
OFFSET_OVERFLOW = define_code(
    "offset-overflow",
    "The address computed by offset overflows 64 bits and is used.",
    help="keep offsets within the array, also those of masked-off elements whose address is used",
)
BROKEN_ASSUME = define_code(
    "broken-assume",
    "A value violates the predicate of an assume.",
    help="correct the assume, or pass arguments that satisfy it",
)
NEGATIVE_SCALE = define_code(
    "negative-scale",
    "A scale of mmaf_scaled is negative; such products are undefined.",
    help="use scales that are not negative",
)
RACE = define_code(
    "race",
    "Data race: two unordered accesses to the same bytes conflict.",
    "Within a tile block only tokens order memory operations: neither program order nor data or "
    "control dependence does. Between tile blocks, a release that an acquire observes does, with "
    "tokens on both sides and scopes that reach the other block. Non-weak accesses of the same "
    "address and size may be unordered.",
)

_MAX_ORIGINS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Why elements are uninitialized: the operation, the reason, and the code to report."""

    op: Operation
    reason: str
    code: str = UNINITIALIZED


@dataclass(frozen=True, slots=True, eq=False)
class Taint:
    """Which elements of a tile are uninitialized (a mask that broadcasts to its shape), and why."""

    mask: Array
    origins: tuple[Origin, ...]

    def joined(self, other: Taint) -> Taint:
        """What either marks; masks broadcast to one another."""
        return Taint(self.mask | other.mask, merge(self.origins, other.origins))

    def mapped(self, function: Callable[[Array], Array]) -> Taint | None:
        """The mask sent through a function; None where nothing of it is left."""
        mask = np.asarray(function(self.mask))
        return Taint(mask, self.origins) if mask.any() else None


def merge(first: tuple[Origin, ...], second: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """The origins of both, each operation once, up to a limit; the first ones stay."""
    known = {origin.op for origin in first}
    return (first + tuple(o for o in second if o.op not in known))[:_MAX_ORIGINS]


def join(taints: Sequence[Taint | None]) -> Taint | None:
    """What any of them marks; None where all are None."""
    found: Taint | None = None
    for taint in taints:
        if taint is not None:
            found = taint if found is None else found.joined(taint)
    return found


def show_index(mask: Array) -> str:
    """Where the first set element of a mask lies, and how many there are."""
    count = int(np.count_nonzero(mask))
    if mask.ndim == 0:
        return ""
    index = [int(i[0]) for i in mask.nonzero()]
    return f" at element {index}" + (f" and {count - 1} more" if count > 1 else "")


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a finding about memory: who accessed what.

    ``kind`` is ``load``, ``store`` or ``atomic``; ``ordering`` is spelled as in Tile IR.
    """

    block: tuple[int, int, int]
    op: Operation
    kind: str
    ordering: str
    elements: Elements


@dataclass(frozen=True, slots=True)
class SanitizerDiagnostic:
    """A diagnostic, with the accesses that it is about as data.

    ``seed`` is that of the schedule. Of a race, ``accesses`` are both sides in the order in which
    they took effect (one, where an access meets itself), and ``conflict`` is what both touch. Of an
    access that ended the run there is that one, and ``conflict`` is the part outside the tensor.
    """

    diagnostic: Diagnostic
    seed: int
    accesses: tuple[Access, ...] = ()
    conflict: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True)
class Stray:
    """An access that could not be made, and which part of it lies outside its tensor."""

    access: Access
    outside: tuple[Box, ...]


@dataclass(slots=True)
class DiagnosticCollector:
    """Collects the findings of a launch, each operation's finding of one kind once."""

    machine: Machine
    seed: int = 0
    names: ArrayNames = field(default_factory=ArrayNames)
    found: list[SanitizerDiagnostic] = field(default_factory=list[SanitizerDiagnostic])
    stray: Stray | None = None
    """What ended the run, if it was an access."""
    _seen: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What was found as diagnostics, in the order in which it was."""
        return [finding.diagnostic for finding in self.found]

    def add(
        self,
        code: str,
        message: str,
        op: Operation,
        *,
        key: tuple[object, ...] = (),
        notes: Sequence[Note] = (),
        help: str = "",
        label: str = "",
        accesses: tuple[Access, ...] = (),
        conflict: tuple[Box, ...] = (),
    ) -> None:
        """Record a finding at an operation, unless it has one of this code and key already."""
        identity = (code, op, *key)
        if identity in self._seen:
            return
        self._seen.add(identity)
        context = [*notes, *source_note(op), Note(f"in tile block {self.machine.block}")]
        if self.seed:
            context.append(Note(f"found with schedule seed {self.seed}"))
        diagnostic = Diagnostic(
            Severity.ERROR, code, message, location_of(op), label, tuple(context), help
        )
        self.found.append(SanitizerDiagnostic(diagnostic, self.seed, accesses, conflict))

    def uninitialized(self, op: Operation, taint: Taint, mask: Array, what: str) -> None:
        """An uninitialized value reaches ``op``, where it becomes ``what``."""
        origins = taint.origins
        special = [o for o in origins if o.code != UNINITIALIZED]
        if special and len(special) == len(origins):
            for origin in special:
                self.add(
                    origin.code,
                    f"{origin.reason}; the result becomes {what}",
                    origin.op,
                    notes=[Note(f"it becomes {what} here", location_of(op))],
                )
            return
        notes = [
            note
            for o in origins
            if o.code == UNINITIALIZED
            for note in (
                Note(f"undefined because {o.reason}", location_of(o.op)),
                *source_note(o.op),
            )
        ]
        self.add(
            UNINITIALIZED,
            f"an undefined value becomes {what}{show_index(mask)}",
            op,
            key=(what,),
            notes=notes,
            help="give the load a padding value, or mask these elements before they are used",
        )

    def race(self, race: Race) -> None:
        """Two unordered accesses."""
        first, second = race.first, race.second
        assert first.op is not None and second.op is not None
        key = first.op, race.allocation.name
        if (RACE, second.op, *key) in self._seen:
            return
        shared = self.names.locate(race.allocation, race.cells, race.size)
        where = str(shared)
        same_block = first.block == second.block
        notes: list[Note] = []
        if first is second:
            message = (
                f"{_verb(second)} {where} races with itself: several elements have the same address"
            )
        else:
            other = "the same tile block" if same_block else "another tile block"
            message = f"{_verb(second)} {where} conflicts with {_noun(first)} by {other}, unordered"
            block = f"tile block {self._coordinates(first.block)}"
            notes.append(Note(f"(1) {block} {_past(first)} {where} here", location_of(first.op)))
            notes += source_note(first.op)
        missing = _missing_orders(race.signals)
        notes += [
            Note(f"({number}) this {_name(event)} must be {wanted}", location_of(event.op))
            for number, (event, wanted) in enumerate(missing, 3)
            if event.op is not None
        ]
        self.add(
            RACE,
            message,
            second.op,
            key=key,
            notes=notes,
            help=_order_help(missing) or _race_help(first, second, same_block),
            label="(2)" if first is not second else "",
            accesses=self._sides(race),
            conflict=shared.boxes,
        )

    def _sides(self, race: Race) -> tuple[Access, ...]:
        sides = [
            Access(
                self._coordinates(event.block),
                event.op,
                kind_of(event.reads, event.writes),
                event.ordering,
                self.names.locate(race.allocation, cells, race.size),
            )
            for event, cells in zip((race.first, race.second), race.footprints(), strict=True)
            if event.op is not None and cells.size
        ]
        return tuple(sides[-1:] if race.first is race.second else sides)

    def ended_by(self, op: TileOp, site: AccessSite, regs: Registers) -> None:
        """An access is at fault and ends the run: remember what it was about to touch."""
        elements = self._reached(site, regs)
        if elements is not None:
            ordering = enum_property(op, "memory_ordering_semantics")
            access = Access(self.machine.block, op, site.kind, ordering, elements)
            self.stray = Stray(access, elements.outside)

    def _reached(self, site: AccessSite, regs: Registers) -> Elements | None:
        memory = self.machine.memory
        if site.view is not None:
            view: TensorView = regs[site.view.view_slot]
            reached = site.view.reach(regs)
            allocation = memory.nearest(view.base)
            if outside_of(reached, view.shape) and allocation is not None:
                first = np.array([view.base - allocation.base])
                name = self.names.locate(allocation, first, 1).tensor
                return Elements(name, view.shape, (reached,), site.view.is_dense)
        addresses = site.addresses(regs)
        if not addresses.size:
            return None
        allocation = memory.nearest(int(addresses.min()))
        if allocation is None:
            return None
        return self.names.locate_stray(allocation, addresses, site.storage.size)

    def _coordinates(self, number: int) -> tuple[int, int, int]:
        x_count, y_count, _ = self.machine.grid
        rest, x = divmod(number, x_count)
        z, y = divmod(rest, y_count)
        return x, y, z


def _noun(event: Event) -> str:
    kind = "an atomic" if event.reads and event.writes else "a store" if event.writes else "a load"
    return kind if event.is_strong is False or kind == "an atomic" else f"{kind} ({event.ordering})"


def _verb(event: Event) -> str:
    if event.reads and event.writes:
        return "an atomic on"
    return "a store to" if event.writes else "a load of"


def _past(event: Event) -> str:
    if event.reads and event.writes:
        return "updated"
    return "wrote" if event.writes else "read"


def _name(event: Event) -> str:
    """An access with its ordering: ``relaxed atomic``."""
    kind = "atomic" if event.reads and event.writes else "store" if event.writes else "load"
    scope = "" if event.scope == "device" else f" with scope {event.scope}"
    return f"{event.ordering} {kind}{scope}"


def _missing_orders(signals: Sequence[Signal]) -> list[tuple[Event, str]]:
    """The accesses that would order the two sides of a race if they were what is said of them."""
    wanted: dict[Operation | Event, tuple[Event, set[str]]] = {}
    for signal in signals:
        for event, has, ordering in (
            (signal.write, signal.write.releases, "release"),
            (signal.read, signal.read.acquires, "acquire"),
        ):
            lacking = {ordering} if not has else set[str]()
            if event.scope == "tl_blk":
                lacking.add(_WIDE)
            if lacking:
                wanted.setdefault(event.op or event, (event, set()))[1].update(lacking)
    return [(event, _all_of(event, lacking)) for event, lacking in wanted.values()]


_WIDE = "of device scope"


def _all_of(event: Event, wanted: set[str]) -> str:
    """What an access has to be: ``acq_rel, of device scope``."""
    orderings = sorted(wanted - {_WIDE})
    if orderings and (len(orderings) == 2 or event.ordering in ("acquire", "release")):
        orderings = ["acq_rel"]
    return ", ".join([*orderings, *sorted(wanted & {_WIDE})])


def _order_help(missing: Sequence[tuple[Event, str]]) -> str:
    """Which accesses to change, and to what; empty where no change of one would help."""
    changes = [f"the {_name(event)}{_at(event)} {wanted}" for event, wanted in missing]
    if not changes:
        return ""
    return f"make {' and '.join(changes)}, so that (1) happens before (2)"


def _at(event: Event) -> str:
    """`` at file.py:12``, as far as it is known."""
    if event.op is None:
        return ""
    position = source_position(event.op.location)
    if position is not None:
        return f" at {PurePath(position[0]).name}:{position[1]}"
    location = location_of(event.op)
    if isinstance(location, Span | NamedLocation) and location.line:
        return f" at {PurePath(location.file_name).name}:{location.line}"
    return ""


def _race_help(first: Event, second: Event, same_block: bool) -> str:
    if first is second:
        return "give each element its own address, or use an atomic"
    if same_block:
        return "pass the result token of (1) to (2)"
    if first.is_strong and second.is_strong:
        return "use equal sizes, and scopes that include the other tile block"
    return (
        "give each tile block its own elements, use atomics, or order the two by a release "
        "and an acquire with tokens on both sides"
    )
