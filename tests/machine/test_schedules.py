"""Schedules that differ where it matters: locks in opposite orders, and blocks that cannot begin."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import pytest
from tests.machine.kernels import checked
from tests.machine.test_scheduling import CHAIN, LOCKED_INCREMENT

from tilewright import run
from tilewright.cli.run_script import _parser
from tilewright.cli.sanitize import add_arguments
from tilewright.diagnostics import TileIRError
from tilewright.launching.options import SANITIZER_SEEDS, LaunchOptions
from tilewright.machine.sanitize import sanitize


def take(name: str, lock: str, token: str) -> str:
    return f"""
      %{name} = loop : token {{
        %{name}_old, %{name}_t = atomic_cas_tko acq_rel device %{lock}, %zero, %one token=%{token}
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        %{name}_won = cmpi equal %{name}_old, %zero, signed : tile<i32> -> tile<i1>
        if %{name}_won {{ break %{name}_t : token }}
      }}"""


def take_ticket(name: str, lock: str, token: str) -> str:
    """A lock of two counters: the next ticket, and whose turn it is."""
    return f"""
      %{name}_mine, %{name}_t0 = atomic_rmw_tko relaxed device %{lock}, add, %one token=%{token}
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %{name}_turns = offset %{lock}, %eight : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %{name} = loop : token {{
        %{name}_turn, %{name}_t = load_ptr_tko acquire device %{name}_turns token=%{name}_t0
          : tile<ptr<i32>> -> tile<i32>, token
        %{name}_won = cmpi equal %{name}_turn, %{name}_mine, signed : tile<i32> -> tile<i1>
        if %{name}_won {{ break %{name}_t : token }}
      }}"""


def give_back(name: str, lock: str, token: str, by: str) -> str:
    if by == "store":
        return f"""
      %{name} = store_ptr_tko release device %{lock}, %zero token=%{token}
        : tile<ptr<i32>>, tile<i32> -> token"""
    if by == "turn":
        return f"""
      %{name}_turns = offset %{lock}, %eight : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %{name}_old, %{name} = atomic_rmw_tko release device %{name}_turns, add, %one token=%{token}
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""
    return f"""
      %{name}_old, %{name} = atomic_rmw_tko acq_rel device %{lock}, xchg, %zero token=%{token}
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""


def locks_kernel(setup: str, *, tickets: bool, by: str, ahead: int = 0):
    """Takes the locks %first and %second, counts, and gives them back.

    ``ahead``: how many counters even blocks add to before.
    """
    taking = take_ticket if tickets else take
    counting = "".join(
        f"""
          %c{n}, %ct{n} = atomic_rmw_tko acq_rel device %counter, add, %one
            : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""
        for n in range(ahead)
    )
    return checked(f"""entry @k(%locks: tile<ptr<i32>>, %sum: tile<ptr<i32>>) {{
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %eight = constant <i32: 8> : tile<i32>
      %counter_at = constant <i32: 16> : tile<i32>
      %x, %y, %z = get_tile_block_id : tile<i32>
      %n, %ny, %nz = get_num_tile_blocks : tile<i32>
      %counter = offset %locks, %counter_at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %parity = remi %x, %two unsigned : tile<i32>
      %even = cmpi equal %parity, %zero, signed : tile<i32> -> tile<i1>
      if %even {{ {counting}
      }}
      {setup}
      %first = offset %locks, %a : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %second = offset %locks, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %start = make_token : token
      {taking("outer", "first", "start")}
      {taking("inner", "second", "outer")}
      %v, %t1 = load_ptr_tko weak %sum token=%inner : tile<ptr<i32>> -> tile<i32>, token
      %w = addi %v, %one : tile<i32>
      %t2 = store_ptr_tko weak %sum, %w token=%t1 : tile<ptr<i32>>, tile<i32> -> token
      {give_back("t3", "second", "t2", by)}
      {give_back("t4", "first", "t3", by)}
      return
    }}""")


#: Odd blocks take lock 1 first, even ones lock 0.
OPPOSITE = """%a = addi %parity, %zero : tile<i32>
      %b = subi %one, %parity : tile<i32>"""
#: Each block takes the lock of its own number and that of the next one, around the circle.
CIRCLE = """%a = addi %x, %zero : tile<i32>
      %up = addi %x, %one : tile<i32>
      %b = remi %up, %n unsigned : tile<i32>"""
#: All take lock 0 first.
SAME = """%a = addi %zero, %zero : tile<i32>
      %b = addi %one, %zero : tile<i32>"""

KINDS = [
    pytest.param({"tickets": False, "by": "store"}, id="lock"),
    pytest.param({"tickets": False, "by": "xchg"}, id="lock-xchg"),
    pytest.param({"tickets": False, "by": "store", "ahead": 2}, id="lock-after-counting"),
    pytest.param({"tickets": True, "by": "turn"}, id="tickets"),
]


def memory() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(32, np.int32), np.zeros(1, np.int32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order, grid", [(OPPOSITE, 2), (OPPOSITE, 7), (CIRCLE, 3), (CIRCLE, 6)])
def test_locks_in_opposite_orders_are_found_by_default(order: str, grid: int, kind: dict) -> None:
    module = locks_kernel(order, **kind)
    report = sanitize(module, "k", grid, memory())
    # Blocks of the circle that share no lock may race for the sum, too.
    codes = {d.code for d in report.diagnostics}
    assert "deadlock" in codes
    assert order == CIRCLE or codes == {"deadlock"}
    with pytest.raises(TileIRError) as raised:
        run(module, "k", grid, memory(), options=LaunchOptions(sanitize=True))
    assert {d.code for d in raised.value.diagnostics} == codes


def test_the_default_of_the_command_line_is_that_of_python() -> None:
    assert LaunchOptions(sanitize=True).schedules == tuple(range(SANITIZER_SEEDS))
    assert LaunchOptions(sanitize=True, seed=5).schedules == tuple(range(5, 5 + SANITIZER_SEEDS))
    assert LaunchOptions(seed=5).schedules == (5,)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    helps = [parser.format_help()]
    helps += [_parser(command).format_help() for command in ("sanitize", "run")]
    for shown in helps:
        assert f"(default {SANITIZER_SEEDS})" in " ".join(shown.split())


@pytest.mark.parametrize(
    "update, races, runs",
    [
        ("%o, %u = atomic_rmw_tko relaxed device %p, add, %one", True, SANITIZER_SEEDS),
        ("%o, %u = atomic_rmw_tko relaxed device %p, add, %one", False, SANITIZER_SEEDS),
        ("%o, %u = load_ptr_tko weak %p", True, 1),
        ("%o, %u = load_ptr_tko weak %p", False, SANITIZER_SEEDS),
    ],
)
def test_one_clean_run_stands_for_all_where_nothing_orders_blocks(
    update: str, races: bool, runs: int
) -> None:
    types = "tile<ptr<i32>>, tile<i32>" if "rmw" in update else "tile<ptr<i32>>"
    module = checked(f"""entry @k(%p: tile<ptr<i32>>) {{
      %one = constant <i32: 1> : tile<i32>
      {update} : {types} -> tile<i32>, token
      return
    }}""")
    began: list[tuple[int, int]] = []
    options = LaunchOptions(races=races, progress=lambda done, blocks: began.append((done, blocks)))
    report = sanitize(module, "k", 3, [np.zeros(1, np.int32)], options)
    assert report.is_clean and report.seeds == tuple(range(SANITIZER_SEEDS))
    assert began[-1] == (3 * SANITIZER_SEEDS, 3 * SANITIZER_SEEDS)
    assert len([done for done, _ in began if done < 3 * runs]) == 3 * runs - 1
    assert len(began) == 3 * runs + (runs == 1)


def test_a_run_with_a_race_does_not_stand_for_others() -> None:
    """What it reads depends on the order: under other seeds it is an index outside of the array."""
    module = checked("""entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
      %x, %y, %z = get_tile_block_id : tile<i32>
      %far = constant <i32: 1000000> : tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %first = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>
      if %first {
        %v, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
        %a = offset %q, %v : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %w, %u = load_ptr_tko weak %a : tile<ptr<i32>> -> tile<i32>, token
      } else {
        %t = store_ptr_tko weak %p, %far : tile<ptr<i32>>, tile<i32> -> token
      }
      return
    }""")
    report = sanitize(module, "k", 2, [np.zeros(1, np.int32), np.zeros(4, np.int32)])
    assert {d.code for d in report.diagnostics} == {"race", "invalid-address"}


@pytest.mark.parametrize("kind", KINDS)
def test_locks_in_one_order_pass(kind: dict) -> None:
    module = locks_kernel(SAME, **kind)
    locks, total = memory()
    report = sanitize(module, "k", 9, (locks, total), options=LaunchOptions(seeds=12))
    assert report.is_clean, [d.brief() for d in report.diagnostics]
    assert total[0] == 9


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_a_block_that_is_held_back_is_not_forgotten(seed: int) -> None:
    """The others change memory again and again until it goes on."""
    module = checked("""entry @k(%flag: tile<ptr<i32>>, %tries: tile<ptr<i32>>) {
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      loop {
        %old, %t = atomic_cas_tko acq_rel device %flag, %zero, %one
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        %won = cmpi equal %old, %zero, signed : tile<i32> -> tile<i1>
        if %won {
          %o, %t1 = atomic_rmw_tko relaxed device %tries, add, %one token=%t
            : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
          %u = store_ptr_tko release device %flag, %two token=%t1
            : tile<ptr<i32>>, tile<i32> -> token
          break
        }
        %done = cmpi equal %old, %two, signed : tile<i32> -> tile<i1>
        if %done { break }
        %c, %t2 = atomic_rmw_tko relaxed device %tries, add, %one
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      }
      return
    }""")
    flag, tries = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(module, "k", 5, (flag, tries), options=LaunchOptions(seed=seed, max_iterations=20_000))
    assert flag[0] == 2


# Residency.


def wait_for(module, arrays: Sequence[np.ndarray], grid: int, resident: int | None, seed: int = 0):
    return run(module, "k", grid, arrays, options=LaunchOptions(resident=resident, seed=seed))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("resident", [1, 3, 11])
def test_blocks_that_wait_for_one_that_cannot_begin(resident: int, seed: int) -> None:
    flags, out = np.zeros(12, np.int32), np.zeros(12, np.int32)
    with pytest.raises(TileIRError) as caught:
        wait_for(CHAIN, (flags, out), 12, resident, seed)
    (found,) = caught.value.diagnostics
    assert found.code == "deadlock"
    left = 12 - resident
    texts = [note.message for note in found.notes]
    blocks = "tile block has" if left == 1 else "tile blocks have"
    room = "1 is" if resident == 1 else f"{resident} are"
    assert f"{left} {blocks} not started, as at most {room} resident at once" in texts


@pytest.mark.parametrize("seed", range(4))
def test_residency_that_is_enough(seed: int) -> None:
    flags, out = np.zeros(12, np.int32), np.zeros(12, np.int32)
    wait_for(CHAIN, (flags, out), 12, 12, seed)
    assert out.tolist() == list(range(12, 0, -1))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("resident", [1, 2, 5])
def test_locks_need_no_residency(resident: int, seed: int) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    wait_for(LOCKED_INCREMENT, (lock, total), 30, resident, seed)
    assert total[0] == 30


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_numbers_of_resident_blocks_that_make_no_sense(value: object) -> None:
    with pytest.raises(TileIRError, match="resident must be an integer of at least 1"):
        run(LOCKED_INCREMENT, "k", 1, memory(), options=LaunchOptions(resident=value))  # pyright: ignore[reportArgumentType]


def try_lock(name: str, lock: str, token: str) -> str:
    return f"""
      %{name}_old, %{name} = atomic_cas_tko acquire device %{lock}, %zero, %one token=%{token}
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %{name}_won = cmpi equal %{name}_old, %zero, signed : tile<i32> -> tile<i1>"""


#: Takes one lock, tries the other, in another order in every other block, and gives the first back without it.
BACKS_OFF = f"""
    entry @k(%locks: tile<ptr<i32>>, %sum: tile<ptr<i32>>) {{
      %x, %y, %z = get_tile_block_id : tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %odd = andi %x, %one : tile<i32>
      %even = xori %odd, %one : tile<i32>
      %first = offset %locks, %odd : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %second = offset %locks, %even : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %t0 = make_token : token
      %done = loop iter_values(%t = %t0) : token -> token {{
        {try_lock("a", "first", "t")}
        %next = if %a_won -> (token) {{
          {try_lock("b", "second", "a")}
          if %b_won {{
            %old, %t1 = load_ptr_tko weak %sum token=%b : tile<ptr<i32>> -> tile<i32>, token
            %new = addi %old, %one : tile<i32>
            %t2 = store_ptr_tko weak %sum, %new token=%t1 : tile<ptr<i32>>, tile<i32> -> token
            {give_back("c", "second", "t2", "exchange")}
            {give_back("d", "first", "c", "exchange")}
            break %d : token
          }}
          {give_back("e", "first", "b", "exchange")}
          yield %e : token
        }} else {{
          yield %a : token
        }}
        continue %next : token
      }}
      return
    }}
"""


@pytest.mark.parametrize("blocks", [2, 5])
def test_blocks_that_back_off_come_to_an_end(blocks: int) -> None:
    total = np.zeros(1, np.int32)
    options = LaunchOptions(seeds=8, max_iterations=20_000)
    report = sanitize(checked(BACKS_OFF), "k", blocks, [np.zeros(2, np.int32), total], options)
    assert not report.findings
    assert total[0] == blocks
