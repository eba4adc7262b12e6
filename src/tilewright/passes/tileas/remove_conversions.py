"""``tileas-remove-conversions``: replace layout conversions through shared memory by rematerialization where that is cheaper.

A conversion through shared memory costs two barriers. Row or page numbers are few, so each thread had better load its
own. A conversion that must stay moves in front of the computation if that moves no more bytes: a byte mask
before it is compared, f16 before it is widened; where several values of a group of element-wise operations are converted,
the whole group may work in the other layout (``conversion_groups``). If the converted value has just been loaded, a ring of the loop can hold it, and threads
read it in the layout they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.layouts import Layout
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.cleanup import erase_unused
from tilewright.passes.tileas.conversion_groups import conversion_cost, convert_groups
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.rematerialize import Rematerialization


@dataclass(frozen=True)
class RemoveConversions(FunctionPass):
    """Rematerializes tiles in the layouts of their users where that is cheaper than a conversion."""

    name: ClassVar[str] = "tileas-remove-conversions"

    def rewrite_function(self, func: FuncOp) -> None:
        remove_conversions(func)


def remove_conversions(func: FuncOp, remarks: Remarks | None = None) -> None:
    """Let no tile of a function go through shared memory that can be had in another way for less, in place.

    What still does is told by remarks. Tiles must have layouts.
    """
    remarks = Remarks() if remarks is None else remarks
    moved = convert_groups(func)
    facts = Facts(func)
    made: dict[tuple[SSAValue, Layout], SSAValue] = {}
    for op in list(func.walk()):
        if not isinstance(op, S.ConvertLayoutOp) or not _cost(op):
            continue
        layout = layout_of(op.result.type)
        assert layout is not None
        again = Rematerialization(facts, made)
        if again.find(op.source, layout) and again.cost <= _cost(op):
            op.result.replace_all_uses_with(again.make(op.source, layout))
            continue
        op = _convert_earlier(op, layout, facts, made) or op
        name = op.source.name_hint or "a tile"
        shape = "x".join(map(str, T.dims_of(op.source.type)))
        remarks.add(
            "layout", f"'{name}' ({shape}) is converted to another layout through shared memory", op
        )
    if made or moved:
        erase_unused(list(func.walk()))


def _convert_earlier(
    op: S.ConvertLayoutOp,
    layout: Layout,
    facts: Facts,
    made: dict[tuple[SSAValue, Layout], SSAValue],
) -> S.ConvertLayoutOp | None:
    """Let the tile change its layout before what is computed from it; the conversion that does it then, None where
    there is no such value, or where threads would compute something twice."""
    source = _narrowest(op.source)
    if source is op.source or not isinstance(source.owner, Operation):
        return None
    new = S.ConvertLayoutOp.to(source, layout)
    inherit_location(new, op)
    tried = {**made, (source, layout): new.result}
    again = Rematerialization(facts, tried)
    if not again.find(op.source, layout) or again.cost > 0:
        new.erase()
        return None
    Rewriter.insert_op(new, InsertPoint.after(source.owner))
    new.result.name_hint = source.name_hint
    op.result.replace_all_uses_with(again.make(op.source, layout))
    made |= tried
    return new


def _narrowest(value: SSAValue) -> SSAValue:
    """The value with the fewest bytes among those that one is computed from, each from one tile of as many elements, and
    used for nothing else; or of as many bytes, if a loop has just loaded it. Itself where there is none."""
    found, size = value, element_bytes(value.type)
    while value.has_one_use() and isinstance(op := value.owner, Operation):
        if len(op.results) != 1 or not (
            tile_ops.is_elementwise(op) or op.name in tile_ops.RESHAPES
        ):
            break
        tiles = [operand for operand in tile_ops.tiles_of(op.operands) if not _is_constant(operand)]
        if len(tiles) != 1 or prod(T.dims_of(tiles[0].type)) != prod(T.dims_of(value.type)):
            break
        (value,) = tiles
        own = element_bytes(value.type)
        if own < size or (own == size and _is_loaded_beside_product(value)):
            found, size = value, own
    return found


def _is_loaded_beside_product(value: SSAValue) -> bool:
    op = value.owner
    loop = op.parent_op() if isinstance(op, Load) else None
    return isinstance(loop, scf.ForOp) and any(
        isinstance(op, S.Product) for op in loop.body.block.ops
    )


def _is_constant(value: SSAValue) -> bool:
    """Whether threads have a value without any tile: a constant, a range, a scalar for all elements."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.name in (tile_ops.BROADCAST, *tile_ops.RESHAPES):
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and tile_ops.is_source(owner)


def _cost(op: S.ConvertLayoutOp) -> int:
    """What a thread does for a conversion through shared memory; 0 for another one."""
    source, target = layout_of(op.source.type), layout_of(op.result.type)
    return 0 if source is None or target is None else conversion_cost(op.source, source, target)
