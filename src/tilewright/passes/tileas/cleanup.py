"""Removes operations that a pass has left without users."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.element_accesses import goes_by_element


def pass_token_on(op: Access) -> None:
    """Order what follows an access after what precedes it, so that the access can be erased."""
    if op.result_token is None or op.result_token.first_use is None:
        return
    before = op.token
    if before is None:
        made = CreateMemTokenOp.create(result_types=(T.MEM_TOKEN,))
        inherit_location(made, op)
        Rewriter.insert_op(made, InsertPoint.before(op))
        before = made.results[0]
    op.result_token.replace_all_uses_with(before)


def erase_unused(ops: Sequence[Operation], keep: Collection[SSAValue] = ()) -> None:
    """Erase the operations without effects, given in order, whose results are unused; also unused loads.

    Results in ``keep`` count as used.
    """
    for op in reversed(ops):
        if isinstance(op, Load) and not goes_by_element(op):
            if op.moved.first_use is not None or op.moved in keep:
                continue
            pass_token_on(op)
        elif not op.results or not is_side_effect_free(op):
            continue
        if all(result.first_use is None and result not in keep for result in op.results):
            op.detach()
            op.erase()
