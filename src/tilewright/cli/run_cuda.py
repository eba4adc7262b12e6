"""``tilewright run --machine cuda``: kernels of ``nvgpu`` on a GPU."""

from __future__ import annotations

import argparse

from tilewright.cli.compile_gpu import gpu_module
from tilewright.cli.exits import Exit
from tilewright.cli.modules import load
from tilewright.cli.progress import working
from tilewright.cli.session import Session, UsageError

CUDA = "cuda"
#: Options of other machines.
_OTHERS = ("threads", "cpu", "checked", "trace", "arithmetic", "numerics", "timeline", "counters")


def is_cuda(options: argparse.Namespace) -> bool:
    return options.machine.partition(":")[0] == CUDA


def execute(options: argparse.Namespace, session: Session) -> int:
    """Compile a kernel for the GPU that is there, or for the architecture behind the colon, and run it.

    Arrays are copied to the GPU, and back.
    """
    for name in _OTHERS:
        if getattr(options, name, None):
            raise UsageError.because(f"the GPU has no --{name}")
    module = gpu_module(load(options.file, options, session), options.file)
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_sim import parameters_of
    from tilewright.cli.run_specs import bind
    from tilewright.gpu import compile_kernel, kernels_of
    from tilewright.gpu.driver import open_gpu
    from tilewright.gpu.launch import launch

    kernels = kernels_of(module)
    if options.entry is None and len(kernels) > 1:
        raise UsageError.because(
            f"there are several kernels: {', '.join(kernels)}", help="name one with --entry"
        )
    arch = options.machine.partition(":")[2] or open_gpu().best_architecture().name
    compiled = compile_kernel(module, arch, options.entry)
    kernel = next(op for name, op in kernels.items() if options.entry in (None, name))
    parameters = parameters_of(kernel)
    values = bind(parameters, options.arguments, options.seed)
    results = Results(parameters, values, options)
    with working(f"running {compiled.name}"):
        found = launch(
            compiled,
            options.grid,
            values,
            block=options.block,
            cluster=options.cluster,
            dynamic_shared_bytes=options.dynamic_shared,
        )
    results.save(session)
    differing = results.compare()
    if options.json:
        about = {
            "entry": compiled.name,
            "machine": options.machine,
            "device": found.device,
            "architecture": arch,
            "grid": list(options.grid),
            "milliseconds": found.milliseconds,
        }
        session.write_stdout(results.to_json(about))
    else:
        session.write_stdout(results.shown())
        session.say(f"{compiled.name} on {found.device}: {found.milliseconds:.3f} ms")
    session.report(differing)
    return Exit.FINDINGS if differing else Exit.OK
