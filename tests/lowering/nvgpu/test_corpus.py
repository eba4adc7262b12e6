"""Every corpus kernel that has a launch computes as threads what the corpus expects: scheduled, of
which no part falls back, and a sample of them lowered directly."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import arrays_in, check_outputs, flat_arguments

from tilewright import LaunchOptions
from tilewright.bytecode import read
from tilewright.simulator.tiles import TileProgram

pytestmark = [
    pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING),
    pytest.mark.usefixtures("verified_threads"),
]

RUNNABLE = [k for k in cutile_kernels() if k.launch] if cutile_available() else []
#: Those that need formats or products that came with sm_100.
LATER = ("widen_exponents", "four_bit_floats", "splat_of_exponents", "scaled_matmul")
#: Those that are lowered without a schedule, too, and for other architectures.
SAMPLE = RUNNABLE[::8]


def check(kernel: CorpusKernel, *, optimize: bool) -> None:
    launch = kernel.launch
    assert launch is not None
    arch = "sm_100a" if kernel.name.startswith(LATER) else "sm_90a"
    program = TileProgram(read(kernel.export()), arch)
    arguments = launch.arguments()
    memory = [array for name, value in arguments.items() for _, array in arrays_in(value, name)]
    flat = flat_arguments(kernel, arguments, program.map_array)
    printed: list[str] = []
    program.launch(
        None,
        launch.grid,
        flat,
        options=LaunchOptions(
            allow_overlap=True,
            memory=memory,
            print_to=printed.append,
            optimization=int(optimize),
        ),
    )
    assert check_outputs(launch, launch.arguments(), arguments) == []
    assert sorted("".join(printed).splitlines()) == sorted(launch.prints)
    assert program.fallbacks == {}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda kernel: kernel.name)
def test_kernel_computes_what_is_expected(kernel: CorpusKernel) -> None:
    check(kernel, optimize=True)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("kernel", SAMPLE, ids=lambda kernel: kernel.name)
def test_kernel_computes_the_same_without_a_schedule(kernel: CorpusKernel) -> None:
    check(kernel, optimize=False)


@pytest.mark.parametrize("arch", ["sm_80", "sm_120a"])
@pytest.mark.parametrize("kernel", SAMPLE, ids=lambda kernel: kernel.name)
def test_nothing_falls_back_elsewhere(kernel: CorpusKernel, arch: str) -> None:
    if not kernel.name.startswith(LATER):
        program = TileProgram(read(kernel.export()), arch)
        program.threads()
        assert program.fallbacks == {}
