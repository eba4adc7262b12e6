"""Loops of two products of which the second one takes what becomes of the sums of the first: attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


def _partition(rows: int, columns: int, element: str = "f16") -> str:
    return (
        f"partition_view<tile=({rows}x{columns}), padding_value = zero, "
        f"tensor_view<?x?x{element}, strides=[?,1]>>"
    )


_MAX, _ADD = "maxf", "addf"


def _reduced(result: str, value: str, how: str, identity: str, m: int, n: int) -> str:
    return f"""
    %{result}1 = reduce %{value} dim=1 identities=[{identity} : f32] : tile<{m}x{n}xf32> -> tile<{m}xf32>
    (%x1: tile<f32>, %y1: tile<f32>) {{
      %z1 = {how} %x1, %y1 : tile<f32>
      yield %z1 : tile<f32>
    }}
    %{result} = reshape %{result}1 : tile<{m}xf32> -> tile<{m}x1xf32>
"""


@dataclass(frozen=True, slots=True)
class Loop:
    """Rows ``m``, keys ``n`` and columns ``size`` of tiles. ``masked``: the sums of the last iteration are halved, in a branch.
    ``nested``: twice, one after the other. ``scaled``: the sums are multiplied first. ``biased``: to them the keys as they are
    loaded are added, of tiles of 64 x 64."""

    m: int = 64
    n: int = 64
    size: int = 64
    masked: bool = False
    nested: bool = False
    scaled: bool = True
    biased: bool = False
    #: What stands instead of the second product.
    second: str = ""

    def text(self) -> str:
        """The kernel; its loop goes from ``%first`` to ``%steps``."""
        m, n, size = self.m, self.n, self.size
        sums, few, out = (f"tile<{m}x{x}xf32>" for x in (n, 1, size))
        keys = f"tile<{n}x{size}xf16>"
        current = "s"
        middle = f"    %s = mmaf %query, %kt, %none : tile<{m}x{size}xf16>, tile<{size}x{n}xf16>, {sums}\n"
        if self.scaled:
            middle += f"    %t = mulf %s, %half : {sums}\n"
            current = "t"
        if self.biased:
            assert m == n == size
            middle += f"""
    %near, %t3 = load_view_tko weak %kt_[%j, %zero] : {_partition(n, size)}, tile<i32> -> {keys}, token
    %bias = ftof %near : {keys} -> {sums}
    %biased = addf %{current}, %bias : {sums}
"""
            current = "biased"
        if self.masked:
            middle += f"""
    %next = addi %j, %one : tile<i32>
    %last = cmpi equal %next, %steps, signed : tile<i32> -> tile<i1>
    %u = if %last -> ({sums}) {{
      %w = mulf %{current}, %half : {sums}
      yield %w : {sums}
    }} else {{
      yield %{current} : {sums}
    }}
"""
            current = "u"
        middle += _reduced("max", current, _MAX, "-1.0e+30", m, n)
        middle += f"""
    %higher = maxf %top, %max : {few}
    %wide_top = broadcast %higher : {few} -> {sums}
    %less = subf %{current}, %wide_top : {sums}
    %power = exp2 %less : {sums}
    %down = subf %top, %higher : {few}
    %shrink = exp2 %down : {few}
"""
        middle += _reduced("parts", "power", _ADD, "0.0", m, n)
        second = self.second or f"mmaf %p, %values, %shrunk : tile<{m}x{n}xf16>, {keys}, {out}"
        carried = f"({few}, {few}, {out})"
        loop = f"""
  %{{0}}:3 = for %j in (%first to %steps, step %one) : tile<i32> iter_values(%top = %{{1}}, %total = %{{2}}, %acc = %{{3}}) -> {carried} {{{{
    %key, %t1 = load_view_tko weak %kt_[%j, %zero] : {_partition(n, size)}, tile<i32> -> {keys}, token
    %kt = permute %key [1, 0] : {keys} -> tile<{size}x{n}xf16>
{middle.replace("{", "{{").replace("}", "}}")}
    %old = mulf %total, %shrink : {few}
    %sum = addf %old, %parts : {few}
    %p = ftof %power : {sums} -> tile<{m}x{n}xf16>
    %values, %t2 = load_view_tko weak %vt[%j, %zero] : {_partition(n, size)}, tile<i32> -> {keys}, token
    %wide_shrink = broadcast %shrink : {few} -> {out}
    %shrunk = mulf %acc, %wide_shrink : {out}
    %made = {second}
    continue %higher, %sum, %made : {few}, {few}, {out}
  }}}}
"""
        body = loop.format("end", "lowest", "empty", "nothing")
        if self.nested:
            inner = loop.format("part", "o1", "o2", "o3")
            body = f"""
  %end:3 = for %outer in (%zero to %two, step %one) : tile<i32> iter_values(%o1 = %lowest, %o2 = %empty, %o3 = %nothing) -> {carried} {{
{inner}
    continue %part#0, %part#1, %part#2 : {few}, {few}, {out}
  }}
"""
        views = "".join(
            f"  %{name}p = assume div_by<16>, %{name} : tile<ptr<{ty}>>\n"
            f"  %{name}v = make_tensor_view %{name}p, shape = [%{rows}, %columns], strides = [%wide, 1] : tile<i32> -> "
            f"tensor_view<?x?x{ty}, strides=[?,1]>\n"
            for name, ty, rows in (("q", "f16", "rows"), ("k", "f16", "keys"), ("v", "f16", "keys"), ("o", "f32", "rows"))
        )  # fmt: skip
        return f"""
entry @k(%q: tile<ptr<f16>>, %k: tile<ptr<f16>>, %v: tile<ptr<f16>>, %o: tile<ptr<f32>>, %rows: tile<i32>, %keys: tile<i32>, %columns: tile<i32>, %width: tile<i32>, %first: tile<i32>, %steps: tile<i32>) {{
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %wide = assume div_by<8>, %width : tile<i32>
  %b, %b1, %b2 = get_tile_block_id : tile<i32>
  %none = constant <f32: 0.0> : {sums}
  %half = constant <f32: 0.5> : {sums}
  %nothing = constant <f32: 0.0> : {out}
  %lowest = constant <f32: -1.0e+30> : {few}
  %empty = constant <f32: 0.0> : {few}
{views}
  %qt = make_partition_view %qv : {_partition(m, size)}
  %kt_ = make_partition_view %kv : {_partition(n, size)}
  %vt = make_partition_view %vv : {_partition(n, size)}
  %ot = make_partition_view %ov : {_partition(m, size, "f32")}
  %query, %t0 = load_view_tko weak %qt[%b, %zero] : {_partition(m, size)}, tile<i32> -> tile<{m}x{size}xf16>, token
{body}
  %all = broadcast %end#1 : {few} -> {out}
  %mean = divf %end#2, %all : {out}
  %done = store_view_tko weak %mean, %ot[%b, %zero] : {out}, {_partition(m, size, "f32")}, tile<i32> -> token
  return
}}
"""

    def launch(self, program: Any, rounds: int, first: int = 0, **options: Any) -> tuple[Any, Any]:
        """What the kernel computes in ``rounds`` rounds from ``first`` on, and what it should, in float64."""
        rng = np.random.default_rng(5)
        rows, keys = 2 * self.m, self.n * max(first + rounds, 1)
        width = self.size
        q, k, v = (
            rng.integers(-3, 4, (count, width)).astype(np.float16) / 4
            for count in (rows, keys, keys)
        )
        out = np.full((rows, width), 7, np.float32)
        steps = first + rounds
        program.launch("k", 2, [q, k, v, out, rows, keys, width, width, first, steps], **options)
        return out, self._expected(q, k, v, first, steps)

    def _expected(self, q: Any, k: Any, v: Any, first: int, steps: int) -> Any:
        given = slice(first * self.n, steps * self.n)
        left, keys, values = (array.astype(np.float64) for array in (q, k[given], v[given]))
        scores = left @ keys.T * (0.5 if self.scaled else 1.0)
        if self.biased:
            for at in range(0, len(keys), self.n):
                scores[:, at : at + self.n] += np.concatenate([keys[at : at + self.n]] * 2)
        if self.masked:
            scores[:, -self.n :] *= 0.5
        power = np.exp2(scores - scores.max(1, keepdims=True, initial=-1e30))
        with np.errstate(invalid="ignore"):
            return power @ values / power.sum(1, keepdims=True)
