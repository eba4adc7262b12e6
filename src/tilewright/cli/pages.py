"""Chooses the file for a kernel's page."""

from __future__ import annotations

import os

from tilewright.cli.session import UsageError


def page_path(chosen: str | None, source: str) -> str:
    """Return the file for a page of ``source``: the chosen one, or one beside the source.

    A default name never replaces anything but an earlier page: UsageError where it would.
    """
    if chosen is not None:
        return chosen
    from tilewright.explain.about import MARK

    path = f"{os.path.splitext(source)[0]}.html"
    try:
        with open(path, "rb") as stream:
            is_page = MARK.encode() in stream.read(1000)
    except OSError:
        return path
    if not is_page:
        raise UsageError.because(
            f"'{path}' exists and is not a page of this command",
            help="name the page with -o",
        )
    return path
