"""The error codes of launches on any machine, and notes with the position in a kernel's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.diagnostics import NamedLocation, Note, define_code

if TYPE_CHECKING:
    from xdsl.ir import Operation

READ_ONLY_MEMORY = define_code(
    "read-only-memory", "The kernel writes to a constant global or to an array that is read-only."
)
DEADLOCK = define_code(
    "deadlock",
    "Every tile block that has not ended is waiting for memory that nobody will write.",
    "All of them went round many times without any change of memory. Look for a lock that is not "
    "released, a flag that is not set, or a barrier over more blocks than the grid has.",
)
AGENT_DEADLOCK = define_code(
    "agent-deadlock",
    "All agents of a tile block wait for one another, so none of them can go on.",
    "Each waits at a queue that nobody will fill or empty, or for the end of another agent. Look "
    "for a put without a get or the reverse, unequal numbers of them, and queues that two agents "
    "use in a different order.",
)
PLUGIN_RESULT = define_code(
    "plugin-result",
    "What a function given as plugin returned does not fit the results of the operation.",
    "It returns one array for each result, of its shape and a dtype that can be cast to that of "
    "its elements without loss of kind; a scalar is an array of rank 0 or a number.",
)
UNSUPPORTED = define_code(
    "machine-unsupported", "The reference machine cannot run this operation or type."
)
ASSERTION_FAILED = define_code("assertion-failed", "An assert found a false element.")
BAD_ARGUMENT = define_code(
    "bad-argument",
    "The arguments of a launch do not fit the parameters of the kernel.",
    "A pointer parameter takes a NumPy array whose elements have the size and kind of the pointee "
    "(or an address that `map_array` gave); a scalar parameter takes a number in range.",
)
BAD_GRID = define_code("bad-grid", "A grid has one to three extents, each from 1 to 2**24 - 1.")
UNKNOWN_ENTRY = define_code("unknown-entry", "The module has no kernel of that name.")
LLVMLITE_MISSING = define_code(
    "llvmlite-missing",
    "The CPU machine and PTX need the package llvmlite, which is not installed.",
    "It is a dependency of Tilewright on every system that there are wheels of it for. The reference "
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
