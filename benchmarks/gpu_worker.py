"""The process of ``benchmarks.gpu`` that uses the GPU: kernels and constants, a line of JSON for each.

It reads a job on its command line and writes to a file, so that what was found stays when a kernel loses it
the GPU; the process that started it goes on with the next job in another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from benchmarks import gpu_micro, gpu_torch, gpu_triton
from benchmarks.gpu_cases import Case, cases, strides_of
from benchmarks.gpu_device import TILE_KERNEL_BLOCK, Code, Device, samples
from benchmarks.gpu_references import errors_of, few_of, inputs_of, reference_of
from tilewright.diagnostics import TileIRError
from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan

Row = dict[str, Any]
#: Samples of each job.
SAMPLES = 15


def scalars_of(arguments: Sequence[Any], addresses: Sequence[int]) -> list[tuple[int, Any]]:
    """The parameters of a kernel for a launch, as (bytes, value): arrays at their addresses."""
    found: list[tuple[int, Any]] = []
    rest = iter(addresses)
    for argument in arguments:
        if isinstance(argument, float):
            found.append((4, argument))
        elif len(argument) == 2:
            _, extents = argument
            found.append((8, next(rest)))
            found += [(4, extent) for extent in extents]
            found += [(4, stride) for stride in strides_of(extents)]
    return found


def run_case(
    device: Device, case: Case, codes: dict[str, Code], *, seed: int, small: bool = False
) -> Row:
    """A row: for each compiler whether its code is right, then the median times, all measured in turn.

    ``small``: by the launch that simulators take, else by the whole one, of which the same part is checked.
    """
    row: Row = {
        "kernel": case.name,
        "group": case.group,
        "right": {},
        "seconds": {},
        "failures": {},
    }
    launches = _launches(case, small)
    for number, (arguments, grid) in enumerate(launches, 1):
        arrays = inputs_of(case, arguments, seed)
        jobs: dict[str, Any] = {}
        for name, code in codes.items():
            try:
                jobs[name] = _checked(
                    device, case, code, (arguments, grid), arrays, seed, row, name
                )
            except (TileIRError, RuntimeError) as error:
                row["failures"][name] = str(error).splitlines()[0]
                if device.gpu.driver.lost:
                    return row
        if number == len(launches):
            jobs |= _peers(case, arrays, row)
            jobs = {name: job for name, job in jobs.items() if job is not None}
            times, failures = samples(device, jobs, SAMPLES if not small else 2)
            row["failures"] |= failures
            row["seconds"] = {name: found.median for name, found in times.items()}
            row["samples"] = {name: list(found.seconds) for name, found in times.items()}
        device.free_all()
    return row


def _launches(case: Case, small: bool) -> list[tuple[Sequence[Any], tuple[int, int, int]]]:
    few = few_of(case)
    return [few] if small else [few, (case.arguments, case.grid)]


def _checked(
    device: Device,
    case: Case,
    code: Code,
    launch: tuple[Sequence[Any], tuple[int, int, int]],
    arrays: Sequence[Any],
    seed: int,
    row: Row,
    name: str,
) -> Any:
    """Launch once on fresh copies and compare; what launches again."""
    arguments, grid = launch
    addresses = [device.put(array) for array in arrays]
    job = device.launcher(code, grid, scalars_of(arguments, addresses))
    try:
        job.run()
    except TileIRError:
        if code.block is None or device.gpu.driver.lost:
            raise
        # A driver that does not know kernels of tiles wants the threads that the code says.
        job = device.launcher(replace(code, block=None), grid, scalars_of(arguments, addresses))
        job.run()
    outputs = reference_of(case).outputs
    after = [
        device.get(addresses[number], array) if number in outputs else array
        for number, array in enumerate(arrays)
    ]
    found = errors_of(case, arguments, arrays, after, seed)
    row["right"][name] = row["right"].get(name, True) and found["right"]
    row.setdefault("errors", {})[name] = found
    return job.run


def _peers(case: Case, arrays: Sequence[Any], row: Row) -> dict[str, Any]:
    """Jobs of torch and Triton; why there is none is in the row's failures."""
    outputs = reference_of(case).outputs
    inputs = [array for number, array in enumerate(arrays) if number not in outputs]
    jobs: dict[str, Any] = {}
    for name, peer in (("torch", gpu_torch), ("triton", gpu_triton)):
        if peer.peer_of(case) is None:
            continue
        if why := peer.why_not():
            row["failures"][name] = why
            continue
        try:
            jobs[name] = peer.job_of(case, inputs)
        except Exception as error:  # noqa: BLE001 (whatever a peer raises is its failure)
            row["failures"][name] = f"{type(error).__name__}: {error}"[:200]
    return jobs


def run_constant(device: Device, micro: gpu_micro.Micro, target: str, scale: int = 1) -> Row:
    """A row with the measured value of a constant beside that of the model."""
    gpu = gpu_micro.model_of(device.gpu.capability, device.gpu.name)
    row: Row = {"constant": micro.constant}
    if gpu is None:
        return row | {"failure": f"the model has no table for {device.gpu.name}"}
    try:
        clock = clock_rate(device, target)
        value = gpu_micro.measure(device, micro, gpu, target, clock, scale)
    except (TileIRError, RuntimeError) as error:
        return row | {"failure": str(error).splitlines()[0]}
    return row | {"gpu": gpu.name, "value": value, "model": gpu[micro.constant], "clock": clock}


def clock_rate(device: Device, target: str) -> float:
    """The clock of the multiprocessors in Hz: as a kernel counts it, else as nvidia-smi says it, else at most."""
    try:
        if (counted := gpu_micro.measured_clock(device, target)) > 0:
            return counted
    except (TileIRError, RuntimeError):
        if device.gpu.driver.lost:
            raise
    told = ask_gpu("clocks.sm")
    if told.replace(".", "").isdigit() and float(told) > 0:
        return float(told) * 1e6
    return device.gpu.attribute("CLOCK_RATE") * 1e3


def ask_gpu(what: str) -> str:
    """What nvidia-smi says of the first GPU; "" where it is not there."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().splitlines()[0].strip() if done.stdout.strip() else ""


def load_codes(folder: Path, case: Case) -> dict[str, Code]:
    """The machine code of a case that was made beforehand, by compiler."""
    facts = json.loads((folder / "codes.json").read_text(encoding="utf-8"))
    return {
        compiler: Code(
            (folder / held["file"]).read_bytes(),
            held["shared"],
            held["scratch"],
            tuple(TensorMapPlan.of_record(each) for each in held.get("maps", ())),
            TILE_KERNEL_BLOCK if compiler == "tileiras" else None,
            held.get("ptx", ""),
        )
        for compiler, held in facts.get(case.name, {}).items()
        if "file" in held
    }


def work(folder: Path, target: str, seed: int, names: Sequence[str], out: TextIO) -> None:
    """Do jobs, ``kernel:NAME`` and ``constant:NAME``, and write a line for each."""
    device = Device()
    known = {case.name: case for case in cases()}
    micros = {micro.constant: micro for micro in gpu_micro.MICROS}
    for name in names:
        kind, _, what = name.partition(":")
        # First that it is begun: whoever reads this knows what was done when the process ends early.
        out.write(json.dumps({"job": name}) + "\n")
        out.flush()
        if kind == "kernel":
            row = run_case(device, known[what], load_codes(folder, known[what]), seed=seed)
        else:
            row = run_constant(device, micros[what], target)
        out.write(json.dumps({"job": name, "row": row}) + "\n")
        out.flush()
        if device.gpu.driver.lost:
            return
    device.close()


def main(argv: Sequence[str] | None = None) -> None:
    folder, target, seed, file, *names = argv if argv is not None else sys.argv[1:]
    with Path(file).open("a", encoding="utf-8") as out:
        work(Path(folder), target, int(seed), names, out)


if __name__ == "__main__":
    main()
