"""A kernel computes the same, bit for bit, before and after it is lowered to nv_tileaa.

Compared are all arrays, what is printed, in the same order, and failed assertions; or, where a run
ends in a fault, its code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import arrays_in, flat_arguments
from tests.machine.kernels import kernel_text
from tests.machine.test_ops import CASES, Case

from tilewright import LaunchOptions
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import ELEMENTS, N, wrap
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.cuda_tile.types import PtrType, TileType
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Arithmetic, Program
from tilewright.numerics.arrays import dtype_of
from tilewright.text import parse

load()
KERNELS = [k for k in cutile_kernels() if k.launch] if cutile_available() else []
HARDWARE = Arithmetic(
    f32_products="tf32",
    accumulation="blocks:4",
    reductions="tree",
    approximations="hardware",
    flush_denormal_addf=True,
)

Outcome = tuple[object, ...]
Arguments = Callable[[Program], tuple[Sequence[object], Sequence[np.ndarray]]]
"""Fresh arguments for a program, and all arrays that the kernel can reach."""


def outcome(
    program: Program,
    name: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    seed: int,
) -> Outcome:
    flat, arrays = arguments(program)
    try:
        result = program.launch(
            name, grid, flat, options=LaunchOptions(seed=seed, check_asserts=False)
        )
    except TileIRError as error:
        return tuple(diagnostic.code for diagnostic in error.diagnostics)
    failures = [(f.message, f.index, f.block) for f in result.failures]
    return (*(array.tobytes() for array in arrays), result.text, failures)


def check(
    module: ModuleOp,
    name: str,
    grid: tuple[int, int, int],
    *arguments: Arguments,
    seeds: Sequence[int] = (0,),
    arithmetic: Arithmetic | None = None,
) -> list[Outcome]:
    """Compare the two levels under each seed, on each kind of arguments; gives the outcomes."""
    lowered = lower_to_tileaa(module).module
    options: dict[str, Any] = {} if arithmetic is None else {"arithmetic": arithmetic}
    before, after = (
        Program(level, options=LaunchOptions(**options)) for level in (module, lowered)
    )
    outcomes: list[Outcome] = []
    for seed in seeds:
        for given in arguments:
            expected = outcome(before, name, grid, given, seed)
            assert outcome(after, name, grid, given, seed) == expected, f"seed {seed}"
            outcomes.append(expected)
    return outcomes


def _of_corpus(kernel: CorpusKernel) -> Arguments:
    launch = kernel.launch
    assert launch is not None

    def arguments(program: Program) -> tuple[Sequence[object], Sequence[np.ndarray]]:
        named = launch.arguments()
        flat = flat_arguments(kernel, named, program.map_array)
        return flat, [array for n, value in named.items() for _, array in arrays_in(value, n)]

    return arguments


@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@pytest.mark.rotates(3, 1)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_corpus(kernel: CorpusKernel) -> None:
    assert kernel.launch is not None
    module = read(kernel.export(max(kernel.since, "13.4", key=VERSIONS.index)))
    (entry,) = module.entries
    check(module, entry.symbol, kernel.launch.grid, _of_corpus(kernel), seeds=(0, 1))


@pytest.mark.rotates(4)
@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_corpus_in_hardware_arithmetic(kernel: CorpusKernel) -> None:
    assert kernel.launch is not None
    module = read(kernel.export(kernel.since))
    (entry,) = module.entries
    check(module, entry.symbol, kernel.launch.grid, _of_corpus(kernel), arithmetic=HARDWARE)


EXAMPLES = [
    pytest.param(text, id=f"{mnemonic}-{number}")
    for mnemonic, cls in OPERATIONS.items()
    for number, text in enumerate(cls.EXAMPLES)
]


def _zeros(types: Sequence[object]) -> Arguments:
    """Zeros behind a pointer; ``N`` for a number."""

    def arguments(program: Program) -> tuple[Sequence[object], Sequence[np.ndarray]]:
        flat: list[object] = []
        for ty in types:
            assert isinstance(ty, TileType)
            if isinstance(ty.element_type, PtrType):
                element = TileType((), ty.element_type.pointee).element
                flat.append(np.zeros(ELEMENTS, dtype_of(element)))
            else:
                flat.append(N)
        return flat, [value for value in flat if isinstance(value, np.ndarray)]

    return arguments


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples(text: str) -> None:
    module = parse(wrap(text))
    assert isinstance(module, ModuleOp)
    for entry in module.entries:
        types = entry.function_type_value.inputs.data
        check(module, entry.symbol, (2, 1, 1), _zeros(types))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_operations(case: Case) -> None:
    """The hand-checked cases of the machine, which hold every operation at its odd places."""
    start = case.options.get("start", {})
    inputs = {name: np.asarray(value) for name, value in case.inputs.items()}
    results = {
        name: np.asarray(start.get(name, np.zeros_like(value)))
        for name, value in case.expected.items()
    }

    def arguments(program: Program) -> tuple[Sequence[object], Sequence[np.ndarray]]:
        arrays = [array.copy() for array in {**inputs, **results}.values()]
        return arrays, arrays

    module = parse(kernel_text(case.body, inputs, results, case.globals))
    assert isinstance(module, ModuleOp)
    x, y, z = (*case.grid, 1, 1)[:3]
    (found,) = check(module, module.entries[0].symbol, (x, y, z), arguments)
    assert found[-2] == case.text
