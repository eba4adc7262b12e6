"""Generates LLVM IR from ``nv_tileaa``: one function per kernel, over a range of blocks.

A kernel goes through three steps, each of which can be inspected:

* ``lowering.calls`` inlines functions;
* ``analysis.plan`` decides which tiles are held in buffers of the arena (``compile.plan_text`` prints it). All
  others are functions of the position, ``loops.tiles``;
* the families (``kernel.FAMILIES``) generate code for each operation, in program order. An operation that has an effect or
  fills a buffer opens a loop nest (``loops.loop_nest``) and requests the elements that it needs, vector by vector.
  Chains of operations, broadcasts, reshapes, masks and loads are thereby fused into one pass over the data.

| folder | |
|---|---|
| ``ir`` | element types in registers, buffers and memory; pieces of LLVM IR; debug information; outlining |
| ``loops`` | positions with lanes; loop nests; tiles as functions of a position, and how they fill buffers |
| ``analysis`` | costs, effects and the plan, before code is generated; buffer addresses |
| ``emitter`` | the state of generating a kernel; the table of generators |
| ``elementwise`` | one function for each operation of ``numerics.semantics``; constants, shapes, conversions |
| ``memory`` | views, accesses and their checks, atomic updates, packed elements |
| ``products`` | matrix products and convolutions: packed and direct operands, microkernels, accumulators |
| ``reductions`` | reductions, scans and their bodies |
| ``coroutines`` | agents and queues; tile blocks that wait for others |
| ``control`` | control flow, the grid, stop flags |
| ``host`` | callbacks: prints, assertions, external functions |

A nest over tiles in memory has two versions: one for tiles that lie entirely inside their memrefs, without any
checks, and one for the edges, which masks every access, but for whole vectors where only rows end (``loops.row_ends``).
"""

from tilewright.launching import native_code as native_code  # says so where llvmlite is missing
