"""`nvvm.setmaxregister`: warps return registers to their block's pool, and wait for those of others."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from tilewright.dialects.nvgpu.registers import WARPGROUP_WARPS, trade_of
from tilewright.simulator import codes
from tilewright.simulator.compile import Suspending, Translator, implements
from tilewright.simulator.faults import Fault, note_at
from tilewright.simulator.ops.barriers import never_resumed
from tilewright.simulator.ops.threads import collective
from tilewright.simulator.state import Block, Coroutine, Wait, Warp


@dataclass(slots=True)
class RegisterWait(Wait):
    """Warps that wait until their block has enough free registers."""

    op: Operation
    warp: Warp
    count: int

    @property
    def lacking(self) -> int:
        """The registers that they need in addition to those they have."""
        return sum(self.count - member.register_count for member in self.warp.members)

    def ready(self) -> bool:
        return self.lacking <= self.warp.block.free_registers

    def finish(self, warp: Warp) -> None:
        warp.block.free_registers -= self.lacking
        for member in warp.members:
            member.register_count = self.count
            member.trades.append(self.op)

    def describe(self) -> str:
        block = self.warp.block
        launched = block.cluster.launch.registers
        return (
            f"waits for {self.count} registers, has {self.warp.members[0].register_count}; the block "
            f"was launched with {launched} x {len(block.warps)} warps = "
            f"{launched * len(block.warps)}, of which {block.free_registers} are free"
        )


@implements("nvvm.setmaxregister")
def _trade(op: Operation, t: Translator) -> Suspending:
    """Releases registers, or waits until the block has enough (PTX, ``setmaxnreg``).

    Raises ``Fault`` for a change in the wrong direction. Incomplete warpgroups are reported.
    """
    trade = trade_of(op)
    assert trade is not None
    wanted, increases = trade.count, trade.increases

    def start(warp: Warp) -> Coroutine:
        collective(warp, op)
        for member in warp.members:
            _check_direction(member, wanted, increases, op)
            _check_group(member, op)
        wait = RegisterWait(op, warp, wanted)
        if increases:
            yield wait
            return
        wait.finish(warp)
        warp.block.cluster.progress += 1

    return Suspending(start, never_resumed)


def _check_direction(warp: Warp, wanted: int, increases: bool, op: Operation) -> None:
    has = warp.register_count
    if wanted != has and increases != (wanted > has):
        word = "increases" if increases else "decreases"
        raise Fault(
            codes.REGISTERS,
            f"{warp.name()} {word} its registers to {wanted}, but each of its threads has {has}",
            op,
        )


def _check_group(warp: Warp, op: Operation) -> None:
    block = warp.block
    first = warp.index // WARPGROUP_WARPS * WARPGROUP_WARPS
    if len(block.warps) < first + WARPGROUP_WARPS:
        block.cluster.launch.collector.add(
            codes.DIVERGENT,
            f"'{op.name}' must be executed by the four warps of a warpgroup, but {warp.name()} is "
            f"in a group of {len(block.warps) - first}",
            op,
            help="launch whole warpgroups: a multiple of 128 threads",
        )


def check_trades(block: Block) -> None:
    """Report ``setmaxnreg`` that some warps of a warpgroup have executed and others have not (PTX ISA: all of them
    must).
    """
    for first in range(0, len(block.warps), WARPGROUP_WARPS):
        warps = block.warps[first : first + WARPGROUP_WARPS]
        made = [warp.trades for warp in warps]
        longest = max(made, key=len)
        for warp, trades in zip(warps, made, strict=True):
            if trades != longest:
                at = next(n for n, op in enumerate([*trades, None]) if op is not longest[n])
                block.cluster.launch.collector.add(
                    codes.DIVERGENT,
                    f"'{longest[at].name}' must be executed by all four warps of a warpgroup, but "
                    f"{warp.name()} does not execute it",
                    longest[at],
                    notes=[note_at("it executes this one instead", trades[at])]
                    if at < len(trades)
                    else (),
                    help="branch on the warp index divided by 4",
                )
                break
