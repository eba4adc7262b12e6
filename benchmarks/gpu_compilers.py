"""The two compilers whose GPU code is compared, each in processes of its own with a limit of time."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu_cases import Case, strides_of
from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan

TARGETS = ("sm_80", "sm_90a", "sm_120a")
CACHE = Path(__file__).resolve().parent / ".cache" / "tileiras"
#: CPU seconds that a compiler, and a run on the simulator, may take.
COMPILE_LIMIT, SIMULATE_LIMIT = 120.0, 60.0
#: Times its CPU seconds that a job may take by the clock: where others use the machine, it has a part of it only.
PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code, and CPU seconds of each compilation, those of child processes included.

    ``dynamic_shared_bytes`` is shared memory that launches give, ``scratch_bytes`` global memory for each block,
    ``maps`` the tensor maps that they make. ``ptx``: what the machine code was made of, where we know it.
    ``failure`` tells why there is none.
    """

    cubin: bytes = b""
    seconds: tuple[float, ...] = ()
    dynamic_shared_bytes: int = 0
    failure: str = ""
    scratch_bytes: int = 0
    maps: tuple[TensorMapPlan, ...] = ()
    ptx: str = ""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the simulator counted in a small launch of our code; the values of its arguments afterwards, and why
    the lowering fell back to the direct one, if it did."""

    counters: dict[str, int] = field(default_factory=dict)
    failure: str = ""
    values: tuple[Any, ...] = ()
    fallback: str = ""


def in_process(job: Callable[[], Any], limit: float, patience: float = PATIENCE) -> Any:
    """What a job returns in a forked process; TimeoutError where this, or a process that it starts, takes more than
    ``limit`` CPU seconds, or ``patience`` times as long by the clock."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def limited() -> None:
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), most))
        sender.send(job())

    process = context.Process(target=limited, daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit * patience):
            raise TimeoutError(f"no end within {limit * patience:g} s")
        return receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise TimeoutError(f"no end within {limit:g} CPU seconds") from None
        raise RuntimeError(f"the process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()


def ours(bytecode: bytes, target: str, runs: int = 1) -> Compiled:
    """Tilewright's machine code. Seconds are from bytecode to cubin, without imports."""

    def job() -> Compiled:
        import tilewright.bytecode.reader  # Loaded on first use: imports are not counted.
        from tilewright.diagnostics import TileIRError
        from tilewright.gpu.tiles import TileProgram

        gc.freeze()  # What this process got from its parent, no collection walks.
        started = time.process_time()
        try:
            program = TileProgram(tilewright.read(bytecode), target)
            kernel = program.compile()
            made = kernel.assemble()
        except TileIRError as error:
            return Compiled(failure=str(error).splitlines()[0])
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = time.process_time() - started + children.ru_utime + children.ru_stime
        scratch = program.scratch_bytes()
        shared, maps = kernel.dynamic_shared_bytes, program.tensor_maps()
        return Compiled(made.cubin, (spent,), shared, "", scratch, maps, kernel.ptx)

    return _repeated(job, runs)


def _repeated(job: Callable[[], Compiled], runs: int) -> Compiled:
    found = Compiled()
    for _ in range(runs):
        try:
            new = in_process(job, COMPILE_LIMIT)
        except (TimeoutError, RuntimeError) as error:
            return Compiled(failure=str(error))
        if new.failure:
            return new
        found = replace(new, seconds=found.seconds + new.seconds)
    return found


@cache
def tileiras_path() -> Path | None:
    """NVIDIA's compiler, where its wheel is installed."""
    spec = find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "cu13" / "bin" / "tileiras"
        if os.access(path, os.X_OK):
            return path
    return None


def _tileiras_version() -> str:
    try:
        return version("nvidia-cuda-tileiras")
    except PackageNotFoundError:
        return "unknown"


def tileiras(bytecode: bytes, target: str, runs: int = 1) -> Compiled:
    """The machine code of NVIDIA's compiler; kept by the hash of bytecode, target and version."""
    path = tileiras_path()
    if path is None:
        return Compiled(failure="tileiras is not installed")
    name = target.removesuffix("a")
    content = b"\0".join((bytecode, name.encode(), _tileiras_version().encode()))
    key = hashlib.sha256(content).hexdigest()
    cubin, facts = CACHE / f"{key}.cubin", CACHE / f"{key}.json"
    if facts.exists():
        known = json.loads(facts.read_text())
        if len(known["seconds"]) >= runs or known["failure"]:
            held = b"" if known["failure"] else cubin.read_bytes()
            return Compiled(held, tuple(known["seconds"]), 0, known["failure"])
    found = _repeated(lambda: _run_tileiras(path, bytecode, name), runs)
    if "no end within" not in found.failure:
        CACHE.mkdir(parents=True, exist_ok=True)
        cubin.write_bytes(found.cubin)
        facts.write_text(json.dumps({"seconds": found.seconds, "failure": found.failure}))
    return found


def _run_tileiras(path: Path, bytecode: bytes, name: str) -> Compiled:
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, "kernel.tileirbc"), Path(directory, "kernel.cubin")
        source.write_bytes(bytecode)
        command = [str(path), f"--gpu-name={name}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == -signal.SIGXCPU:
            return Compiled(failure=f"no end within {COMPILE_LIMIT:g} CPU seconds")
        if done.returncode:
            # Positions before the message hold paths of this machine.
            found = re.search(r"error: (.*)", done.stderr)
            return Compiled(failure=found[1][:200] if found else f"exit status {done.returncode}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Compiled(target.read_bytes(), (used.ru_utime + used.ru_stime,))


def simulate(
    case: Case, bytecode: bytes, target: str, given: Sequence[Any] | None = None
) -> Simulated:
    """The counters of a small launch of our code on the simulator. ``given``: the arguments of the entry, of
    which the values afterwards are wanted."""

    def job() -> Simulated:
        import tilewright
        from tilewright.diagnostics import TileIRError
        from tilewright.simulator.tiles import TileProgram

        values = _values(case) if given is None else list(given)
        try:
            program = TileProgram(tilewright.read(bytecode), target)
            found = program.launch(
                None,
                case.few_grid,
                values,
                tilewright.LaunchOptions(allow_overlap=True, strict=False),
            )
        except TileIRError as error:
            return Simulated(failure=str(error).splitlines()[0])
        wrong = found.errors[0].message if found.errors else ""
        fallback = "; ".join(str(error).splitlines()[0] for error in program.fallbacks.values())
        held = () if given is None else tuple(values)
        return Simulated(found.counters.as_dict(), wrong, held, fallback)

    try:
        return in_process(job, SIMULATE_LIMIT)
    except (TimeoutError, RuntimeError) as error:
        return Simulated(failure=str(error))


def _values(case: Case) -> list[Any]:
    """Arguments of the entry for the small launch."""
    import ml_dtypes
    import numpy as np

    types = {
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
        "float32": np.float32,
        "int32": np.int32,
        "int8": np.int8,
        "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    }
    rng = np.random.default_rng(0)
    values: list[Any] = []
    for argument in case.few:
        if isinstance(argument, float):
            values.append(np.float32(argument))
        elif len(argument) == 2:
            dtype, extents = argument
            kind = types[dtype.name]
            held = rng.integers(0, 4, extents) if "int" in dtype.name else rng.random(extents)
            values += [held.astype(kind), *extents, *strides_of(extents)]
    return values
