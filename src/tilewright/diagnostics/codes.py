"""The registry of diagnostic codes, with the explanations that ``tilewright explain CODE`` prints."""

from __future__ import annotations

import warnings
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A stable kind of diagnostic.

    ``summary`` is one sentence. ``explanation`` says which rule is broken, why it exists, and how
    programs usually break it. ``help`` is the fix that a diagnostic suggests unless it suggests a more
    specific one. ``wrong`` and ``right`` are small programs (may be empty), bodies of a kernel as the examples of
    operations of ``cuda_tile`` are: the first is reported with this code, the second is correct.
    """

    name: str
    summary: str
    explanation: str = ""
    help: str = ""
    wrong: str = ""
    right: str = ""


_REGISTRY: dict[str, Code] = {}
#: Maps names from earlier versions to the present code.
_FORMER: dict[str, str] = {}


def define_code(
    name: str,
    summary: str,
    explanation: str = "",
    *,
    help: str = "",
    wrong: str = "",
    right: str = "",
    was: tuple[str, ...] = (),
) -> str:
    """Register a code and return its name, so that a module can say ``X = define_code("x", ...)``.

    ``was`` are former names, which :func:`find_code` and expectations accept for one version. Raises ValueError for
    a name that is defined already.
    """
    if name in _REGISTRY:
        raise ValueError(f"diagnostic code {name!r} is defined twice")
    _REGISTRY[name] = Code(name, summary, explanation, help, wrong, right)
    _FORMER.update(dict.fromkeys(was, name))
    return name


def find_code(name: str) -> Code | None:
    """Return the code of that name, or None if no module imported so far defines it.

    A former name is resolved with a DeprecationWarning.
    """
    return _REGISTRY.get(present_name(name))


def help_of(name: str) -> str:
    """Return the fix that a code suggests; empty if it suggests none, or is not defined."""
    found = _REGISTRY.get(name)
    return "" if found is None else found.help


def present_name(name: str) -> str:
    """Return the present name of a code; an unknown name is returned as it is. A former name is resolved with a
    DeprecationWarning.
    """
    if name not in _FORMER:
        return name
    warnings.warn(
        f"the diagnostic code {name} is called {_FORMER[name]}", DeprecationWarning, stacklevel=3
    )
    return _FORMER[name]


def all_codes() -> tuple[Code, ...]:
    """Return every code defined by the modules imported so far, by name."""
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))
