"""What the lowering is told beside the program."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.analysis.hints import TARGETS
from tilewright.diagnostics import TileIRError, define_code

UNKNOWN_TARGET = define_code(
    "unknown-target",
    "No target architecture of this name is known.",
    "Targets are written sm_NN, where NN is ten times the major and once the minor number of the "
    "compute capability.",
)

BAD_LAUNCH_GRID = define_code(
    "bad-launch-grid", "A grid that is promised has one to three extents, each at least 1."
)
BAD_WARPS = define_code("bad-warps", "The number of warps of a block is not positive.")

#: The architectures that can be named as target.
ARCHITECTURES = tuple(target for target in TARGETS if target.startswith("sm_"))
DEFAULT_TARGET = "sm_100"
#: Warps of a block where neither the program nor the user says how many.
DEFAULT_WARPS = 4


@dataclass(frozen=True, slots=True)
class TileAAOptions:
    """How ``cuda_tile`` is lowered.

    ``target``: the architecture, ``sm_80`` to ``sm_121``. It decides which optimization hints
    count and which formats exist; the module that comes out names its compute capability.
    ``num_warps``: the warps of a block where no hint says how many. ``grid``: the extents of every
    grid that the kernels will be launched over, where they are known: analyses and passes count on
    them, and a launch over another grid is refused.

    Raises ``TileIRError`` (``unknown-target``, ``bad-warps``, ``bad-launch-grid``) for values that
    make no sense.
    """

    target: str = DEFAULT_TARGET
    num_warps: int = DEFAULT_WARPS
    grid: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.target not in ARCHITECTURES:
            raise TileIRError.single(
                UNKNOWN_TARGET,
                f"there is no target '{self.target}'",
                help=f"known targets: {', '.join(ARCHITECTURES)}",
            )
        if self.num_warps <= 0:
            raise TileIRError.single(
                BAD_WARPS, f"a block has at least one warp, got {self.num_warps}"
            )

        if len(self.grid) > 3 or any(extent < 1 for extent in self.grid):
            raise TileIRError.single(
                BAD_LAUNCH_GRID,
                f"expected one to three extents of at least 1, got {list(self.grid)}",
            )

    @property
    def capability(self) -> int:
        """Ten times the major and once the minor number of the compute capability."""
        return int(self.target.removeprefix("sm_"))
