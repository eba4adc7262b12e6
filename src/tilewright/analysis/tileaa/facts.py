"""All analyses of one function, each run when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.analysis.tileaa.bounds import Bounds, BulkCopies
from tilewright.analysis.tileaa.lifetimes import Lifetimes
from tilewright.analysis.tileaa.patterns import Patterns
from tilewright.analysis.tileaa.provenance import Aliases, Provenances
from tilewright.analysis.tileaa.ranges import Ranges
from tilewright.analysis.tileaa.tokens import TokenGraph
from tilewright.analysis.tileaa.uniformity import Uniformities
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp


@dataclass
class Facts:
    """What is known of a function, as long as it is not changed.

    ``grid``: the extents of the grid that it will be launched with, where they are known; else those
    that the function itself promises.
    """

    function: FuncOp
    grid: Sequence[int] | None = None

    @cached_property
    def ranges(self) -> Ranges:
        return Ranges(self.function, self.grid or self.function.launch_grid)

    @cached_property
    def patterns(self) -> Patterns:
        return Patterns(self.function, self.ranges)

    @cached_property
    def provenances(self) -> Provenances:
        return Provenances(self.function)

    @cached_property
    def aliases(self) -> Aliases:
        return Aliases(self.provenances, self.ranges)

    @cached_property
    def tokens(self) -> TokenGraph:
        return TokenGraph.of(self.function)

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds(self.ranges, self.patterns)

    @cached_property
    def bulk_copies(self) -> BulkCopies:
        return BulkCopies(self.patterns)

    @cached_property
    def uniformities(self) -> Uniformities:
        return Uniformities(self.function)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        return Lifetimes(self.function)
