"""The setting in which the ``EXAMPLES`` of operations stand."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

ALIASES = """\
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 4>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, \
l2promo = none, oob = zero, interleave = none>
!desc = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<128x128xf32>>
"""

#: The parameters of the function around an example, with their types.
PARAMETERS: dict[str, str] = {
    "i": "index",
    "j": "index",
    "n": "index",
    "p": "i1",
    "m16": "i16",
    "global": "memref<128x128xf16>",
    "unranked": "memref<*xf16>",
    "shared": "memref<64x64xf16, 3>",
    "big": "memref<128x128xf32, 3>",
    "v": "vector<2x2xf32>",
    "a": "vector<4x2xf16>",
    "b": "vector<2x2xf16>",
    "c": "vector<2x2xf32>",
    "sb": "vector<4x2xf16>",
    "meta": "vector<2xi16>",
    "at": "!nvgpu.device.async.token",
    "mt": "!nvgpu.mbarrier.token",
    "bars": "!bars",
    "map": "!map",
    "descA": "!nvgpu.warpgroup.descriptor<tensor = memref<128x64xf16, 3>>",
    "descB": "!nvgpu.warpgroup.descriptor<tensor = memref<64x128xf16, 3>>",
    "acc": "!acc",
}


def wrap(example: str, extra: Mapping[str, str] | None = None) -> str:
    """A module around an example: the body of a function, or a whole module already.

    ``extra`` gives further parameters of the function, or other types for those that there are.
    """
    if example.startswith(("module", "builtin.module")):
        return ALIASES + example
    parameters = ", ".join(f"%{name}: {ty}" for name, ty in {**PARAMETERS, **(extra or {})}.items())
    return (
        f"{ALIASES}"
        "module {\n"
        f"  func.func @example({parameters}) {{\n"
        f"{indent(example, '    ')}\n"
        "    func.return\n"
        "  }\n"
        "}\n"
    )
