"""What pages say of a kernel beside its IR, and what they are known by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MARK = '<meta name="generator" content="tilewright explain'
"""What every page holds near its beginning."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a kernel beside its IR.

    ``place``: where it is in its program. ``kind``: what it was compiled for, by parameter. ``others``:
    the further kernels of the program, each with a label, the page to go to or nothing, and a command.
    """

    place: str = ""
    kind: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Sequence[tuple[str, str, str]] = ()
