"""Prints locations and debug info: aliases after the module, like the reference tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, ParametrizedAttribute

from tilewright.dialects.cuda_tile.debug_info import (
    FUSED,
    CallSiteAttr,
    DIAttr,
    DILocAttr,
    FusedLocAttr,
    NamedLocAttr,
    fused_parts,
)
from tilewright.dialects.syntax.directives import quote
from tilewright.text.locations import LOCATIONS

#: Formats any attribute, by its alias if it has one.
Show = Callable[[Attribute], str]


def location_text(location: Attribute, show: Show) -> str:
    """Return the text between the parentheses of ``loc(...)``; parts are formatted by ``show``."""
    match location:
        case UnknownLoc():
            return "unknown"
        case FileLineColLoc():
            return f"{quote(location.filename.data)}:{location.line.data}:{location.column.data}"
        case NameLoc() | NamedLocAttr():
            child = location.location
            inner = "" if isinstance(child, NoneAttr) else f"({_part(child, show)})"
            return quote(location.desc.data) + inner
        case FusedLoc() | FusedLocAttr():
            parts = ", ".join(_part(part, show) for part in fused_parts(location))
            metadata = location.metadata
            shown = "" if isinstance(metadata, NoneAttr) else f"<{show(metadata)}>"
            return f"fused{shown}[{parts}]"
        case CallSiteAttr() | CallSiteLoc():
            callee, caller = (_part(part, show) for part in (location.callee, location.caller))
            return f"callsite({callee} at {caller})"
        case _:
            return show(location)


def _part(location: Attribute, show: Show) -> str:
    """Return a location nested in another, without its own ``loc(...)``."""
    shown = show(location)
    return shown[4:-1] if shown.startswith("loc(") else shown


def alias_name(attribute: Attribute) -> str | None:
    """Return the prefix of an attribute's alias, or None if it gets none."""
    if isinstance(attribute, LOCATIONS):
        return "loc"
    if isinstance(attribute, DIAttr):
        return attribute.name.removeprefix("cuda_tile.")
    return None


def _parts_of(attribute: Attribute) -> Iterable[Attribute]:
    if isinstance(attribute, FUSED):
        return (attribute.metadata, *fused_parts(attribute))
    if isinstance(attribute, DILocAttr):
        return (attribute.source, attribute.scope)
    if isinstance(attribute, ParametrizedAttribute):
        return attribute.parameters
    return ()


@dataclass(slots=True)
class _Entry:
    depth: int
    name: str
    visit: int


@dataclass(slots=True)
class _Opened:
    """An attribute some of whose parts have not been added yet."""

    attribute: Attribute
    entry: _Entry | None
    parts: Iterator[Attribute]
    deepest: int = -1

    def depth(self) -> int:
        if self.entry is None:
            return self.deepest
        self.entry.depth = self.deepest + 1
        return self.entry.depth


class AliasTable:
    """The aliases of all locations given to ``add``.

    Ordered by depth, then name, then first visit, so that each definition follows its parts.
    """

    def __init__(self) -> None:
        self._entries: dict[Attribute, _Entry] = {}
        self._depths: dict[Attribute, int] = {}

    def add(self, attribute: Attribute) -> int:
        """Add an attribute and its parts. Returns its depth; -1 if nothing in it has an alias.

        Attributes may be nested to any depth, so this uses a stack instead of recursion.
        """
        if (known := self._depths.get(attribute)) is not None:
            return known
        stack = [self._open(attribute)]
        while stack:
            opened = stack[-1]
            part = next(opened.parts, None)
            if part is None:
                stack.pop()
                depth = self._depths[opened.attribute] = opened.depth()
                if stack:
                    stack[-1].deepest = max(stack[-1].deepest, depth)
            elif (known := self._depths.get(part)) is not None:
                opened.deepest = max(opened.deepest, known)
            else:
                stack.append(self._open(part))
        return self._depths[attribute]

    def _open(self, attribute: Attribute) -> _Opened:
        """Add an attribute before its parts, so that visits are counted in this order."""
        name = alias_name(attribute)
        entry: _Entry | None = None
        if name is not None:
            entry = self._entries[attribute] = _Entry(0, name, len(self._entries))
        return _Opened(attribute, entry, iter(_parts_of(attribute)))

    def assign(self) -> dict[Attribute, str]:
        """Return every attribute with its alias, in definition order."""
        order = sorted(
            self._entries.items(), key=lambda item: (item[1].depth, item[1].name, item[1].visit)
        )
        counts: dict[str, int] = {}
        aliases: dict[Attribute, str] = {}
        for attribute, entry in order:
            number = counts.get(entry.name, 0)
            counts[entry.name] = number + 1
            aliases[attribute] = f"#{entry.name}{number or ''}"
        return aliases
