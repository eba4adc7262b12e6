"""Any kernel of the simulator's corpus compiles, and computes the same; what only one of the two
knows is listed.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.dialects.nvgpu.programs import PROGRAMS
from tests.gpu.support import ptx_of, requires_libdevice, requires_ptxas
from tests.gpu.test_execution import run
from tests.simulator.around import CASES, Case
from tests.simulator.bugs import BUGS, Bug
from tests.simulator.kernels import CONSTANTS, kernel

from tilewright import gpu
from tilewright.gpu.architectures import ARCHITECTURES
from tilewright.gpu.codegen import kernel as code_generator
from tilewright.gpu.codegen.function import HANDLERS
from tilewright.simulator import Program
from tilewright.simulator.architectures import Architecture
from tilewright.simulator.compile import IMPLEMENTATIONS, TERMINATORS
from tilewright.text import parse

ARCH = "sm_90a"
WORKED = sorted((Path(__file__).parents[2] / "examples" / "nvgpu").glob("*.mlir"))
assert code_generator.HANDLER_MODULES and Program


@requires_ptxas
@requires_libdevice
@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernels_of_the_simulator_assemble(case: Case) -> None:
    assert gpu.assemble(ptx_of(kernel(case.body, case.parameters), ARCH), ARCH).cubin


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_kernels_with_bugs_and_without_compile(bug: Bug) -> None:
    for body in (bug.bad, bug.good):
        assert ".entry k" in ptx_of(kernel(body, bug.parameters), ARCH)


#: Functions that are no calls of libdevice.
_PLAIN = {f"math.{name}" for name in ("trunc", "roundeven", "ctpop", "ctlz", "cttz", "ipowi")}
#: What one thread does by itself, in memory that this CPU has too.
_ALONE = [
    case
    for case in CASES
    if not re.search(r"gpu\.|, 3>", case.body)
    and (not case.name.startswith("math.") or case.name in _PLAIN)
]


@pytest.mark.parametrize("case", _ALONE, ids=lambda case: case.name)
def test_threads_compute_what_the_simulator_does(case: Case) -> None:
    """LLVM compiles the same code for this CPU; thread after thread runs it."""
    constants = "".join(
        line for line in CONSTANTS.splitlines(True) if "gpu." not in line and "global" not in line
    )
    text = (
        f"module {{\nfunc.func @f({case.parameters}, %place: memref<index>) {{\n"
        f"%tid = memref.load %place[] : memref<index>\n{constants}{case.body}\nfunc.return\n}}\n}}\n"
    )
    args = case.makes()
    wanted = case.expected(*(arg.copy() for arg in args))
    run(text, *args, np.zeros((), np.int64), turns=case.block)
    for found, expected in zip(args, wanted):
        np.testing.assert_array_equal(found, np.asarray(expected).astype(found.dtype))


#: Operations of the host, which code for devices refuses by name and the simulator does not have.
_OF_THE_HOST = {"nvgpu.tma.create.descriptor"}


def test_the_two_know_the_same_operations() -> None:
    """Those that end a block are part of the operation around it in the simulator."""
    ends = {name for name in HANDLERS if name in TERMINATORS}
    assert set(IMPLEMENTATIONS) - set(HANDLERS) == set()
    assert set(HANDLERS) - ends - set(IMPLEMENTATIONS) == _OF_THE_HOST
    assert ends <= TERMINATORS


def _operations(text: str) -> set[str]:
    return {op.name for op in parse(text).walk()}


def test_programs_of_the_dialects_are_known_to_both() -> None:
    """Beside the modules and functions around kernels, and the host's launches."""
    around = {"builtin.module", "func.func", "gpu.func", "gpu.module", "gpu.launch_func"}
    around |= {"memref.global", "scf.reduce", *_OF_THE_HOST}
    texts = [*PROGRAMS.values(), *(path.read_text() for path in WORKED)]
    used = set().union(*(_operations(text) for text in texts))
    assert used - around - set(IMPLEMENTATIONS) - TERMINATORS == set()
    assert used - around - set(HANDLERS) == set()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_two_know_the_same_architectures(name: str) -> None:
    assert Architecture.parse(name).name == name
