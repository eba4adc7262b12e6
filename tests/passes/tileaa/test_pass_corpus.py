"""Every pass on ``nv_tileaa``, on every kernel of the corpus: valid, in order, and the same results."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import arrays_in, flat_arguments
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.analysis.verifier import verify
from tilewright.bytecode import read
from tilewright.lowering import lower_to_tileaa
from tilewright.machine.launch import Program
from tilewright.passes import NV_TILEAA, PIPELINES, TilePass, passes_within, run_pipeline
from tilewright.passes.tileaa.order_guard import OrderGuard
from tilewright.text import print_text

KERNELS = [k for k in cutile_kernels() if not k.refusal] if cutile_available() else []
LAUNCHES = [k for k in KERNELS if k.launch is not None]
#: Where results are compared after each single pass; all kernels with --long.
SAMPLE = LAUNCHES[::6]
PASSES = passes_within(NV_TILEAA)

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)


def lowered(kernel: CorpusKernel) -> Operation:
    return lower_to_tileaa(read(kernel.export())).module


def outcome(kernel: CorpusKernel, module: Operation) -> tuple[list[bytes], str]:
    """The bytes of all arrays after a launch, and what was printed."""
    assert kernel.launch is not None
    arguments = copy.deepcopy(kernel.launch.arguments())
    program = Program(module)
    values = flat_arguments(kernel, arguments, program.map_array)
    result = program.launch(
        None, kernel.launch.grid, values, options=LaunchOptions(allow_overlap=True)
    )
    arrays = [array for name in arguments for _, array in arrays_in(arguments[name], name)]
    return [np.ascontiguousarray(array).tobytes() for array in arrays], result.text


@pytest.mark.rotates(5)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_the_pipeline_keeps_order_and_leaves_valid_ir(kernel: CorpusKernel) -> None:
    module = lowered(kernel)
    guard = OrderGuard.watch(module)

    def check(done: TilePass, module: Operation) -> None:
        verify(module)
        assert guard.problems() == [], done

    run_pipeline(module, "tileaa", after_pass=check)  # pyright: ignore[reportArgumentType]
    guard.release()
    settled = print_text(module)
    run_pipeline(module, "tileaa-canonicalize,tileaa-cse,tileaa-dce")  # pyright: ignore[reportArgumentType]
    assert len(print_text(module)) <= len(settled)


@pytest.mark.rotates(3, 1)
@pytest.mark.parametrize("kernel", LAUNCHES, ids=lambda k: k.name)
def test_the_pipeline_keeps_results(kernel: CorpusKernel) -> None:
    module = lowered(kernel)
    run_pipeline(module, "tileaa")  # pyright: ignore[reportArgumentType]
    assert outcome(kernel, module) == outcome(kernel, read(kernel.export()))


def check_each_pass(kernel: CorpusKernel) -> None:
    expected = outcome(kernel, read(kernel.export()))
    source = lowered(kernel)
    for pipeline in (*PASSES, *(",".join(PIPELINES["tileaa"][:n]) for n in range(2, 7))):
        module = source.clone()
        run_pipeline(module, pipeline)  # pyright: ignore[reportArgumentType]
        assert outcome(kernel, module) == expected, pipeline


@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", SAMPLE, ids=lambda k: k.name)
def test_each_pass_keeps_results(kernel: CorpusKernel) -> None:
    check_each_pass(kernel)


@pytest.mark.long
@pytest.mark.parametrize("kernel", LAUNCHES, ids=lambda k: k.name)
def test_each_pass_keeps_results_of_all(kernel: CorpusKernel) -> None:
    check_each_pass(kernel)
