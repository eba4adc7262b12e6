"""Array properties encoded in the name of a kernel.

cuTile mangles the calling convention into a kernel's name: ``NAME_Kt2``, and ``_CONSTRAINT`` per Python parameter.
Constraints on extents, strides and addresses are also in the IR, as ``assume``; which arrays may alias is in the name
only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.launching.modules import KernelOp

_DTYPES = "b8|[iu](?:8|16|32|64)|f(?:16|32|64)|bf16|tf32|f8m3fn|f8m2|f8m0fnu"
_ARRAY = re.compile(
    rf"(?P<rank>\d{{1,9}})(?:{_DTYPES})"
    r"(?:_[0-9a-f]+(?:[sitvl]_?\d+)+)*"
    r"(?:_(?=[pgiuw])(?:p\d+)?(?P<groups>(?:g[0-9a-f]+)*)(?P<inner>i?)[uw]?)?"
)
_LIST = re.compile(r"(?:g[0-9a-f]+)*i?")
_SCALAR = re.compile(_DTYPES)
_CONSTANT = re.compile(r"(?<=B)[01]|(?<=I)_?\d+|(?<=F)[0-9a-f]{16}")
_COUNT = re.compile(r"\d{1,9}")
_MAX_DEPTH = 100
_CONVENTIONS = ("t1", "t2")


@dataclass(frozen=True, slots=True)
class NoaliasArray:
    """An array of the calling convention, whose pointer is the ``parameter``-th parameter.

    ``rank`` extents and as many strides, in elements, follow. It may share memory with arrays of a common alias group;
    if ``aliases_itself``, several indices may address the same element.
    """

    parameter: int
    rank: int
    groups: frozenset[int]
    aliases_itself: bool

    def may_overlap(self, other: NoaliasArray) -> bool:
        """Whether the kernel's name allows the two arrays to share memory."""
        return not self.groups.isdisjoint(other.groups)


@dataclass(frozen=True, slots=True)
class CallingConvention:
    """``arrays`` in the order of the parameters, of which there are ``parameter_count``."""

    arrays: tuple[NoaliasArray, ...]
    parameter_count: int


_FIELD = "_tilewright_mangled_name"


def remember_mangled_name(entry: KernelOp, name: str) -> None:
    """Record the mangled name of a kernel that is being renamed, as an attribute of the Python object."""
    setattr(entry, _FIELD, name)


def mangled_name(entry: KernelOp) -> str:
    """The mangled name of a kernel: its symbol, unless it was renamed. Clones of the operation do not have it."""
    return entry.__dict__.get(_FIELD, entry.symbol)


def has_authors_names(entry: KernelOp) -> bool:
    """Whether a cuTile kernel was renamed to the names of its author."""
    return _FIELD in entry.__dict__


def authors_name(name: str) -> str:
    """What the author of a kernel called it: its name without the calling convention that cuTile puts behind it."""
    before, mark, _ = name.rpartition("_K")
    return before if mark and calling_convention(name) is not None else name


@cache
def calling_convention(name: str) -> CallingConvention | None:
    """The calling convention in a mangled name; None if there is none, or an unknown one."""
    _, mark, text = name.rpartition("_K")
    convention, *rest = text.split("_", 1)
    if not mark or convention not in _CONVENTIONS:
        return None
    reader = _Reader("".join(rest))
    arrays: list[NoaliasArray] = []
    try:
        if rest:
            arrays += reader.constraint()
        while not reader.is_at_end:
            reader.expect("_")
            arrays += reader.constraint()
    except _UnknownConstraint:
        return None
    return CallingConvention(tuple(arrays), reader.parameter_count)


class _UnknownConstraint(Exception):
    """The rest of the name has an unknown form."""


class _Reader:
    """Parses constraints and counts the parameters that they cover."""

    def __init__(self, text: str):
        self._text = text
        self._at = 0
        self._depth = 0
        self.parameter_count = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._text)

    def expect(self, text: str) -> None:
        if not self._text.startswith(text, self._at):
            raise _UnknownConstraint
        self._at += len(text)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _UnknownConstraint
        self._at = found.end()
        return found

    def constraint(self) -> Iterator[NoaliasArray]:
        """The arrays of the next constraint."""
        letter = self._text[self._at : self._at + 1]
        read = _CONSTRAINTS.get(letter)
        if read is None:
            raise _UnknownConstraint
        self._at += 1
        yield from read(self)

    def array(self) -> Iterator[NoaliasArray]:
        found = self._match(_ARRAY)
        groups = (found["groups"] or "").split("g")[1:]
        rank = int(found["rank"])
        yield NoaliasArray(
            self.parameter_count,
            rank,
            frozenset(int(group, 16) for group in groups),
            bool(found["inner"]),
        )
        self.parameter_count += 1 + 2 * rank

    def list(self) -> Iterator[NoaliasArray]:
        """Skip a list: its elements are in memory, so nothing is known about them statically."""
        self._match(_LIST)
        before = self.parameter_count
        self.expect("A")
        for _ in self.array():
            pass
        self.parameter_count = before + 2
        return iter(())

    def tuple(self) -> Iterator[NoaliasArray]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _UnknownConstraint
        for _ in range(int(self._match(_COUNT)[0])):
            yield from self.constraint()
        self._depth -= 1

    def scalar(self) -> Iterator[NoaliasArray]:
        self._match(_SCALAR)
        self.parameter_count += 1
        return iter(())

    def constant(self) -> Iterator[NoaliasArray]:
        self._match(_CONSTANT)
        return iter(())


_CONSTRAINTS: Mapping[str, Callable[[_Reader], Iterator[NoaliasArray]]] = MappingProxyType(
    {
        "A": _Reader.array,
        "L": _Reader.list,
        "T": _Reader.tuple,
        "S": _Reader.scalar,
        **dict.fromkeys("BIF", _Reader.constant),
    }
)
