"""Lazily imported names of a package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for the package with these globals.

    ``homes`` maps each module of the package to the names taken from it, separated by spaces. A module is
    imported when one of its names is first used, so importing the package stays cheap.
    """
    name_of_package: str = package["__name__"]
    where = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {name_of_package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{name_of_package}.{where[name]}"), name)
        package[name] = value
        return value

    return find, lambda: sorted({*package, *package["__all__"]})
