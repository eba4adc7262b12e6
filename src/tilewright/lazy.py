"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the package with these globals.

    ``homes``: for each of its modules the names that are taken from it, with spaces between them. Importing
    the package stays cheap: a module is loaded when one of its names is asked for.
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
