"""Tokens, fences, assumptions, barriers, prints and assertions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa.ops import extensions, hints
from tilewright.dialects.nv_tileaa.types import MemTokenType
from tilewright.machine.compile import Step, Translator, implements
from tilewright.machine.ops.control_flow import copy_slots
from tilewright.machine.ops.effects import assert_step, print_step
from tilewright.machine.ops.tiles import rearranged
from tilewright.machine.values import TOKEN


def preset_tokens(t: Translator, results: Sequence[SSAValue]) -> None:
    """Preset token results: effects occur in program order, so tokens carry nothing."""
    for result in results:
        if isinstance(result.type, MemTokenType):
            t.preset(result, TOKEN)


@implements(
    hints.CreateMemTokenOp,
    hints.JoinMemTokenOp,
    extensions.FenceOp,
    extensions.GridDependencyOp,
)
def _token(op: hints.CreateMemTokenOp, t: Translator) -> None:
    """A run has one grid and one address space: there is nothing to wait for, start or order."""
    preset_tokens(t, op.results)


@implements(hints.MarkForReuseOp, hints.MessageOp)
def _nothing(op: hints.MarkForReuseOp | hints.MessageOp, t: Translator) -> None:
    """Storage is never shared here, and messages are for compilers."""


@implements(hints.AssumeOp)
def _assume(op: hints.AssumeOp, t: Translator) -> Step | None:
    return rearranged(t, op.value, op.result, lambda value: value)


@implements(hints.OptimizationBarrierOp, hints.PragmaOp)
def _same(op: hints.OptimizationBarrierOp | hints.PragmaOp, t: Translator) -> Step | None:
    if not op.operands:
        return None
    return copy_slots(t.slots(op.operands), t.slots(op.results))


@implements(hints.AssertOp)
def _assert(op: hints.AssertOp, t: Translator) -> Step:
    preset_tokens(t, op.results)
    return assert_step(op, t, op.condition)


@implements(hints.PrintOp)
def _print(op: hints.PrintOp, t: Translator) -> Step:
    preset_tokens(t, op.results)
    text = op.properties["format"]
    assert isinstance(text, StringAttr)
    values = [value for value in op.args if not isinstance(value.type, MemTokenType)]
    return print_step(t, text.data, values)
