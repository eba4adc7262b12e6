"""What tests of the lowering share: lowering a text, and what holds of every result."""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Operation

from tilewright.analysis.verifier import verify
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.source_map import source_of
from tilewright.lowering import Lowered, TileAAOptions, lower_to_tileaa
from tilewright.text import parse, print_text

#: Dialects that may stand in the result.
ALLOWED = frozenset({"builtin", "nv_tileaa", "arith", "math", "scf", "ub"})
#: Operations that touch memory, and so take a token and give one.
ORDERED = frozenset(
    f"nv_tileaa.{name}"
    for name in [
        "load",
        "tiled_load",
        "gather_load",
        "store",
        "tiled_store",
        "scatter_store",
        "atomic_cas",
        "atomic_rmw",
        "tiled_atomic_rmw",
        "print",
        "ext.fence",
        "ext.grid_dependency",
    ]
)


def lower(text: str, target: str = "sm_100") -> Lowered:
    """A text lowered, everything checked that holds of all results."""
    module = parse(text)
    verify(module)
    lowered = lower_to_tileaa(module, TileAAOptions(target))
    check(module, lowered)
    return lowered


def check(source: ModuleOp | builtin.ModuleOp, lowered: Lowered) -> None:
    """The result verifies, is of the level, has tokens and origins, and its text reads back."""
    verify(lowered.module)
    known = set(source.walk())
    for op in lowered.module.walk():
        assert op.name.partition(".")[0] in ALLOWED, op.name
        check_token(op)
        if op is lowered.module and isinstance(source, builtin.ModuleOp):
            continue
        origin = lowered.origins[op]
        assert origin in known
        assert op.location == origin.location
        assert source_of(op) is source_of(origin)
    text = print_text(lowered.module)
    assert print_text(parse(text)) == text


def check_token(op: Operation) -> None:
    if op.name in ORDERED:
        assert sum(isinstance(v.type, T.MemTokenType) for v in op.operands) == 1, op
        assert sum(isinstance(v.type, T.MemTokenType) for v in op.results) == 1, op


def kernel(body: str, parameters: str = "") -> str:
    return f"entry @k({parameters}) {{\n{body}\nreturn\n}}\n"


def lines(lowered: Lowered) -> list[str]:
    """The operations of the lowered text, without indentation."""
    return [line.strip() for line in print_text(lowered.module).splitlines()]


def body(text: str, parameters: str = "", target: str = "sm_100") -> list[str]:
    """What the body of a kernel becomes, without the function around it."""
    found = lines(lower(kernel(text, parameters), target))
    return found[2 : found.index("nv_tileaa.return")]
