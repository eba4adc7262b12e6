"""The NaN finder: which operation produces the first NaN, from which values, and how far it spreads.

An observer of the reference machine looks at the result of every operation. An operation produced an element's NaN if
none of the elements that it was computed from is one, and an infinity if all of those were finite. Infinities that a
kernel uses on purpose, as constants, as padding or from memory, such as the -inf of a masked softmax, are therefore
not reported until they produce a NaN. Conversions are reported if a value does not fit the target type.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.diagnostics import Note, TileIRError
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import conversions, core, matrix, reductions
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.declare import int_property
from tilewright.launching.accesses import STORES
from tilewright.launching.options import DEFAULT_OPTIONS, LaunchOptions
from tilewright.machine.accesses import AccessSite, access_site, allocations_of
from tilewright.machine.compile import Translator
from tilewright.machine.hooks import Hook
from tilewright.machine.inspect.stats import numbers_of
from tilewright.machine.inspect.stops import When, format_elements
from tilewright.machine.nan_report import Kind, NanError, NanFinding, NanReport
from tilewright.machine.ops.elementwise import attributes_of, is_elementwise
from tilewright.machine.tensors import ArrayNames
from tilewright.machine.values import Registers
from tilewright.numerics import convert
from tilewright.numerics.arrays import PTR, Array
from tilewright.numerics.element_types import FORMATS

Spread = Callable[[Array], Array]
"""Maps a mask of an operand's elements to the result elements computed from them."""


def find_nan(
    module: Operation,
    entry: str | None = None,
    grid: int | Sequence[int] = (1, 1, 1),
    args: Sequence[object] = (),
    options: LaunchOptions = DEFAULT_OPTIONS,
) -> NanReport:
    """Launch a kernel on the reference machine and report operations that produce NaN or overflow.

    Arrays are updated and errors raised as in any launch: TileIRError, or NanError where the launch also failed
    otherwise.
    """
    from tilewright.machine.inspect.runner import run_with

    try:
        run_with(module, entry, grid, args, replace(options, find_nan=True))
    except NanError as error:
        if len(error.diagnostics) > len(error.report.diagnostics):
            raise
        return error.report
    return NanReport()


@dataclass(slots=True)
class NanFinder:
    """Observes the operations of a launch (``inspect.runner``) for NaN."""

    names: Mapping[int, str]
    arrays: ArrayNames
    _found: dict[tuple[Operation, Kind], NanFinding] = field(
        default_factory=dict[tuple["Operation", Kind], NanFinding]
    )
    _later: dict[Operation, int] = field(default_factory=dict["Operation", int])
    _has_stored: bool = False
    """Whether a NaN has been stored to memory."""

    @contextmanager
    def raising(self) -> Generator[None]:
        """Context manager around a launch; raises NanError at the end if anything was found."""
        try:
            yield
        except TileIRError as error:
            if self._found:
                raise NanError(self.report, error.diagnostics) from None
            raise
        if self._found:
            raise NanError(self.report)

    @property
    def report(self) -> NanReport:
        """The report of everything found so far."""
        return NanReport(tuple(self._found.values()), len(self._later), sum(self._later.values()))

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        """Return a hook after an operation of ``cuda_tile``, or None if nothing can be found there."""
        if when != "after" or not isinstance(op, TileOp):
            return None
        if op.regions and not isinstance(op, reductions.ReduceOrScan):
            return None
        if isinstance(op, conversions.FToIOp):
            return self._conversion_to_integer(op, t)
        if _is_conversion(op) and FORMATS[_type_of(op.results[0]).element].bits <= 8:
            return self._saturating_conversion(op, t)
        if type(op) in STORES:
            return self._store(op, t)
        # A value that is the same in all tile blocks is a constant, which the kernel chose on purpose.
        made = [n for n, r in enumerate(op.results) if _is_float(r) and not t.is_preset(r)]
        looks = [self._look(op, number, t) for number in made]
        if not looks:
            return None

        def hook(regs: Registers) -> None:
            for look in looks:
                look(regs)

        return hook

    # -- which results are examined --------------------------------------------------------------

    def _look(self, op: TileOp, number: int, t: Translator) -> Callable[[Registers], None]:
        result = op.results[number]
        slot, element, dims = t.slot(result), _type_of(result).element, _type_of(result).dims
        site = access_site(op, t)
        sources = [] if site is not None else _sources(op, t, dims)

        def look(regs: Registers) -> None:
            numbers = numbers_of(np.asarray(regs[slot]), element)
            if np.isfinite(numbers).all():
                return
            nans = np.isnan(numbers)
            if site is not None:
                if nans.any():
                    self._loaded(op, t, regs, site, nans)
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
            # Bits reinterpreted as a float are an infinity on purpose.
            if infinite.any() and (sources or _is_conversion(op)):
                spreads = (spread(~np.isfinite(v)) for v, (*_, spread) in zip(values, operands))
                overflown = infinite & ~_any(dims, spreads)
                if overflown.any():
                    kind = "conversion" if _is_conversion(op) else "infinity"
                    self._made(kind, op, t, regs, result, overflown)

        return look

    def _store(self, op: TileOp, t: Translator) -> Hook | None:
        """Stored values may be loaded again. Report a NaN here if no operation produced it."""
        values = [value for value in op.operands if _is_float(value)]
        if not values:
            return None
        slot, element = t.slot(values[0]), _type_of(values[0]).element

        def hook(regs: Registers) -> None:
            nans = np.isnan(numbers_of(np.asarray(regs[slot]), element))
            if not nans.any():
                return
            self._has_stored = True
            if not any("nan" in kind for _, kind in self._found):
                self._note("stored nan", op, t, _first(nans), "nan", ())
            if (op, "stored nan") in self._found:
                self._count(op, "stored nan", nans)

        return hook

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

    def _saturating_conversion(self, op: TileOp, t: Translator) -> Hook:
        """Checks conversions to types of at most 8 bits: values too large become the largest number, and
        NaN stays NaN if the type has one."""
        source, result = op.operands[0], op.results[0]
        slot, element = t.slot(source), _element_of(source)
        bound = _first_too_large(_type_of(result).element)
        signedness = attributes_of(op).get("signedness")

        def hook(regs: Registers) -> None:
            array = np.asarray(regs[slot])
            if signedness == "unsigned":
                array = array.view(f"u{array.itemsize}")
            lost = np.asarray(np.abs(numbers_of(array, element)) >= bound)
            if lost.any():
                self._made("conversion", op, t, regs, result, lost)

        return hook

    # -- what is recorded ------------------------------------------------------------------------

    def _made(
        self, kind: Kind, op: TileOp, t: Translator, regs: Registers, result: SSAValue, made: Array
    ) -> None:
        if (op, kind) not in self._found:
            index = _first(made)
            value = _shown(np.asarray(regs[t.slot(result)])[index], _type_of(result).element)
            self._note(kind, op, t, index, value, self._operands(op, t, regs, index, result))
        self._count(op, kind, made)

    def _note(
        self,
        kind: Kind,
        op: TileOp,
        t: Translator,
        index: tuple[int, ...],
        value: str,
        operands: tuple[tuple[str, str], ...],
        *notes: Note,
    ) -> None:
        block = t.machine.block
        message = f"{_describe(kind, op, value)}{_at(index)} in tile block {block}"
        self._found[op, kind] = NanFinding(kind, op, block, index, value, operands, message, notes)

    def _count(self, op: Operation, kind: Kind, elements: Array) -> None:
        finding = self._found[op, kind]
        finding.elements += int(np.count_nonzero(elements))
        finding.executions += 1

    def _loaded(
        self, op: TileOp, t: Translator, regs: Registers, site: AccessSite, nans: Array
    ) -> None:
        where = self._from(site, t, regs)
        if not where:
            return  # It is the padding, which the kernel chose.
        if self._has_stored:
            self._later[op] = self._later.get(op, 0) + int(np.count_nonzero(nans))
            return
        if (op, "loaded nan") not in self._found:
            note = Note(f"the NaN is in {where}")
            self._note("loaded nan", op, t, _first(nans), "nan", (), note)
        self._count(op, "loaded nan", nans)

    def _from(self, site: AccessSite, t: Translator, regs: Registers) -> str:
        """Return which of the memory elements an operation reads are NaN, as text; "" if none."""
        storage, memory = site.storage, t.machine.memory
        if storage.packed:
            return ""  # No 4-bit type has a NaN.
        addresses = site.addresses(regs)
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
        """Return the operand elements that a result element was computed from, if there is one per operand."""
        if not is_elementwise(op):
            return tuple(self._ranges(op, t, regs, index))
        found: list[tuple[str, str]] = []
        for value in op.operands:
            array = np.asarray(regs[t.slot(value)])
            at = np.broadcast_to(array, _type_of(result).dims)[index]
            found.append((self._name(value), _shown(at, _element_of(value))))
        return tuple(found)

    def _ranges(
        self, op: TileOp, t: Translator, regs: Registers, index: tuple[int, ...]
    ) -> Iterable[tuple[str, str]]:
        """For a reduction or product, yields the range of each operand that matters."""
        for value, part in _parts(op, index):
            array = numbers_of(np.asarray(regs[t.slot(value)]), _element_of(value))
            some = np.broadcast_to(array, _type_of(value).dims)[part]
            low, high = np.min(some), np.max(some)
            shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            yield self._name(value), shown

    def _name(self, value: SSAValue) -> str:
        return self.names.get(id(value), "an operand")


# -- which operand elements a result element depends on ----------------------------------------------


def _sources(op: TileOp, t: Translator, dims: tuple[int, ...]) -> list[tuple[int, str, Spread]]:
    """Return the float operands: slot, element type, and the result elements each element affects."""
    return [
        (t.slot(value), _type_of(value).element, _spread(op, position, value, dims))
        for position, value in enumerate(op.operands)
        if _is_float(value)
    ]


def _spread(op: TileOp, position: int, value: SSAValue, dims: tuple[int, ...]) -> Spread:
    own = _type_of(value).dims
    if isinstance(op, reductions.ReduceOrScan):
        return _along(op, own)
    if isinstance(op, matrix.MmaFOp | matrix.MmaFScaledOp) and position != 2:
        # An element of the left side, or of its scale, affects its row; one of the right side its
        # column.
        axis = -1 if position in (0, 3) else -2
        return lambda mask: np.broadcast_to(
            np.broadcast_to(mask, own).any(axis=axis, keepdims=True), dims
        )
    if is_elementwise(op) or isinstance(op, core.SelectOp):
        return lambda mask: np.broadcast_to(mask, dims)
    # A rearrangement produces no NaN, so the exact mapping does not matter.
    return lambda mask: np.broadcast_to(np.asarray(mask.any()), dims)


def _along(op: reductions.ReduceOrScan, own: tuple[int, ...]) -> Spread:
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
    """Yield the float operands of a reduction or product, and the parts one element depends on."""
    if isinstance(op, reductions.ReduceOrScan):
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


# -- messages ----------------------------------------------------------------------------------------


def _describe(kind: Kind, op: TileOp, value: str) -> str:
    name = _mnemonic(op)
    if kind == "nan":
        return f"{name} produces a NaN from operands without NaN,"
    if kind == "loaded nan":
        return f"{name} loads a NaN"
    if kind == "stored nan":
        return f"{name} stores a NaN that is a constant or padding,"
    if kind == "infinity":
        return f"{name} produces {value} from finite operands,"
    return f"the operand of {name} is out of range of the result type, and becomes {value},"


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


def _first_too_large(element: str) -> float:
    """Return the smallest magnitude that rounds to more than the largest number of a type."""
    largest = numbers_of(convert.ftof(np.array(np.inf, np.float64), "f64", to=element), element)
    # Half a step above the largest number; a tie goes to the even side, which is above.
    step = 2.0 ** (np.floor(np.log2(float(largest))) - FORMATS[element].mantissa_bits)
    return float(largest) + step / 2


def _is_conversion(op: TileOp) -> bool:
    return isinstance(op, conversions.FToFOp | conversions.IToFOp)
