"""The examples of every operation run, in a kernel that makes what they take."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute

import tilewright.machine.tileaa  # noqa: F401  (fills the table of what is refused)
from tilewright import LaunchOptions
from tilewright.analysis.verifier import verify
from tilewright.dialects import arith, nv_tileaa
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.dialects.nv_tileaa.examples import PARAMETERS, wrap
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.launching.modules import kernels_of
from tilewright.launching.value_types import is_pointer, pointee_in, tile_like
from tilewright.machine import Program
from tilewright.machine.compile import REFUSED
from tilewright.numerics.arrays import dtype_of
from tilewright.text import parse

nv_tileaa.load()

MEMREF = "!nv_tileaa.memref<?x?xf32, 1>"
#: How the kernel makes each parameter that it does not take itself.
MADE = {
    "i": "arith.constant 0 : index",
    "j": "arith.constant {j} : index",
    "lanes": "nv_tileaa.make_range {{start = 0, end = 8}} : tile<8xindex>",
    "ps": "nv_tileaa.addptr %p32, %lanes : !nv_tileaa.ptr<f32, 1>, tile<8xindex> "
    "-> tile<8x!nv_tileaa.ptr<f32, 1>>",
    "mr": "nv_tileaa.make_memref %p32, %side, %side, %side, %step : (!nv_tileaa.ptr<f32, 1>, "
    "index, index, index, index) -> " + MEMREF,
    "view": "nv_tileaa.block_tile %mr {{tileSizes = array<i64: 8, 16>, dimGroups = [[0], [1]]}} : "
    + MEMREF
    + " -> "
    + PARAMETERS["view"],
    "t": "nv_tileaa.create_mem_token : !nv_tileaa.mem_token",
    "q": "nv_tileaa.create_queue {{depth = 4}} : " + PARAMETERS["q"],
}
#: %j where an example needs another one than 0.
NUMBERS = {"nv_tileaa.make_range": 8, "nv_tileaa.make_memref": 1, "arith.ceildivui": 1}


def _unchanged(*arrays: np.ndarray) -> np.ndarray | None:
    return arrays[0].copy() if arrays else None


PLUGINS = dict.fromkeys(
    ("__nv_erff", "brev.b32 $0, $1;", "llvm.ctpop", "fast_softmax", "nvvm.barrier0", "// $0", "k"),
    _unchanged,
)


def _with_caller(text: str, j: int) -> str:
    taken = {name: ty for name, ty in PARAMETERS.items() if name not in MADE}
    lines = "%side = arith.constant 64 : index\n%step = arith.constant 1 : index\n"
    lines += "".join(f"%{name} = {MADE[name].format(j=j)}\n" for name in PARAMETERS if name in MADE)
    # What an example gets from the queue must have been put there.
    lines += f"nv_tileaa.queue.put %q, %f, %n : {PARAMETERS['q']}, tile<8xf32>, i32\n"
    header = text.partition("@example(")[2].partition(")")[0]
    given = {name: ty for name, ty in PARAMETERS.items() if f"%{name}: " in header}
    names = ", ".join(f"%{name}" for name in given)
    types = ", ".join(given.values())
    lines += f"nv_tileaa.call @example({names}) : {types or '()'} -> ()\n"
    parameters = ", ".join(f"%{name}: {ty}" for name, ty in taken.items())
    kernel = (
        f"nv_tileaa.func @caller({parameters}) attributes {{kernel}} {{\n{indent(lines, '  ')}"
        "  nv_tileaa.return\n}\n"
    )
    head, _, _ = text.rpartition("}")
    return f"{head}{indent(kernel, '  ')}}}\n"


def _argument(ty: Attribute) -> object:
    held = tile_like(ty)
    assert held is not None, ty
    if is_pointer(held):
        return np.ones(64 * 64, dtype_of(pointee_in(held)))
    return np.ones(held.dims, dtype_of(held.element)) if held.rank else 1


EXAMPLES = [
    pytest.param(cls, example, id=f"{cls.name}-{number}")
    for cls in (*OPERATIONS.values(), *arith.OPERATIONS.values())
    for number, example in enumerate(cls.EXAMPLES)
    if cls not in REFUSED
]


@pytest.mark.parametrize(("cls", "example"), EXAMPLES)
def test_example_runs(cls: type, example: str):
    text = wrap(example, 100)
    if text is not example and not text.startswith("module"):
        text = _with_caller(text, NUMBERS.get(cls.name, 0))
    module = parse(text)
    for op in module.walk():
        # An example of a function on its own is a kernel for this test.
        if text is example and isinstance(op, FuncOp) and not op.signature.outputs.data:
            op.properties["kernel"] = UnitAttr()
    verify(module)
    program = Program(module, options=LaunchOptions(plugins=PLUGINS))
    for kernel in kernels_of(program.module):
        arguments = [_argument(ty) for ty in kernel.function_type.inputs.data]
        program.launch(kernel.symbol, 2, arguments, options=LaunchOptions(check_asserts=False))
