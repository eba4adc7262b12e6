"""Reductions: within registers, then across lanes by shuffles, then across warps through shared memory.

The order is the same in every run. Registers are combined in halves, or adjacent ones first where that decides which of two
indices is smaller; lanes at increasing distances; warps one after the other. The tile is full, so no identity takes part.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.reductions import partials_layouts
from tilewright.lowering.nvgpu.reductions import combine
from tilewright.lowering.scheduled.conversions import converted_together
from tilewright.lowering.scheduled.ordered_indices import known_comparisons
from tilewright.lowering.scheduled.shuffles import Mode, from_lanes
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers


@lowers("reduce")
def reduce(low: ScheduledKernel, op: ReduceOp) -> None:
    """Combines within registers, then lanes by shuffles, then warps through shared memory.

    Raises ``not-lowered-to-threads`` where the layout mixes the axis with others or holds elements along it twice.
    """
    dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
    layout = low.layout_of(op.operands[0].type)
    bits = axis_bits(dims)[axis]
    mask = sum(1 << bit for bit in bits)
    if any(basis & mask and basis & ~mask for basis in layout.bases):
        raise low.refuse("its layout mixes the reduced axis with others")
    if sum(basis & mask != 0 for basis in layout.bases) != len(bits):
        raise low.refuse("threads hold duplicate elements along the reduced axis")
    values = _in_registers(low, op, low.values(op.operands), layout, mask)
    lanes = [bit for bit, basis in enumerate(layout.lane) if basis & mask]
    for bit in lanes:
        others = [from_lanes(low, value, Mode.XOR, 1 << bit) for value in values]
        values = combine(low, op, others, values)
    values = _across_warps(low, op, values, partials_layouts(layout, dims, axis))
    for result, value in zip(op.results, values, strict=True):
        low.bind(result, value if T.dims_of(result.type) else low.first(value))


def _in_registers(
    low: ScheduledKernel, op: ReduceOp, values: list[SSAValue], layout: Layout, mask: int
) -> list[SSAValue]:
    """What each thread's elements come to, in the order of the registers that stay. Where comparisons of places are known
    for that, neighbours come first: then each half lies behind the other as a whole."""
    kept = [bit for bit, basis in enumerate(layout.register) if not basis & mask]
    gone = [bit for bit, basis in enumerate(layout.register) if basis & mask]
    known = known_comparisons(op)
    if known and all(layout.register[bit].bit_count() == 1 for bit in gone):
        gone.sort(key=lambda bit: -layout.register[bit])
    else:
        known = {}
    order = [
        sum((number >> position & 1) << bit for position, bit in enumerate(kept + gone))
        for number in range(layout.registers)
    ]
    values = [low.picked(value, order) for value in values]
    count = layout.registers
    for _ in gone:
        count //= 2
        lower = [low.picked(value, range(count)) for value in values]
        upper = [low.picked(value, range(count, 2 * count)) for value in values]
        values = combine(low, op, upper, lower, known)
    return values


def _across_warps(
    low: ScheduledKernel,
    op: ReduceOp,
    values: list[SSAValue],
    layouts: tuple[Layout, Layout] | None,
) -> list[SSAValue]:
    """Of the lanes that know what their warp has, one writes it; then every thread reads what all
    warps have."""
    if layouts is None:
        return values
    own, everything = layouts
    read = converted_together(low, values, own, everything)
    found: list[SSAValue] | None = None
    for part in zip(*(low.cut(value, own.registers) for value in read), strict=True):
        found = list(part) if found is None else combine(low, op, part, found)
    assert found is not None
    return found
