"""Remarks on the optimization hints of a kernel: whether each was applied, and why not."""

from __future__ import annotations

from tilewright.analysis.hints import RULES
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.lowering.tileaa.hints import flag_hint, given_hint, number_hint
from tilewright.lowering.tileaa.options import TileAAOptions
from tilewright.model.choices import gpu_of
from tilewright.model.timing import block_limits
from tilewright.passes.tileas.remarks import Remarks

#: The registers of a multiprocessor, and the most that a thread may have.
_FILE, _MOST = 1 << 16, 255
#: The blocks that no multiprocessor holds more of.
_BLOCKS = 32


def remark_on_hints(
    entry: EntryOp,
    options: TileAAOptions,
    threads: int,
    remarks: Remarks,
    tma: bool,
    blocks: int,
) -> None:
    """Add a remark of kind ``hint`` for each hint that applies to the target.

    ``threads``: the threads of a block; ``tma``: whether any of its copies use TMA; ``blocks``: for how many blocks on a
    multiprocessor registers are left, 0 if agents share them. A hint whose value is out of range is ignored, with a remark.
    """
    _of_entry(entry, options, threads, remarks, blocks)
    _out_of_range(entry, options, remarks)
    for op in entry.walk():
        if isinstance(op, TileOp) and op is not entry:
            _of_access(op, options, remarks, tma)


def _of_entry(
    entry: EntryOp, options: TileAAOptions, threads: int, remarks: Remarks, blocks: int
) -> None:
    if warps := number_hint(options, entry, "num_worker_warps_per_cta"):
        said = (
            "is honoured"
            if threads == 32 * warps
            else f"is overridden: a block has {threads // 32}"
        )
        remarks.add("hint", f"num_worker_warps_per_cta = {warps} {said}", entry)
    occupancy = number_hint(options, entry, "occupancy")
    if occupancy and not blocks:
        message = f"occupancy = {occupancy} is overridden: agents use all registers of a block"
        remarks.add("hint", message, entry)
    elif occupancy:
        held = _most_blocks(options, threads)
        fits = min(occupancy, held, blocks)
        most = min(_FILE // (fits * threads) // 8 * 8, _MOST)
        said = "is honoured"
        if fits < min(occupancy, held):
            said = f"is limited to {fits} by shared memory"
        elif fits < occupancy:
            said = f"is limited to {fits} by the {threads} threads of a block"
        remarks.add(
            "hint",
            f"occupancy = {occupancy} {said}: a thread has at most {most} registers, so that "
            f"{fits} {'block fits' if fits == 1 else 'blocks fit'} on a multiprocessor",
            entry,
        )
    cluster = number_hint(options, entry, "num_cta_in_cga")
    if cluster is not None and cluster > 1:
        remarks.add(
            "hint",
            f"num_cta_in_cga = {cluster} is ignored: blocks load their own tiles and are launched "
            "without clusters",
            entry,
        )


def _most_blocks(options: TileAAOptions, threads: int) -> int:
    """The blocks of so many threads that a multiprocessor of the target holds, whatever else they take."""
    gpu = gpu_of(int(options.target.removeprefix("sm_")))
    if gpu is None:
        return _BLOCKS
    limits = block_limits(gpu, 0, threads, 0)
    return max(min(limits["threads"], limits["blocks"]), 1)


def _out_of_range(op: TileOp, options: TileAAOptions, remarks: Remarks) -> None:
    for name, rule in RULES.items():
        value = given_hint(options, op, name)
        if value is None or op.mnemonic() not in rule.ops or rule.expected is None:
            continue
        if number_hint(options, op, name) is None:
            expected = rule.expected(options.target)
            remarks.add("hint", f"{name} = {value} is ignored: expected {expected}", op)


def _of_access(op: TileOp, options: TileAAOptions, remarks: Remarks, tma: bool) -> None:
    _out_of_range(op, options, remarks)
    latency = number_hint(options, op, "latency")
    if latency is not None:
        remarks.add(
            "hint",
            f"latency = {latency} is ignored: rings have as many stages as fit in shared memory, "
            "up to the default",
            op,
        )
    allowed = flag_hint(options, op, "allow_tma")
    if allowed is False:
        remarks.add("hint", "allow_tma = false is honoured: TMA is not used", op)
    elif allowed and not tma:
        remarks.add("hint", "allow_tma = true: TMA is not applicable", op)


def hinted_warps(entry: EntryOp, options: TileAAOptions) -> int | None:
    """The warps per block that a hint asks for, else None."""
    return number_hint(options, entry, "num_worker_warps_per_cta")


def forbids_tma(entry: EntryOp, options: TileAAOptions) -> bool:
    """Whether a hint at any access of the kernel forbids TMA."""
    return any(
        isinstance(op, TileOp) and op is not entry and flag_hint(options, op, "allow_tma") is False
        for op in entry.walk()
    )
