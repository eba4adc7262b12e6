"""The registry of diagnostic codes: what each means, told by ``tilewright explain CODE``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A stable kind of finding.

    ``summary`` is one sentence. ``explanation`` says which rule is broken, why it exists and
    how programs usually come to break it. ``wrong`` and ``right`` are small programs (may be
    empty) that a test checks: the first is reported with this code, the second is not.
    """

    name: str
    summary: str
    explanation: str = ""
    wrong: str = ""
    right: str = ""


_REGISTRY: dict[str, Code] = {}
#: The code for each name that an earlier version had for it.
_FORMER: dict[str, str] = {}


def define_code(
    name: str,
    summary: str,
    explanation: str = "",
    *,
    wrong: str = "",
    right: str = "",
    was: tuple[str, ...] = (),
) -> str:
    """Register a code and return its name, so that a module can say ``X = define_code("x", ...)``.

    ``was`` are former names, which :func:`find_code` and expectations take for one version.
    """
    if name in _REGISTRY:
        raise ValueError(f"diagnostic code {name!r} is defined twice")
    _REGISTRY[name] = Code(name, summary, explanation, wrong, right)
    _FORMER.update(dict.fromkeys(was, name))
    return name


def find_code(name: str) -> Code | None:
    """The code of that name, or None where no module imported so far defines it."""
    return _REGISTRY.get(present_name(name))


def present_name(name: str) -> str:
    """What a code is called today: a former name gives its successor, with a DeprecationWarning."""
    if name not in _FORMER:
        return name
    warnings.warn(
        f"the diagnostic code {name} is called {_FORMER[name]}", DeprecationWarning, stacklevel=3
    )
    return _FORMER[name]


def all_codes() -> tuple[Code, ...]:
    """Every code defined by the modules imported so far, by name."""
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))
