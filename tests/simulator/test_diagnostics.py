"""Each kind of bug is found at its place, and its nearest correct twin passes."""

from __future__ import annotations

import pytest
from tests.simulator.bugs import BUGS, Bug
from tests.simulator.kernels import run

_NEEDS_OTHER_BLOCK = {"a product by three warps": 128}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_is_found(bug: Bug) -> None:
    result = run(bug.bad, bug.parameters, bug.args(), block=bug.block, **bug.options)
    found = [d for d in result.diagnostics if d.code == bug.code]
    assert found, [d.brief() for d in result.diagnostics]
    said = "\n".join([d.message for d in found] + [n.message for d in found for n in d.notes])
    assert bug.says in said, said
    assert found[0].line is not None
    assert all(d.help for d in found)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_twin_is_clean(bug: Bug, seed: int) -> None:
    block = _NEEDS_OTHER_BLOCK.get(bug.name, bug.block)
    result = run(bug.good, bug.parameters, bug.args(), block=block, seed=seed)
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    assert result.completed


def test_every_code_has_a_bug() -> None:
    """The other codes are about launches and limits, and are tested with those."""
    reported = {bug.code for bug in BUGS}
    assert reported >= {
        "sim-accumulator-not-awaited",
        "sim-arrival-count",
        "sim-barrier-state",
        "sim-copy-not-awaited",
        "sim-deadlock",
        "sim-divergent-collective",
        "sim-misaligned",
        "sim-missing-proxy-fence",
        "sim-out-of-bounds",
        "sim-race",
        "sim-transaction-count",
        "sim-uninitialized",
    }


def test_diagnostics_name_both_sites() -> None:
    bug = next(b for b in BUGS if b.name == "shared memory written and read by two warps")
    found = next(d for d in run(bug.bad, block=64).diagnostics if d.code == "sim-race")
    (note,) = found.notes
    assert note.location is not None and found.location is not None
    assert {"memref.load", "memref.store"} & {found.message.split()[0]}
    assert "warp 0" in found.message and "warp 1" in found.message


def test_a_diagnostic_is_told_once() -> None:
    """However many lanes, loops and blocks have it."""
    body = """
    %x = arith.constant 1.0 : f32
    scf.for %i = %c0 to %c8 step %c1 {
      %y = memref.load %words[%tid] : memref<256xf32, 3>
    }"""
    assert len(run(body, grid=3).diagnostics) == 1


def test_the_former_name_warns() -> None:
    result = run(BUGS[0].bad, BUGS[0].parameters, BUGS[0].args(), block=BUGS[0].block)
    with pytest.warns(DeprecationWarning, match="use diagnostics instead of findings"):
        assert result.findings == result.diagnostics
