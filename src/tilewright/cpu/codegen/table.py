"""Which function makes code of which operation, and which operations are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.source_map import place_of

if TYPE_CHECKING:
    from tilewright.cpu.codegen.function import FunctionEmitter

UNSUPPORTED = define_code(
    "cpu-unsupported",
    "Code for this processor cannot be made of the operation.",
    "The reference machine runs every operation of cuda_tile that has a meaning without a GPU; the "
    "message says what is missing here.",
)

Lowering = Callable[["FunctionEmitter", Any], None]

LOWERINGS: dict[str, Lowering] = {}
"""By the full name of the operation."""

REFUSED: dict[str, str] = {
    "nv_tileaa.conv_tile": (
        "nothing says which elements of the activation are in the window at an index"
    ),
    "nv_tileaa.call": "calls are replaced by what they call before code is made",
}
"""Operations without code, and why."""

_L = TypeVar("_L", bound=Lowering)


def lowers(*names: str) -> Callable[[_L], _L]:
    """Enter a function for the operations of these names; those of nv_tileaa go without prefix."""

    def enter(function: _L) -> _L:
        for name in names:
            full = name if "." in name and not name.startswith("ext.") else f"nv_tileaa.{name}"
            assert full not in LOWERINGS, full
            LOWERINGS[full] = function
        return function

    return enter


def refuse(op: Operation, why: str, help: str = "") -> TileIRError:
    """The error that no code can be made of an operation."""
    return TileIRError.single(
        UNSUPPORTED, f"no code for '{op.name}': {why}", place_of(op), help=help
    )
