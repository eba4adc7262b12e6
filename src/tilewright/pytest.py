"""A pytest plugin that runs a test suite's cuTile launches on one of our machines, without a GPU.

    pytest -p tilewright.pytest --tilewright-machine=reference --tilewright-sanitize

The CPU serves torch's device ``cuda``, so tests parametrised over devices run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

_stack = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilewright", "cuTile kernels without a GPU")
    group.addoption(
        "--tilewright-machine",
        metavar="NAME",
        default=None,
        help="what runs the kernels: reference (default), cpu, sim:ARCH, cuda",
    )
    group.addoption(
        "--tilewright-sanitize", action="store_true", help="run every launch with every check on"
    )
    group.addoption(
        "--tilewright-seeds",
        type=int,
        default=None,
        metavar="N",
        help="schedules that each launch is checked under (default 4; with sim:ARCH 1)",
    )
    group.addoption(
        "--tilewright-resident",
        type=int,
        default=None,
        metavar="N",
        help="no more than N tile blocks are live at once (default: all)",
    )
    group.addoption(
        "--tilewright-find-nan",
        action="store_true",
        help="fail where a kernel makes a NaN or an infinity, or loses a value in a conversion",
    )
    group.addoption(
        "--tilewright-time-limit",
        type=float,
        default=None,
        metavar="S",
        help="fail where a launch takes longer than S seconds, compilation left out",
    )
    group.addoption(
        "--tilewright-no-torch-cuda",
        action="store_true",
        help="leave torch as it is, without a device cuda",
    )
    group.addoption(
        "--tilewright-skip-refused",
        action="store_true",
        help="skip tests that use what the machine does not support; otherwise they fail",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before the first conftest.py, since those of cuTile's users check for a GPU.
    _start(early_config, early_config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if _stack not in config.stash:  # loaded by a conftest.py, not by -p
        _start(config, config.option)


def _start(config: pytest.Config, options: Any) -> None:
    from tilewright.cutile.frontend import FrontEndError
    from tilewright.cutile.machines import check_settings
    from tilewright.cutile.program import hosting
    from tilewright.cutile.settings import Settings, write_stdout
    from tilewright.diagnostics import TileIRError
    from tilewright.launching.machine import DEFAULT_MACHINE
    from tilewright.launching.options import LaunchOptions

    is_sim = (options.tilewright_machine or "").partition(":")[0] == "sim"
    has_schedules = options.tilewright_sanitize or is_sim
    seeds: int | None = options.tilewright_seeds
    if seeds is not None and (seeds < 1 or (seeds > 1 and not has_schedules)):
        raise pytest.UsageError(
            "--tilewright-seeds takes a number of at least 1, and needs --tilewright-sanitize or "
            "--tilewright-machine=sim:ARCH"
        )
    stack = ExitStack()
    try:
        settings = Settings(
            options.tilewright_machine or DEFAULT_MACHINE,
            LaunchOptions(
                sanitize=options.tilewright_sanitize,
                seeds=seeds if has_schedules else None,
                resident=options.tilewright_resident,
                find_nan=options.tilewright_find_nan,
                time_limit=options.tilewright_time_limit,
                print_to=write_stdout,
            ),
            cuda_is_host=not options.tilewright_no_torch_cuda,
        )
        check_settings(settings)
        stack.enter_context(hosting(settings, torch_cuda=settings.cuda_is_host))
    except (FrontEndError, TileIRError) as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_stack] = stack


def pytest_unconfigure(config: pytest.Config) -> None:
    stack = config.stash.get(_stack, None)
    if stack is not None:
        stack.close()


def pytest_report_header(config: pytest.Config) -> str:
    machine = config.getoption("tilewright_machine") or "the reference machine"
    checks = ", every check on" if config.getoption("tilewright_sanitize") else ""
    return f"tilewright: cuTile launches run on {machine}{checks}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    from tilewright.cutile.errors import RefusedError

    outcome: Any = yield
    if item.config.getoption("tilewright_skip_refused") and outcome.excinfo is not None:
        error = outcome.excinfo[1]
        if isinstance(error, RefusedError):
            outcome.force_exception(pytest.skip.Exception(error.diagnostics[0].message))
