"""The table from operations to hooks."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.machine.sanitize.translator import Rule

BEFORE: dict[type[TileOp], list[Rule]] = {}
AFTER: dict[type[TileOp], list[Rule]] = {}


def _enter(
    table: dict[type[TileOp], list[Rule]], classes: tuple[type[TileOp], ...]
) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        for cls in classes:
            table.setdefault(cls, []).append(rule)
        return rule

    return enter


def before(*classes: type[TileOp]) -> Callable[[Rule], Rule]:
    """Enter a rule whose hook runs before operations of these classes."""
    return _enter(BEFORE, classes)


def after(*classes: type[TileOp]) -> Callable[[Rule], Rule]:
    """Enter a rule whose hook runs after operations of these classes."""
    return _enter(AFTER, classes)
