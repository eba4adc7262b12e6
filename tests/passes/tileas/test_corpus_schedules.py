"""The passes keep the results of corpus launches and of random programs, bit by bit: both sides run on
the reference machine."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available
from tests.lowering import test_generated as generated
from tests.passes.tileaa import test_pass_corpus as corpus
from tests.sampling import some

from tilewright.bytecode import read
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline
from tilewright.text import parse, print_text

#: In every run; all with --long.
SAMPLE, SEEDS = corpus.LAUNCHES[::5], range(16)
PIPELINES = ("tileas-assign-layouts", "tileaa,tileas-assign-layouts", "tileaa,tileas")


def check_kernel(kernel: CorpusKernel) -> None:
    expected = corpus.outcome(kernel, read(kernel.export()))
    for pipeline in PIPELINES:
        module = corpus.lowered(kernel)
        run_pipeline(module, pipeline, verify_each=True)  # pyright: ignore[reportArgumentType]
        text = print_text(module)
        assert print_text(parse(text)) == text
        assert corpus.outcome(kernel, module) == expected, pipeline


needs_cutile = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)


@pytest.mark.rotates(3)
@needs_cutile
@pytest.mark.parametrize("kernel", SAMPLE, ids=lambda k: k.name)
def test_kernels(kernel: CorpusKernel) -> None:
    check_kernel(kernel)


@needs_cutile
@pytest.mark.long
@pytest.mark.parametrize("kernel", corpus.LAUNCHES, ids=lambda k: k.name)
def test_all_kernels(kernel: CorpusKernel) -> None:
    check_kernel(kernel)


@pytest.mark.parametrize("name", generated.GENERATORS)
def test_random_programs(name: str) -> None:
    generate, arguments = generated.GENERATORS[name]
    for seed in some(SEEDS):
        module = parse(generate(seed), f"{name}_{seed}.tileir")
        expected = generated.outcome(module, arguments, seed)
        lowered = lower_to_tileaa(module).module
        run_pipeline(lowered, "tileaa,tileas", verify_each=True)
        assert generated.outcome(lowered, arguments, seed) == expected, f"{name} {seed}"
