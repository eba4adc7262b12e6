"""Runs bodies of nv_tileaa on the reference machine and as compiled code, which must agree."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.cpu.codegen.support import same_bits
from tests.machine.tileaa.support import checked, kernel_text

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.machine import Program as Reference

VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"cpu": "generic"},
    {"checked": True},
    *([{"cpu": "generic", "checked": True}] if os.environ.get("TILEWRIGHT_TEST_LONG") else []),
)
"""How a body is compiled: for this processor and for the least, and with checks; with --long with both, too."""


def run(
    program: Any, arrays: Mapping[str, np.ndarray], grid: int = 1
) -> tuple[dict[str, np.ndarray], str]:
    """The arrays after a launch, and what was printed."""
    given = {name: array.copy() for name, array in arrays.items()}
    args = [array if array.ndim else array.reshape(1) for array in given.values()]
    return given, program.launch("k", grid, args).text


def agree(
    body: str,
    inputs: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray],
    *,
    symbols: str = "",
    grid: int = 1,
) -> dict[str, np.ndarray]:
    """Check that all variants leave the same bits as the reference machine; gives the arrays.

    ``results`` are what their arrays hold before. The body may change inputs, too.
    """
    module = checked(kernel_text(body, inputs, results, symbols))
    arrays = {**inputs, **results}
    expected, text = run(Reference(module), arrays, grid)
    for options in VARIANTS:
        found, printed = run(Program(module, options=LaunchOptions(**options)), arrays, grid)
        for name, array in expected.items():
            assert same_bits(found[name], array).all(), (
                f"%{name} with {options}:\n{found[name]}\nexpected\n{array}"
            )
        assert printed == text, options
    return expected
