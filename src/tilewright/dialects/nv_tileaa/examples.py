"""The setting in which the ``EXAMPLES`` of operations stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import indent

#: The parameters of the function around an example, with their types.
PARAMETERS: dict[str, str] = {
    "n": "i32",
    "m": "i64",
    "i": "index",
    "j": "index",
    "x": "f32",
    "c": "i1",
    "p32": "!nv_tileaa.ptr<f32, 1>",
    "p16": "!nv_tileaa.ptr<f16, 1>",
    "pi": "!nv_tileaa.ptr<i32, 1>",
    "f": "tile<8xf32>",
    "g": "tile<8xf32>",
    "k": "tile<8xi32>",
    "mask": "tile<8xi1>",
    "lanes": "tile<8xindex>",
    "a": "tile<16x32xf16>",
    "b": "tile<32x8xf16>",
    "acc": "tile<16x8xf32>",
    "ps": "tile<8x!nv_tileaa.ptr<f32, 1>>",
    "mr": "!nv_tileaa.memref<?x?xf32, 1>",
    "view": "!nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>",
    "tile": "tile<8x16xf32>",
    "t": "!nv_tileaa.mem_token",
    "q": "!nv_tileaa.queue<tile<8xf32>, i32>",
}

_SYMBOLS = """\
  nv_tileaa.global @table {value = array<f32: 1.0, 2.0>} : !nv_tileaa.memref<2xf32, 1>
  nv_tileaa.func @twice(%v: i32) -> (i32) {
    nv_tileaa.return %v : i32
  }
"""

_VALUE = re.compile(r"%(\w+)")


def wrap(example: str, capability: int = 90, extra: Mapping[str, str] | None = None) -> str:
    """A module around an example: the body of a function, or a whole module already.

    The function has the parameters that the body uses; ``extra`` gives further ones.
    """
    if example.startswith(("module", "builtin.module")):
        return example
    used = set(_VALUE.findall(example))
    known = {**PARAMETERS, **(extra or {})}
    parameters = ", ".join(f"%{name}: {ty}" for name, ty in known.items() if name in used)
    return (
        f"builtin.module attributes {{nv_tileaa.compute_capability = {capability} : i32}} {{\n"
        f"{_SYMBOLS}"
        f"  nv_tileaa.func @example({parameters}) {{\n"
        f"{indent(example, '    ')}\n"
        "    nv_tileaa.return\n"
        "  }\n"
        "}\n"
    )
