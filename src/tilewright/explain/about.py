"""Information about a kernel besides its IR, and the mark of generated pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MARK = '<meta name="generator" content="tilewright explain'
"""The marker near the beginning of every page."""


@dataclass(frozen=True, slots=True)
class About:
    """Information about a kernel besides its IR.

    ``place``: its position in the program. ``kind``: its specialization, by parameter. ``others``: the other kernels of
    the program, each with a label, a link or "", and a command.
    """

    place: str = ""
    kind: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Sequence[tuple[str, str, str]] = ()
