"""Long types, literals and lists are read in linear time, or refused."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import TileIRError
from tilewright.text import parse, print_text

_SMALL, _FACTOR = 1500, 8
#: Linear work takes 8 times as long, quadratic work 64 times.
_MOST = 24


def _kernel(body: str) -> str:
    return f"entry @k() {{\n{body}\n}}\n"


def _constant(literal: str, ty: str) -> str:
    return _kernel(f"%a = constant <{literal}> : {ty}")


def _power(count: int) -> int:
    return 1 << (count.bit_length() - 1)


def _view(count: int) -> str:
    ones, commas = "1x" * count, ", ".join(["1"] * count)
    return (
        "entry @k(%p: tile<ptr<f32>>) {\n"
        f"%v = make_tensor_view %p, shape = [{commas}], strides = [{commas}] "
        f": tensor_view<{ones}f32, strides=[{commas}]>\n}}"
    )


def _hints(count: int) -> str:
    hints = ", ".join(f"sm_{100 + number} = {{occupancy = 1}}" for number in range(count))
    return f"entry @k() optimization_hints=<{hints}> {{ }}"


def _aliases(count: int) -> str:
    chain = "\n".join(f"#l{n + 1} = loc(fused[#l{n}])" for n in range(count))
    return f'{chain}\n#l0 = loc("a":1:1)\n' + _kernel("return")


LONG: dict[str, Callable[[int], str]] = {
    "tile shape": lambda n: _constant("i32: 0", f"tile<{'1x' * n}i32>"),
    "shape too large": lambda n: _constant("i32: 0", f"tile<{'2048x' * n}i32>"),
    "view shape": _view,
    "integer": lambda n: _constant("i32: " + "9" * n, "tile<i32>"),
    "float": lambda n: _constant("f32: 0." + "9" * n, "tile<f32>"),
    "hexadecimal": lambda n: _constant("i32: 0x" + "f" * n, "tile<i32>"),
    "elements": lambda n: _constant(
        f"i32: [{', '.join(['7'] * _power(n))}]", f"tile<{_power(n)}xi32>"
    ),
    "element bytes": lambda n: _constant(f'i8: "0x{"ab" * _power(n)}"', f"tile<{_power(n)}xi8>"),
    "attribute list": lambda n: _kernel(f"return {{a = [{', '.join(['1 : i32'] * n)}]}}"),
    "attribute names": lambda n: _kernel(
        f"return {{{', '.join(f'a{i} = {i} : i32' for i in range(n))}}}"
    ),
    "hints": _hints,
    "string": lambda n: _kernel('%t = print_tko "' + "a" * n + '" -> token'),
    "escapes": lambda n: _kernel('%t = print_tko "' + "\\0A" * n + '" -> token'),
    "symbol": lambda n: f"entry @{'k' * n}() {{ }}",
    "parameters": lambda n: f"entry @k({', '.join(f'%a{i}: tile<i32>' for i in range(n))}) {{ }}",
    "operands": lambda n: _kernel(
        f"%t = make_token : token\n%u = join_tokens {', '.join(['%t'] * n)} : token"
    ),
    "permutation": lambda n: _kernel(
        "%a = constant <i32: 0> : tile<i32>\n"
        f"%b = permute %a [{','.join(['0'] * n)}] : tile<i32> -> tile<i32>"
    ),
    "aliases": _aliases,
    "signs": lambda n: _constant("i32: " + "-" * n + "1", "tile<i32>"),
    "brackets": lambda n: _constant("i32: " + "[" * n + "1" + "]" * n, "tile<i32>"),
    "comment": lambda n: "//" + "x" * n + "\n" + _kernel(""),
    "empty lines": lambda n: "\n" * n + _kernel(""),
    "nul": lambda n: _kernel("\0" * n),
    "percent": lambda n: _kernel("%" * n),
}


def _seconds(text: str, tries_at_most: int = 2, enough: float = 0.0) -> float:
    """Of this process, for reading, checking and printing; the least of some tries, of which one may be enough."""
    tries: list[float] = []
    while len(tries) < tries_at_most and min(tries, default=enough + 1) > enough:
        start = time.process_time()
        try:
            module = parse(text, "long.tileir")
            find_problems(module)
            print_text(module)
        except TileIRError as error:
            assert all(len(d.message) <= 2000 for d in error.diagnostics)
        tries.append(time.process_time() - start)
    return min(tries)


@pytest.mark.parametrize("name", LONG)
def test_time_is_linear(name: str) -> None:
    make = LONG[name]
    # Below a few milliseconds what is measured is the machine.
    most = _MOST * max(_seconds(make(_SMALL)), 0.005)
    assert _seconds(make(_SMALL * _FACTOR), enough=most * 0.99) < most


@pytest.mark.parametrize("name", ["tile shape", "integer", "element bytes"])
def test_hundred_thousand(name: str) -> None:
    assert _seconds(LONG[name](100_000), enough=29) < 30


@pytest.mark.parametrize("depth", [1, 2])
def test_modules_without_a_block(depth: int) -> None:
    text = '"builtin.module"() ({}) : () -> ()'
    if depth == 2:
        text = f'"builtin.module"() ({{ {text}\n{text} }}) : () -> ()'
    module = parse(text)
    find_problems(module)
    assert print_text(parse(print_text(module))) == print_text(module)
