"""Passes that change token order and memory accesses, and the guard that watches them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import pytest
from tests.analysis.tileaa.reading import Read, read
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.analysis.tileaa import TokenGraph
from tilewright.analysis.verifier import verify
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import StoreOp
from tilewright.passes import PASSES, TilePass, run_pipeline
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.cleanup import TileAALoopInvariantCodeMotion
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


def test_a_memref_made_in_a_loop_lies_elsewhere_in_each_iteration() -> None:
    """The load of the first tile must wait for the store to the second, one iteration ago."""
    memref = "!nv_tileaa.memref<8xf32, strides = [1], 1>"
    view = f"!nv_tileaa.tiled_view<4xf32, source = {memref}>"
    make = (
        f"%m = nv_tileaa.make_memref %{{}} : ({PTR}) -> {memref}\n"
        f"%b = nv_tileaa.block_tile %m {{{{tileSizes = array<i64: 4>, dimGroups = [[0]]}}}} : {memref} -> {view}\n"
    )
    text = (
        START
        + """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    {before}
    %end = scf.for %i = %c0 to %x step %c1 iter_args(%t = %t0) -> ({token}) {{
      %here = nv_tileaa.addptr %p, %i : {ptr}, index -> {ptr}
      {inside}
      %v, %t1 = nv_tileaa.tiled_load %b[%c0], %t : {view}, index, {token} -> tile<4xf32>, {token}
      %t2 = nv_tileaa.tiled_store %b[%c1], %v, %t1
        : {view}, tile<4xf32>, index, {token} -> {token}
      scf.yield %t2 : {token}
    }}
    """
    )
    for before, inside, needed in ((make.format("p"), "", False), ("", make.format("here"), True)):
        found = read(text.format(before=before, inside=inside, token=TOKEN, ptr=PTR, view=view))
        graph = run(found, RelaxTokens())
        load, store = found.op("tiled_load"), found.op("tiled_store")
        assert graph.ordered(store, load, around=True) is needed


@pytest.mark.parametrize("waits", [True, False])
def test_code_in_execute_may_write(waits: bool) -> None:
    """What waits for an ``execute`` waits for all that its region does."""
    token = "%t2" if waits else "%t1"
    found = read(
        START
        + f"""
    %c = arith.constant 1.0 : f32
    %t1 = nv_tileaa.store %p, %c, %t0 : {STORE}
    %t2 = nv_tileaa.execute %p, %t1 : {PTR}, {TOKEN} -> {TOKEN} {{
    ^bb0(%pp: {PTR}, %tt: {TOKEN}):
      %d = arith.constant 2.0 : f32
      %t3 = nv_tileaa.store %pp, %d, %tt : {STORE}
      nv_tileaa.yield %t3 : {TOKEN}
    }}
    %a, %t4 = nv_tileaa.load %p, {token} : {LOAD}
    %t5 = nv_tileaa.store %q, %a, %t4 : {STORE}
    """
    )
    run(found, ForwardMemory())
    graph = run(found, RelaxTokens())
    loads = [op for op in found.function.walk() if op.name == "nv_tileaa.load"]
    assert len(loads) == (1 if waits else 0)
    execute, inside = found.op("execute"), found.op("store", 1)
    assert graph.ordered(found.op("store", 0), inside)
    assert all(graph.ordered(execute, load) for load in loads)


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
    assert "'loosens-stores' the module lacks an ordering of memory effects" in bug.message
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


def test_forwarding_over_loops() -> None:
    """A loop in between disturbs if it may write, wherever in its body that stands."""
    loop = """
    %c = arith.constant 1.0 : f32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %t1 = nv_tileaa.store %p, %c, %t0 : {store}
    %t4:2 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %t1, %u = %t1) -> ({token}, {token}) : i32 {{
      %a, %s1 = nv_tileaa.load %p, %s : {load}
      {inner}
      scf.yield %s1, %u1 : {token}, {token}
    }}
    %both = nv_tileaa.join_mem_token %t4#0, %t4#1 : {token}, {token} -> {token}
    %b, %t5 = nv_tileaa.load %p, %both : {load}
    """
    for inner, left in (
        (f"%e, %u1 = nv_tileaa.load %q, %u : {LOAD}", 2),
        (f"%u1 = nv_tileaa.store %q, %c, %u : {STORE}", 2),
    ):
        assert forwards(loop.format(store=STORE, load=LOAD, token=TOKEN, inner=inner)) == left


def test_forwarding_looks_at_a_bounded_number_of_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def counted(graph: TokenGraph, op: Operation) -> Mapping[Operation, Collection[bool]]:
        nonlocal steps
        steps += 1
        return direct(graph, op)

    direct = TokenGraph.direct
    monkeypatch.setattr(TokenGraph, "direct", counted)
    count = 600
    body = "".join(
        f"%k{n} = arith.constant {n} : i32\n%p{n} = nv_tileaa.addptr %p, %k{n} : {PTR}, i32 -> {PTR}\n"
        f"%v{n}, %t{n + 1} = nv_tileaa.load %p{n}, %t{n} : {LOAD}\n"
        for n in range(count)
    )
    found = read(START + body)
    ForwardMemory().apply_to(found.function)
    assert count < steps <= count * 129


@pytest.mark.parametrize("name", ["relax-tokens", "forward-memory"])
def test_the_wrong_level_is_named(name: str) -> None:
    module = parse("cuda_tile.module @m { entry @f() { return } }")
    with pytest.raises(TileIRError, match="found no nv_tileaa operation"):
        PASSES[name]().apply_to(module)


@pytest.mark.parametrize(
    ("made", "moves"),
    [
        ("%r = nv_tileaa.make_range {start = 0, end = 8} : tile<8xi32>", True),
        ("%r = nv_tileaa.make_range %n, %m : i32, i32 -> tile<8xi32>", False),
        ("%r = nv_tileaa.splat %n : i32 -> tile<8xi32>", True),
        (
            "%k = nv_tileaa.get_program_id {axis = 0 : i32} : i32\n%r = nv_tileaa.splat %k : i32 -> tile<8xi32>",
            True,
        ),
        (
            "%k = nv_tileaa.get_program_id %w {axis = 0 : i32} : !nv_tileaa.program_id -> i32\n"
            "%r = nv_tileaa.splat %k : i32 -> tile<8xi32>",
            False,
        ),
    ],
)
def test_a_loop_that_never_runs_does_nothing_undefined(made: str, moves: bool) -> None:
    """What can be undefined stays in the loop: it may run no time at all."""
    found = read(
        f"""%w = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        scf.for %i = %zero to %n step %one : i32 {{
          {made}
          nv_tileaa.optimization_barrier %r : tile<8xi32>
        }}""",
        arguments="%n: i32, %m: i32",
    )
    run(found, TileAALoopInvariantCodeMotion())
    loop = next(op for op in found.function.walk() if op.name == "scf.for")
    assert len(list(loop.regions[0].block.ops)) - 2 == (0 if moves else made.count("= nv_tileaa"))
