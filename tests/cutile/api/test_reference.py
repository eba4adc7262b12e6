"""Every public name of cuTile is used here or has a reason why not; the document says so."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

import cuda.tile as ct
from tests.corpus import cutile_release
from tests.cutile.api import parameters
from tests.cutile.api._cases import all_cases
from tests.cutile.api.features import users_of_features
from tests.cutile.api.host import ANNOTATIONS, PROGRAMS
from tests.cutile.api.recording import recording
from tests.cutile.api.table import DOCUMENT, MACHINES, NOT_USED, document, groups, uses

from tilewright.cutile import launch, on

pytestmark = pytest.mark.skipif(
    cutile_release() != (1, 7), reason="the document is about the interface of cuTile 1.7"
)


def test_every_name_is_used_or_has_a_reason() -> None:
    names = {name for group in groups().values() for name in group}
    missing = names - uses().keys() - NOT_USED.keys()
    assert not missing
    assert NOT_USED.keys() <= names
    assert not NOT_USED.keys() & uses().keys()


def test_every_name_that_is_used_is_used_on_both_machines() -> None:
    assert {name for name, users in uses().items() if not users.keys() >= set(MACHINES)} == set()


def test_the_document_is_up_to_date(request: pytest.FixtureRequest) -> None:
    text = document()
    if request.config.getoption("--bless"):
        DOCUMENT.write_text(text, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == text


def test_every_feature_of_the_language_is_used() -> None:
    assert [feature for feature, users in users_of_features().items() if not users] == []


def test_names_of_cases_are_their_own() -> None:
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names)


def test_programs_name_what_they_use() -> None:
    for program in PROGRAMS:
        source = inspect.getsource(inspect.getmodule(program.run))  # pyright: ignore
        for name in program.names:
            module, _, last = name.partition("(")[0].rpartition(".")
            spelled = f"{module or 'ct'}.{last}" if module != "kernel" else f".{last}("
            assert spelled in source, (program.run.__name__, name)
    source = inspect.getsource(parameters)
    for name in ANNOTATIONS:
        assert f"ct.{name}" in source


def _refuses_numbers(x):
    ct.store(x, (0, 0), 2 @ ct.load(x, (0, 0), (4, 4)))


def _refuses_clusters(x):
    ct.atomic_add(x, (0, 0), 1, memory_scope=ct.MemoryScope.CLUSTER)


@pytest.mark.parametrize("body", [_refuses_numbers, _refuses_clusters])
def test_what_is_said_to_be_refused_is_refused_by_cutile(body) -> None:
    import numpy as np

    with pytest.raises(ct.TileError):
        launch(0, (1,), ct.kernel(body), (np.zeros((4, 4), np.float32),))


def test_the_recorder_sees_what_is_used_and_nothing_else() -> None:
    import numpy as np

    @ct.kernel
    def small(x):
        ct.store(x, (0,), 1 + ct.load(x, (0,), (4,), padding_mode=ct.PaddingMode.NAN))

    with recording() as used, on():
        ct.launch(0, (1,), small, (np.zeros(4, np.float32),))
    values = {"MemoryOrder.WEAK", "MemoryScope.NONE", "PaddingMode.NAN"}
    assert used == {"load", "store", "load(padding_mode)", "Tile.__radd__"} | values
