"""Hoists small loads that a loop makes behind its product to the start of the iteration, so that their latency
overlaps with the product."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa import Facts, must_stay
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.rematerialize import FEW_BYTES


def hoist_loads(func: FuncOp, remarks: Remarks) -> None:
    """Hoist weak loads that follow a product in a loop to the start of their iteration.

    Only small loads are hoisted, since a thread holds their elements while the product is in flight, and only if their
    indices, masks and tokens allow it.
    """
    facts = Facts(func)
    for loop in list(func.walk()):
        if isinstance(loop, scf.ForOp):
            _hoist_loads(loop, facts, remarks)


def _hoist_loads(loop: scf.ForOp, facts: Facts, remarks: Remarks) -> None:
    body = loop.body.block
    ops = list(body.ops)
    product = next((n for n, op in enumerate(ops) if isinstance(op, S.Product)), None)
    if product is None:
        return
    moved: dict[Operation, None] = {}
    for op in ops[product:]:
        if not isinstance(op, Load) or goes_by_element(op) or _bytes_of_thread(op) > FEW_BYTES:
            continue
        needs = _needs(op, body)
        if needs is None or _waits(op, loop, facts):
            continue
        moved |= dict.fromkeys(needs)
        name = op.moved.name_hint or "a tile"
        remarks.add(
            "early", f"the load of '{name}' is hoisted above the product of its iteration", op
        )
    anchor = next(op for op in ops if op not in moved)
    for op in ops:
        if op in moved:
            op.detach()
            body.insert_op_before(op, anchor)


def _bytes_of_thread(op: Load) -> int:
    layout = layout_of(op.moved.type)
    return element_bytes(op.moved.type) * (1 if layout is None else layout.registers)


def _needs(load: Load, body: Block) -> Sequence[Operation] | None:
    """Return the operations of the body that a load depends on, in order, followed by the load.

    None if one of them has an effect or produces a large tile.
    """
    found: set[Operation] = {load}
    waiting: list[SSAValue] = list(load.operands)
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Block) or owner.parent is not body or owner in found:
            continue
        if not is_side_effect_free(owner) or owner.regions or isinstance(owner, S.Product):
            return None
        if any(_is_large(value) for value in owner.results):
            return None
        found.add(owner)
        waiting += owner.operands
    return [op for op in body.ops if op in found]


def _is_large(value: SSAValue) -> bool:
    layout = layout_of(value.type)
    return tile_ops.is_tile(value) and layout is not None and layout.registers > FEW_BYTES


def _waits(load: Load, loop: scf.ForOp, facts: Facts) -> bool:
    """Whether an access of the loop may touch the memory of a load and must not be reordered with it."""
    return any(
        isinstance(op, Access)
        and op is not load
        and (must_stay(op, load, facts.aliases) or must_stay(load, op, facts.aliases))
        for op in loop.walk()
    )
