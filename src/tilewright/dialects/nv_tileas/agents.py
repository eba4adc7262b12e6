"""Agents: groups of warps of a block that do different things."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Block, Operation
from xdsl.irdl import opt_prop_def, prop_def, traits_def, var_region_def
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect

from tilewright.diagnostics import define_code
from tilewright.dialects.declare import Report, attr, examples
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, int_list
from tilewright.dialects.nv_tileaa.constraints import I64_ARRAY
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, ReturnOp
from tilewright.dialects.nv_tileaa.signature import Bodies, Dictionary
from tilewright.dialects.nv_tileas.base import is_within, schedule_op
from tilewright.dialects.nv_tileas.types import is_held_whole

GROUP = "agents"
AGENTS = define_code(
    "as-agents",
    "The warps of a block cannot be split among agents like this.",
    "Each agent has its own warps, at most 32 in total. Agents communicate only through "
    "pipelines; tiles defined before the switch are not available to them. Agents other than "
    "the first have only tiles that each thread holds as a whole.",
)
MOST_WARPS = 32
#: The registers of a multiprocessor, and the warps that trade them together.
_REGISTERS, _WARPGROUP = 1 << 16, 4


@schedule_op("async.pipeline.yield", group=GROUP)
class AgentYieldOp(TileAAOp):
    """Ends what an agent does."""

    traits = traits_def(IsTerminator(), NoMemoryEffect())
    EXAMPLES: ClassVar = examples(
        """
        nv_tileas.async.pipeline.agent_switch {num_warps = array<i64: 4, 1>} {
          nv_tileas.async.pipeline.yield
        }, {
          nv_tileas.async.pipeline.yield
        }
        """
    )

    def check(self, report: Report) -> None:
        if not isinstance(self.parent_op(), AgentSwitchOp):
            report.error(AGENTS, "expects to end a region of agent_switch")


@schedule_op("async.pipeline.agent_switch", group=GROUP)
class AgentSwitchOp(TileAAOp):
    """Splits the warps of a block among agents, the last that a kernel does.

    Agent i, a region, has the ``num_warps[i]`` warps behind those of the agents before it. The first one
    has the tiles; others may have such of which each thread holds all elements.

    All warps do what comes before. Agents see of it what is no tile, and of one another what goes
    through pipelines. With ``max_regs`` each thread of agent i has that many registers: agents of whole
    warpgroups give theirs to others, or take them (``setmaxnreg``).
    """

    num_warps = prop_def(I64_ARRAY)
    max_regs = opt_prop_def(I64_ARRAY)
    agents = var_region_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    SYNTAX: ClassVar = (Dictionary(), Bodies())
    EXAMPLES: ClassVar = examples(
        """
        nv_tileas.async.pipeline.agent_switch {num_warps = array<i64: 4, 1>} {
          %doubled = nv_tileaa.addf %x, %x : f32
          nv_tileas.async.pipeline.yield
        }, {
          nv_tileas.async.pipeline.yield
        }
        """
    )

    @property
    def warps(self) -> tuple[int, ...]:
        """The warps of each agent."""
        return int_list(self.properties["num_warps"])

    @property
    def registers(self) -> tuple[int, ...]:
        """The registers of a thread of each agent; none where nobody trades any."""
        return int_list(self.properties.get("max_regs"))

    @property
    def registers_at_launch(self) -> int | None:
        """The registers that each thread of the block begins with, where agents trade them."""
        if not self.registers:
            return None
        total = sum(w * r for w, r in zip(self.warps, self.registers, strict=True))
        return -(-total // sum(self.warps) // 8) * 8

    def check(self, report: Report) -> None:
        warps = self.warps
        if len(warps) != len(self.agents) or len(warps) < 2:
            report.error(
                AGENTS,
                f"expected two agents or more, and the warps of each, got {len(self.agents)} and "
                f"{list(warps)}",
                attr("num_warps"),
            )
        elif min(warps) < 1 or sum(warps) > MOST_WARPS:
            report.error(
                AGENTS,
                f"each agent has a warp, and a block {MOST_WARPS} at most, got {list(warps)}",
                attr("num_warps"),
            )
        elif self.registers:
            self._check_registers(report)
        if not isinstance(self.parent_op(), FuncOp) or not isinstance(self.next_op, ReturnOp):
            report.error(AGENTS, "expected it to be the last operation of a kernel")
        for region in self.agents:
            blocks = list(region.blocks)
            if (
                len(blocks) != 1
                or blocks[0].args
                or not isinstance(blocks[0].last_op, AgentYieldOp)
            ):
                report.error(
                    AGENTS, "what an agent does is one block, that 'async.pipeline.yield' ends"
                )
        self._check_captures(report)

    def _check_registers(self, report: Report) -> None:
        warps, registers = self.warps, self.registers
        if len(registers) != len(warps) or any(r % 8 or not 24 <= r <= 256 for r in registers):
            report.error(
                AGENTS,
                f"expected a multiple of 8 from 24 to 256 for each agent, got {list(registers)}",
                attr("max_regs"),
            )
        elif any(count % _WARPGROUP for count in warps):
            report.error(
                AGENTS,
                f"whole warpgroups, of {_WARPGROUP} warps, trade registers, got {list(warps)}",
                attr("num_warps"),
            )
        elif 32 * sum(warps) * (self.registers_at_launch or 0) > _REGISTERS:
            report.error(
                AGENTS,
                f"together agents have at most {_REGISTERS} registers, in steps of 8 for each thread at "
                f"launch, got {list(registers)} in {list(warps)} warps",
                attr("max_regs"),
            )

    def _check_captures(self, report: Report) -> None:
        for number, region in enumerate(self.agents):
            for op in region.walk():
                if any(
                    isinstance(value.type, T.TileType) and not is_within(value, self)
                    for value in op.operands
                ):
                    what = "a tile of before the switch, which no agent has"
                elif number and not all(is_held_whole(result.type) for result in op.results):
                    what = "a tile that its threads share, which only agent 0 has"
                else:
                    continue
                report.error(AGENTS, f"'{op.name}' of agent {number} uses {what}")
                return


def agent_switch(func: FuncOp) -> AgentSwitchOp | None:
    """How the warps of a kernel are split, where they are."""
    end = func.body.block.last_op
    found = None if end is None else end.prev_op
    return found if isinstance(found, AgentSwitchOp) else None


def main_block(func: FuncOp) -> Block:
    """The operations of the warps that have tiles: those of the first agent, or of all."""
    switch = agent_switch(func)
    return func.body.block if switch is None else switch.agents[0].block


def is_of_other_agent(op: Operation) -> bool:
    """Whether an operation is done by an agent that has no tiles."""
    region = op.parent_region()
    while region is not None:
        outer = region.parent
        if isinstance(outer, AgentSwitchOp):
            return region is not outer.agents[0]
        region = None if outer is None else outer.parent_region()
    return False
