"""Volume: the machines and readers under more than a suite has time for.

    python -m tests.volume PART [--seconds N] [--first SEED] [--most SEEDS]

Parts are the functions of ``PARTS``. Each takes as many seeds as fit into the seconds of processor time,
and prints as JSON what it did; a failure names its seed and goes on. Results are recorded in
``benchmarks/results/volume.md``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.bytecode import test_fuzz
from tests.cpu.codegen.memory import test_checked_random
from tests.cpu.runtime import test_interrupts
from tests.every_machine import ARCHITECTURES, MACHINES
from tests.lowering import test_generated_expressions
from tests.lowering.nvgpu import test_generated_schedules
from tests.lowering.test_generated import GENERATORS
from tests.passes.generator_tiles import tile_kernel
from tests.passes.tileas import kernels as schedules
from tests.text import test_mutations

from tilewright import LaunchOptions, sanitize, verify
from tilewright.bytecode import read, write
from tilewright.cpu import Program
from tilewright.diagnostics import TileIRError
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.machine import Program as Reference
from tilewright.passes.pipelines import AnyModule, run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

Counts = dict[str, int]
PASSES = {
    "nv_tileaa": "tileaa",
    "nv_tileas": "tileaa,tileas",
    "nvgpu": "tileaa,tileas,convert-tileas-to-nvgpu",
}
LEVELS = ("O0", "O1", "O2", "O3")


def _agree(expected: list[Any], found: list[Any], seed: str) -> None:
    """Integers are the same; floats within what another order of a few sums may change."""
    for wanted, got in zip(expected, found, strict=True):
        if isinstance(wanted, np.ndarray):
            bound = 1e-5 if wanted.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound, err_msg=seed)


Legs = frozenset[str]
ALL_LEGS: Legs = frozenset(
    {*LEVELS, "nv_tileaa", "cpu", "cpu-checked", *(f"sim:{arch}" for arch in ARCHITECTURES)}
)


def _third(seed: int) -> Legs:
    """nv_tileaa, and one each of the pipelines, of the ways of the CPU and of the architectures."""
    arch = ARCHITECTURES[seed % len(ARCHITECTURES)]
    way = ("cpu", "cpu-checked")[seed // len(LEVELS) % 2]
    return frozenset({LEVELS[seed % len(LEVELS)], "nv_tileaa", way, f"sim:{arch}"})


def _compiled_once(seed: int) -> Legs:
    """nv_tileaa, one of the pipelines, and the CPU (plain or checked) or an architecture, in rotation."""
    ways = ("cpu", *(f"sim:{arch}" for arch in ARCHITECTURES), "cpu-checked")
    return frozenset({LEVELS[seed % len(LEVELS)], "nv_tileaa", ways[seed % len(ways)]})


def _machines(module: AnyModule, legs: Legs) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The module as a program of these machines: parsed once, lowered once to nv_tileaa, which the CPU
    compiles plain and checked."""
    for level in filter(legs.__contains__, LEVELS):

        def optimized(level: str = level) -> Reference:
            copy = module.clone()
            run_pipeline(copy, level)
            return Reference(copy)

        yield level, optimized
    lowered = lower_to_tileaa(module.clone(), TileAAOptions(target="sm_100")).module
    yield "nv_tileaa", lambda: Reference(lowered)
    if "cpu" in legs:
        yield "cpu", lambda: Program(lowered)
    if "cpu-checked" in legs:
        yield "cpu-checked", lambda: Program(lowered, options=LaunchOptions(checked=True))
    for arch in ARCHITECTURES:
        if f"sim:{arch}" in legs:
            yield f"sim:{arch}", lambda arch=arch: TileProgram(module, arch)


def _races(module: AnyModule, grid: Any, args: list[Any]) -> bool:
    """Whether the program orders too little, by the sanitizer."""
    found = sanitize(module, "k", grid, args).findings
    return any(finding.diagnostic.code == "race" for finding in found)


def programs(seed: int, counts: Counts, legs: Legs = ALL_LEGS) -> None:
    """Two random programs on every machine, and after every pipeline on the reference machine.

    The simulator reports races; a program in which the sanitizer finds one, too, is left at that. A
    kernel that the simulator runs only because a failed schedule was given up is a failure.
    """
    for name, (generate, arguments) in GENERATORS.items():
        module = parse(generate(seed))
        grid, expected = arguments(seed)
        Reference(module).launch("k", grid, expected)
        counts["programs"] = counts.get("programs", 0) + 1
        for machine, make in _machines(module, legs):
            _, found = arguments(seed)
            try:
                program = make()
                program.launch("k", grid, found)
            except TileIRError as error:
                racing = error.diagnostics[0].code == "sim-race"
                if not racing or not _races(module, *arguments(seed)):
                    raise AssertionError(f"{name} {seed} {machine}: {error}") from error
                counts["racing"] = counts.get("racing", 0) + 1
                break
            _agree(expected, found, f"{name} {seed} {machine}")
            fallbacks = getattr(program, "fallbacks", {})
            assert not fallbacks, f"{name} {seed} {machine}: {list(fallbacks.values())}"
            counts["runs"] = counts.get("runs", 0) + 1


def rotated(seed: int, counts: Counts) -> None:
    """The same with a third of the machines and pipelines for each program, in rotation: programs take
    their time in compilers, and another program tells more than the same one on another architecture."""
    programs(seed, counts, _third(seed))


def compiled_once(seed: int, counts: Counts) -> None:
    """The same with one compiler for each program, since compilers take nearly all of the time."""
    programs(seed, counts, _compiled_once(seed))


def expressions(seed: int, counts: Counts) -> None:
    """A random program of element-wise operations at hard values, on three of nine machines and pipelines,
    in rotation: the same bits."""
    legs = test_generated_expressions.legs_of(seed, 3)
    test_generated_expressions.check_seed(seed, legs)
    counts["programs"] = counts.get("programs", 0) + 1
    counts["runs"] = counts.get("runs", 0) + len(legs)


def bytecode(seed: int, counts: Counts) -> None:
    """100 mutations of a bytecode file."""
    rng, files = random.Random(seed), test_fuzz.seeds()
    for _ in range(100):
        accepted = test_fuzz.check(test_fuzz.mutate(rng.choice(files)[1], rng))
        kind = "accepted" if accepted else "refused"
        counts[kind] = counts.get(kind, 0) + 1


@cache
def _sources(level: str) -> list[str]:
    """Texts of a level; of those below cuda_tile in custom and in generic form."""
    if level == "cuda_tile":
        return test_mutations.sources()
    found: list[str] = []
    for text in (schedules.product(), schedules.attention(), *map(tile_kernel, range(4))):
        module = schedules.lowered(text, PASSES[level])
        found += [print_text(module), print_text(module, generic=True, locations=True)]
    return found


@cache
def _spans(text: str) -> list[tuple[int, int]]:
    return test_mutations.token_spans(text)


def _texts(level: str) -> Callable[[int, Counts], None]:
    def part(seed: int, counts: Counts) -> None:
        """100 damaged texts of a level."""
        rng, sources = random.Random(seed), _sources(level)
        # A text ten times as long takes ten times as long, and shows hardly more.
        for source in rng.choices(sources, [1 / len(text) for text in sources], k=100):
            text = test_mutations.damage(source, _spans(source), rng) or "}"
            kind = "accepted"
            try:
                module = parse(text, allow_unregistered=rng.random() < 0.5)
                kind = "refused by the verifier"
                verify(module)
                assert parse(print_text(module)) is not None
                kind = "accepted"
            except TileIRError as error:
                assert error.diagnostics
                kind = "refused" if kind == "accepted" else kind
            counts[kind] = counts.get(kind, 0) + 1

    return part


def schedule(seed: int, counts: Counts) -> None:
    """A random kernel of products, rings, folds and accesses on two of twelve machines, in rotation."""
    legs = test_generated_schedules.rotated(seed, 2)
    test_generated_schedules.check_seed(seed, legs)
    for leg in legs:
        counts[leg] = counts.get(leg, 0) + 1


def interrupts(seed: int, counts: Counts) -> None:
    """Ctrl-C into a loop of each kind, on one thread and on two; the program works afterwards."""
    for loop in test_interrupts.LOOPS:
        for threads in (1, 2):
            test_interrupts.test_ctrl_c_ends_a_loop_in_one_tile_block(loop, seed % 2, threads)
            counts["interrupts"] = counts.get("interrupts", 0) + 1


def long_inputs(seed: int, counts: Counts) -> None:
    """A file of 100,000 operations as text and bytecode, and a line of 10 MB."""
    count = 100_000
    lines = "".join(f"%v{n} = addi %v{n - 1}, %v0 : tile<i32>\n" for n in range(1, count))
    text = f"entry @k(%p: tile<ptr<i32>>) {{\n%v0 = constant <i32: {seed}> : tile<i32>\n{lines}return\n}}\n"
    module = parse(text)
    data = write(module)
    assert write(read(data)) == data
    assert len(print_text(module).splitlines()) > count
    line = "return // " + "x" * 10_000_000
    parse(f"entry @k() {{ {line}\n}}")
    words = ", ".join(map(str, range(1 << 20)))
    parse(f"entry @k() {{ %c = constant <i32: [{words}]> : tile<{1 << 20}xi32> return }}")
    counts["operations"] = counts.get("operations", 0) + count
    counts["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def giants(seed: int, counts: Counts) -> None:
    """A tile of 2^24 elements, loaded, added up and stored: on the reference machine and the CPU."""
    size = 1 << 24
    tile, pointers = f"tile<{size}xi32>", f"tile<{size}xptr<i32>>"
    text = f"""entry @k(%x: tile<ptr<i32>>) {{
      %n = iota : {tile}
      %x1 = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
      %xb = broadcast %x1 : tile<1xptr<i32>> -> {pointers}
      %p = offset %xb, %n : {pointers}, {tile} -> {pointers}
      %v, %t = load_ptr_tko weak %p : {pointers} -> {tile}, token
      %w = addi %v, %n : {tile}
      %s = store_ptr_tko weak %p, %w token = %t : {pointers}, {tile} -> token
      return }}"""
    for machine in ("reference", "cpu", "cpu-checked"):
        x = np.full(size, seed, np.int32)
        MACHINES[machine](parse(text), (1, 1, 1), [x])
        assert (x == np.arange(size) + seed).all(), machine
        counts[machine] = counts.get(machine, 0) + 1
    counts["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def checked(seed: int, counts: Counts) -> None:
    """A random kernel with checks against the reference machine."""
    ran, refused = test_checked_random.compare(seed)
    counts["ran"] = counts.get("ran", 0) + ran
    counts["refused"] = counts.get("refused", 0) + refused


def kernels(seed: int, counts: Counts) -> None:
    """A kernel that no other seed has, launched ten times on the CPU."""
    text = f"""cuda_tile.module @m {{ entry @k(%x: tile<ptr<i32>>) {{
      %c = constant <i32: {seed}> : tile<i32>
      %u = store_ptr_tko weak %x, %c : tile<ptr<i32>>, tile<i32> -> token
      return }} }}"""
    program = Program(parse(text))
    for _ in range(10):
        x = np.zeros(1, np.int32)
        program.launch("k", 1, [x])
        assert x[0] == seed
        counts["launches"] = counts.get("launches", 0) + 1
    if seed % 50 == 0:
        gc.collect()
    counts["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


PARTS: dict[str, Callable[[int, Counts], None]] = {
    part.__name__: part
    for part in (
        programs,
        rotated,
        compiled_once,
        expressions,
        schedule,
        bytecode,
        checked,
        kernels,
        interrupts,
        long_inputs,
        giants,
    )
} | {f"texts-{level}": _texts(level) for level in ("cuda_tile", *PASSES)}


def _seeds(first: int, seconds: float, most: int) -> Iterator[int]:
    end = time.process_time() + seconds
    for seed in range(first, first + most):
        if time.process_time() >= end:
            break
        yield seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--most", type=int, default=1 << 40, help="seeds at most")
    options = parser.parse_args()
    # A shell that starts this in the background has it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # No kernel comes twice, so none is kept on disk; IR makes many objects and hardly any garbage.
    os.environ["TILEWRIGHT_CACHE_DIR"] = ""
    gc.freeze()
    gc.set_threshold(50_000)
    counts: Counts = {"seeds": 0, "failures": 0}
    start = time.process_time()
    for seed in _seeds(options.first, options.seconds, options.most):
        counts["seeds"] += 1
        try:
            PARTS[options.part](seed, counts)
        except KeyboardInterrupt:
            # What is done counts.
            counts["seeds"] -= 1
            break
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (every one is a failure)
            counts["failures"] += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:2000]}", file=sys.stderr)
    used = round(time.process_time() - start)
    print(json.dumps({"part": options.part, "first": options.first, "cpu_s": used, **counts}))
    return int(counts["failures"] > 0)


if __name__ == "__main__":
    sys.exit(main())
