"""What Ctrl-C tells of a launch on the simulator: which loop, and which warp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.simulator.kernels import kernel, run

import tilewright
from tilewright import LaunchOptions
from tilewright.simulator import Program
from tilewright.simulator.schedule import Schedule

SAYS = 'gpu.printf "here %d\\n" %tid : index'
#: Loops of each kind, which print. Those with barriers, at which warps may wait, run as generators.
INNER = {
    "for": "scf.for %i = %c0 to %c9 step %c1 { gpu.barrier\n SAYS }",
    "for that never waits": "scf.for %i = %c0 to %c9 step %c1 { SAYS }",
    "for with bounds of lanes": "%end = arith.addi %tid, %c1 : index\n scf.for %i = %c0 to %end step %c1 { SAYS }",
    "parallel": "scf.parallel (%i) = (%c0) to (%c9) step (%c1) { SAYS\n scf.reduce }",
    "while": """scf.while (%i = %c0) : (index) -> () {
      %goes = arith.cmpi slt, %i, %c9 : index
      scf.condition(%goes)
    } do { SAYS\n scf.yield %c0 : index }""",
}


def stop(text: str) -> None:
    raise KeyboardInterrupt


def notes_of(launch: Callable[[], object]) -> list[str]:
    with pytest.raises(KeyboardInterrupt) as caught:
        launch()
    return getattr(caught.value, "__notes__", [])


@pytest.mark.parametrize("in_groups", [True, False])
@pytest.mark.parametrize("kind", INNER)
def test_the_innermost_loop_is_named(kind: str, in_groups: bool) -> None:
    text = kernel(
        "%c9 = arith.constant 9 : index\nscf.for %o = %c0 to %c9 step %c1 {\n"
        + INNER[kind].replace("SAYS", SAYS)
        + "\n}"
    )
    lines = text.splitlines()
    (line,) = [
        n for n, each in enumerate(lines, 1) if "scf." in each and "%i" in each and "{" in each
    ]
    program = Program.parse(text, "loops.mlir")
    options = LaunchOptions(block=64, print_to=stop, in_groups=in_groups)
    (note,) = notes_of(lambda: program.launch(None, 1, [], options))
    which = note.removeprefix("tilewright: ").removesuffix(f" was in the loop at loops.mlir:{line}")
    assert which in ("warp 0", "warp 1")


def test_outside_of_loops_nothing_is_said() -> None:
    assert notes_of(lambda: run(SAYS, print_to=stop)) == []


GRAPH = """
    cf.br ^outer(%c0 : index)
  ^outer(%o: index):
    cf.br ^inner(%c0 : index)
  ^inner(%i: index):
    {inner}
    %j = arith.addi %i, %c1 : index
    %again = arith.cmpi slt, %j, %c9 : index
    cf.cond_br %again, ^inner(%j : index), ^next
  ^next:
    {outer}
    %p = arith.addi %o, %c1 : index
    %more = arith.cmpi slt, %p, %c9 : index
    cf.cond_br %more, ^outer(%p : index), ^end
  ^end:
    {none}"""


@pytest.mark.parametrize(
    ("at", "branch"), [("inner", "cond_br %again"), ("outer", "cond_br %more"), ("none", "")]
)
def test_loops_of_branches_are_named_by_the_branch_that_leads_back(at: str, branch: str) -> None:
    places = {name: SAYS if name == at else "" for name in ("inner", "outer", "none")}
    text = kernel("%c9 = arith.constant 9 : index\n" + GRAPH.format(**places))
    program = Program.parse(text, "graph.mlir")
    options = LaunchOptions(block=32, print_to=stop)
    found = notes_of(lambda: program.launch(None, 1, [], options))
    lines = [n for n, each in enumerate(text.splitlines(), 1) if branch and branch in each]
    assert found == [f"tilewright: warp 0 was in the loop at graph.mlir:{n}" for n in lines]


#: Nobody sets what it waits for.
WAITING = """entry @k(%flags: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  loop {
    %got, %t = load_ptr_tko acquire device %flags : tile<ptr<i32>> -> tile<i32>, token
    %set = cmpi equal %got, %one, signed : tile<i32> -> tile<i1>
    if %set { break }
  }
}"""


def test_between_the_turns_of_warps_those_that_wait_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    def interrupted(schedule: Schedule, steps: float = 0) -> bool:
        nonlocal turns
        turns += 1
        if turns == 3:
            raise KeyboardInterrupt
        return run_on(schedule, steps)

    run_on = Schedule.run
    monkeypatch.setattr(Schedule, "run", interrupted)
    module = tilewright.parse(WAITING, "waits.tileir")
    flags = np.zeros(1, np.int32)
    notes = notes_of(lambda: tilewright.run(module, "k", 2, [flags], "sim:sm_90a"))
    assert len(notes) == 1 and notes[0].endswith("was in the loop at waits.tileir:4")
