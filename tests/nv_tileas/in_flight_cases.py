"""Rules of products that go on, and of stages that a loop carries to its next iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PIPE = "nv_tileas.async.pipeline"
SLOT = "!nv_tileas.tiled_view<8x16xf32, smem>"
PIPELINE = f"!nv_tileas.pipeline<3, {SLOT}>"
_STORAGE = "!nv_tileas.tiled_view<3x8x16xf32, smem>"
_RING = f"""
%s = nv_tileas.alloc_tensor : {_STORAGE}
%p = {_PIPE}.create_pipeline %s : {_STORAGE} -> {PIPELINE}
%it = {_PIPE}.create_iterator %p : {PIPELINE} -> !nv_tileas.pipeline_iterator
"""
_STORED = "!nv_tileas.tiled_view<64x16xf16, smem>"
_RIGHT = "!nv_tileas.tiled_view<16x64xf16, smem>"
_SUMS = "tile<64x64xf32>"


def started(
    left: str = _STORED,
    right: str = _RIGHT,
    sums: str = _SUMS,
    atom: str = "wgmma",
    behind: str = "",
    taken: str = "%sums",
    how: str = "",
) -> str:
    """A product that goes on, an operation behind it, and ``how`` ``taken`` is waited for."""
    one, other = (
        "nv_tileas.alloc_tensor" if "view" in ty else "arith.constant dense<0.0>"
        for ty in (left, right)
    )
    return f"""
%left = {one} : {left}
%right = {other} : {right}
%none = arith.constant dense<0.0> : {sums}
%sums, %u = nv_tileas.async.dot %left, %right, %none {{warps = array<i64: 4, 1>, atom = "{atom}"}}
  : {left}, {right}, {sums} -> {sums}, !nv_tileas.async_token
{behind}
%r = nv_tileas.async.future_wait {taken}, %u{how} : {sums}, !nv_tileas.async_token -> {sums}
"""


def _loop(of: str, inner: str) -> str:
    return f"""
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%all = scf.for %round = %c0 to %i step %c1 iter_args(%carried = %{of}) -> ({_SUMS}) {{
{inner}
}}
"""


_DOUBLED = f"  %twice = nv_tileaa.addf %carried, %carried : {_SUMS}\n  scf.yield %twice : {_SUMS}"
_KEPT = f"  scf.yield %none : {_SUMS}"
_NEXT = (
    '  %more, %v = nv_tileas.async.dot %left, %right, %carried {warps = array<i64: 4, 1>, atom = "wgmma"}\n'
    f"    : {_STORED}, {_RIGHT}, {_SUMS} -> {_SUMS}, !nv_tileas.async_token\n"
    f"  scf.yield %more : {_SUMS}"
)


def carried(inside: str = "release", behind: str = "release") -> str:
    """A loop that hands the stage which it reads to the next iteration."""
    lines = {
        "release": _PIPE + ".consumer_release %p, {} : " + f"{PIPELINE}, !nv_tileas.stage",
        "": "",
    }
    return (
        _RING
        + f"""
%none = {_PIPE}.create_null_token %p : {PIPELINE} -> !nv_tileas.stage
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%end, %held = scf.for %round = %c0 to %i step %c1 iter_args(%at = %it, %before = %none) -> (!nv_tileas.pipeline_iterator, !nv_tileas.stage) {{
  %r = {_PIPE}.consumer_wait %p, %at : {PIPELINE}, !nv_tileas.pipeline_iterator -> !nv_tileas.stage
  %full = {_PIPE}.consumer_read %p, %r : {PIPELINE}, !nv_tileas.stage -> {SLOT}
  {lines[inside].format("%before")}
  %next = {_PIPE}.inc_iter %p, %at : {PIPELINE}, !nv_tileas.pipeline_iterator -> !nv_tileas.pipeline_iterator
  scf.yield %next, %r : !nv_tileas.pipeline_iterator, !nv_tileas.stage
}}
{lines[behind].format("%held")}
"""
    )


_TAKES = "uses the accumulator of a product that may still be in flight"
#: Operation, code, message, how the program is made, what is wrong, and what would be right.
IN_FLIGHT: list[tuple[str, str, str, Callable[..., str], dict[str, Any], dict[str, Any]]] = [
    (
        "async.dot",
        "as-in-flight",
        f"'nv_tileaa.addf' {_TAKES}",
        started,
        {"behind": f"%early = nv_tileaa.addf %sums, %sums : {_SUMS}"},
        {"behind": f"%early = nv_tileaa.addf %none, %none : {_SUMS}"},
    ),
    (
        "async.future_wait",
        "as-in-flight",
        f"'nv_tileaa.addf' {_TAKES}",
        started,
        {"behind": _loop("sums", _DOUBLED)},
        {"behind": _loop("none", _DOUBLED)},
    ),
    (
        "async.dot",
        "as-in-flight",
        f"'nv_tileaa.addf' {_TAKES}",
        started,
        {"behind": _loop("none", _NEXT) + f"%early = nv_tileaa.addf %all, %all : {_SUMS}"},
        {"behind": _loop("none", _NEXT), "taken": "%all"},
    ),
    (
        # What a loop without an iteration gives is what it was given.
        "async.future_wait",
        "as-in-flight",
        f"'nv_tileaa.addf' {_TAKES}",
        started,
        {"behind": _loop("sums", _KEPT) + f"%early = nv_tileaa.addf %all, %all : {_SUMS}"},
        {"behind": _loop("sums", _KEPT), "taken": "%all"},
    ),
    (
        "async.dot",
        "as-residency",
        "the right operand of wgmma is in smem",
        started,
        {"right": "tile<16x64xf16>"},
        {"left": "tile<64x16xf16>"},
    ),
    (
        "async.future_wait",
        "as-layout",
        "pending must be at least 0",
        started,
        {"how": " {pending = -1 : i64}"},
        {"how": " {pending = 1 : i64}"},
    ),
    (
        "async.dot",
        "as-layout",
        "only wgmma is asynchronous, got mma_sync",
        started,
        {"atom": "mma_sync"},
        {},
    ),
    (
        "async.dot",
        "as-layout",
        "an asynchronous accumulator is f32 or i32",
        started,
        {"sums": "tile<64x64xf16>"},
        {},
    ),
    (
        "async.create_none",
        "as-pipeline-protocol",
        "expected one consumer_release of the stage in the block of its consumer_wait for each block that "
        "carries it, got 1",
        carried,
        {"behind": ""},
        {},
    ),
    (
        "async.pipeline.create_null_token",
        "as-pipeline-protocol",
        "for each block that carries it, got 1",
        carried,
        {"inside": ""},
        {},
    ),
]


def split(
    warps: str = "4, 1", agents: int = 2, regs: str = "", inside: str = "", behind: str = ""
) -> str:
    """A block split among agents, of which the last does something; ``behind`` the switch, too."""
    given = f", max_regs = array<i64: {regs}>" if regs else ""
    bodies = ["{\n  nv_tileas.async.pipeline.yield\n}"] * agents
    bodies[-1] = f"{{\n  {inside}\n  nv_tileas.async.pipeline.yield\n}}"
    return (
        f"nv_tileas.async.pipeline.agent_switch {{num_warps = array<i64: {warps}>{given}}} "
        f"{', '.join(bodies)}\n{behind}"
    )


_SUM = "%late = nv_tileaa.addf %x, %x : f32"
_TILES = "%late = nv_tileaa.addf %f, %f : tile<8xf32>"
_OWN = "%own = arith.constant dense<1.0> : tile<8xf32, #nv_tileas.layout<register = [1, 2, 4], lane = [{}, 0, 0, 0, 0], warp = [0, 0]>>"
_SWITCH, _YIELD = "async.pipeline.agent_switch", "async.pipeline.yield"
IN_FLIGHT += [
    (_SWITCH, "as-agents", "expected two agents or more, and the warps of each, got 2 and [4, 1, 1]", split, {"warps": "4, 1, 1"}, {}),
    (_SWITCH, "as-agents", "expected two agents or more", split, {"warps": "4", "agents": 1}, {}),
    (_SWITCH, "as-agents", "each agent has a warp, and a block 32 at most, got [4, 0]", split, {"warps": "4, 0"}, {}),
    (_SWITCH, "as-agents", "a block 32 at most", split, {"warps": "32, 1"}, {"warps": "31, 1"}),
    (_SWITCH, "as-agents", "expected it to be the last operation of a kernel", split, {"behind": _SUM}, {}),
    (_YIELD, "as-agents", "uses a tile of before the switch", split, {"inside": _TILES}, {"inside": _SUM}),
    (_YIELD, "as-agents", "uses a tile that its threads share", split, {"inside": _OWN.format(1)}, {"inside": _OWN.format(0)}),
    (_SWITCH, "as-agents", "expected a multiple of 8 from 24 to 256 for each agent, got [100, 40]", split, {"warps": "4, 4", "regs": "100, 40"}, {"warps": "4, 4", "regs": "104, 40"}),
    (_SWITCH, "as-agents", "whole warpgroups, of 4 warps, trade registers, got [4, 1]", split, {"regs": "104, 40"}, {"warps": "4, 4", "regs": "104, 40"}),
    # 2,048 registers of 12 warps are 171 for each thread, which only 176 hold.
    (_SWITCH, "as-agents", "in steps of 8", split, {"warps": "8, 4", "regs": "240, 32"}, {"warps": "8, 4", "regs": "240, 24"}),
    (_SWITCH, "as-agents", "together agents have at most 65536 registers", split, {"warps": "8, 4", "regs": "240, 40"}, {"warps": "8, 4", "regs": "232, 40"}),
]  # fmt: skip
