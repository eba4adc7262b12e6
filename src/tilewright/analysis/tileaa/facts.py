"""All analyses of one function, each computed on first use."""

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
    """The analyses of a function, valid as long as it is not changed.

    ``grid``: the extents of the launch grid if known, else those that the function itself declares.
    """

    function: FuncOp
    grid: Sequence[int] | None = None

    @cached_property
    def ranges(self) -> Ranges:
        """The minimum and maximum of each integer, for the given grid, else for the one that the function states."""
        return Ranges(self.function, self.grid or self.function.launch_grid)

    @cached_property
    def patterns(self) -> Patterns:
        """Runs, divisors and repeats of integer and pointer tiles."""
        return Patterns(self.function, self.ranges)

    @cached_property
    def provenances(self) -> Provenances:
        """The arguments, globals and scratch memory that pointers are derived from."""
        return Provenances(self.function)

    @cached_property
    def aliases(self) -> Aliases:
        """Which accesses may alias."""
        return Aliases(self.provenances, self.ranges)

    @cached_property
    def tokens(self) -> TokenGraph:
        """The order of effects given by tokens."""
        return TokenGraph.of(self.function)

    @cached_property
    def bounds(self) -> Bounds:
        """Which accesses are in bounds of their memrefs, and which are aligned."""
        return Bounds(self.ranges, self.patterns)

    @cached_property
    def bulk_copies(self) -> BulkCopies:
        """Which loads and stores could be bulk copies, and why others could not."""
        return BulkCopies(self.patterns)

    @cached_property
    def uniformities(self) -> Uniformities:
        """Which values vary between elements, and which between tile blocks."""
        return Uniformities(self.function)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """The live range of each value."""
        return Lifetimes(self.function)
