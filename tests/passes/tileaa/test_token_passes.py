"""Passes that change token order and memory accesses, and the guard that watches them."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.analysis.tileaa.reading import Read, read
from xdsl.dialects.builtin import ModuleOp

from tilewright.analysis.tileaa import TokenGraph
from tilewright.analysis.verifier import verify
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import StoreOp
from tilewright.passes import PASSES, TilePass, run_pipeline
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.forward_memory import ForwardMemory
from tilewright.passes.tileaa.order_guard import (
    EFFECT_INVENTED,
    MARK,
    TOKEN_ORDER_LOST,
    OrderGuard,
)
from tilewright.passes.tileaa.relax import RelaxTokens
from tilewright.passes.tileaa.tokens import set_token
from tilewright.text import parse

PTR = "!nv_tileaa.ptr<f32, 1>"
TOKEN = "!nv_tileaa.mem_token"
LOAD = f"{PTR}, {TOKEN} -> f32, {TOKEN}"
STORE = f"{PTR}, f32, {TOKEN} -> {TOKEN}"
START = f"%t0 = nv_tileaa.create_mem_token : {TOKEN}\n"


def run(found: Read, rewrite: TilePass) -> TokenGraph:
    """Run a pass under the guard; the token graph afterwards."""
    module = found.function.parent_op()
    assert module is not None
    guard = OrderGuard.watch(module)
    rewrite.apply_to(module)
    problems = guard.problems()
    guard.release()
    assert not problems, problems
    verify(module)
    return TokenGraph.of(found.function)


def test_reads_need_no_order_among_themselves() -> None:
    found = read(
        START
        + f"""
    %a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}
    %b, %t2 = nv_tileaa.load %q, %t1 : {LOAD}
    %c, %t3 = nv_tileaa.load %p, %t2 : {LOAD}
    %t4 = nv_tileaa.store %q, %c, %t3 : {STORE}
    """
    )
    graph = run(found, RelaxTokens())
    loads = [found.op("load", n) for n in range(3)]
    assert all(not graph.before(load) for load in loads)
    assert graph.before(found.op("store")) == set(loads)


def test_order_that_matters_stays() -> None:
    found = read(
        START
        + f"""
    %a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}
    %t2 = nv_tileaa.store %q, %a, %t1 : {STORE}
    %b, %t3 = nv_tileaa.load %p, %t2 : {LOAD}
    """
    )
    graph = run(found, RelaxTokens())
    # The arguments may overlap, so the store stays between the loads.
    assert graph.before(found.op("load", 1)) == {found.op("load", 0), found.op("store")}


def test_accesses_to_distinct_globals_are_apart() -> None:
    found = read(
        START
        + f"""
    %g = nv_tileaa.get_global @table : {PTR}
    %h = nv_tileaa.get_global @other : {PTR}
    %a, %t1 = nv_tileaa.load %g, %t0 : {LOAD}
    %t2 = nv_tileaa.store %h, %a, %t1 : {STORE}
    %t3 = nv_tileaa.store %g, %a, %t2 : {STORE}
    """
    )
    graph = run(found, RelaxTokens())
    assert not graph.before(found.op("store", 0))
    assert graph.before(found.op("store", 1)) == {found.op("load")}


def test_synchronising_effects_keep_their_place() -> None:
    found = read(
        START
        + f"""
    %g = nv_tileaa.get_global @table : {PTR}
    %h = nv_tileaa.get_global @other : {PTR}
    %c = arith.constant 1.0 : f32
    %t1 = nv_tileaa.store %g, %c, %t0 : {STORE}
    %t2 = nv_tileaa.store %h, %c, %t1 {{mem_semantic = release, mem_scope = gpu}} : {STORE}
    %a, %t3 = nv_tileaa.load %g, %t2 : {LOAD}
    """
    )
    graph = run(found, RelaxTokens())
    assert graph.before(found.op("store", 1)) == {found.op("store", 0)}
    assert found.op("store", 1) in graph.before(found.op("load"))


LOOP = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%end = scf.for %i = %c0 to %n step %c1 iter_args(%t = %t0) -> ({token}) : i32 {{
  %a, %t1 = nv_tileaa.load %p, %t : {load}
  %b, %t2 = nv_tileaa.load %q, %t1 : {load}
  {inner}
}}
%s = arith.constant 1.0 : f32
%last = nv_tileaa.store %p, %s, %end : {store}
"""


def test_loads_of_iterations_are_apart() -> None:
    inner = f"scf.yield %t2 : {TOKEN}"
    found = read(START + LOOP.format(token=TOKEN, load=LOAD, store=STORE, inner=inner))
    graph = run(found, RelaxTokens())
    first, second = found.op("load", 0), found.op("load", 1)
    assert not graph.before(first) and not graph.before(second)
    assert graph.before(found.op("store")) == {first, second}


def test_a_store_in_the_loop_keeps_iterations_in_order() -> None:
    inner = f"%t3 = nv_tileaa.store %p, %b, %t2 : {STORE}\nscf.yield %t3 : {TOKEN}"
    found = read(START + LOOP.format(token=TOKEN, load=LOAD, store=STORE, inner=inner))
    graph = run(found, RelaxTokens())
    first, store = found.op("load", 0), found.op("store", 0)
    assert graph.ordered(store, first, around=True)
    assert not graph.ordered(first, found.op("load", 1))


def test_the_guard_sees_lost_order_and_invented_effects() -> None:
    found = read(
        START
        + f"""
    %a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}
    %t2 = nv_tileaa.store %q, %a, %t1 : {STORE}
    """
    )
    module = found.function.parent_op()
    assert module is not None
    guard = OrderGuard.watch(module)
    assert guard.problems() == []
    set_token(found.op("store"), found.value("t0"))
    assert [d.code for d in guard.problems()] == [TOKEN_ORDER_LOST]
    set_token(found.op("store"), found.value("t1"))
    del found.op("load").attributes[MARK]
    assert EFFECT_INVENTED in [d.code for d in guard.problems()]


class LoosensStores(TileAAPass):
    """A pass with a bug: stores wait for nothing."""

    name: ClassVar[str] = "loosens-stores"

    def rewrite_function(self, function: FuncOp) -> None:
        start = next(op for op in function.walk() if isinstance(op, CreateMemTokenOp))
        for op in function.walk():
            if isinstance(op, StoreOp):
                set_token(op, start.result)


@pytest.mark.parametrize("verify_each", [False, True])
def test_verify_each_guards_the_order(verify_each: bool) -> None:
    found = read(
        START + f"%a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}\n"
        f"%t2 = nv_tileaa.store %q, %a, %t1 : {STORE}"
    )
    module = found.function.parent_op()
    assert isinstance(module, ModuleOp)
    run_pipeline(module, "relax-tokens,tileaa-licm", verify_each=verify_each)
    if not verify_each:
        run_pipeline(module, [LoosensStores()])
        return
    with pytest.raises(TileIRError) as caught:
        run_pipeline(module, [LoosensStores()], verify_each=True)
    (bug,) = caught.value.diagnostics
    assert bug.code == "pass-broke-module"
    assert "'loosens-stores' the module has lost an order of memory effects" in bug.message
    assert [note.message.partition("]")[0] for note in bug.notes] == [f"[{TOKEN_ORDER_LOST}"]
    assert not any(MARK in op.attributes for op in module.walk())


def forwards(body: str) -> int:
    """How many loads are left after ``forward-memory``."""
    found = read(START + body)
    run(found, ForwardMemory())
    return sum(op.name == "nv_tileaa.load" for op in found.function.walk())


FORWARD = [
    (f"%t1 = nv_tileaa.store %p, %c, %t0 : {STORE}\n%a, %t2 = nv_tileaa.load %p, %t1 : {LOAD}", 0),
    (f"%a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}\n%b, %t2 = nv_tileaa.load %p, %t1 : {LOAD}", 1),
    # Not ordered: the load may come first.
    (f"%t1 = nv_tileaa.store %p, %c, %t0 : {STORE}\n%a, %t2 = nv_tileaa.load %p, %t0 : {LOAD}", 1),
    # Another pointer may be the same memory.
    (
        f"%t1 = nv_tileaa.store %p, %c, %t0 : {STORE}\n%t2 = nv_tileaa.store %q, %d, %t1 : {STORE}\n"
        f"%a, %t3 = nv_tileaa.load %p, %t2 : {LOAD}",
        1,
    ),
    # Another block may write behind an acquire.
    (
        f"%t1 = nv_tileaa.store %p, %c, %t0 : {STORE}\n"
        f"%e, %t2 = nv_tileaa.load %q, %t1 {{mem_semantic = acquire, mem_scope = gpu}} : {LOAD}\n"
        f"%a, %t3 = nv_tileaa.load %p, %t2 : {LOAD}",
        2,
    ),
    # A volatile load stays.
    (
        f"%t1 = nv_tileaa.store %p, %c, %t0 : {STORE}\n"
        f"%a, %t2 = nv_tileaa.load %p, %t1 {{volatile}} : {LOAD}",
        1,
    ),
]


@pytest.mark.parametrize(("body", "left"), FORWARD, ids=range(len(FORWARD)))
def test_forwarding(body: str, left: int) -> None:
    constants = "%c = arith.constant 1.0 : f32\n%d = arith.constant 2.0 : f32\n"
    assert forwards(constants + body) == left


@pytest.mark.parametrize("name", ["relax-tokens", "forward-memory"])
def test_the_wrong_level_is_named(name: str) -> None:
    module = parse("cuda_tile.module @m { entry @f() { return } }")
    with pytest.raises(TileIRError, match="found no nv_tileaa operation"):
        PASSES[name]().apply_to(module)
