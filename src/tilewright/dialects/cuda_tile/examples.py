"""The setting in which the ``EXAMPLES`` of operations stand."""

from __future__ import annotations

from textwrap import indent

#: The parameters of the kernel around an example, with their types. Examples run without undefined
#: behaviour where each pointer points at ``ELEMENTS`` zeros and ``%n`` is ``N``, in one tile block.
PARAMETERS: dict[str, str] = {
    "pf32": "tile<ptr<f32>>",
    "pf16": "tile<ptr<f16>>",
    "pi32": "tile<ptr<i32>>",
    "pi8": "tile<ptr<i8>>",
    "n": "tile<i32>",
}
ELEMENTS = 4096
N = 8

_GLOBALS = """\
  global private constant @table <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
  global @counter <i32: 0> : tile<1xi32>
"""


def wrap(example: str) -> str:
    """A module around an example: the body of a kernel, or a whole module already."""
    if example.startswith("cuda_tile.module"):
        return example
    parameters = ", ".join(f"%{name}: {ty}" for name, ty in PARAMETERS.items())
    return (
        "cuda_tile.module @examples {\n"
        f"{_GLOBALS}"
        f"  entry @example({parameters}) {{\n"
        f"{indent(example, '    ')}\n"
        "    return\n"
        "  }\n"
        "}\n"
    )
