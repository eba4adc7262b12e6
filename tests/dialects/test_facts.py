"""Every operation of nv_tileaa, arith and math declares its facts, and who declares none is trusted with
nothing. A new operation fails here by its name until somebody has decided."""

from __future__ import annotations

import ast
from functools import partial

import numpy as np
import pytest
from tests.test_structure import FILES, nodes
from xdsl.dialects import scf, ub
from xdsl.ir import Operation
from xdsl.irdl import VerificationContext, irdl_op_definition
from xdsl.traits import MemoryEffect
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects import arith, cuda_tile, facts, nv_tileaa
from tilewright.dialects.declare import DeclaredOp
from tilewright.dialects.facts import Elements, Ordering, Pointing
from tilewright.dialects.nv_tileaa.base import OPERATIONS, TileAAOp
from tilewright.dialects.nv_tileaa.enums import RoundingModeAttr
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, Load, Store
from tilewright.dialects.nv_tileas.elementwise import is_elementwise
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.text import parse

nv_tileaa.load()
EVERY: dict[str, type[DeclaredOp]] = {
    **{cls.name: cls for cls in OPERATIONS.values()},
    **arith.OPERATIONS,
}

#: Give tiles, but no element of them can be computed where it is read.
WHOLE = frozenset(
    {
        *("dot", "conv_dot", "reduce", "scan", "histogram"),
        *("atomic_cas", "atomic_rmw", "tiled_atomic_rmw", "queue.get"),
        *("optimization_barrier", "pragma"),
        *("call", "execute", "plugin", "inject_ir"),
        *("extern_elementwise", "elementwise_inline_asm", "call_elementwise_intrinsic"),
        *("ext.alloca", "get_global"),
    }
)
#: Give numbers, tokens, queues, or nothing at all.
SCALAR = frozenset(
    {
        *("make_memref", "block_tile", "conv_tile", "get_dim_size"),
        *("get_program_id", "get_num_programs", "is_valid_program_id", "cancel_next_program_id"),
        *("create_queue", "queue.put", "queue.yield", "create_mem_token", "join_mem_token"),
        *("mark_for_reuse", "assert", "message", "print", "store", "tiled_store", "scatter_store"),
        *("ext.fence", "ext.grid_dependency"),
        *("func", "return", "yield", "global", "launch_func"),
    }
)
#: May give pointers of which is not known where they lead: they were kept in memory or come from code.
FROM_ANYWHERE = frozenset(
    {
        *("load", "tiled_load", "gather_load", "atomic_cas", "atomic_rmw", "tiled_atomic_rmw"),
        *("queue.get", "call", "execute", "plugin", "inject_ir"),
        *("extern_elementwise", "elementwise_inline_asm", "call_elementwise_intrinsic"),
        *("generate", "reduce", "scan"),
        "fp_to_fp",  # whose check wants floats where the field does not
    }
)
#: Accesses must not pass these.
BARRIERS = frozenset(
    {
        *("ext.fence", "ext.grid_dependency", "call", "execute", "queue.put", "queue.get"),
        *("plugin", "inject_ir", "launch_func", "extern_elementwise", "elementwise_inline_asm"),
        "call_elementwise_intrinsic",
    }
)


def _blank(cls: type[DeclaredOp]) -> DeclaredOp:
    return cls.__new__(cls)


_SETTING = """
module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32, 1>, %q: tile<8x!nv_tileaa.ptr<f32, 1>>,
                    %r: !nv_tileaa.memref<8xf32, strides = [1], 1>) {
    nv_tileaa.return
  }
}
"""
_FUNCTION = next(op for op in parse(_SETTING).walk() if isinstance(op, FuncOp))
POINTING = tuple(argument.type for argument in _FUNCTION.body.block.args)


@pytest.mark.parametrize("name", EVERY)
def test_where_elements_come_from_is_declared(name: str) -> None:
    cls = EVERY[name]
    known = cls.ELEMENTS is not Elements.UNKNOWN
    assert known != (cls.mnemonic() in WHOLE | SCALAR), f"{name} declares no ELEMENTS"
    assert known == (cls.COST is not None), f"{name} needs a COST where elements are computed"
    assert (cls.ELEMENTS is Elements.READ) == issubclass(cls, Load)


def test_exceptions_are_operations() -> None:
    for exceptions in (WHOLE, SCALAR, FROM_ANYWHERE, BARRIERS):
        assert exceptions <= set(OPERATIONS), exceptions - set(OPERATIONS)
    assert not WHOLE & SCALAR


@pytest.mark.parametrize("name", EVERY)
def test_element_wise_operations_have_a_meaning(name: str) -> None:
    cls = EVERY[name]
    if cls.MEANING:
        assert cls.MEANING in {*ELEMENTWISE, "clampf"}
        assert cls.ELEMENTS is Elements.SAME_POSITION
    elif cls.ELEMENTS is Elements.SAME_POSITION:
        assert cls.mnemonic() == "assume"


def _may_point(cls: type[TileAAOp]) -> bool:
    """Whether a result can be a pointer, a memref or a view, as the fields have it."""
    for _, definition in cls.get_irdl_definition().results:
        for ty in POINTING:
            try:
                definition.constr.verify((ty,), VerificationContext())
            except VerifyException:
                continue
            return True
    return False


@pytest.mark.parametrize("name", OPERATIONS)
def test_where_results_point_is_declared(name: str) -> None:
    """Whatever copies elements copies pointers, too."""
    cls = OPERATIONS[name]
    copies = cls.ELEMENTS in (Elements.RESHAPED, Elements.MOVED) or name in ("splat", "assume")
    if copies:
        assert cls.POINTS is Pointing.OPERANDS, f"{name} copies elements, but declares no POINTS"
    elif _may_point(cls) and name not in FROM_ANYWHERE:
        assert cls.POINTS is not Pointing.ANYWHERE, f"{name} declares no POINTS"


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_may_pass_is_declared(name: str) -> None:
    cls = OPERATIONS[name]
    found = facts.ordering(_blank(cls))
    expected = (
        Ordering.ACCESS
        if issubclass(cls, Access)
        else Ordering.BARRIER
        if name in BARRIERS
        else Ordering.NONE
    )
    assert found is expected, f"{name} is {found.name}"
    if found is Ordering.NONE and cls.ORDERING is None:
        assert any(isinstance(t, MemoryEffect) for t in cls.traits) or name in ("yield", "return")


def test_what_declares_nothing_is_trusted_with_nothing() -> None:
    @irdl_op_definition
    class New(TileAAOp):
        name = "nv_tileaa.new"

    for op in (_blank(New), scf.ExecuteRegionOp.__new__(scf.ExecuteRegionOp)):
        assert facts.elements(op) is Elements.UNKNOWN
        assert facts.points(op) is Pointing.ANYWHERE
        assert facts.ordering(op) is Ordering.BARRIER
        assert not facts.meaning(op)
        assert not is_elementwise(op)
        with pytest.raises(ValueError, match=op.name):
            facts.cost(op)


@pytest.mark.parametrize("cls", [scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, ub.PoisonOp])
def test_control_flow_speaks_through_its_regions(cls: type[Operation]) -> None:
    assert facts.ordering(cls.__new__(cls)) is Ordering.NONE


def test_calls_are_barriers() -> None:
    called = {name for name, cls in OPERATIONS.items() if cls.CALLS}
    assert called == {"call", "execute", "plugin", "inject_ir", "launch_func"}
    assert called < BARRIERS
    assert all(facts.runs_elsewhere(_blank(OPERATIONS[name])) for name in ("inject_ir", "call"))
    others = [cls for name, cls in OPERATIONS.items() if name not in called]
    assert not any(facts.runs_elsewhere(_blank(cls)) for cls in others)


def test_no_string_outside_the_dialects_names_an_operation() -> None:
    """Who wants to know something of an operation asks its class, so that what is renamed or new is
    found by the type checker and by the tests above."""
    cuda_tile.load()
    names = {*EVERY} - set(arith.OPERATIONS)
    found = [
        f"{name}:{node.lineno}: {node.value}"
        for name in FILES
        if not name.startswith("dialects/")
        for node in nodes(name)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value in names or node.value == "nv_tileaa.")
    ]
    assert not found, "\n".join(found)


def test_no_one_outside_the_dialects_reads_the_semantic_of_an_access() -> None:
    """``Access.semantic`` knows what is meant where none is written, and ``is_weak`` of ``volatile``."""
    found = [
        f"{name}:{node.lineno}"
        for name in FILES
        if not name.startswith("dialects/")
        for node in nodes(name)
        if isinstance(node, ast.Call)
        and any(
            isinstance(each, ast.Constant) and each.value == "mem_semantic" for each in node.args
        )
    ]
    assert not found


def test_accesses_write_but_for_loads() -> None:
    """A launch takes from these facts through what an operation writes (``launching.accesses``)."""
    accesses = [cls for cls in OPERATIONS.values() if cls.ORDERING is Ordering.ACCESS]
    writers = {cls.name for cls in accesses if cls.ELEMENTS is not Elements.READ}
    assert writers == {cls.name for cls in OPERATIONS.values() if issubclass(cls, Store | Atomic)}


def _with_neutral() -> list[type[DeclaredOp]]:
    names = ("NEUTRAL", "RIGHT_NEUTRAL")
    return [cls for cls in EVERY.values() if any(hasattr(cls, name) for name in names)]


@pytest.mark.parametrize("cls", _with_neutral(), ids=lambda cls: cls.name)
def test_neutral_numbers_change_nothing(cls: type[DeclaredOp]) -> None:
    """By the function that computes the operation, for every i8 or f16, and from each side that is declared."""
    is_float = cls.name.split(".")[1].strip("_") in ("addf", "mulf") or cls.name.endswith("f")
    element = "f16" if is_float else "i8"
    types = f"tile<4x{element}>"
    op = _only(f'%r = "{cls.name}"(%x, %y) : ({types}, {types}) -> {types}', types, cls)
    every = np.arange(1 << FORMATS[element].bits).astype(f"u{FORMATS[element].bits // 8}")
    values = every.view(dtype_of(element))
    modes = (
        {"": "nearest_even", **getattr(cls, "NEUTRAL_BY_ROUNDING", {})} if is_float else {"": ""}
    )
    for mode in modes:
        if mode:
            op.properties["rounding_mode"] = RoundingModeAttr.of(mode)
        keywords = {"rounding": mode} if mode else dict(getattr(cls, "KEYWORDS", {}))
        call = partial(ELEMENTWISE[facts.meaning(op)], element=element, **keywords)
        number = facts.right_neutral(op, FORMATS[element].bits)
        assert number is not None
        other = np.full_like(values, np.array(number).astype(values.dtype))
        assert _same(call(values, other), values)
        both = facts.neutral(op, FORMATS[element].bits)
        assert (both is None) == hasattr(cls, "RIGHT_NEUTRAL")
        if both is not None:
            assert _same(call(other, values), values)


def test_what_is_not_declared_has_no_neutral_number() -> None:
    op = _only(
        '%r = "arith.remsi"(%x, %y) : (tile<4xi8>, tile<4xi8>) -> tile<4xi8>',
        "tile<4xi8>",
        arith.RemSIOp,
    )
    assert facts.neutral(op, 8) is None and facts.right_neutral(op, 8) is None


def _only(line: str, types: str, cls: type[DeclaredOp]) -> Operation:
    module = parse(
        f"nv_tileaa.func @f(%x: {types}, %y: {types}) {{\n  {line}\n  nv_tileaa.return\n}}"
    )
    return next(op for op in module.walk() if isinstance(op, cls))


def _same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Bit for bit, but for which NaN it is."""
    nan = np.isnan(wanted) if wanted.dtype.kind == "f" else np.zeros(wanted.shape, np.bool_)
    assert wanted.dtype.kind != "f" or np.isnan(found[nan]).all()
    return found[~nan].tobytes() == wanted[~nan].tobytes()


_POINTER = "!nv_tileaa.ptr<f32, 1>"


@pytest.mark.parametrize(
    "order", ["", "mem_semantic = weak", "mem_semantic = relaxed, mem_scope = gpu"]
)
@pytest.mark.parametrize("volatile", ["", "volatile", "volatile = true", "volatile = false"])
def test_weak_accesses(order: str, volatile: str) -> None:
    """A load or store is weak unless it says more, and a flag that is false says nothing; an atomic never is."""
    said = f"{{{', '.join(filter(None, (order, volatile)))}}}" if order or volatile else ""
    module = parse(f"""
        nv_tileaa.func @f(%p: {_POINTER}, %x: f32) attributes {{kernel}} {{
          %r = nv_tileaa.load %p {said} : {_POINTER} -> f32
          nv_tileaa.store %p, %r {said} : {_POINTER}, f32
          %a = nv_tileaa.atomic_rmw %p, %x {{rmw_mode = addf}} : {_POINTER}, f32 -> f32
          nv_tileaa.return
        }}""")
    accesses = [op for op in module.walk() if isinstance(op, Access)]
    weak = "relaxed" not in order and volatile in ("", "volatile = false")
    assert [op.is_weak for op in accesses] == [weak, weak, False]
    assert [op.semantic for op in accesses] == [
        *["relaxed" if "relaxed" in order else "weak"] * 2,
        "relaxed",
    ]
