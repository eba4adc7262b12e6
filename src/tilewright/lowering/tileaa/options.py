"""Options of the lowering to ``nv_tileaa``."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.analysis.hints import TARGETS
from tilewright.diagnostics import TileIRError, define_code

UNKNOWN_TARGET = define_code(
    "unknown-target",
    "The target architecture is unknown.",
    "Targets are written sm_NN, where NN is the compute capability without its point.",
)

BAD_LAUNCH_GRID = define_code(
    "bad-launch-grid", "A static grid has one to three extents, each at least 1."
)
BAD_WARPS = define_code("bad-warps", "The number of warps per block is not positive.")

#: The architectures that can be targets.
ARCHITECTURES = tuple(target for target in TARGETS if target.startswith("sm_"))
DEFAULT_TARGET = "sm_100"
#: Warps per block where neither the program nor the user specifies them.
DEFAULT_WARPS = 4


@dataclass(frozen=True, slots=True)
class TileAAOptions:
    """The options of the lowering.

    ``target``: the architecture, ``sm_80`` to ``sm_121``. It decides which hints apply and which formats exist; the
    resulting module records its compute capability. ``num_warps``: the warps per block without a hint. ``grid``: the
    extents of every launch grid, if known. Analyses and passes rely on them, and a launch over another grid is refused.

    Raises ``TileIRError`` (``unknown-target``, ``bad-warps``, ``bad-launch-grid``).
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
        """The compute capability times ten."""
        return int(self.target.removeprefix("sm_"))
