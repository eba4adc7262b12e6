"""What becomes of the optimization hints of a kernel: each is honoured, or a remark says why not."""

from __future__ import annotations

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.lowering.tileaa.hints import flag_hint, number_hint
from tilewright.lowering.tileaa.options import TileAAOptions
from tilewright.passes.tileas.remarks import Remarks

#: The registers of a multiprocessor, and the most that a thread may have.
_FILE, _MOST = 1 << 16, 255


def remark_on_hints(
    entry: EntryOp,
    options: TileAAOptions,
    threads: int,
    remarks: Remarks,
    tma: bool,
    blocks: int,
) -> None:
    """Add a remark of kind ``hint`` for each hint that counts for the target.

    ``threads``: those of a block as it was made; ``tma``: whether any of its copies go by TMA; ``blocks``: for how many
    blocks on a multiprocessor registers are left, 0 where agents share them.
    """
    _of_entry(entry, options, threads, remarks, blocks)
    for op in entry.walk():
        if isinstance(op, TileOp) and op is not entry:
            _of_access(op, options, remarks, tma)


def _of_entry(
    entry: EntryOp, options: TileAAOptions, threads: int, remarks: Remarks, blocks: int
) -> None:
    if warps := number_hint(options, entry, "num_worker_warps_per_cta"):
        said = "is honoured" if threads == 32 * warps else f"gave way: a block has {threads // 32}"
        remarks.add("hint", f"num_worker_warps_per_cta = {warps} {said}", entry)
    occupancy = number_hint(options, entry, "occupancy")
    if occupancy and not blocks:
        message = f"occupancy = {occupancy} gave way: agents share all registers of a block"
        remarks.add("hint", message, entry)
    elif occupancy:
        fits = min(blocks, occupancy)
        most = min(_FILE // (fits * threads) // 8 * 8, _MOST)
        said = "is honoured"
        if fits < occupancy:
            said = f"is honoured as far as shared memory goes, which holds {fits}"
        remarks.add(
            "hint",
            f"occupancy = {occupancy} {said}: a thread gets at most {most} registers, so that those of "
            f"{fits} {'block fits' if fits == 1 else 'blocks fit'} on a multiprocessor",
            entry,
        )
    cluster = number_hint(options, entry, "num_cta_in_cga")
    if cluster is not None and cluster > 1:
        remarks.add(
            "hint",
            f"num_cta_in_cga = {cluster} is not used: each block brings its own tiles, and is launched "
            "without a cluster",
            entry,
        )


def _of_access(op: TileOp, options: TileAAOptions, remarks: Remarks, tma: bool) -> None:
    latency = number_hint(options, op, "latency")
    if latency is not None:
        remarks.add(
            "hint",
            f"latency = {latency} is not used: what a loop loads ahead has as many stages as shared memory "
            "holds, up to the default",
            op,
        )
    allowed = flag_hint(options, op, "allow_tma")
    if allowed is False:
        remarks.add("hint", "allow_tma = false is honoured: nothing goes by TMA", op)
    elif allowed and not tma:
        remarks.add("hint", "allow_tma = true: nothing goes by TMA all the same", op)


def hinted_warps(entry: EntryOp, options: TileAAOptions) -> int | None:
    """The warps of a block that a hint asks for."""
    return number_hint(options, entry, "num_worker_warps_per_cta")


def forbids_tma(entry: EntryOp, options: TileAAOptions) -> bool:
    """Whether a hint at an access of a kernel says not to copy by TMA."""
    return any(
        isinstance(op, TileOp) and op is not entry and flag_hint(options, op, "allow_tma") is False
        for op in entry.walk()
    )
