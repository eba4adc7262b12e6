"""Runs bodies of nv_tileaa on the reference machine and as compiled code, which must agree."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.cpu.codegen.support import same_bits
from tests.machine.tileaa.support import checked, kernel_text
from tests.sampling import every_way, is_long

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.machine import Program as Reference

VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"cpu": "generic"},
    {"checked": True},
    *([{"cpu": "generic", "checked": True}] if is_long() else []),
)
"""How a body is compiled: for this processor and for the least, and with checks; with --long with both, too."""


def variants(*case: object) -> tuple[dict[str, Any], ...]:
    """Those for one of a test's many cases: the first and one of the others, which goes by the case, so that each has its share;
    all with --long and of mutants. Nearly all of the time goes into compiling."""
    others = VARIANTS[1:]
    chosen = zlib.crc32(repr(case).encode()) % len(others)
    return VARIANTS if every_way() else (VARIANTS[0], others[chosen])


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
    case: tuple[object, ...] = (),
) -> dict[str, np.ndarray]:
    """Check that all variants, or those of a case, leave the same bits as the reference machine; gives the arrays.

    ``results`` are what their arrays hold before. The body may change inputs, too.
    """
    module = checked(kernel_text(body, inputs, results, symbols))
    arrays = {**inputs, **results}
    expected, text = run(Reference(module), arrays, grid)
    for options in variants(*case) if case else VARIANTS:
        found, printed = run(Program(module, options=LaunchOptions(**options)), arrays, grid)
        for name, array in expected.items():
            assert same_bits(found[name], array).all(), (
                f"%{name} with {options}:\n{found[name]}\nexpected\n{array}"
            )
        assert printed == text, options
    return expected
