"""``agent_switch``: each warp branches to the region of its agent."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Region

from tilewright.dialects.nv_tileas.agents import AgentSwitchOp, AgentYieldOp
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.lowering.nvgpu.types import I32
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers


@lowers("nv_tileas.async.pipeline.agent_switch")
def agent_switch(low: ScheduledKernel, op: AgentSwitchOp) -> None:
    """Agent 0 has the first warps, so that its threads have the numbers that layouts speak of."""
    low.scratch()
    low.thread()
    _agent(low, op, 0, 0)


def _agent(low: ScheduledKernel, op: AgentSwitchOp, number: int, first_warp: int) -> None:
    """What the warps from ``first_warp`` on do, of which the next agent has the first ones."""
    if number == len(op.agents) - 1:
        _do(low, op, number, first_warp)
        return
    behind = first_warp + op.warps[number]
    own, others = Block(), Block()
    with low.building(own):
        _do(low, op, number, first_warp)
        low.emit(scf.YieldOp)
    with low.building(others):
        _agent(low, op, number + 1, behind)
        low.emit(scf.YieldOp)
    condition = low.compare("ult", low.thread(), 32 * behind)
    low.emit(scf.IfOp, (condition,), (), regions=[Region(own), Region(others)])


def _do(low: ScheduledKernel, op: AgentSwitchOp, number: int, first_warp: int) -> None:
    """What an agent does: of those without tiles the first warp."""
    low.agent, low.first_warp = number, first_warp
    if op.registers:
        launched, own = op.registers_at_launch, op.registers[number]
        assert launched is not None
        kind = nvvm.SetMaxRegisterAction
        action = kind.INCREASE if own > launched else kind.DECREASE
        properties = {
            "regCount": b.IntegerAttr(own, I32),
            "action": nvvm.SetMaxRegisterActionAttr(action),
        }
        low.emit(nvvm.SetMaxRegisterOp, (), (), properties)
    body = op.agents[number].block
    if number == 0 or op.warps[number] == 1:
        with low.own_prologue():
            low.block_body(body)
        return
    first = Block()
    with low.building(first):
        with low.own_prologue():
            low.block_body(body)
        low.emit(scf.YieldOp)
    condition = low.compare("ult", low.thread(), 32 * (first_warp + 1))
    low.emit(scf.IfOp, (condition,), (), regions=[Region(first), Region()])


@lowers("nv_tileas.async.pipeline.yield")
def agent_yield(low: ScheduledKernel, op: AgentYieldOp) -> None:
    """The warps have done."""
