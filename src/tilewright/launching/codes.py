"""The error codes of launches on any machine, and notes with the position in a kernel's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.diagnostics import NamedLocation, Note, define_code

if TYPE_CHECKING:
    from xdsl.ir import Operation

READ_ONLY_MEMORY = define_code(
    "read-only-memory",
    "The kernel writes to a constant global or to a read-only array.",
    help="store to a writable array; a global is writable unless it is marked constant",
)
DEADLOCK = define_code(
    "deadlock",
    "Deadlock: every live tile block polls memory that no block will write.",
    "All of them iterated many times while memory did not change.",
    help="look for a lock that is not released, a flag that is never set, or a barrier over more "
    "blocks than are resident",
)
AGENT_DEADLOCK = define_code(
    "agent-deadlock",
    "Deadlock: all agents of a tile block wait for each other.",
    "Each waits at a queue that no agent will fill or empty, or for another agent to end.",
    help="match every put with a get, and use queues in the same order in all agents",
)
PLUGIN_RESULT = define_code(
    "plugin-result",
    "The return value of a plugin function does not match the results of the operation.",
    "It returns one array for each result, of its shape and a dtype that can be cast to that of "
    "its elements without loss of kind; a scalar is an array of rank 0 or a number.",
    help="return one array per result, with its shape and a dtype that casts to its element type",
)
UNSUPPORTED = define_code(
    "machine-unsupported",
    "The reference machine cannot run this operation or type.",
    help="docs/reference/agreement.md lists which machines support which operations",
)
ASSERTION_FAILED = define_code(
    "assertion-failed",
    "An assert found a false element.",
    help="inspect the operands of the condition: `tilewright run --trace FILE` records them",
)
BAD_ARGUMENT = define_code(
    "bad-argument",
    "The arguments of a launch do not match the parameters of the kernel.",
    "A pointer parameter takes a NumPy array whose elements have the size and kind of the pointee "
    "(or an address that `map_array` gave); a scalar parameter takes a number in range.",
)
BAD_GRID = define_code("bad-grid", "A grid has one to three extents, each from 1 to 2**24 - 1.")
UNKNOWN_ENTRY = define_code("unknown-entry", "The module has no kernel of that name.")
LLVMLITE_MISSING = define_code(
    "llvmlite-missing",
    "The CPU machine and PTX need the package llvmlite, which is not installed.",
    "It is a dependency of Tilewright on every system for which it has wheels. The reference "
    "machine, the sanitizer and the simulator run without it.",
)


def source_note(op: Operation) -> tuple[Note, ...]:
    """A note with the position in the kernel's own source, if debug information has one."""
    # Imported here because a process that only runs LLVM needs the codes, but no dialects.
    from tilewright.dialects.cuda_tile.debug_info import source_position

    return source_note_at(source_position(op.location))


def source_note_at(position: tuple[str, int, int] | None) -> tuple[Note, ...]:
    """The same for a position: file, line, column."""
    if position is None:
        return ()
    file, line, column = position
    if file.endswith(".py"):
        # cuTile uses Python's column numbers, which start at 0.
        column += 1
    return (Note("the source of this operation", NamedLocation(file, line, column)),)
