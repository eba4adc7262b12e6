"""Any order of operations that values and tokens allow gives the same results.

The blocks of lowered programs are shuffled, with and without the passes before. So an order of
effects that matters and that no token states any more shows as a wrong result.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available
from tests.lowering import test_generated as generated
from tests.passes.generator_tiles import tile_kernel
from tests.passes.tileaa import test_pass_corpus as corpus
from tests.passes.tileaa.generator_memory import WORDS, memory_program
from tests.passes.tileaa.ordering import put_in_order, shuffle
from xdsl.dialects.builtin import ModuleOp

from tilewright import LaunchOptions
from tilewright.analysis.verifier import verify
from tilewright.bytecode import read
from tilewright.lowering import lower_to_tileaa
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.text import parse

#: Kernels that are shuffled in every run; all with --long.
SAMPLE = corpus.LAUNCHES[::5]
PIPELINES = ("", "relax-tokens", "tileaa")

needs_cutile = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)


def check_kernel(kernel: CorpusKernel, seeds: range) -> int:
    expected = corpus.outcome(kernel, read(kernel.export()))
    moved = 0
    lowered = corpus.lowered(kernel)
    for pipeline in PIPELINES:
        for seed in seeds:
            module = lowered.clone()
            run_pipeline(module, pipeline)  # pyright: ignore[reportArgumentType]
            moved += shuffle(module, seed)
            verify(module)  # pyright: ignore[reportArgumentType]
            found = corpus.outcome(kernel, module)
            assert found == expected, f"{pipeline or 'lowered'}, seed {seed}"
    return moved


@needs_cutile
@pytest.mark.parametrize("kernel", SAMPLE, ids=lambda k: k.name)
def test_kernels(kernel: CorpusKernel) -> None:
    assert check_kernel(kernel, range(1))


@needs_cutile
@pytest.mark.long
@pytest.mark.parametrize("kernel", corpus.LAUNCHES, ids=lambda k: k.name)
def test_all_kernels(kernel: CorpusKernel) -> None:
    assert check_kernel(kernel, range(1, 7))


def check_program(seed: int) -> None:
    """A random program whose effects all wait for each other, so that it has one result."""
    module = parse(tile_kernel(seed), f"tiles_{seed}.tileir")
    expected = generated.outcome(module, generated.tile_arguments, seed)
    in_order = lower_to_tileaa(module).module
    put_in_order(in_order)
    for pipeline in PIPELINES:
        lowered = in_order.clone()
        run_pipeline(lowered, pipeline, verify_each=True)
        shuffle(lowered, seed)
        found = generated.outcome(lowered, generated.tile_arguments, seed)
        assert found == expected, f"{seed}, {pipeline or 'lowered'}"


@pytest.mark.rotates(2)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_programs_in_order(first: int) -> None:
    for seed in range(first, first + 10):
        check_program(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(60, 3060, 100))
def test_many_programs_in_order(first: int) -> None:
    for seed in range(first, first + 100):
        check_program(seed)


def check_memory(seed: int) -> None:
    """A dense program of reads and writes, on memory that overlaps in one case of two."""
    text = memory_program(seed)

    def outcome(module: ModuleOp) -> bytes:
        memory = np.arange(2 * WORDS, dtype=np.float32)
        second = memory[seed % 4 :][:WORDS] if seed % 2 else memory[WORDS:]
        launched = Program(module)
        launched.launch("k", 1, [memory[:WORDS], second], options=LaunchOptions(allow_overlap=True))
        return memory.tobytes()

    source = read_text(text)
    expected = outcome(source)
    for pipeline in (*PIPELINES, "forward-memory", "tileaa-licm,relax-tokens,tileaa-licm"):
        module = source.clone()
        run_pipeline(module, pipeline)
        verify(module)
        shuffle(module, seed)
        assert outcome(module) == expected, f"{seed}, {pipeline or 'as it is'}"


def read_text(text: str) -> ModuleOp:
    module = parse(text)
    assert isinstance(module, ModuleOp)
    return module


@pytest.mark.rotates(2)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_reads_and_writes(first: int) -> None:
    for seed in range(first, first + 10):
        check_memory(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(60, 3060, 100))
def test_many_reads_and_writes(first: int) -> None:
    for seed in range(first, first + 100):
        check_memory(seed)
