"""Conversions between all types, and arithmetic in every direction, as threads do them: the bits of ``numerics``."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pytest
from tests.cpu.codegen.elementwise.test_conversions import WHOLE_BYTES, patterns
from tests.cpu.codegen.support import same_bits

from tilewright import verify
from tilewright.diagnostics import TileIRError
from tilewright.gpu.tiles import TileProgram as CompiledTiles
from tilewright.numerics import convert
from tilewright.numerics.arrays import from_bits
from tilewright.numerics.element_types import FORMATS, INT_TYPES
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf", "nearest_away")
DIRECTIONS = MODES[1:4]
#: One that has no instruction that rounds to tf32, and one that has.
ARCHITECTURES = ("sm_80", "sm_90a")
#: What threads hold; f8E8M0FNU needs a newer architecture, and of f8E5M3FNU there is no type in MLIR.
HELD = tuple(name for name in WHOLE_BYTES if name != "f8E5M3FNU")
NEW = {"f8E8M0FNU"}


def kernel(expression: str, inputs: list[str], output: str, count: int) -> str:
    """A kernel of one operation on ``%v0``, ``%v1`` ..., loaded and stored through pointers."""
    lines = [f"%i = iota : tile<{count}xi32>"]
    names = [f"p{n}" for n in range(len(inputs))]
    for name, element in zip([*names, "out"], [*inputs, output], strict=True):
        ptr = f"ptr<{element}>"
        lines += [
            f"%{name}a = reshape %{name} : tile<{ptr}> -> tile<1x{ptr}>",
            f"%{name}b = broadcast %{name}a : tile<1x{ptr}> -> tile<{count}x{ptr}>",
            f"%{name}c = offset %{name}b, %i : tile<{count}x{ptr}>, tile<{count}xi32> -> tile<{count}x{ptr}>",
        ]
    for n, element in enumerate(inputs):
        lines.append(
            f"%v{n}, %t{n} = load_ptr_tko weak %p{n}c : tile<{count}xptr<{element}>> -> tile<{count}x{element}>, token"
        )
    lines += [
        f"%r = {expression}",
        f"%s = store_ptr_tko weak %outc, %r : tile<{count}xptr<{output}>>, tile<{count}x{output}> -> token",
        "return",
    ]
    params = [
        f"%{n}: tile<ptr<{e}>>" for n, e in zip([*names, "out"], [*inputs, output], strict=True)
    ]
    return f"entry @k({', '.join(params)}) {{\n" + "\n".join(lines) + "\n}\n"


def found(
    expression: str, inputs: list[str], output: str, values: list[np.ndarray]
) -> list[np.ndarray]:
    """What architectures make of it; none where Tile IR has no such operation."""
    try:
        module = parse(kernel(expression, inputs, output, len(values[0])))
        verify(module)
    except TileIRError:
        return []
    results: list[np.ndarray] = []
    # Between floats only those to tf32 differ.
    alike = inputs[0][0] != "i" and output[0] != "i" and output != "tf32"
    usual = ARCHITECTURES[alike:]
    for arch in ("sm_100a",) if NEW & {*inputs, output} else usual:
        made = convert.ftof(np.zeros(len(values[0])), "f64", to=output)
        TileProgram(module, arch).launch("k", 1, [*(v.copy() for v in values), made])
        results.append(made)
    return results


def pick(element: str, count: int) -> np.ndarray:
    """Numbers of every kind, and those beside the middle between numbers of smaller formats."""
    values = np.resize(patterns(element), 2048)
    if FORMATS[element].bits > 16:
        # A tie of f16, bf16 or tf32, and what an f32 in between would round to one.
        rng = np.random.default_rng(5)
        kept = rng.choice([7, 10, 11], 512)
        ties = np.ldexp(rng.integers(1 << 6, 1 << 7, 512) * 2.0 + 1, rng.integers(-20, 12, 512))
        ties += np.ldexp(rng.choice([-1.0, 0.0, 1.0], 512), -50 + kept)
        values[512:1024] = convert.ftof(ties, "f64", to=element)
        # NaN of each single bit, all of which a shorter format may drop, and of both signs.
        fmt = FORMATS[element]
        payloads = [1 << bit for bit in range(fmt.mantissa_bits)]
        found = [sign << fmt.bits - 1 | fmt.inf_bits | low for low in payloads for sign in (0, 1)]
        values[1024 : 1024 + 4 * len(found) : 4] = from_bits(np.array(found, np.uint64), element)
    return np.ascontiguousarray(values[:: 2048 // count])


@pytest.mark.rotates(3)
@pytest.mark.parametrize(("element", "to"), list(permutations(HELD, 2)))
def test_float_to_float(element: str, to: str) -> None:
    source = pick(element, 1024)
    for mode in MODES:
        ty = f"tile<{len(source)}x{{}}>"
        suffix = "" if mode == "nearest_even" else f" rounding<{mode}>"
        expression = f"ftof %v0{suffix} : {ty.format(element)} -> {ty.format(to)}"
        for got in found(expression, [element], to, [source]):
            expected = convert.ftof(source, element, to=to, rounding=mode)
            good = same_bits(got, expected)
            at = int(np.argmin(good))
            assert good.all(), f"{mode}: {source[at]!r} gives {got[at]}, not {expected[at]}"


def integers(element: str) -> np.ndarray:
    """Edges of the type, numbers of every size, and those beside the middle of two of a float of few bits."""
    fmt, rng = FORMATS[element], np.random.default_rng(7)
    sizes = rng.integers(0, fmt.bits + 1, 1024)
    found = [int(rng.integers(0, 1 << 63)) & ((1 << int(size)) - 1) for size in sizes]
    for number in range(512):
        kept = int(rng.choice([3, 4, 8, 9, 11, 12]))
        size = int(sizes[number])
        if size > kept + 1:
            top = (found[number] | 1 << (size - 1)) >> (size - kept) | 1
            found[number] = (top << (size - kept)) + int(rng.choice([-1, 0, 1]))
    found[-4:] = [0, 1, fmt.mask, fmt.mask >> 1]
    return from_bits(np.array([number & fmt.mask for number in found], np.uint64), element)


@pytest.mark.parametrize("to", [name for name in HELD if name != "f8E8M0FNU"])
@pytest.mark.parametrize("element", INT_TYPES)
def test_integer_to_float(element: str, to: str) -> None:
    source = integers(element)
    for sign in ("signed", "unsigned"):
        expression = f"itof %v0 {sign} : tile<1024x{element}> -> tile<1024x{to}>"
        results = found(expression, [element], to, [source])
        assert len(results) == len(ARCHITECTURES)
        expected = convert.itof(source, element, to=to, signedness=sign)
        for got in results:
            good = same_bits(got, expected)
            at = int(np.argmin(good))
            assert good.all(), f"{sign}: {source[at]} gives {got[at]}, not {expected[at]}"


@pytest.mark.parametrize("to", INT_TYPES)
@pytest.mark.parametrize("element", HELD)
def test_float_to_integer(element: str, to: str) -> None:
    source = pick(element, 1024)
    for sign in ("signed", "unsigned"):
        expression = f"ftoi %v0 {sign} saturating : tile<1024x{element}> -> tile<1024x{to}>"
        expected = convert.ftoi(source, element, to=to, signedness=sign)
        for got in found(expression, [element], to, [source]):
            assert (got == expected).all(), sign


@pytest.mark.parametrize("to", INT_TYPES)
@pytest.mark.parametrize("element", HELD)
def test_gpu_code_saturates(element: str, to: str) -> None:
    """What LLVM leaves undefined it is not asked for, and no type is missing."""
    arch = "sm_100a" if element in NEW else "sm_80"
    for sign in ("signed", "unsigned"):
        expression = f"ftoi %v0 {sign} saturating : tile<16x{element}> -> tile<16x{to}>"
        text = CompiledTiles(parse(kernel(expression, [element], to, 16)), arch).compile().llvm_ir
        assert not re.search(r"= fpto[su]i", text)


@pytest.mark.parametrize("element", INT_TYPES)
def test_gpu_code_makes_every_float_of_integers(element: str) -> None:
    for to in HELD:
        if to not in NEW:
            expression = f"itof %v0 signed : tile<16x{element}> -> tile<16x{to}>"
            text = CompiledTiles(parse(kernel(expression, [element], to, 16)), "sm_80").compile()
            # Of 32 bits and more LLVM makes bf16 with two roundings here.
            assert not re.search(r"itofp .*i(32|64)>? .* to .*bfloat", text.llvm_ir)


@pytest.mark.parametrize("mode", DIRECTIONS)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_arithmetic_in_a_direction(element: str, mode: str) -> None:
    rng = np.random.default_rng(1)
    source = pick(element, 256)
    values = [source, rng.permutation(source), rng.permutation(source)]
    for name, count in (
        ("addf", 2),
        ("subf", 2),
        ("mulf", 2),
        ("divf", 2),
        ("fma", 3),
        ("sqrt", 1),
    ):
        given = ", ".join(f"%v{n}" for n in range(count))
        expression = f"{name} {given} rounding<{mode}> : tile<256x{element}>"
        results = found(expression, [element] * count, element, values[:count])
        assert results
        expected = ELEMENTWISE[name](*values[:count], element=element, rounding=mode)
        for got in results:
            good = same_bits(got, expected)
            at = [value[int(np.argmin(good))] for value in values]
            assert good.all(), f"{name} of {at}: {got[~good][0]}, not {expected[~good][0]}"


@pytest.mark.parametrize("other", HELD)
def test_what_threads_do_not_hold_is_refused(other: str) -> None:
    for element, to in (("f8E5M3FNU", other), (other, "f8E5M3FNU")):
        text = kernel(f"ftof %v0 : tile<16x{element}> -> tile<16x{to}>", [element], to, 16)
        with pytest.raises(TileIRError) as error:
            arrays = [convert.ftof(np.zeros(16), "f64", to=name) for name in (element, to)]
            TileProgram(parse(text), "sm_100a").launch("k", 1, arrays)
        assert error.value.diagnostics[0].code == "not-lowered-to-threads", text
