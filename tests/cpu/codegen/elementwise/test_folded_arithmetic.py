"""Arithmetic on constants, which LLVM computes while it compiles: the bits of ``numerics`` all the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.cpu.codegen.support import same_bits

from tilewright.cpu import Program
from tilewright.numerics import convert
from tilewright.numerics.arrays import bits_of, from_bits
from tilewright.numerics.element_types import BASE_FLOAT_TYPES, FORMATS
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.text import parse

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
#: Operands, and whether the operation can be rounded in a direction.
OPERATIONS = {
    "addf": (2, True), "subf": (2, True), "mulf": (2, True), "divf": (2, True), "fma": (3, True),
    "sqrt": (1, True), "remf": (2, False), "maxf": (2, False), "minf": (2, False), "negf": (1, False),
    "absf": (1, False), "ceil": (1, False), "floor": (1, False),
}  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 1.5, 3.0, float("inf"), float("nan"))


def _operands(element: str, count: int) -> list[np.ndarray]:
    """Numbers with each other, those that cancel, the smallest and the largest among them."""
    fmt = FORMATS[element]
    plain = convert.ftof(np.array(NUMBERS), "f64", to=element)
    edges = from_bits(np.array([1, fmt.sign_bit | 1, fmt.inf_bits - 1], np.uint64), element)
    numbers = np.concatenate([plain, edges])
    chosen = list(product(numbers, repeat=count))
    rng = np.random.default_rng(3)
    rows = [chosen[int(at)] for at in rng.permutation(len(chosen))[:256]]
    return [np.resize(np.array(column, numbers.dtype), 256) for column in zip(*rows, strict=True)]


def _kernel(element: str, arrays: list[np.ndarray], applied: list[str]) -> str:
    digits = FORMATS[element].bits // 4
    tile, view = f"tile<256x{element}>", f"tensor_view<256x{element}, strides=[1]>"
    lines: list[str] = []
    for number, array in enumerate(arrays):
        words = ", ".join(f"0x{int(bits):0{digits}X}" for bits in bits_of(array, element))
        lines.append(f"%v{number} = constant <{element}: [{words}]> : {tile}")
    for number, operation in enumerate(applied):
        part = f"partition_view<tile=(256), {view}>"
        lines += [
            f"%r{number} = {operation} : {tile}",
            f"%t{number} = make_tensor_view %p{number}, shape = [256], strides = [1] : {view}",
            f"%w{number} = make_partition_view %t{number} : {part}",
            f"%s{number} = store_view_tko weak %r{number}, %w{number}[%zero] : {tile}, {part}, tile<i32> -> token",
        ]
    params = ", ".join(f"%p{number}: tile<ptr<{element}>>" for number in range(len(applied)))
    body = "\n".join(["%zero = constant <i32: 0> : tile<i32>", *lines, "return"])
    return f"entry @k({params}) {{\n{body}\n}}\n"


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
@pytest.mark.parametrize("op", OPERATIONS)
def test_constants_are_computed_as_numbers_are(op: str, element: str) -> None:
    count, directed = OPERATIONS[op]
    arrays = _operands(element, count)
    names = ", ".join(f"%v{number}" for number in range(count))
    modes = MODES if directed else MODES[:1]
    applied = [
        f"{op} {names}" + (f" rounding<{mode}>" if mode != "nearest_even" else "") for mode in modes
    ]
    found = [np.zeros_like(arrays[0]) for _ in modes]
    Program(parse(_kernel(element, arrays, applied))).launch("k", 1, found)
    for mode, got in zip(modes, found, strict=True):
        options = {"rounding": mode} if directed else {}
        expected = ELEMENTWISE[op](*arrays, element=element, **options)
        good = same_bits(got, expected)
        at = [array[~good][:1] for array in arrays]
        assert good.all(), f"{mode} of {at}: {got[~good][:1]}, not {expected[~good][:1]}"


@pytest.mark.parametrize("numbers", [(-1.0, 1.0, 0.0), (1.0, 1.0, -1.0), (0.0, -0.0, -0.0)])
@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_the_sign_of_a_sum_of_nothing(element: str, numbers: tuple[float, ...]) -> None:
    """Of operations that a kernel has once, with the same numbers in every call."""
    arrays = [np.full(256, convert.ftof(np.array(n), "f64", to=element)) for n in numbers]
    for op in ("addf", "subf", "fma"):
        count = OPERATIONS[op][0]
        operation = f"{op} {', '.join(f'%v{n}' for n in range(count))} rounding<negative_inf>"
        (found,) = [np.zeros_like(arrays[0])]
        Program(parse(_kernel(element, arrays[:count], [operation]))).launch("k", 1, [found])
        expected = ELEMENTWISE[op](*arrays[:count], element=element, rounding="negative_inf")
        assert same_bits(found, expected).all(), (op, found[0], expected[0])
