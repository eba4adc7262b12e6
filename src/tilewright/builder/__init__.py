"""Write kernels in Python, without text.

    module = ModuleBuilder("kernels")
    with module.entry("scale", {"x": ptr("f32"), "n": "i32"}) as k:
        view = k.make_tensor_view(k.args.x, shape=[k.args.n], strides=[1])
        tiles = k.partition(view, tile=(128,), padding="zero")
        bx, _, _ = k.get_tile_block_id()
        value, token = k.load_view_tko(tiles, [bx])
        k.store_view_tko(value * 2.0, tiles, [bx], token=token)
    text = tilewright.print_text(module.build())

Every operation is a method named by its mnemonic (``assert_``, ``break_``, ``continue_``,
``return_``, ``yield_`` and ``global_``, since Python reserves these words). Operands are in the order
of the operation's text; a Python number or NumPy array becomes a constant of its neighbours' type.
Properties are keyword arguments, with enumerations by their spelling; loads and stores are ``weak``
by default. Result types are computed if the operation determines them; otherwise pass ``to=`` (an
element type), ``shape=`` or ``type=``. Values have operators. Structure is written ``with k.for_(...)``
and ``with k.if_(...)``. Every call is checked immediately. See ``docs/builder.md``.
"""

from __future__ import annotations

from tilewright.builder.errors import BuilderError
from tilewright.builder.kernel import Builder
from tilewright.builder.module import ModuleBuilder
from tilewright.builder.result_types import element, ptr, tile
from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile.attributes import AssumePredicateAttr

__all__ = [
    "AssumePredicateAttr",
    "Builder",
    "BuilderError",
    "ModuleBuilder",
    "Value",
    "element",
    "ptr",
    "tile",
]
