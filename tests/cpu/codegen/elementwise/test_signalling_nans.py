"""NaN that signals is as any other NaN to the larger and the smaller of two numbers, on every way to compute
them: AVX512's instruction gives a NaN for it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright import LaunchOptions, run
from tilewright.text import parse

COUNT = 64
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
#: For each type a NaN that signals, one more with its sign set, a quiet one.
BITS = {
    "f16": (0x7C01, 0xFD00, 0x7E00), "bf16": (0x7F81, 0xFFA0, 0x7FC0),
    "f32": (0x7F800001, 0xFFA00000, 0x7FC00000), "f64": (0x7FF << 52 | 1, 0xFFF << 52 | 5, 0x7FF8 << 48),
}  # fmt: skip
FORMS = {
    "with a constant": "%c = constant <{e}: 2.0> : {t}\n%r = {op} %v, %c{flags} : {t}",
    "behind a constant": "%c = constant <{e}: -1.0> : {t}\n%r = {op} %c, %v{flags} : {t}",
    "with a constant that signals": "%c = constant <{e}: {nan}> : {t}\n%m = absf %v : {t}\n%r = {op} %m, %c{flags} : {t}",
    "with itself turned": "%m = negf %v : {t}\n%r = {op} %m, %v{flags} : {t}",
    "twice": "%c = constant <{e}: 2.0> : {t}\n%m = {op} %v, %c{flags} : {t}\n%r = {op} %v, %m{flags} : {t}",
    "by one": "%c = constant <{e}: 1.0> : {t}\n%m = mulf %v, %c : {t}\n%z = constant <{e}: 3.0> : {t}\n%r = {op} %m, %z{flags} : {t}",
    "behind its own": "%m = {op} %v, %v{flags} : {t}\n%c = constant <{e}: 1.5> : {t}\n%w = mulf %v, %c : {t}\n%r = {op} %m, %w{flags} : {t}",
    "before its own": "%m = {op} %v, %v{flags} : {t}\n%c = constant <{e}: 1.5> : {t}\n%w = mulf %v, %c : {t}\n%r = {op} %w, %m{flags} : {t}",
    "in a loop": """%c = constant <{e}: 1.5> : {t}
%w = mulf %v, %c : {t}
%n = constant <i32: 1> : tile<i32>
%begin = constant <{e}: 0.25> : {t}
%r, %other = for %i in (%zero to %three, step %n) : tile<i32> iter_values(%acc = %begin, %next = %v) -> ({t}, {t}) {{
  %p0 = {op} %acc, %w{flags} : {t}
  %p1 = {op} %p0, %next{flags} : {t}
  %p2 = {op} %next, %w{flags} : {t}
  continue %p1, %p2 : {t}, {t}
}}""",
    "of a row": """%rows = reshape %v : {t} -> tile<4x16x{e}>
%least = reduce %rows dim=1 identities=[{first} : {e}] : tile<4x16x{e}> -> tile<4x{e}>
(%a: tile<{e}>, %b: tile<{e}>) {{ %s = {op} %a, %b{flags} : tile<{e}> yield %s : tile<{e}> }}
%one = reshape %least : tile<4x{e}> -> tile<4x1x{e}>
%wide = broadcast %one : tile<4x1x{e}> -> tile<4x16x{e}>
%r = reshape %wide : tile<4x16x{e}> -> {t}""",
    "up to each": """%r = scan %v dim=0 reverse=false identities=[{first} : {e}] : {t} -> {t}
(%a: tile<{e}>, %b: tile<{e}>) {{ %s = {op} %a, %b{flags} : tile<{e}> yield %s : tile<{e}> }}""",
}  # fmt: skip


#: What takes the larger or the smaller of two numbers.
WAYS = [(op, flags) for op in ("maxf", "minf") for flags in ("", " propagate_nan")]


def kernel(element: str, form: str) -> str:
    """A kernel with a row of the result for each of ``WAYS``."""
    pointers = f"tile<{COUNT}xptr<{element}>>"
    bits = BITS[element][0]
    bodies: list[str] = []
    for number, (op, flags) in enumerate(WAYS):
        body = FORMS[form].format(
            e=element, t=f"tile<{COUNT}x{element}>", op=op, flags=flags, nan=hex(bits), first="0.0"
        )
        # Each in a branch of its own, whose names are its own.
        bodies.append(f"""%n{number} = constant <i32: {number * COUNT}> : tile<i32>
      %go{number} = cmpi greater_than_or_equal %n{number}, %zero, signed : tile<i32> -> tile<i1>
      if %go{number} {{
        {body}
        %y1 = offset %y, %n{number} : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>
        %y2 = reshape %y1 : tile<ptr<{element}>> -> tile<1xptr<{element}>>
        %ys = broadcast %y2 : tile<1xptr<{element}>> -> {pointers}
        %q = offset %ys, %at : {pointers}, tile<{COUNT}xi32> -> {pointers}
        %s1 = store_ptr_tko weak %q, %r : {pointers}, tile<{COUNT}x{element}> -> token
        yield
      }}""")
    return f"""entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>) {{
      %zero = constant <i32: 0> : tile<i32>
      %three = constant <i32: 3> : tile<i32>
      %at = iota : tile<{COUNT}xi32>
      %x1 = reshape %x : tile<ptr<{element}>> -> tile<1xptr<{element}>>
      %xs = broadcast %x1 : tile<1xptr<{element}>> -> {pointers}
      %p = offset %xs, %at : {pointers}, tile<{COUNT}xi32> -> {pointers}
      %v, %t = load_ptr_tko weak %p : {pointers} -> tile<{COUNT}x{element}>, token
      {"".join(bodies)}
      return }}"""


def given(element: str) -> np.ndarray:
    """Numbers, NaN of each kind between them, and a row of nothing but NaN that signals."""
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal(COUNT).astype(TYPES[element])
    nans = np.array(BITS[element], f"u{numbers.itemsize}").view(TYPES[element])
    mixed = np.where(rng.random(COUNT) < 0.4, rng.choice(nans, COUNT), numbers)
    mixed[16:32] = nans[0]
    return mixed


@pytest.mark.rotates(4)
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", TYPES)
def test_a_nan_that_signals_is_as_any_other(element: str, form: str) -> None:
    module = parse(kernel(element, form))
    found = {}
    for machine, options in (
        ("reference", LaunchOptions()),
        ("cpu", LaunchOptions()),
        ("cpu", LaunchOptions(cpu="generic")),
        ("sim:sm_90a", LaunchOptions()),
    ):
        result = np.zeros((len(WAYS), COUNT), TYPES[element])
        run(module, "k", 1, [given(element), result], machine, options)
        found[machine, options.cpu] = result
    expected = found.pop(("reference", "host"))
    numbers = expected.astype(np.float64)
    assert (numbers[0] != numbers[2]).any()
    # The first one of a scan is what it was, whose bits nobody promises.
    kind = np.float64 if form == "up to each" else None
    for machine, result in found.items():
        for way, row, right in zip(WAYS, result, expected, strict=True):
            both = [
                each.astype(kind) if kind else each.view(f"u{each.itemsize}")
                for each in (row, right)
            ]
            np.testing.assert_array_equal(*both, f"{way} on {machine}")
