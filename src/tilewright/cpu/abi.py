"""How compiled kernels are called: the agreement between code generation and the runtime.

A kernel is one function for blocks ``[begin, end)`` of the linear block index
``x + extent_x * (y + extent_y * z)``::

    i32 @kernel(ptr %args, ptr %grid, ptr %rt, i64 %begin, i64 %end)

* ``%args``: a slot of 8 bytes for each parameter. A pointer is its address; a scalar lies in the
  low bytes, little-endian, an i1 as one byte 0 or 1; a tile is the address of its elements, row-major,
  each in bytes of its own. One more slot follows for code that asks for it
  (``CompiledKernel.asks_for_memory``): the address of a table of the memory that the launch may
  access, ``{i64 count, [count x {i64 first, i64 behind}]}``, the address of the first byte and that
  behind the last one of each array and global. The first entries are those of the pointer
  parameters, in order; that of a bare address may hold all memory.
* ``%grid``: the extents, and how many threads the launch may have, ``[4 x i32]``.
* ``%rt``: ``{ptr arena, ptr host_call, ptr user, ptr stop, ptr range, ptr finished, ptr signals, ptr where,
  i64 alone, ptr order}``.
  ``arena`` is memory of the calling
  thread, aligned to ``ARENA_ALIGNMENT``, as large as the compiled kernel asks for, with undefined
  contents; but the i64 at ``PANELS_READY`` before it is 0 in the first call that a thread makes for a
  launch, and what the kernel then writes, there and to the arena, is still there in the next call. ``stop`` points to an i32 that becomes nonzero when the run is to end early, and a second one
  behind it that asks for attention. Loops read both at once (a relaxed atomic load of an i64), and call
  ``ATTEND_SYMBOL`` when they are not zero. ``signals`` is null, or on the thread that launches a function
  ``i32 ()`` that handles signals and gives 0 where the run is to end. ``where`` points to three i64 for
  where the run was stopped: the number of the loop, from 1, and the block, x and y in one. ``alone`` is
  ``CLOSED`` where no other launch runs that updates memory, and ``ALONE`` where no other thread runs blocks of the launch either.
  ``range`` points to two i64, the first block that no thread has taken and the one behind the last; a
  kernel that takes over the work of another block (``CompiledKernel.takes_over``) adds 1 to the former,
  and then to ``finished``, an i64 that counts blocks. ``order`` is null, or, where blocks may wait, a table of
  i64: the blocks in the order in which they are to begin, which ``begin``, ``end`` and ``range`` then count in.
* The result is ``DONE`` when all blocks are done, any other number when the run must stop.

``host_call(ptr user, i32 site, ptr block, ptr payload, i64 count)`` hands over what prints and
asserts have to say. ``block`` is ``[3 x i32]``, the block's coordinates. The payload of a print site
is that of its operands, one behind the other, each aligned to 8 bytes, row-major, in the memory form
of its element type; ``count`` is its size in bytes. The payload of an assert site is ``count`` i64
numbers: the row-major positions of the false elements.

The globals that the code uses are undefined symbols with the names of the globals; the runtime gives
the addresses when it loads the code.

``i32 ATTEND_SYMBOL(ptr rt, i64 loop, ptr block)`` does what is asked of a loop (0: of code that is in none),
and gives nonzero where the call is to end and return ``STOPPED``.

Where blocks may wait for one another (``CompiledKernel.may_wait``), a block is a coroutine
``ptr @kernel.block(ptr %args, ptr %grid, ptr %rt, i64 %begin, i64 %end)``, and the kernel hands its address
and the size of its arena to ``RUN_WAITING``: ``i32 (args, grid, rt, begin, end, block, arena bytes)``. The
coroutine suspends as soon as it is called, and in loops that look at memory in vain. Its ``%rt`` is of its
own, with two more words: ``RT_RESULT``, where it leaves what the kernel would return, and ``RT_LOOKS``, how
often in a row it has looked in vain, in the same loop. The fifth word behind ``finished`` holds two i32: how
many threads are in ``RUN_WAITING``, and how many of them have seen nothing but looks in vain for a while.
Without ``range`` and ``finished`` (null), only the given blocks run and nothing is told. With
``CompiledKernel.has_keys`` there is also ``void @kernel.keys(ptr %args, ptr %grid, i64 %begin, i64 %end, ptr %out)``,
which writes an i64 for each block: a block waits only for those for which it is the same.

A kernel with agents calls the scheduler of ``runtime.coroutines``. A coroutine lies in memory as
``COROUTINE_TYPE``: its coroutine (null for the tile block), the coroutines after and before it in the ring,
what it waits for (``UNTIL_...``, 0 for nothing), the number of the place where it waits, the coroutine or
queue that it waits for, its consumer's number there, whether it has ended, ``STARTS`` if it came to a
halt because it started another and ``LOOKS`` if it looks at memory in a loop, and its number. Where the
tile block's record would say whether it has ended, it says which coroutine comes next (``LOOKED``). A queue begins with ``QUEUE_HEADER`` i64 numbers, its
depth, how many tuples were put, and how many consumers it counts; for each of these follows an i64, how
many tuples it has had. The functions are:

* ``i1 CAN_GO_ON(ptr coroutine)``: whether it need not wait.
* ``i32 RUN_COROUTINES(ptr block, ptr first, ptr stop)``: run the coroutines of a tile block, ``first`` before
  others, until the block can go on (``WENT_ON``), nobody can (``ALL_WAIT``), ``stop`` was set
  (``TO_STOP``) or an agent has looked at memory in vain (``LOOKED``).
* ``void END_COROUTINES(ptr block)``: end all agents where they are.
* ``i64 LIST_COROUTINES(ptr block, ptr list)``: write the numbers of each coroutine and of the place where it
  waits; how many numbers there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.launching.assertions import OperationSource
from tilewright.launching.codes import ASSERTION_FAILED
from tilewright.launching.object_names import object_name

if TYPE_CHECKING:
    from tilewright.launching.value_types import TileLike

ALONE, CLOSED = 1, 2
DONE = 0
STOPPED = 1

RT_STOP, RT_RANGE, RT_FINISHED, RT_SIGNALS, RT_WHERE, RT_ALONE, RT_ORDER = 3, 4, 5, 6, 7, 8, 9
RT_WORDS = 10
RT_RESULT, RT_LOOKS = RT_WORDS, RT_WORDS + 1
"""Words of the runtime of a block that may wait; those before are as everywhere."""
NO_BLOCK = -1
"""The number that stands for no work taken over."""

SLOT_BYTES = 8
ARENA_ALIGNMENT = 64

ARENA_PREFIX = 64
"""Bytes that lie before an arena."""
PANELS_READY, ARENA_OWNER = -64, -56
"""Where in them the kernel notes what it has left in the arena, and the runtime the number of the
launch that has used the arena last."""

YIELD_SYMBOL = "tilewright_yield"
RUN_WAITING = "tilewright_run_waiting"
ATTEND_SYMBOL = "tilewright_attend"

COROUTINE_TYPE = "{ ptr, ptr, ptr, i32, i32, ptr, i64, i32, i32, i64 }"
COROUTINE_BYTES = 64
QUEUE_HEADER = 3
UNTIL_ENDED, UNTIL_MORE, UNTIL_ROOM = 1, 2, 3
STARTS = 1
LOOKS = 2
WENT_ON, ALL_WAIT, TO_STOP, LOOKED = 0, 1, 2, 3
CAN_GO_ON = "tilewright_can_go_on"
RUN_COROUTINES = "tilewright_run_coroutines"
END_COROUTINES = "tilewright_end_coroutines"
LIST_COROUTINES = "tilewright_list_coroutines"


def keys_symbol(kernel: str) -> str:
    """The symbol of the function that gives the keys of a kernel's blocks."""
    return f"{kernel}.keys"


def symbol_of(kind: str, name: str) -> str:
    """The symbol of a kernel or global in LLVM's text, where no other kind of thing has it."""
    return f"{kind}.{object_name(name)}"


@dataclass(frozen=True, slots=True)
class PrintSite:
    """A print: its format, and the element type (``ptr`` for pointers) and shape of each operand."""

    format: str
    operands: tuple[tuple[str, tuple[int, ...]], ...]
    source: OperationSource


@dataclass(frozen=True, slots=True)
class AssertSite:
    """An assertion: its message, and the shape of the tile that is tested.

    ``code`` is that of the diagnostic. With any but ``ASSERTION_FAILED`` it is a check of the
    compiler's, such as that of an access that leaves its memory: the run ends with it.
    """

    message: str
    shape: tuple[int, ...]
    source: OperationSource
    code: str = ASSERTION_FAILED


@dataclass(frozen=True, slots=True)
class DeadlockSite:
    """Where agents may come to a halt: the names of coroutines, and of places what is waited for there.

    The payload is ``count`` i64 numbers: for each coroutine its own and that of its place.
    """

    names: list[str]
    places: list[tuple[str, OperationSource]]


@dataclass(frozen=True, slots=True)
class MemorySite:
    """A memref that a plugin gets: element type, extents and strides follow as numbers."""

    element: str
    rank: int


@dataclass(frozen=True, slots=True)
class PluginSite:
    """A call of a function that implements an external function.

    The payload is ``count`` i64 numbers: for each operand the address of its elements, row-major, each
    in bytes of its own; of a memref its address, extents and strides (in elements); then for each
    result the address where it goes.
    """

    name: str
    operands: tuple[TileLike | MemorySite, ...]
    results: tuple[TileLike, ...]
    source: OperationSource


Site = PrintSite | AssertSite | DeadlockSite | PluginSite
