"""Agents and queues in compiled code: what they compute is what they compute on the reference machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.machine.tileaa.agents import CROSSED, WAITER
from tests.machine.tileaa.support import checked, f32, i32, kernel_text, one
from tests.machine.tileaa.support import launch as on_reference

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.diagnostics import TileIRError

Q = "!nv_tileaa.queue<i32>"
P = "!nv_tileaa.ptr<i32, 1>"

Arrays = dict[str, np.ndarray]


def _on_cpu(text: str, *arrays: np.ndarray, grid: int = 1, **options: Any) -> str:
    given = [array if array.ndim else array.reshape(1) for array in arrays]
    program = Program(checked(text), options=LaunchOptions(threads=2, **options))
    return program.launch("k", grid, given).text


def _loop(body: str, count: int, carried: str = "") -> str:
    return (
        "%from = arith.constant 0 : i32\n%by = arith.constant 1 : i32\n"
        f"%count = arith.constant {count} : i32\n"
        f"scf.for %i = %from to %count step %by {carried}: i32 {{\n{body}}}\n"
    )


def _producer(count: int, value: str, ty: str = "i32", queue: str = Q) -> str:
    """An agent that puts ``value``, made of the number %k, into %q."""
    return f"""
nv_tileaa.execute %q {{agent = "producer"}} : {queue} {{
^bb0(%out: {queue}):
  %b = arith.constant 1 : i32
  %f = arith.constant 0 : i32
  %many = arith.constant {count} : i32
  scf.for %k = %f to %many step %b : i32 {{
    {value}
    nv_tileaa.queue.put %out, %v : {queue}, {ty}
  }}
  nv_tileaa.yield
}}
"""


PRINTED = 'nv_tileaa.print %k {format = "put %i;"} : i32\n    %v = arith.addi %k, %k : i32'
TILE_QUEUE = "!nv_tileaa.queue<tile<4x8xf32>, i1>"

PROGRAMS: dict[str, tuple[str, Arrays, str]] = {
    "tiles_through_a_queue": (
        f"""
%q = nv_tileaa.create_queue {{depth = 2}} : {TILE_QUEUE}
nv_tileaa.execute %a, %q {{agent = "producer"}} : tile<4x8xf32>, {TILE_QUEUE} {{
^bb0(%t: !nv_tileaa.tile<4x8xf32>, %out: {TILE_QUEUE}):
  %b = arith.constant 1 : i32
  %f = arith.constant 0 : i32
  %n = arith.constant 6 : i32
  %yes = arith.constant true
  %end = scf.for %k = %f to %n step %b iter_args(%now = %t) -> (!nv_tileaa.tile<4x8xf32>) : i32 {{
    %next = nv_tileaa.addf %now, %t : tile<4x8xf32>
    nv_tileaa.queue.put %out, %next, %yes : {TILE_QUEUE}, tile<4x8xf32>, i1
    scf.yield %next : !nv_tileaa.tile<4x8xf32>
  }}
  nv_tileaa.yield
}}
%from = arith.constant 0 : i32
%by = arith.constant 1 : i32
%count = arith.constant 6 : i32
%r = scf.for %i = %from to %count step %by iter_args(%s = %a) -> (!nv_tileaa.tile<4x8xf32>) : i32 {{
  %v, %w = nv_tileaa.queue.get %q : {TILE_QUEUE} -> tile<4x8xf32>, i1
  %u = nv_tileaa.mulf %v, %v : tile<4x8xf32>
  %next = nv_tileaa.addf %s, %u : tile<4x8xf32>
  %kept = arith.select %w, %next, %s : !nv_tileaa.tile<4x8xf32>
  scf.yield %kept : !nv_tileaa.tile<4x8xf32>
}}
""",
        {"a": np.arange(32, dtype=np.float32).reshape(4, 8), "r": np.zeros((4, 8), np.float32)},
        "",
    ),
    "regions_of_put_and_get": (
        f"""
%q = nv_tileaa.create_queue {{depth = 3}} : !nv_tileaa.queue<tile<4xf32>, i32>
%three = arith.constant 3 : i32
nv_tileaa.queue.put %q : !nv_tileaa.queue<tile<4xf32>, i32> {{
  %double = nv_tileaa.addf %a, %a : tile<4xf32>
  nv_tileaa.queue.yield %double, %three : tile<4xf32>, i32
}}
%r, %s = nv_tileaa.queue.get %q : !nv_tileaa.queue<tile<4xf32>, i32> -> tile<4xf32>, i32 {{
^bb0(%t: !nv_tileaa.tile<4xf32>, %m: i32):
  %sum = nv_tileaa.addf %t, %a : tile<4xf32>
  %more = arith.addi %m, %m : i32
  nv_tileaa.queue.yield %sum, %more : tile<4xf32>, i32
}}
nv_tileaa.store %ptr_n, %s : {P}, i32
""",
        {"a": f32(1, 2, 3, 4), "r": f32(0, 0, 0, 0), "n": one(0, np.int32)},
        "",
    ),
    "a_queue_that_is_chosen": (
        f"""
%c = arith.constant true
%one = arith.constant 1 : i32
%p = nv_tileaa.create_queue {{depth = 1}} : {Q}
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
%s = arith.select %c, %p, %q : {Q}
nv_tileaa.queue.put %s, %one : {Q}, i32
%v = nv_tileaa.queue.get %s {{consumer_index = 2}} : {Q} -> i32
%w = nv_tileaa.queue.get %p {{consumer_index = 1}} : {Q} -> i32
nv_tileaa.print %v, %w {{format = "%i %i"}} : i32, i32
nv_tileaa.queue.put %s, %one : {Q}, i32
""",
        {},
        "",
    ),
    "results_of_agents": (
        """
%r, %s = nv_tileaa.execute %a {agent = "adder"} : tile<4xf32> -> tile<4xf32>, i32 {
^bb0(%t: !nv_tileaa.tile<4xf32>):
  %sum = nv_tileaa.addf %t, %a : tile<4xf32>
  %five = arith.constant 5 : i32
  nv_tileaa.yield %sum, %five : tile<4xf32>, i32
}
nv_tileaa.store %ptr_n, %s : !nv_tileaa.ptr<i32, 1>, i32
""",
        {"a": f32(1, 2, 3, 4), "r": f32(0, 0, 0, 0), "n": one(0, np.int32)},
        "",
    ),
    "an_agent_in_an_agent": (
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.execute %q {{agent = "outer"}} : {Q} {{
^bb0(%out: {Q}):
  %two = arith.constant 2 : i32
  %made = nv_tileaa.execute %two {{agent = "inner"}} : i32 -> i32 {{
  ^bb0(%v: i32):
    nv_tileaa.queue.put %out, %v : {Q}, i32
    %w = arith.addi %v, %v : i32
    nv_tileaa.yield %w : i32
  }}
  nv_tileaa.queue.put %out, %made : {Q}, i32
  nv_tileaa.yield
}}
%x = nv_tileaa.queue.get %q : {Q} -> i32
%y = nv_tileaa.queue.get %q : {Q} -> i32
%ten = arith.constant 10 : i32
%z = arith.muli %x, %ten : i32
%s = arith.addi %z, %y : i32
nv_tileaa.store %ptr_n, %s : {P}, i32
""",
        {"n": one(0, np.int32)},
        "",
    ),
    "agents_in_a_loop_with_a_queue_of_their_own": (
        _loop(
            f"""
  %q = nv_tileaa.create_queue {{depth = 1}} : {Q}
  nv_tileaa.execute %i, %q {{agent = "maker"}} : i32, {Q} {{
  ^bb0(%k: i32, %out: {Q}):
    %sq = arith.muli %k, %k : i32
    nv_tileaa.queue.put %out, %sq : {Q}, i32
    nv_tileaa.queue.put %out, %k : {Q}, i32
    nv_tileaa.yield
  }}
  %x = nv_tileaa.queue.get %q : {Q} -> i32
  %y = nv_tileaa.queue.get %q : {Q} -> i32
  %at = arith.index_castui %i : i32 to index
  %s = arith.addi %x, %y : i32
  nv_tileaa.store %mem_a[%at], %s : !nv_tileaa.memref<8xi32, strides = [1], 1>, i32, index
""",
            8,
        ),
        {"a": np.zeros(8, np.int32)},
        "",
    ),
    "what_an_agent_reads_is_as_it_was_when_it_began": (
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
%t = nv_tileaa.load %ptr_n : {P} -> i32
%r = nv_tileaa.execute %q, %a {{agent = "reader"}} : {Q}, tile<4xf32> -> tile<4xf32> {{
^bb0(%in: {Q}, %u: !nv_tileaa.tile<4xf32>):
  %go = nv_tileaa.queue.get %in : {Q} -> i32
  nv_tileaa.yield %u : tile<4xf32>
}}
%i = arith.constant 0 : index
%b = nv_tileaa.addf %a, %a : tile<4xf32>
nv_tileaa.tiled_store %mem_a[%i], %b
  : !nv_tileaa.memref<4xf32, strides = [1], 1>, tile<4xf32>, index
nv_tileaa.queue.put %q, %t : {Q}, i32
""",
        {"a": f32(1, 2, 3, 4), "n": one(7, np.int32), "r": f32(0, 0, 0, 0)},
        "",
    ),
    "views_and_memrefs_inside": (
        """
%v = nv_tileaa.block_tile %mem_a {tileSizes = array<i64: 4>, dimGroups = [[0]]}
  : !nv_tileaa.memref<16xi32, strides = [1], 1>
  -> !nv_tileaa.tiled_view<4xi32, source = !nv_tileaa.memref<16xi32, strides = [1], 1>>
nv_tileaa.execute : () -> () {
"""
        + _loop(
            """
  %at = arith.index_castui %i : i32 to index
  %t = nv_tileaa.tiled_load %v[%at]
    : !nv_tileaa.tiled_view<4xi32, source = !nv_tileaa.memref<16xi32, strides = [1], 1>>, index
    -> tile<4xi32>
  %u = arith.addi %t, %t : !nv_tileaa.tile<4xi32>
  nv_tileaa.tiled_store %v[%at], %u
    : !nv_tileaa.tiled_view<4xi32, source = !nv_tileaa.memref<16xi32, strides = [1], 1>>,
      tile<4xi32>, index
""",
            4,
        )
        + """
  nv_tileaa.yield
}
""",
        {"a": np.arange(16, dtype=np.int32)},
        "",
    ),
    "prints_come_in_order": (
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
{_producer(3, PRINTED)}
"""
        + _loop(
            f"""
  %x = nv_tileaa.queue.get %q : {Q} -> i32
  nv_tileaa.print %x {{format = "got %i;"}} : i32
""",
            3,
        ),
        {"n": one(0, np.int32)},
        "",
    ),
    "a_function_as_agent_twice": (
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
%one = arith.constant 1 : i32
%two = arith.constant 2 : i32
nv_tileaa.execute %q, %one {{symbol = @feed}} : {Q}, i32
nv_tileaa.execute %q, %two {{symbol = @feed}} : {Q}, i32
%x = nv_tileaa.queue.get %q : {Q} -> i32
%y = nv_tileaa.queue.get %q : {Q} -> i32
%hundred = arith.constant 100 : i32
%z = arith.muli %x, %hundred : i32
%s = arith.addi %z, %y : i32
nv_tileaa.store %ptr_n, %s : {P}, i32
""",
        {"n": one(0, np.int32)},
        f"""
nv_tileaa.func @feed(%q: {Q}, %n: i32) {{
  %m = nv_tileaa.plugin %n {{symbol = @twice}} : i32 -> i32
  nv_tileaa.queue.put %q, %m : {Q}, i32
  nv_tileaa.return
}}
nv_tileaa.func @twice(%x: i32) -> (i32) {{
  %y = arith.addi %x, %x : i32
  nv_tileaa.return %y : i32
}}
""",
    ),
}


@pytest.mark.parametrize("options", [{}, {"checked": True}, {"cpu": "generic"}], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_agents_compute_what_they_do_on_the_reference_machine(name: str, options: dict[str, Any]):
    body, arrays, symbols = PROGRAMS[name]
    inputs = {n: a for n, a in arrays.items() if n != "r"}
    results = {n: a for n, a in arrays.items() if n == "r"}
    text = kernel_text(body, inputs, results, symbols)
    expected, found = ([a.copy() for a in (*inputs.values(), *results.values())] for _ in range(2))
    printed = on_reference(text, *expected).text
    assert _on_cpu(text, *found, **options) == printed
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_every_block_has_agents_of_its_own():
    body = f"""
%x = nv_tileaa.get_program_id {{axis = 0 : i32}} : i32
%q = nv_tileaa.create_queue {{depth = 2}} : {Q}
{_producer(50, "%v = arith.muli %k, %x : i32")}
%from = arith.constant 0 : i32
%by = arith.constant 1 : i32
%count = arith.constant 50 : i32
%r = scf.for %i = %from to %count step %by iter_args(%s = %from) -> (i32) : i32 {{
  %v = nv_tileaa.queue.get %q : {Q} -> i32
  %next = arith.addi %s, %v : i32
  scf.yield %next : i32
}}
%at = arith.index_castui %x : i32 to index
nv_tileaa.store %mem_a[%at], %r : !nv_tileaa.memref<200xi32, strides = [1], 1>, i32, index
"""
    found = np.zeros(200, np.int32)
    _on_cpu(kernel_text(body, {"a": found}, {}), found, grid=200)
    np.testing.assert_array_equal(found, np.arange(200) * (49 * 50 // 2))


def test_a_deadlock_names_everybody_and_where_they_wait():
    text = kernel_text(CROSSED, {}, {})
    with pytest.raises(TileIRError) as expected:
        on_reference(text)
    with pytest.raises(TileIRError) as caught:
        _on_cpu(text)
    (wanted,), (found,) = expected.value.diagnostics, caught.value.diagnostics
    assert found.code == wanted.code == "agent-deadlock"
    assert found.message == wanted.message
    wanted_notes = [note.message for note in wanted.notes if "waits here" in note.message]
    assert [note.message for note in found.notes] == wanted_notes


def test_a_full_queue_that_nobody_empties_is_a_deadlock():
    body = f"%q = nv_tileaa.create_queue {{depth = 2}} : {Q}\n" + (
        f"nv_tileaa.queue.put %q, %n : {Q}, i32\n" * 3
    )
    number = one(1, np.int32)
    with pytest.raises(TileIRError, match="waits for room in a queue of depth 2"):
        _on_cpu(kernel_text(body, {"n": number}, {}), number)


def test_a_queue_without_consumers_is_full_beside_one_that_has_some():
    body = f"""
%other = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.queue.put %other, %n : {Q}, i32
%x = nv_tileaa.queue.get %other {{consumer_index = 3}} : {Q} -> i32
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.queue.put %q, %n : {Q}, i32
nv_tileaa.queue.put %q, %n : {Q}, i32
"""
    number = one(1, np.int32)
    with pytest.raises(TileIRError, match="waits for room in a queue of depth 1"):
        _on_cpu(kernel_text(body, {"n": number}, {}), number)


def test_an_agent_that_waits_for_memory_gives_way():
    arrays = {"f": one(0, np.int32), "r": one(0, np.int32)}
    _on_cpu(kernel_text(WAITER, arrays, {}), *arrays.values())
    assert arrays["r"] == 7


def test_checked_code_checks_agents():
    memref = "!nv_tileaa.memref<4xf32, strides = [1], 1>"
    body = f"""
%big = nv_tileaa.make_memref %ptr_a : (!nv_tileaa.ptr<f32, 1>) -> !nv_tileaa.memref<64xf32, strides = [1], 1>
nv_tileaa.execute %mem_a {{agent = "reader"}} : {memref} {{
^bb0(%m: {memref}):
  %i = arith.constant 40 : index
  %x = nv_tileaa.tiled_load %big[%i] : !nv_tileaa.memref<64xf32, strides = [1], 1>, index -> tile<4xf32>
  %z = arith.constant 0 : index
  nv_tileaa.tiled_store %m[%z], %x : {memref}, tile<4xf32>, index
  nv_tileaa.yield
}}
"""
    array = f32(1, 2, 3, 4)
    with pytest.raises(TileIRError) as caught:
        _on_cpu(kernel_text(body, {"a": array}, {}), array, checked=True)
    assert caught.value.diagnostics[0].code == "cpu-outside-memory"
    assert array.tolist() == [1, 2, 3, 4]


def test_a_run_that_stops_ends_its_agents():
    """A failed check in one launch leaves nothing behind for the next."""
    text = kernel_text(
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
{_producer(4, '%v = nv_tileaa.plugin %k {code = "p"} : i32 -> i32')}
%x = nv_tileaa.queue.get %q : {Q} -> i32
%y = nv_tileaa.queue.get %q : {Q} -> i32
%z = nv_tileaa.queue.get %q : {Q} -> i32
%w = nv_tileaa.queue.get %q : {Q} -> i32
nv_tileaa.store %ptr_n, %w : {P}, i32
""",
        {"n": one(0, np.int32)},
        {},
    )
    fails = True

    def plugin(number: np.ndarray) -> np.ndarray:
        if fails and number == 2:
            raise ValueError("two")
        return number * 3

    program, array = Program(checked(text), options=LaunchOptions(plugins={"p": plugin})), i32(0)
    with pytest.raises(ValueError, match="two"):
        program.launch("k", 1, [array])
    fails = False
    program.launch("k", 1, [array])
    assert array == 9


def test_a_queue_that_an_agent_makes_for_the_next_round_is_refused():
    body = f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
%from = arith.constant 0 : i32
%by = arith.constant 1 : i32
%r = scf.for %i = %from to %n step %by iter_args(%now = %q) -> ({Q}) : i32 {{
  %next = nv_tileaa.execute %now {{agent = "maker"}} : {Q} -> {Q} {{
  ^bb0(%before: {Q}):
    %made = nv_tileaa.create_queue {{depth = 1}} : {Q}
    nv_tileaa.yield %made : {Q}
  }}
  scf.yield %next : {Q}
}}
"""
    number = one(2, np.int32)
    with pytest.raises(TileIRError, match="in a loop that carries it"):
        _on_cpu(kernel_text(body, {"n": number}, {}), number)


def _shown(queue: str, name: str) -> str:
    return (
        f"%{name} = nv_tileaa.queue.get %{queue} : {Q} -> i32\n"
        f'nv_tileaa.print %{name} {{format = "{queue} %i;"}} : i32\n'
    )


NUMBERS = """
%from = arith.constant 0 : i32
%by = arith.constant 1 : i32
%three = arith.constant 3 : i32
%many = arith.constant 7 : i32
"""

#: Each round makes a queue that a later one reads, with the number of the round in it.
NEXT_ROUND = f"""
%q = nv_tileaa.create_queue {{depth = 2}} : {Q}
nv_tileaa.queue.put %q, %many : {Q}, i32
%r = scf.for %i = %from to %many step %by iter_args(%now = %q) -> ({Q}) : i32 {{
  %next = nv_tileaa.create_queue {{depth = 2}} : {Q}
  nv_tileaa.queue.put %next, %i : {Q}, i32
  {_shown("now", "v")}
  scf.yield %next : {Q}
}}
{_shown("r", "w")}
"""

ACROSS_ROUNDS = {
    "the_next_one": NUMBERS + NEXT_ROUND,
    "the_one_after_it": f"""
{NUMBERS}
%p = nv_tileaa.create_queue {{depth = 1}} : {Q}
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.queue.put %p, %many : {Q}, i32
nv_tileaa.queue.put %q, %many : {Q}, i32
%r, %s = scf.for %i = %from to %many step %by
    iter_args(%old = %p, %now = %q) -> ({Q}, {Q}) : i32 {{
  %next = nv_tileaa.create_queue {{depth = 1}} : {Q}
  nv_tileaa.queue.put %next, %i : {Q}, i32
  {_shown("old", "v")}
  scf.yield %now, %next : {Q}, {Q}
}}
{_shown("r", "w")}
{_shown("s", "x")}
""",
    "as_long_as_wanted": f"""
{NUMBERS}
%q = nv_tileaa.create_queue {{depth = 16}} : {Q}
%r = scf.for %i = %from to %many step %by iter_args(%now = %q) -> ({Q}) : i32 {{
  %next = nv_tileaa.create_queue {{depth = 16}} : {Q}
  nv_tileaa.queue.put %next, %i : {Q}, i32
  %early = arith.cmpi slt, %i, %three : i32
  %kept = scf.if %early -> ({Q}) {{
    scf.yield %next : {Q}
  }} else {{
    nv_tileaa.queue.put %now, %i : {Q}, i32
    scf.yield %now : {Q}
  }}
  scf.yield %kept : {Q}
}}
{_shown("r", "w")}
{_shown("r", "x")}
{_shown("r", "y")}
""",
    "in_a_while": f"""
{NUMBERS}
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.queue.put %q, %many : {Q}, i32
%r, %n = scf.while (%now = %q, %i = %from) : ({Q}, i32) -> ({Q}, i32) {{
  %go = arith.cmpi slt, %i, %many : i32
  scf.condition(%go) %now, %i : {Q}, i32
}} do {{
^bb0(%here: {Q}, %k: i32):
  %next = nv_tileaa.create_queue {{depth = 1}} : {Q}
  nv_tileaa.queue.put %next, %k : {Q}, i32
  {_shown("here", "v")}
  %l = arith.addi %k, %by : i32
  scf.yield %next, %l : {Q}, i32
}}
{_shown("r", "w")}
""",
    "in_an_agent": f"""
nv_tileaa.execute {{agent = "chain"}} {{
  {NUMBERS}
  {NEXT_ROUND}
  nv_tileaa.yield
}}
""",
    "in_loops_in_loops": f"""
{NUMBERS}
%p = nv_tileaa.create_queue {{depth = 2}} : {Q}
nv_tileaa.queue.put %p, %many : {Q}, i32
%s = scf.for %j = %from to %three step %by iter_args(%q = %p) -> ({Q}) : i32 {{
  %first = nv_tileaa.create_queue {{depth = 2}} : {Q}
  nv_tileaa.queue.put %first, %j : {Q}, i32
  %r = scf.for %i = %from to %many step %by iter_args(%now = %first) -> ({Q}) : i32 {{
    %next = nv_tileaa.create_queue {{depth = 2}} : {Q}
    nv_tileaa.queue.put %next, %i : {Q}, i32
    {_shown("now", "v")}
    scf.yield %next : {Q}
  }}
  {_shown("q", "w")}
  scf.yield %r : {Q}
}}
{_shown("s", "x")}
""",
}


@pytest.mark.parametrize("body", ACROSS_ROUNDS.values(), ids=ACROSS_ROUNDS)
def test_queues_outlive_the_round_that_makes_them(body: str):
    text = kernel_text(body, {}, {})
    printed = on_reference(text).text
    assert printed
    assert _on_cpu(text) == printed
