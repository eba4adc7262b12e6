"""Left operands that threads compute in registers from tiles loaded to shared memory."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.product_costs import element_count

#: The bytes of an element whose fragments have as many neighbours as ``ldmatrix`` hands out.
HALF = 2


def computed_left(load: Access) -> list[DotOp]:
    """The products of halves in a loop's round whose left operand is computed from a loaded tile, element by element.

    The tile has elements of 16 bits and is loaded in the iteration. Empty where a product takes the tile otherwise,
    or where it is stored: it has another place then.
    """
    block = load.parent
    if block is None or not isinstance(block.parent_op(), scf.ForOp):
        return []
    if element_bytes(load.moved.type) != HALF:
        return []
    found: list[DotOp] = []
    size = element_count(load.moved)
    changed: dict[SSAValue, bool] = {load.moved: False}
    waiting: list[SSAValue] = [load.moved]
    is_computed = False
    while waiting:
        value = waiting.pop()
        for use in value.uses:
            op = use.operation
            if op.parent is not block or isinstance(op, Access):
                return []
            if isinstance(op, DotOp):
                if use.index != 0 or element_bytes(value.type) != HALF:
                    return []
                found.append(op)
                is_computed |= changed[value]
            elif op.name in tile_ops.RESHAPES or tile_ops.is_elementwise(op):
                for result in op.results:
                    if element_count(result) == size and result not in changed:
                        changed[result] = changed[value] or op.name not in tile_ops.RESHAPES
                        waiting.append(result)
    return found if is_computed else []
