"""From ``nv_tileaa`` to LLVM IR: one function for a kernel, over a range of blocks.

A kernel goes through three steps, each of which can be looked at:

* ``lowering.calls`` puts the bodies of functions in place of calls;
* ``plan`` decides which tiles are held in buffers of the arena (``compile.plan_text`` shows it). All
  others are functions of the position, ``tiles``;
* the families (``kernel.FAMILIES``) make code of each operation, in program order. What has an effect or
  fills a buffer opens a loop nest (``nests``) and asks for the elements that it needs, by vectors;
  chains of operations, broadcasts, reshapes, masks and loads so become one pass over the data.

| file | |
|---|---|
| ``elements``, ``irtypes``, ``llvm`` | element types in registers, buffers and memory; small pieces of LLVM IR |
| ``indices``, ``nests``, ``tiles`` | positions with lanes; loop nests; tiles as functions of a position |
| ``transposition``, ``windows``, ``packing`` | tiles that lie the other way, or near one another; shared bytes |
| ``formulas``, ``slopes``, ``spans`` | addresses that go on from lane to lane, and do not wrap |
| ``fills`` | how tiles are written to buffers |
| ``traits``, ``effects``, ``plan``, ``arena`` | what is planned before code is made; where buffers lie |
| ``function``, ``kernel``, ``table`` | the state of making a kernel; its frame; who makes code of what |
| ``elementwise/`` | one function for each operation of ``numerics.semantics`` |
| ``basics``, ``bodies``, ``folds``, ``contraction``, ``schemes`` | shapes, element bodies, reductions, products |
| ``there``, ``microkernel``, ``tile_registers`` | operands where they lie; the kernels of products |
| ``views``, ``access``, ``tiled``, ``pointers``, ``atomics``, ``memory`` | memory |
| ``control_flow``, ``reports``, ``hosts``, ``checks`` | control flow, what the host is told |

A nest over tiles in memory has two versions. In the first all of them lie in their memrefs and no
element is checked; at the edges the second masks every access.
"""

from tilewright.launching import native_code as native_code  # says so where llvmlite is missing
