"""Kernels of which the tests of the passes know the schedule that they should get."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tilewright.lowering import lower_to_tileaa
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.text import parse

#: Elements in a row of every matrix.
WIDTH = 256


def _matrix(name: str, rows: int, columns: int, element: str) -> str:
    ty = f"tensor_view<?x?x{element}, strides=[{WIDTH},1]>"
    return (
        f"  %{name}p = assume div_by<16>, %{name} : tile<ptr<{element}>>\n"
        f"  %{name}v = make_tensor_view %{name}p, shape = [%rows, %even], strides = [{WIDTH}, 1] : tile<i32> "
        f"-> {ty}\n"
        f"  %{name}t = make_partition_view %{name}v : {view(rows, columns, element)}\n"
    )


def view(rows: int, columns: int, element: str) -> str:
    return (
        f"partition_view<tile=({rows}x{columns}), padding_value = zero, "
        f"tensor_view<?x?x{element}, strides=[{WIDTH},1]>>"
    )


def load(result: str, source: str, at: str, dims: tuple[int, int, str], how: str = "weak") -> str:
    rows, columns, element = dims
    return (
        f"    %{result}, %{result}_t = load_view_tko {how} %{source}t[{at}] : {view(*dims)}, tile<i32> "
        f"-> tile<{rows}x{columns}x{element}>, token\n"
    )


def store(value: str, target: str, at: str, dims: tuple[int, int, str]) -> str:
    rows, columns, element = dims
    return (
        f"  %{target}_d = store_view_tko weak %{value}, %{target}t[{at}] : "
        f"tile<{rows}x{columns}x{element}>, {view(*dims)}, tile<i32> -> token\n"
    )


def entry(matrices: dict[str, tuple[int, int, str]], body: str) -> str:
    parameters = "".join(f"%{name}: tile<ptr<{dims[2]}>>, " for name, dims in matrices.items())
    return (
        f"entry @k({parameters}%rows: tile<i32>, %cols: tile<i32>, %steps: tile<i32>) {{\n"
        "  %zero = constant <i32: 0> : tile<i32>\n  %one = constant <i32: 1> : tile<i32>\n"
        "  %two = constant <i32: 2> : tile<i32>\n"
        "  %even = assume div_by<8>, %cols : tile<i32>\n"
        + "".join(_matrix(name, *dims) for name, dims in matrices.items())
        + body
        + "  return\n}\n"
    )


A, B, C = (64, 32, "f16"), (32, 64, "f16"), (64, 64, "f32")


def product(*, nested: bool = False, how: str = "weak") -> str:
    """c = the sum over ``steps`` of 64x32 times 32x64; twice where the loop is ``nested``."""
    sums = "tile<64x64xf32>"
    loop = (
        "  %{out} = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %{{start}}) -> ({sums}) {{{{\n"
        + load("l", "a", "%zero, %s", A, how).replace("{", "{{").replace("}", "}}")
        + load("r", "b", "%s, %zero", B, how).replace("{", "{{").replace("}", "}}")
        + f"    %next = mmaf %l, %r, %acc : tile<64x32xf16>, tile<32x64xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}}}\n"
    )
    if nested:
        body = (
            "  %sum = for %o in (%zero to %two, step %one) : tile<i32> "
            f"iter_values(%outer = %nothing) -> ({sums}) {{\n"
            + loop.format(out="inner", start="outer")
            + f"    continue %inner : {sums}\n  }}\n"
        )
    else:
        body = loop.format(out="sum", start="nothing")
    start = f"  %nothing = constant <f32: 0.0> : {sums}\n"
    return entry({"a": A, "b": B, "c": C}, start + body + store("sum", "c", "%zero, %zero", C))


def attention() -> str:
    """c = exp2(a x b) x d, in f16 between the two."""
    d = (64, 64, "f16")
    body = (
        "  %nothing = constant <f32: 0.0> : tile<64x64xf32>\n"
        + load("l", "a", "%zero, %zero", A)
        + load("r", "b", "%zero, %zero", B)
        + load("v", "d", "%zero, %zero", d)
        + "  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>\n"
        "  %e = exp2 %s : tile<64x64xf32>\n"
        "  %p = ftof %e : tile<64x64xf32> -> tile<64x64xf16>\n"
        "  %o = mmaf %p, %v, %nothing : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>\n"
        + store("o", "c", "%zero, %zero", C)
    )
    return entry({"a": A, "b": B, "d": d, "c": C}, body)


def transposed() -> str:
    """c = the transpose of a."""
    f32 = (64, 64, "f32")
    body = (
        load("l", "a", "%zero, %one", f32)
        + "  %t = permute %l [1, 0] : tile<64x64xf32> -> tile<64x64xf32>\n"
        + store("t", "c", "%one, %zero", f32)
    )
    return entry({"a": f32, "c": f32}, body)


def row_maxima() -> str:
    """c = a less the maximum of each row."""
    f32 = (32, 128, "f32")
    body = (
        load("l", "a", "%zero, %zero", f32)
        + "  %m = reduce %l dim=1 identities=[-1.0e+30 : f32] : tile<32x128xf32> -> tile<32xf32>\n"
        "  (%x: tile<f32>, %y: tile<f32>) {\n"
        "    %z = maxf %x, %y : tile<f32>\n    yield %z : tile<f32>\n  }\n"
        "  %n = reshape %m : tile<32xf32> -> tile<32x1xf32>\n"
        "  %w = broadcast %n : tile<32x1xf32> -> tile<32x128xf32>\n"
        "  %d = subf %l, %w : tile<32x128xf32>\n" + store("d", "c", "%zero, %zero", f32)
    )
    return entry({"a": f32, "c": f32}, body)


_TYPES = {"f64": np.float64, "f16": np.float16, "f32": np.float32, "i8": np.int8}


def arguments(text: str, steps: int = 1, extent: int = WIDTH) -> list[Any]:
    """Matrices with random numbers, zeros for the last one, of which ``extent`` rows and columns count."""
    names = text.partition("(")[2].partition(" %rows")[0]
    elements = [
        part.partition("ptr<")[2].partition(">")[0] for part in names.split(",") if "ptr" in part
    ]
    rng = np.random.default_rng(len(text) + steps)
    made = [
        (rng.standard_normal((WIDTH, WIDTH)) * (8 if element == "i8" else 0.25)).astype(
            _TYPES[element]
        )
        for element in elements
    ]
    made[-1][:] = 0
    return [*made, extent, extent, steps]


def lowered(text: str, pipeline: str) -> ModuleOp:
    module = lower_to_tileaa(parse(text)).module
    return run_pipeline(module, pipeline, verify_each=True)  # pyright: ignore[reportReturnType]


def outcome(module: Any, text: str, steps: int = 1, extent: int = WIDTH) -> bytes:
    """The bytes of the result on the reference machine."""
    given = arguments(text, steps, extent)
    Program(module).launch("k", 1, given)
    return given[-4].tobytes()
