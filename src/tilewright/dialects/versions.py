"""Bytecode versions, which also name the levels of Tile IR's semantics."""

from __future__ import annotations

Version = tuple[int, int]

V13_1: Version = (13, 1)
V13_2: Version = (13, 2)
V13_3: Version = (13, 3)
V13_4: Version = (13, 4)
V13_5: Version = (13, 5)
V250_0: Version = (250, 0)
V250_1: Version = (250, 1)

#: Versions that can be read and written, oldest first. 250.x name test-only operations, which
#: have no bytecode form here.
BYTECODE_VERSIONS: tuple[Version, ...] = (V13_1, V13_2, V13_3, V13_4, V13_5)
LATEST: Version = V13_5


def format_version(version: Version) -> str:
    """A version as text, such as ``13.1``."""
    return f"{version[0]}.{version[1]}"


def parse_version(text: str) -> Version:
    """The version named by ``"13.3"``; raises ValueError for anything that is not one of ours."""
    for version in BYTECODE_VERSIONS:
        if format_version(version) == text.strip():
            return version
    known = ", ".join(map(format_version, BYTECODE_VERSIONS))
    raise ValueError(f"unknown bytecode version {text!r}; known versions are {known}")
