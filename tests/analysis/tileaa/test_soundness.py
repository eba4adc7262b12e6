"""Claims of the analyses against the values that kernels have when the reference machine runs them.

Every launch of the cuTile corpus is lowered and run, as it is and after the passes; wherever an
operation is about to be executed its operands are held against what the analyses say of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import flat_arguments
from xdsl.ir import Operation, SSAValue

from tilewright import LaunchOptions
from tilewright.analysis.tileaa import Facts
from tilewright.analysis.tileaa.geometry import cut_by, view_axes
from tilewright.analysis.tileaa.integers import width_of
from tilewright.analysis.tileaa.patterns import AxisPattern, measure
from tilewright.bytecode import read
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.syntax.engine import values_of
from tilewright.lowering import lower_to_tileaa
from tilewright.machine.compile import Translator
from tilewright.machine.hooks import Hook
from tilewright.machine.inspect.runner import InspectingProgram
from tilewright.machine.inspect.stops import When
from tilewright.machine.values import Registers
from tilewright.numerics.arithmetic import REFERENCE
from tilewright.numerics.element_types import FORMATS
from tilewright.passes import run_pipeline

#: Executions of an operation that are looked at in each block, and blocks that are looked at.
_HITS, _BLOCKS = 3, 4

KERNELS = [k for k in cutile_kernels() if k.launch is not None] if cutile_available() else []
pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)


@dataclass
class ClaimChecker:
    """An observer that collects wrong claims."""

    facts: Facts
    wrong: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _seen: Counter[Any] = field(default_factory=Counter)
    _shared: dict[Any, bytes] = field(default_factory=dict)
    _blocks: dict[Any, None] = field(default_factory=dict)
    _touched: dict[Any, dict[Operation, list[np.ndarray]]] = field(default_factory=dict)

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        if when != "before" or op.name.startswith("nv_tileaa.func") or _is_in_a_body(op):
            return None
        values = [(value, t.slot(value)) for value in dict.fromkeys(op.operands)]

        def hook(regs: Registers) -> None:
            block = t.machine.block
            self._blocks.setdefault(block)
            if len(self._blocks) > _BLOCKS and block not in list(self._blocks)[:_BLOCKS]:
                return
            self._seen[op, block] += 1
            hit = self._seen[op, block]
            if hit > _HITS:
                return
            held = {value: regs[slot] for value, slot in values}
            for value, content in held.items():
                life = self.facts.lifetimes.of(value)
                alive = life.start <= self.facts.lifetimes.position(op) <= life.end
                self._claim("alive", alive, value, f"{life} at {op.name}")
                if isinstance(content, np.ndarray | np.generic):
                    self._check(value, np.asarray(content), (op, value, hit))
            if isinstance(op, Access):
                self._check_inside(op, held)
                touched = self._bytes_of(op, held)
                if touched is not None:
                    self._touched.setdefault(block, {}).setdefault(op, []).append(touched)

        return hook

    def check_aliases(self) -> None:
        """Accesses of a tile block that are said to be apart have touched no common byte."""
        for accesses in self._touched.values():
            for (one, mine), (other, theirs) in combinations(accesses.items(), 2):
                if self.facts.aliases.may_alias(one, other):
                    continue
                common = np.intersect1d(np.concatenate(mine), np.concatenate(theirs))
                self._claim("apart", not common.size, f"{one.name}, {other.name}", str(common[:3]))

    def _bytes_of(self, access: Access, held: dict[SSAValue, Any]) -> np.ndarray | None:
        """The bytes that an access is about to touch; None where elements are packed."""
        fmt = FORMATS[T.element_name(T.element_of(access.moved.type))]
        base = held[access.operands[0]]
        if fmt.bits % 8 and fmt.bits != 1:
            return None
        if isinstance(base, np.ndarray | np.generic):
            mask = values_of(access, "mask")
            starts = np.asarray(base)
            starts = starts[held[mask[0]]] if mask else starts
        else:
            starts = self._starts(access, base, held)
        size = fmt.storage_bytes
        return np.unique(starts.reshape(-1, 1).astype(np.int64) + np.arange(size))

    def _starts(self, access: Access, view: Any, held: dict[SSAValue, Any]) -> np.ndarray:
        """The addresses of the elements inside the tensor, whatever the mask is."""
        axes = view_axes(access.operands[0], T.dims_of(access.moved.type))
        assert axes is not None
        cutter = cut_by(access.operands[0])
        dims = range(len(axes)) if cutter is None else _axes_behind(cutter)
        indices = [np.asarray(held[index]) for index in access.indices]  # pyright: ignore[reportAttributeAccessIssue]
        size = FORMATS[T.element_name(T.element_of(access.moved.type))].storage_bytes
        starts = np.array([view.base], np.int64)
        for axis, dim, index in zip(axes, dims, indices, strict=True):
            numbers = index if index.ndim else int(index) * axis.step + np.arange(axis.tile)
            numbers = numbers[(numbers >= 0) & (numbers < view.shape[dim])]
            starts = (starts[:, None] + numbers * (view.strides[dim] * size)).reshape(-1)
        return starts

    def _claim(self, kind: str, holds: bool, value: object, why: str) -> None:
        self.checked[kind] += 1
        if not holds:
            self.wrong.append(f"{kind} of {value}: {why}")

    def _check(self, value: SSAValue, array: np.ndarray, key: Any) -> None:
        width = width_of(value.type)
        is_pointer = isinstance(T.element_of(value.type), T.PtrType)
        uniform = self.facts.uniformities.of(value)
        if uniform.lanes and array.size:
            flat = np.ascontiguousarray(array).reshape(-1)
            self._claim("lanes", all(x.tobytes() == flat[0].tobytes() for x in flat), value, "vary")
        if uniform.blocks:
            first = self._shared.setdefault(key, array.tobytes())
            self._claim("blocks", first == array.tobytes(), value, "differs between blocks")
        if width is not None:
            known = self.facts.ranges.of(value)
            numbers = [int(x) for x in array.reshape(-1)]
            inside = known.holds(min(numbers)) and known.holds(max(numbers))
            self._claim("range", inside, value, f"{min(numbers)}..{max(numbers)} not in {known}")
        if width is not None or is_pointer:
            self._check_pattern(value, array, 64 if is_pointer else width)

    def _check_pattern(self, value: SSAValue, array: np.ndarray, width: int | None) -> None:
        claimed = self.facts.patterns.of(value)
        if claimed == self.facts.patterns.unknown(value) or width is None:
            return
        element = T.element_of(value.type)
        unit = 1
        if isinstance(element, T.PtrType):
            unit = FORMATS[T.element_name(element.pointee)].storage_bytes
        measured = measure(array, width, unit)
        array = array.reshape(array.shape or (1,))
        for axis, (claim, found) in enumerate(zip(claimed.axes, measured.axes, strict=True)):
            holds = claim.run <= found.run and claim.repeat <= found.repeat
            starts = np.moveaxis(array, axis, -1)[..., :: claim.run]
            divided = all(int(x) % claim.divisor == 0 for x in starts.reshape(-1))
            self._claim("pattern", holds and divided, value, f"axis {axis}: {claim}, found {found}")

    def _check_inside(self, access: Access, held: dict[SSAValue, Any]) -> None:
        view = held[access.operands[0]]
        axes = view_axes(access.operands[0], T.dims_of(access.moved.type))
        if axes is None:
            return
        extents = self._extents(access, view)
        indices = [held[index] for index in access.indices]  # pyright: ignore[reportAttributeAccessIssue]
        facts = self.facts.bounds.of(access)
        for axis, extent, index, fact in zip(axes, extents, indices, facts, strict=True):
            numbers = [int(x) for x in np.asarray(index).reshape(-1)]
            if fact.verdict == "unknown":
                continue
            step, tile = (1, 1) if axis.sparse else (axis.step, axis.tile)
            last = max(numbers) * step + (tile if fact.verdict == "inside" else 1)
            self._claim("bounds", min(numbers) >= 0 and last <= extent, access, str(fact))

    def _extents(self, access: Access, view: Any) -> list[int]:
        """The extents behind each axis of the accessed tile."""
        cutter = cut_by(access.operands[0])
        if cutter is None:
            return list(view.shape)
        return [view.shape[axis] for axis in _axes_behind(cutter)]


def _axes_behind(cutter: BlockTileOp) -> tuple[int, ...]:
    """The axis of the memref behind each axis of the tiles."""
    assert cutter.cut is not None
    return cutter.cut.dim_map


def _is_in_a_body(op: Operation) -> bool:
    """Whether an operation computes one element, of which the machine computes many at once."""
    return op.parent_op() is not None and op.parent_op().name in (  # pyright: ignore[reportOptionalMemberAccess]
        "nv_tileaa.reduce",
        "nv_tileaa.scan",
        "nv_tileaa.generate",
    )


def run_checked(kernel: CorpusKernel, *, optimised: bool) -> ClaimChecker:
    module = lower_to_tileaa(read(kernel.export())).module
    if optimised:
        run_pipeline(module, "tileaa")
    assert kernel.launch is not None
    function = next(
        op for op in module.walk() if isinstance(op, FuncOp) and "kernel" in op.properties
    )
    checker = ClaimChecker(Facts(function, kernel.launch.grid))
    program = InspectingProgram(module, REFERENCE)
    program.observers = (checker,)
    arguments = kernel.launch.arguments()
    values = flat_arguments(kernel, arguments, program.map_array)
    program.launch(None, kernel.launch.grid, values, options=LaunchOptions(allow_overlap=True))
    checker.check_aliases()
    return checker


def _both_ways() -> list[Any]:
    """As one parameter: of two, each kernel would be in every sample."""
    ways = {"lowered": False, "optimised": True}
    return [
        pytest.param(kernel, optimised, id=f"{way}-{kernel.name}")
        for way, optimised in ways.items()
        for kernel in KERNELS
    ]


@pytest.mark.rotates(5)
@pytest.mark.parametrize(("kernel", "optimised"), _both_ways())
def test_claims_hold(kernel: CorpusKernel, optimised: bool) -> None:
    checker = run_checked(kernel, optimised=optimised)
    assert not checker.wrong, checker.wrong[:5]
    assert checker.checked


def test_every_kind_of_claim_is_met() -> None:
    checked = Counter[str]()
    for kernel in KERNELS[::8]:
        checked += run_checked(kernel, optimised=False).checked
    assert set(checked) == {"lanes", "blocks", "range", "pattern", "bounds", "apart", "alive"}


def test_the_checker_sees_a_wrong_claim() -> None:
    kernel = next(k for k in KERNELS if "matmul" in k.name)
    module = lower_to_tileaa(read(kernel.export())).module
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    checker = ClaimChecker(Facts(function))
    value = function.body.block.args[1]
    checker._check_pattern(value, np.asarray(3, np.int32), 32)
    assert not checker.wrong
    checker.facts.patterns._facts[value] = type(checker.facts.patterns.of(value))(
        (AxisPattern(1, 8, 1),)
    )
    checker._check_pattern(value, np.asarray(3, np.int32), 32)
    assert checker.wrong
