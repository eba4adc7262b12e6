"""Which function lowers which operation, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tilewright.lowering.nvgpu.state import Threads

Rule = Callable[["Threads", Any], None]

#: By the full name of the operation.
RULES: dict[str, Rule] = {}
_R = TypeVar("_R", bound=Rule)

#: Operations that become no code for threads, and why.
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "nv_tileaa.create_queue",
            "nv_tileaa.queue.get",
            "nv_tileaa.queue.put",
            "nv_tileaa.cancel_next_program_id",
            "nv_tileaa.is_valid_program_id",
            "nv_tileaa.execute",
        ),
        "agents and queues are for the schedule of a block, which this lowering does not make",
    ),
    **dict.fromkeys(
        (
            "nv_tileaa.plugin",
            "nv_tileaa.inject_ir",
            "nv_tileaa.extern_elementwise",
            "nv_tileaa.elementwise_inline_asm",
            "nv_tileaa.call_elementwise_intrinsic",
        ),
        "it runs foreign code",
    ),
    **dict.fromkeys(
        ("nv_tileaa.conv_dot", "nv_tileaa.conv_tile", "nv_tileaa.histogram"),
        "cuda_tile has nothing that becomes it",
    ),
    "nv_tileaa.launch_func": "kernels are launched from outside",
    "nv_tileaa.call": "calls are replaced by what they call, before",
}


def lowers(*names: str) -> Callable[[_R], _R]:
    """Enter a rule for the operations of these names; those of nv_tileaa go without prefix."""

    def enter(rule: _R) -> _R:
        for name in names:
            full = name if "." in name and not name.startswith("ext.") else f"nv_tileaa.{name}"
            assert full not in RULES and full not in REFUSED, full
            RULES[full] = rule
        return rule

    return enter
