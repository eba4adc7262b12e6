"""What pages show about a kernel besides its IR, and the mark that identifies a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MARK = '<meta name="generator" content="tilewright explain'
"""Occurs near the beginning of every page."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a kernel besides its IR.

    ``place``: its location in the program. ``kind``: what it was compiled for, by parameter. ``others``: the
    other kernels of the program, each with a label, the page to link to or nothing, and a command.
    """

    place: str = ""
    kind: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Sequence[tuple[str, str, str]] = ()
