"""Options of the test suite."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.sampling import LONG, left_out, turn, wants_all

# How long an example takes depends on what else the machine does; slow is not wrong.
_SLOW_IS_FINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A commit's tests are the same in each run; a long run looks further each time.
settings.register_profile("house", _SLOW_IS_FINE, max_examples=50, derandomize=True)
settings.register_profile("long", _SLOW_IS_FINE, max_examples=200)
settings.load_profile("house")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would the commands that
# tests run and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests make many objects and hardly any cycles; like the command, they save a tenth of their time.
gc.set_threshold(300_000, 10, 30)

# Tests start hundreds of Python processes, each of which would compile again what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).resolve().parent.parent

#: What ``--quick`` runs: of each package, tests that say much in little time. Together they take about
#: a minute on two cores.
QUICK = (
    "tests/analysis/tileaa/test_bounds.py",
    "tests/bytecode/test_reader.py",
    "tests/bytecode/test_writer.py",
    "tests/cli/test_check.py",
    "tests/cli/test_compile.py",
    "tests/cli/test_main.py",
    "tests/cli/test_run.py",
    "tests/cli/test_sanitize.py",
    "tests/cpu/codegen/test_operations.py",
    "tests/cutile/test_errors.py",
    "tests/cutile/test_front_end.py",
    "tests/cutile/test_launch.py",
    "tests/diagnostics",
    "tests/docs/test_documents.py",
    "tests/examples/test_commands.py",
    "tests/gpu/test_launch.py",
    "tests/lowering/test_control_flow.py",
    "tests/machine/test_examples.py",
    "tests/machine/test_launch.py",
    "tests/machine/test_ops.py",
    "tests/machine/test_views.py",
    "tests/nv_tileaa/test_rules.py",
    "tests/passes/test_cases.py",
    "tests/sanitizer/test_races.py",
    "tests/sanitizer/test_sanitize.py",
    "tests/simulator/test_programs.py",
    "tests/test_builder.py",
    "tests/test_structure.py",
    "tests/test_without_llvmlite.py",
    "tests/text/test_forms.py",
    "tests/text/test_printing.py",
    "tests/verifier/test_cases.py",
)
_SKIPPED = "tilewright/skipped"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write what golden tests get as what they expect"
    )
    parser.addoption("--long", action="store_true", help="run the tests marked `long` too")
    parser.addoption(
        "--quick", action="store_true", help="run what says much in little time (QUICK in conftest)"
    )
    parser.addoption(
        "--only-skipped", action="store_true", help="run the tests that the last run skipped"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        os.environ[LONG] = "1"
        settings.load_profile("long")
    skipped = None
    if config.getoption("--only-skipped"):
        cache = getattr(config, "cache", None)  # absent with -p no:cacheprovider
        skipped = cache.get(_SKIPPED, None) if cache else None
        if skipped is None:
            raise pytest.UsageError("--only-skipped: there is no record of a run before this one")
    config.pluginmanager.register(Selection(skipped, quick=config.getoption("--quick")))


class Selection:
    """Which tests run, and which have been skipped."""

    def __init__(self, wanted: list[str] | None, *, quick: bool):
        self.wanted = None if wanted is None else set(wanted)
        self.files = None if wanted is None else {ROOT / id.partition("::")[0] for id in wanted}
        self.quick = [ROOT / name for name in QUICK] if quick else None
        self.skipped: set[str] = set()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.is_dir():
            return None
        if self.files is not None and collection_path not in self.files:
            return True
        if self.quick is not None and not any(map(collection_path.is_relative_to, self.quick)):
            return True
        return None

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self.wanted is not None:
            # A file that was skipped as a whole stands for all that is in it.
            named = {item: {item.nodeid, item.nodeid.partition("::")[0]} for item in items}
            config.hook.pytest_deselected(
                items=[item for item in items if not named[item] & self.wanted]
            )
            items[:] = [item for item in items if named[item] & self.wanted]
        if not config.getoption("--long"):
            short = [item for item in items if item.get_closest_marker("long") is None]
            if self.wanted is None and not wants_all(config):
                out = set(left_out(short, turn()))
                short = [item for item in short if item not in out]
            runs = set(short)
            config.hook.pytest_deselected(items=[item for item in items if item not in runs])
            items[:] = short

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        cache = getattr(session.config, "cache", None)
        if cache and not hasattr(session.config, "workerinput"):
            cache.set(_SKIPPED, sorted(self.skipped))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests that are collected are no garbage: nobody looks for any among them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_test_touches_the_users_cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(autouse=True)
def torch_draws_the_same_numbers() -> None:
    """What a test draws from torch, such as the weights of a model, is the same in each run."""
    if loaded := sys.modules.get("torch"):
        loaded.manual_seed(0)


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """A module's tests collect garbage often. What earlier modules have left is walked once, not each time: in a full run
    that takes seconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def no_torch_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of which PYTHONPATH hides torch."""
    folder = tmp_path_factory.mktemp("no-torch")
    (folder / "torch.py").write_text("raise ImportError('these tests do without torch')\n")
    return folder


@pytest.fixture
def torch() -> Any:
    """torch, in the processes that a test starts, too; the test is skipped where there is none."""
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def lean_processes(
    request: pytest.FixtureRequest, no_torch_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes that a test starts have no torch, unless the test asks for the fixture ``torch``:
    cuTile imports it wherever it is installed, and that takes three times as long as all the rest."""
    if "torch" not in request.fixturenames:
        path = [str(no_torch_here), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


@pytest.fixture(scope="session", autouse=True)
def workers_share_processors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Beside other workers, a campaign starts one process, not one for each processor: it takes a second to begin."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(request.config, "workerinput"):
            patch.setattr("tilewright.campaign.runner.processors", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def workers_share_exports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Half of what the workers make of the corpus would be made twice."""
    if hasattr(request.config, "workerinput"):
        from tests import corpus

        corpus.shared_exports = tmp_path_factory.getbasetemp().parent / "exports"
        corpus.shared_exports.mkdir(exist_ok=True)
