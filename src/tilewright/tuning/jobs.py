"""The jobs of tuning: model a launch, or measure it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tilewright.campaign.jobs import Job
from tilewright.tuning.launches import KeptLaunch

if TYPE_CHECKING:
    from tilewright.model.profile import Profile
    from tilewright.model.tables import Gpu

#: The runs of a measurement, of which the shortest counts.
REPEATS = 5


def gpu_text(gpu: Gpu) -> str:
    """A GPU with its constants as text, for another process."""
    import json
    from dataclasses import asdict

    rows = {name: asdict(constant) for name, constant in gpu.constants.items()}
    return json.dumps({"gpu": gpu.name, "constants": rows}, sort_keys=True)


def gpu_of(text: str) -> Gpu:
    """The inverse of ``gpu_text``. Raises TileIRError where the constants are not those of its GPU."""
    import json

    from tilewright.model.tables import gpu_named, load_constants

    return load_constants(text, gpu_named(json.loads(text)["gpu"]))


def facts_of(name: str, found: Profile, count: int = 1) -> dict[str, Any]:
    """The facts of a launch that a ranking reports."""
    occupancy = found.occupancy
    return {
        "name": name,
        "count": count,
        "grid": list(found.grid),
        "threads": list(found.threads),
        "seconds": found.seconds,
        "roofline_seconds": found.roofline_seconds,
        "bound_by": found.bound_by,
        "blocks": occupancy.blocks,
        "warps": occupancy.warps,
        "most_warps": occupancy.most_warps,
        "limit": occupancy.limit,
        "registers": found.registers,
        "spills": found.spills,
        "shared_bytes": found.shared_bytes,
        "blind": [*found.blind, *(f"the time is a lower bound: {why}" for why in found.at_least)],
    }


def model_job(launch: KeptLaunch, gpu: str, static: bool, label: str) -> Job:
    """The job that models a launch for the GPU in ``gpu_text``'s form. ``static``: no block is run."""
    from tilewright.campaign.jobs import content_key

    arguments = {"launch": launch, "gpu": gpu, "static": static}
    key = content_key("model", launch.key, gpu, static)
    return Job("tilewright.tuning.jobs:model_launch", arguments, key, label)


def model_launch(launch: KeptLaunch, gpu: str, static: bool) -> dict[str, Any]:
    """The modelled time of a launch, in seconds, and the other facts of a ranking.

    Raises TileIRError if the kernel cannot be compiled for the GPU, or does not fit it.
    """
    from tilewright.bytecode import read
    from tilewright.passes.tileas.decisions import Decisions
    from tilewright.profiling import Asked, Profiler
    from tilewright.tuning.fit import check_fits

    module, modelled_for = read(launch.module, f"<bytecode of {launch.name}>"), gpu_of(gpu)
    check_fits(module.entry(launch.entry), modelled_for)
    asked = Asked(run_seconds=0.0) if static else Asked()
    decisions = Decisions.of(launch.decisions)
    profiler = Profiler(module, modelled_for, launch.entry, decisions)
    found = profiler.profile(launch.grid, launch.arguments, memory=launch.memory, asked=asked)
    return {"seconds": found.seconds, "launches": [facts_of(launch.name, found)], "ended": ""}


def measure_job(launch: KeptLaunch, machine: str, label: str) -> Job:
    """The job that measures a launch on a machine."""
    from tilewright.campaign.jobs import content_key

    arguments = {"launch": launch, "machine": machine}
    key = content_key("measure", launch.key, machine)
    return Job("tilewright.tuning.jobs:measure_launch", arguments, key, label)


def measure_launch(launch: KeptLaunch, machine: str) -> dict[str, Any]:
    """The shortest of several runs of a launch on a machine, in seconds; GPUs use their own clock.

    Raises TileIRError as a launch does.
    """
    from tilewright.bytecode import read
    from tilewright.launching.machine import load

    module = read(launch.module, f"<bytecode of {launch.name}>")
    if launch.decisions:
        from tilewright.gpu.tiles import TileProgram
        from tilewright.passes.tileas.decisions import Decisions

        program = TileProgram(module, decisions=Decisions.of(launch.decisions))
    else:
        program = load(module, machine)
    arguments = launch.arguments
    taken: list[float] = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        result = program.launch(launch.entry, launch.grid, arguments)
        taken.append(seconds_of(result, time.perf_counter() - started))
    # The first run includes loading code.
    return {"seconds": min(taken[1:]), "samples": REPEATS}


def seconds_of(result: object, wall: float) -> float:
    """The duration of a launch in seconds, by the machine's clock if it has one, else ``wall``, that of the caller."""
    milliseconds = getattr(result, "milliseconds", None)
    return wall if milliseconds is None else milliseconds / 1e3
