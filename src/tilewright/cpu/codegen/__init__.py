"""From ``nv_tileaa`` to LLVM IR: one function for a kernel, over a range of blocks.

A kernel goes through three steps, each of which can be looked at:

* ``lowering.calls`` puts the bodies of functions in place of calls;
* ``analysis.plan`` decides which tiles are held in buffers of the arena (``compile.plan_text`` shows it). All
  others are functions of the position, ``loops.tiles``;
* the families (``kernel.FAMILIES``) make code of each operation, in program order. What has an effect or
  fills a buffer opens a loop nest (``loops.loop_nest``) and asks for the elements that it needs, by vectors;
  chains of operations, broadcasts, reshapes, masks and loads so become one pass over the data.

| folder | |
|---|---|
| ``ir`` | element types in registers, buffers and memory; pieces of LLVM IR; debug information; outlining |
| ``loops`` | positions with lanes; loop nests; tiles as functions of a position, and how they fill buffers |
| ``analysis`` | costs, effects and the plan, before code is made; where buffers lie |
| ``emitter`` | the state of making a kernel; who makes code of what |
| ``elementwise`` | one function for each operation of ``numerics.semantics``; constants, shapes, conversions |
| ``memory`` | views, accesses and their checks, atomic updates, elements that share bytes |
| ``products`` | matrix products and convolutions: operands packed or where they lie, kernels, running sums |
| ``reductions`` | reductions, scans and their bodies |
| ``coroutines`` | agents and queues; tile blocks that wait for others |
| ``control`` | control flow, the grid, looking whether to stop |
| ``host`` | callbacks: prints, assertions, external functions |

A nest over tiles in memory has two versions. In the first all of them lie in their memrefs and no
element is checked; at the edges the second masks every access.
"""

from tilewright.launching import native_code as native_code  # says so where llvmlite is missing
