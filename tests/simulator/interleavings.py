"""Launches under many orders of warps and blocks, with all that the simulator looks for.

    python -m tests.simulator.interleavings [--seeds N] [--seconds S] [--arch ARCH] [--only WORD] [--shuffle N]

Every kernel of the corpus that has a launch, compiled by us, on each architecture; each launch begins from fresh
arrays, and must compute what is expected without a finding. It prints a line for what fails, and at the end as
JSON what ran.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.corpus import CorpusKernel, cutile_kernels
from tests.corpus.launching import arrays_in, check_outputs, flat_arguments

from tilewright import LaunchOptions
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.simulator.tiles import TileProgram

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120a")
#: Those that need formats or products that came with sm_100.
LATER = ("widen_exponents", "four_bit_floats", "splat_of_exponents", "scaled_matmul")


def problems(kernel: CorpusKernel, program: TileProgram, seed: int) -> list[str]:
    """What is found, or computed wrong, under a seed."""
    launch = kernel.launch
    assert launch is not None
    arguments = launch.arguments()
    memory = [array for name, value in arguments.items() for _, array in arrays_in(value, name)]
    flat = flat_arguments(kernel, arguments, program.map_array)
    options = LaunchOptions(
        seed=seed, allow_overlap=True, memory=memory, strict=False, print_to=lambda _: None
    )
    found = program.launch(None, launch.grid, flat, options=options)
    wrong = [str(diagnostic) for diagnostic in found.diagnostics]
    return wrong + check_outputs(launch, launch.arguments(), arguments)


def cases(architectures: tuple[str, ...], word: str) -> Iterator[tuple[CorpusKernel, str]]:
    """Kernels with the architectures that they run on."""
    for kernel in cutile_kernels():
        if kernel.launch is None or word not in kernel.name:
            continue
        for arch in ("sm_100a",) if kernel.name.startswith(LATER) else architectures:
            yield kernel, arch


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--arch", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--shuffle", type=int, default=0, help="the order, where not all fit")
    options = parser.parse_args()
    began, failed = time.monotonic(), 0
    launches: Counter[str] = Counter()
    done = 0
    wanted = list(cases(tuple(options.arch) or ARCHITECTURES, options.only))
    random.Random(options.shuffle).shuffle(wanted)
    for kernel, arch in wanted:
        if time.monotonic() - began > options.seconds:
            break
        program = TileProgram(read(kernel.export()), arch)
        for seed in range(1, options.seeds + 1):
            try:
                wrong = problems(kernel, program, seed)
            except TileIRError as error:
                wrong = [str(error)]
            launches[arch] += 1
            if wrong:
                failed += 1
                print(f"{kernel.name} on {arch}, seed {seed}: {wrong[0]}", flush=True)
                break
        done += 1
    ran = {
        "kernels": f"{done} of {len(wanted)}",
        "launches": dict(launches),
        "failed": failed,
        "processor_seconds": round(time.process_time()),
    }
    print(json.dumps(ran))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
