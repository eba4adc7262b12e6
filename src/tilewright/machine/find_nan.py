"""Finding the NaN: the operation that makes the first one, what it made it of, and how far it spreads.

An observer of the reference machine looks at the result of every operation. An element counts as made
by an operation where it is NaN and none of the elements that it was computed from is; or where it is an
infinity and all of those were finite. So infinities that a kernel puts in on purpose, as constants, as
padding or from memory, such as the -inf of a masked softmax, are not told, until they make a NaN.
Conversions are told where a value does not fit the type that it is converted to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewright.diagnostics import Diagnostic, Note, Severity, TileIRError, define_code
from tilewright.diagnostics import to_json as diagnostics_to_json
from tilewright.diagnostics.render_html import preformatted, render_html
from tilewright.dialects.cuda_tile.base import TileOp, int_property
from tilewright.dialects.cuda_tile.ops import conversions, core, matrix, reductions
from tilewright.dialects.source_map import place_of
from tilewright.launching.codes import source_note
from tilewright.machine.accesses import AccessSite, access_site, allocations_of
from tilewright.machine.compile import Translator
from tilewright.machine.hooks import Hook
from tilewright.machine.inspect.stats import numbers_of
from tilewright.machine.inspect.stops import When, format_elements
from tilewright.machine.ops.elementwise import attributes_of, is_elementwise
from tilewright.machine.tensors import ArrayNames
from tilewright.machine.values import Registers
from tilewright.numerics import convert
from tilewright.numerics.arrays import PTR, Array
from tilewright.numerics.element_types import FORMATS

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from tilewright.dialects.cuda_tile.types import TileType

NAN_MADE = define_code(
    "nan-made",
    "An operation makes a NaN of operands that have none.",
    "It is the first one, or one of the others that did so by themselves; what they pass on is counted, "
    "and not told again. Look at the operands: 0 / 0, the difference of equal infinities (a row that is "
    "masked as a whole), the logarithm or root of a negative number. `--find-nan` looks for it.",
)
NAN_LOADED = define_code(
    "nan-loaded",
    "An operation loads a NaN from memory.",
    "It was in the array before the launch, or a tile block has stored it; the latter is told by itself.",
)
INFINITY_MADE = define_code(
    "infinity-made",
    "An operation makes an infinity of operands that are finite.",
    "The value is too large for the type, a number was divided by zero, or it was the logarithm of zero. "
    "Infinities that a kernel puts in on purpose are not told. `--find-nan` looks for it.",
)
CONVERSION_OVERFLOW = define_code(
    "conversion-overflow",
    "A value does not fit the type that it is converted to.",
    "It becomes an infinity, the largest number of the type, or, as an integer, one that Tile IR does not "
    "determine. `--find-nan` looks for it.",
)

Kind = Literal["nan", "loaded nan", "infinity", "conversion"]
_CODES: Mapping[Kind, str] = {
    "nan": NAN_MADE,
    "loaded nan": NAN_LOADED,
    "infinity": INFINITY_MADE,
    "conversion": CONVERSION_OVERFLOW,
}
_MAX_TOLD = 20

Spread = Callable[[Array], Array]
"""Which elements of a result are computed from those of an operand that a mask names."""


@dataclass(slots=True)
class NanFinding:
    """An operation that made what is looked for, when it first did.

    ``index`` is the first such element of the result, ``operands`` what it was computed from, by name;
    those of which many elements count are left out. ``elements`` and ``executions`` count all that it
    made in the launch, in how many executions.
    """

    kind: Kind
    op: Operation
    block: tuple[int, int, int]
    index: tuple[int, ...]
    result: str
    operands: tuple[tuple[str, str], ...]
    message: str
    notes: tuple[Note, ...]
    elements: int = 0
    executions: int = 0

    def diagnostic(self, *more: Note) -> Diagnostic:
        values = ", ".join(f"{name} = {value}" for name, value in self.operands)
        notes = [Note(values)] if values else []
        times = "" if self.executions == 1 else f" in {self.executions} executions"
        count = "1 element" if self.elements == 1 else f"{self.elements} elements"
        notes += [
            *self.notes,
            *source_note(self.op),
            Note(f"{count} of this operation{times}"),
            *more,
        ]
        return Diagnostic(
            Severity.ERROR, _CODES[self.kind], self.message, place_of(self.op), "", tuple(notes)
        )


@dataclass(frozen=True, slots=True)
class NanReport:
    """What one launch made: ``findings`` in the order in which they happened, one for each operation
    and kind. ``later_operations`` had NaN in their operands and hence in their results, with
    ``later_elements`` altogether."""

    findings: tuple[NanFinding, ...] = ()
    later_operations: int = 0
    later_elements: int = 0

    @property
    def is_clean(self) -> bool:
        return not self.findings

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings; the first one of a NaN tells how many follow."""
        found: list[Diagnostic] = []
        has_told = False
        for finding in self.findings[:_MAX_TOLD]:
            more: list[Note] = []
            if "nan" in finding.kind and not has_told:
                has_told = True
                more = [Note(self._spread)]
            found.append(finding.diagnostic(*more))
        if len(self.findings) > _MAX_TOLD:
            left = len(self.findings) - _MAX_TOLD
            found[-1] = found[-1].with_notes(Note(f"{left} more operations are not shown"))
        return tuple(found)

    @property
    def _spread(self) -> str:
        if not self.later_operations:
            return "no other operation has NaN because of it"
        operations = "operation has" if self.later_operations == 1 else "operations have"
        elements = "element is" if self.later_elements == 1 else "elements are"
        return (
            f"{self.later_operations} more {operations} NaN in operands and results; "
            f"{self.later_elements} of their {elements} NaN"
        )

    def to_json(self) -> dict[str, object]:
        """The report made of JSON types only; docs/json.md has the schema."""
        told = [finding.diagnostic() for finding in self.findings]
        return {
            "format": 1,
            "findings": [
                {
                    **diagnostic,
                    "kind": finding.kind,
                    "op": finding.op.name.rpartition(".")[2],
                    "block": list(finding.block),
                    "index": list(finding.index),
                    "result": finding.result,
                    "operands": [{"name": n, "value": v} for n, v in finding.operands],
                    "elements": finding.elements,
                    "executions": finding.executions,
                }
                for finding, diagnostic in zip(
                    self.findings, diagnostics_to_json(told), strict=True
                )
            ],
            "later": {"operations": self.later_operations, "elements": self.later_elements},
        }

    def raise_if_any(self) -> None:
        """A TileIRError with all findings, if there are any."""
        if self.findings:
            raise TileIRError(self.diagnostics)

    def _repr_html_(self) -> str:
        """The findings with their lines of source, for notebooks."""
        return render_html(self.diagnostics) or preformatted("no operation made a NaN")


@dataclass(slots=True)
class NanFinder:
    """Looks at the operations of a launch: an observer (``inspect.runner``)."""

    names: Mapping[int, str]
    arrays: ArrayNames
    _found: dict[tuple[Operation, Kind], NanFinding] = field(default_factory=dict)
    _later: dict[Operation, int] = field(default_factory=dict)

    @property
    def report(self) -> NanReport:
        return NanReport(tuple(self._found.values()), len(self._later), sum(self._later.values()))

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        if when != "after" or not isinstance(op, TileOp):
            return None
        if op.regions and not isinstance(op, reductions.Fold):
            return None
        if isinstance(op, conversions.FToIOp):
            return self._conversion_to_integer(op, t)
        looks = [self._look(op, n, t) for n, r in enumerate(op.results) if _is_float(r)]
        if not looks:
            return None

        def hook(regs: Registers) -> None:
            for look in looks:
                look(regs)

        return hook

    # -- what a result is looked at for --------------------------------------------------------

    def _look(self, op: TileOp, number: int, t: Translator) -> Callable[[Registers], None]:
        result = op.results[number]
        slot, element, dims = t.slot(result), _type_of(result).element, _type_of(result).dims
        site = access_site(op, t)
        sources = [] if site is not None else _sources(op, number, t, dims)

        def look(regs: Registers) -> None:
            numbers = numbers_of(np.asarray(regs[slot]), element)
            if np.isfinite(numbers).all():
                return
            nans = np.isnan(numbers)
            if site is not None:
                if nans.any():
                    self._loaded(op, t, regs, site, result, nans)
                return
            operands = [(np.asarray(regs[s]), e, spread) for s, e, spread in sources]
            values = [numbers_of(value, e) for value, e, _ in operands]
            had = _any(dims, (spread(np.isnan(v)) for v, (*_, spread) in zip(values, operands)))
            made = nans & ~had
            if made.any():
                self._made("nan", op, t, regs, result, made)
            later = int(np.count_nonzero(nans & had))
            if later:
                self._later[op] = self._later.get(op, 0) + later
            infinite = np.isinf(numbers)
            if infinite.any():
                spreads = (spread(~np.isfinite(v)) for v, (*_, spread) in zip(values, operands))
                overflown = infinite & ~_any(dims, spreads)
                if overflown.any():
                    kind = "conversion" if _is_conversion(op) else "infinity"
                    self._made(kind, op, t, regs, result, overflown)

        return look

    def _conversion_to_integer(self, op: conversions.FToIOp, t: Translator) -> Hook:
        source, result = op.operands[0], op.results[0]
        slot, element = t.slot(source), _type_of(source).element
        keywords = attributes_of(op)
        to, signedness = keywords["to"], keywords["signedness"]

        def hook(regs: Registers) -> None:
            lost = convert.ftoi_undefined(regs[slot], element, to=to, signedness=signedness)
            if lost.any():
                self._made("conversion", op, t, regs, result, np.asarray(lost))

        return hook

    # -- what is noted -------------------------------------------------------------------------

    def _made(
        self, kind: Kind, op: TileOp, t: Translator, regs: Registers, result: SSAValue, made: Array
    ) -> None:
        finding = self._found.get((op, kind))
        if finding is None:
            index = _first(made)
            value = _shown(np.asarray(regs[t.slot(result)])[index], _type_of(result).element)
            finding = NanFinding(
                kind,
                op,
                t.machine.block,
                index,
                value,
                self._operands(op, t, regs, index, result),
                f"{_describe(kind, op, value)}{_at(index)} in tile block {t.machine.block}",
                (),
            )
            self._found[op, kind] = finding
        finding.elements += int(np.count_nonzero(made))
        finding.executions += 1

    def _loaded(
        self,
        op: TileOp,
        t: Translator,
        regs: Registers,
        site: AccessSite,
        result: SSAValue,
        nans: Array,
    ) -> None:
        finding = self._found.get((op, "loaded nan"))
        if finding is None:
            index = _first(nans)
            where = self._from(site, t, regs)
            message = f"{_mnemonic(op)} loads a NaN{_at(index)} in tile block {t.machine.block}"
            notes = (Note(f"the NaN is in {where}"),) if where else ()
            finding = NanFinding(
                "loaded nan", op, t.machine.block, index, "nan", (), message, notes
            )
            self._found[op, "loaded nan"] = finding
        finding.elements += int(np.count_nonzero(nans))
        finding.executions += 1

    def _from(self, site: AccessSite, t: Translator, regs: Registers) -> str:
        """The elements of memory that are NaN, of those that an operation reads; "" for padding."""
        storage, memory = site.storage, t.machine.memory
        addresses = site.addresses(regs)
        if storage.packed:
            return ""
        for allocation, lanes in allocations_of(memory, addresses, storage.size):
            some = addresses if lanes is None else addresses[lanes]
            offsets = (some - np.uint64(allocation.base)).astype(np.int64)
            places = offsets[:, None] + np.arange(storage.size)
            raw = np.ascontiguousarray(allocation.buffer[places]).view(storage.raw)[:, 0]
            wrong = np.isnan(numbers_of(storage.to_tile(raw), storage.element))
            if wrong.any():
                return str(self.arrays.locate(allocation, offsets[wrong], storage.size))
        return ""

    def _operands(
        self, op: TileOp, t: Translator, regs: Registers, index: tuple[int, ...], result: SSAValue
    ) -> tuple[tuple[str, str], ...]:
        """The elements that one of the result was computed from, where that is one of each operand."""
        if not is_elementwise(op):
            return tuple(self._ranges(op, t, regs, index, result))
        found: list[tuple[str, str]] = []
        for value in op.operands:
            array = np.asarray(regs[t.slot(value)])
            at = np.broadcast_to(array, _type_of(result).dims)[index]
            found.append((self._name(value), _shown(at, _element_of(value))))
        return tuple(found)

    def _ranges(
        self, op: TileOp, t: Translator, regs: Registers, index: tuple[int, ...], result: SSAValue
    ) -> Iterable[tuple[str, str]]:
        """Of a reduction or a product: between which numbers its operands lie, where they matter."""
        for value, part in _parts(op, index):
            array = numbers_of(np.asarray(regs[t.slot(value)]), _element_of(value))
            some = np.broadcast_to(array, _type_of(value).dims)[part]
            low, high = np.min(some), np.max(some)
            shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            yield self._name(value), shown

    def _name(self, value: SSAValue) -> str:
        return self.names.get(id(value), "an operand")


# -- which elements of operands matter for an element of a result ------------------------------------


def _sources(
    op: TileOp, number: int, t: Translator, dims: tuple[int, ...]
) -> list[tuple[int, str, Spread]]:
    """The float operands of an operation: slot, element type, and what is computed from them."""
    return [
        (t.slot(value), _type_of(value).element, _spread(op, position, value, dims))
        for position, value in enumerate(op.operands)
        if _is_float(value)
    ]


def _spread(op: TileOp, position: int, value: SSAValue, dims: tuple[int, ...]) -> Spread:
    own = _type_of(value).dims
    if isinstance(op, reductions.Fold):
        return _along(op, own)
    if isinstance(op, matrix.MmaFOp | matrix.MmaFScaledOp) and position != 2:
        # An element of the left side, or of its scale, counts for its row; one of the right for its
        # column.
        axis = -1 if position in (0, 3) else -2
        return lambda mask: np.broadcast_to(
            np.broadcast_to(mask, own).any(axis=axis, keepdims=True), dims
        )
    if is_elementwise(op) or isinstance(op, core.SelectOp) or own == dims:
        return lambda mask: np.broadcast_to(mask, dims)
    # What rearranges makes nothing; which element goes where does not matter.
    return lambda mask: np.broadcast_to(np.asarray(mask.any()), dims)


def _along(op: reductions.Fold, own: tuple[int, ...]) -> Spread:
    dim = int_property(op, "dim")
    if not isinstance(op, reductions.ScanOp):
        return lambda mask: np.asarray(np.broadcast_to(mask, own).any(axis=dim))
    reverse = op.is_reverse

    def scanned(mask: Array) -> Array:
        mask = np.broadcast_to(mask, own)
        turned = np.flip(mask, dim) if reverse else mask
        run = np.logical_or.accumulate(turned, axis=dim)
        return np.asarray(np.flip(run, dim) if reverse else run)

    return scanned


def _parts(op: TileOp, index: tuple[int, ...]) -> Iterable[tuple[SSAValue, Any]]:
    """The float operands of a reduction or product, and the parts that one element comes from."""
    if isinstance(op, reductions.Fold):
        dim = int_property(op, "dim")
        whole = index if isinstance(op, reductions.ScanOp) else (*index[:dim], 0, *index[dim:])
        part = tuple(slice(None) if axis == dim else i for axis, i in enumerate(whole))
        yield from ((value, part) for value in op.operands if _is_float(value))
    elif isinstance(op, matrix.MmaFOp | matrix.MmaFScaledOp):
        *batch, row, column = index
        yield op.operands[0], (*batch, row, slice(None))
        yield op.operands[1], (*batch, slice(None), column)
        yield op.operands[2], (*batch, row, column)


def _any(dims: Sequence[int], masks: Iterable[Array]) -> Array:
    found = np.zeros(tuple(dims), np.bool_)
    for mask in masks:
        found = found | mask
    return found


# -- words -------------------------------------------------------------------------------------------


def _describe(kind: Kind, op: TileOp, value: str) -> str:
    name = _mnemonic(op)
    if kind == "nan":
        return f"{name} makes a NaN of operands that have none,"
    if kind == "infinity":
        return f"{name} makes {value} of finite operands,"
    return f"the operand of {name} does not fit the type of the result, which becomes {value},"


def _at(index: tuple[int, ...]) -> str:
    return f" at element {list(index)}" if index else ""


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(int(axis[0]) for axis in np.nonzero(mask)) if mask.ndim else ()


def _shown(value: Any, element: str) -> str:
    return format_elements(np.asarray(value), element)


def _mnemonic(op: Operation) -> str:
    return op.name.rpartition(".")[2]


def _type_of(value: SSAValue) -> TileType:
    return value.type  # pyright: ignore[reportReturnType]


def _element_of(value: SSAValue) -> str:
    from tilewright.machine.inspect.stops import element_name

    return element_name(value.type)


def _is_float(value: SSAValue) -> bool:
    from tilewright.dialects.cuda_tile import types as T

    if not isinstance(value.type, T.TileType) or isinstance(value.type.element_type, T.PtrType):
        return False
    element = value.type.element
    return element != PTR and FORMATS[element].is_float


def _is_conversion(op: TileOp) -> bool:
    return isinstance(op, conversions.FToFOp | conversions.IToFOp)
