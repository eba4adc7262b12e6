"""Agents, queues between them, and what is reported when none of them can go on."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.tileaa.agents import CROSSED, WAITER
from tests.machine.tileaa.support import f32, i32, kernel_text, launch, one

from tilewright.diagnostics import TileIRError

Q = "!nv_tileaa.queue<i32>"
SEEDS = range(8)


def _loop(body: str, count: str = "%n") -> str:
    return (
        "%one = arith.constant 1 : i32\n%first = arith.constant 0 : i32\n"
        f"scf.for %i = %first to {count} step %one : i32 {{\n{body}}}\n"
    )


def _run(body: str, *arrays: tuple[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    named = {name: array.copy() for name, array in arrays}
    launch(kernel_text(body, named, {}), *named.values(), seed=seed)
    return named


PRODUCER = f"""
nv_tileaa.execute %n, %q {{agent = "producer"}} : i32, {Q} {{
^bb0(%count: i32, %out: {Q}):
  %by = arith.constant 1 : i32
  %from = arith.constant 0 : i32
  scf.for %k = %from to %count step %by : i32 {{
    %square = arith.muli %k, %k : i32
    nv_tileaa.queue.put %out, %square : {Q}, i32
  }}
  nv_tileaa.yield
}}
"""

MEM = "!nv_tileaa.memref<16xi32, strides = [1], 1>"
TAKE = f"""
  %v = nv_tileaa.queue.get %q {{consumer_index = %INDEX}} : {Q} -> i32
  %at = arith.index_castui %i : i32 to index
  nv_tileaa.store %mem_%OUT[%at], %v : {MEM}, i32, index
"""


def _take(index: int, out: str) -> str:
    return TAKE.replace("%INDEX", str(index)).replace("%OUT", out)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("depth", [1, 3, 100])
def test_a_producer_feeds_the_block_in_order(seed: int, depth: int):
    body = f"%q = nv_tileaa.create_queue {{depth = {depth}}} : {Q}\n" + PRODUCER
    body += _loop(_take(0, "a"))
    found = _run(body, ("a", np.zeros(16, np.int32)), ("n", one(16, np.int32)), seed=seed)
    assert found["a"].tolist() == [i * i for i in range(16)]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_consumer_gets_every_tuple_once(seed: int):
    consumers = "".join(
        f"""
nv_tileaa.execute {{agent = "consumer {index}"}} : () -> () {{
{_loop(_take(index, out))}
  nv_tileaa.yield
}}
"""
        for index, out in enumerate("ab")
    )
    body = f"%q = nv_tileaa.create_queue {{depth = 2}} : {Q}\n" + consumers + PRODUCER
    arrays = [(name, np.zeros(16, np.int32)) for name in "ab"]
    found = _run(body, *arrays, ("n", one(16, np.int32)), seed=seed)
    for name in "ab":
        assert found[name].tolist() == [i * i for i in range(16)]


@pytest.mark.parametrize("seed", SEEDS)
def test_agents_with_one_index_share_the_tuples(seed: int):
    half = one(8, np.int32)
    consumer = f"""
nv_tileaa.execute : () -> () {{
{_loop(_take(5, "%"), "%half")}
  nv_tileaa.yield
}}
"""
    body = f"%q = nv_tileaa.create_queue {{depth = 2}} : {Q}\n" + PRODUCER
    body += consumer.replace("mem_%", "mem_a") + consumer.replace("mem_%", "mem_b")
    arrays = [(name, np.zeros(16, np.int32)) for name in "ab"]
    found = _run(body, *arrays, ("n", one(16, np.int32)), ("half", half), seed=seed)
    shared = [*found["a"][:8].tolist(), *found["b"][:8].tolist()]
    assert sorted(shared) == [i * i for i in range(16)]
    for name in "ab":
        assert sorted(found[name][:8].tolist()) == found[name][:8].tolist()


def test_seeds_change_who_runs_first():
    body = f"""
nv_tileaa.execute : () -> () {{
  nv_tileaa.print {{format = "a"}}
  %x = nv_tileaa.load %ptr_n : !nv_tileaa.ptr<i32, 1> -> i32
  nv_tileaa.print {{format = "b"}}
  nv_tileaa.yield
}}
%y = nv_tileaa.load %ptr_n : !nv_tileaa.ptr<i32, 1> -> i32
nv_tileaa.print {{format = "c"}}
%unused = nv_tileaa.create_queue {{depth = 1}} : {Q}
"""
    text = kernel_text(body, {"n": one(1, np.int32)}, {})
    texts = [launch(text, one(1, np.int32), seed=seed).text for seed in range(20)]
    assert texts[0] == "abc"
    assert len(set(texts)) > 1
    assert texts == [launch(text, one(1, np.int32), seed=seed).text for seed in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_result_is_waited_for_where_it_is_used(seed: int):
    body = f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
%sum = nv_tileaa.execute %q {{agent = "adder"}} : {Q} -> i32 {{
^bb0(%in: {Q}):
  %x = nv_tileaa.queue.get %in : {Q} -> i32
  %y = nv_tileaa.queue.get %in : {Q} -> i32
  %s = arith.addi %x, %y : i32
  nv_tileaa.yield %s : i32
}}
nv_tileaa.queue.put %q, %n : {Q}, i32
nv_tileaa.queue.put %q, %n : {Q}, i32
%twice = arith.addi %sum, %sum : i32
nv_tileaa.store %ptr_r, %twice : !nv_tileaa.ptr<i32, 1>, i32
"""
    found = _run(body, ("n", one(10, np.int32)), ("r", one(0, np.int32)), seed=seed)
    assert found["r"] == 40


def test_agents_started_in_a_loop_end_with_their_iteration():
    body = _loop(
        """
  nv_tileaa.execute %i : i32 {
  ^bb0(%k: i32):
    %old = nv_tileaa.load %ptr_r : !nv_tileaa.ptr<i32, 1> -> i32
    %ten = arith.constant 10 : i32
    %shifted = arith.muli %old, %ten : i32
    %new = arith.addi %shifted, %k : i32
    nv_tileaa.store %ptr_r, %new : !nv_tileaa.ptr<i32, 1>, i32
    nv_tileaa.yield
  }
"""
    )
    for seed in SEEDS:
        found = _run(body, ("n", one(5, np.int32)), ("r", one(0, np.int32)), seed=seed)
        assert found["r"] == 1234


def test_a_function_may_be_an_agent():
    symbols = f"""
nv_tileaa.func @feed(%q: {Q}, %n: i32) {{
  nv_tileaa.queue.put %q, %n : {Q}, i32
  nv_tileaa.call @feed_again(%q, %n) : {Q}, i32
  nv_tileaa.return
}}
nv_tileaa.func @feed_again(%q: {Q}, %n: i32) {{
  nv_tileaa.queue.put %q, %n : {Q}, i32
  nv_tileaa.return
}}
"""
    body = f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.execute %q, %n {{symbol = @feed}} : {Q}, i32
%x = nv_tileaa.queue.get %q : {Q} -> i32
%y = nv_tileaa.queue.get %q : {Q} -> i32
%r = arith.addi %x, %y : i32
"""
    arrays = {"n": one(4, np.int32)}
    result = one(0, np.int32)
    launch(kernel_text(body, arrays, {"r": result}, symbols), arrays["n"], result)
    assert result == 8


def test_alloca_of_an_agent_ends_with_it():
    pointer = "!nv_tileaa.ptr<i32, 1>"
    body = f"""
%p = nv_tileaa.execute %n {{agent = "maker"}} : i32 -> {pointer} {{
^bb0(%v: i32):
  %m = nv_tileaa.ext.alloca {{num_elem = 1 : i64, alignment = 4 : i64}} : {pointer}
  nv_tileaa.store %m, %v : {pointer}, i32
  nv_tileaa.yield %m : {pointer}
}}
%r = nv_tileaa.load %p : {pointer} -> i32
"""
    with pytest.raises(TileIRError) as caught:
        launch(
            kernel_text(body, {"n": one(1, np.int32)}, {"r": one(0, np.int32)}),
            one(1, np.int32),
            one(0, np.int32),
        )
    assert caught.value.diagnostics[0].code == "freed-memory"


def test_tile_blocks_with_agents_wait_for_one_another():
    """Block 0 waits, in an agent, for a flag that block 1 sets."""
    pointer = "!nv_tileaa.ptr<i32, 1>"
    body = f"""
%x = nv_tileaa.get_program_id {{axis = 0 : i32}} : i32
%none = arith.constant 0 : i32
%first = arith.cmpi eq, %x, %none : i32
scf.if %first {{
  nv_tileaa.execute {{agent = "waiter"}} : () -> () {{
    %seen = scf.while (%v = %none) : (i32) -> (i32) {{
      %flag = nv_tileaa.load %ptr_f {{mem_semantic = acquire, mem_scope = gpu}} : {pointer} -> i32
      %go = arith.cmpi eq, %flag, %none : i32
      scf.condition(%go) %flag : i32
    }} do {{
    ^bb0(%v: i32):
      scf.yield %v : i32
    }}
    nv_tileaa.store %ptr_r, %seen : {pointer}, i32
    nv_tileaa.yield
  }}
}} else {{
  %seven = arith.constant 7 : i32
  nv_tileaa.store %ptr_f, %seven {{mem_semantic = release, mem_scope = gpu}} : {pointer}, i32
}}
"""
    for seed in SEEDS:
        flag, result = one(0, np.int32), one(0, np.int32)
        text = kernel_text(body, {"f": flag, "r": result}, {})
        launch(text, flag, result, grid=2, seed=seed)
        assert result == 7


def test_an_agent_may_wait_for_memory_that_its_own_block_writes():
    """Nothing says that it waits, so it has to give way by itself."""
    for seed in SEEDS:
        found = _run(WAITER, ("f", one(0, np.int32)), ("r", one(0, np.int32)), seed=seed)
        assert found["r"] == 7


class TestDeadlock:
    def test_names_everybody_and_what_they_wait_for(self):
        for seed in SEEDS:
            with pytest.raises(TileIRError) as caught:
                launch(kernel_text(CROSSED, {}, {}), seed=seed)
            (found,) = caught.value.diagnostics
            assert found.code == "agent-deadlock"
            assert (
                "agent 'left' waits for a tuple for consumer 3 of an empty queue" in found.message
            )
            assert "agent 'right' waits for a tuple for consumer 0 of an empty" in found.message
            assert "the tile block waits for the end of agent 'left'" in found.message
            assert len([note for note in found.notes if "waits here" in note.message]) == 3

    def test_a_queue_that_nobody_empties(self):
        body = f"""
%q = nv_tileaa.create_queue {{depth = 2}} : {Q}
nv_tileaa.queue.put %q, %n : {Q}, i32
nv_tileaa.queue.put %q, %n : {Q}, i32
nv_tileaa.queue.put %q, %n : {Q}, i32
"""
        with pytest.raises(TileIRError, match="waits for room in a queue of depth 2"):
            _run(body, ("n", one(1, np.int32)))

    def test_faults_in_agents_tell_which(self):
        body = """
nv_tileaa.execute %mem_a {agent = "reader"} : !nv_tileaa.memref<4xf32, strides = [1], 1> {
^bb0(%m: !nv_tileaa.memref<4xf32, strides = [1], 1>):
  %i = arith.constant 4 : index
  %x = nv_tileaa.load %m[%i] : !nv_tileaa.memref<4xf32, strides = [1], 1>, index -> f32
  nv_tileaa.yield
}
"""
        with pytest.raises(TileIRError) as caught:
            _run(body, ("a", f32(1, 2, 3, 4)))
        (found,) = caught.value.diagnostics
        assert found.code == "outside-index-space"
        assert "in agent 'reader'" in [note.message for note in found.notes]


def test_long_streams_are_no_deadlock():
    """Many moves of a queue without a change of memory are progress."""
    body = f"%q = nv_tileaa.create_queue {{depth = 1}} : {Q}\n" + PRODUCER
    body += f"""
%one = arith.constant 1 : i32
%first = arith.constant 0 : i32
%r = scf.for %i = %first to %n step %one iter_args(%sum = %first) -> (i32) : i32 {{
  %v = nv_tileaa.queue.get %q : {Q} -> i32
  %f = nv_tileaa.load %ptr_n {{mem_semantic = acquire, mem_scope = gpu}}
    : !nv_tileaa.ptr<i32, 1> -> i32
  %next = arith.addi %sum, %v : i32
  scf.yield %next : i32
}}
nv_tileaa.store %ptr_s, %r : !nv_tileaa.ptr<i32, 1>, i32
"""
    for seed in (0, 1):
        found = _run(body, ("n", one(1200, np.int32)), ("s", i32(0).reshape(())), seed=seed)
        assert found["s"] == sum(i * i for i in range(1200))
