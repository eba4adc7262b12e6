"""Spaces: values of names, conditions, and their combinations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.diagnostics import TileIRError
from tilewright.tuning.space import Axis, axis_of, condition_of, configurations, spelled


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("TM=64", (64,)),
        ("TM = 64, 128", (64, 128)),
        ("how=fast,slow", ("fast", "slow")),
        ("shape=(64, 32),(32, 64)", ((64, 32), (32, 64))),
        ("x=1,1.0,True", None),
        ("flag=True,False", (True, False)),
        ("x=-1,2.5,None", (-1, 2.5, None)),
        ("x='a,b'", ("a,b",)),
        ("x=64,auto", (64, "auto")),
    ],
)
def test_axes(text: str, values: tuple[object, ...] | None) -> None:
    found = axis_of(text)
    if values is None:
        assert list(map(type, found.values)) == [int, float, bool]
    else:
        assert found.values == values


@pytest.mark.parametrize(
    "text", ["", "TM", "=64", "TM=", "TM=64,,128", "TM=64,64", "3=4", "a b=1", "a.b=1"]
)
def test_what_is_no_axis(text: str) -> None:
    with pytest.raises(TileIRError):
        axis_of(text)


def test_conditions() -> None:
    axes = [axis_of("TM=32,64,128"), axis_of("TN=32,64")]
    found = configurations(axes, [condition_of("TM * TN <= 4096 and TM >= TN", ["TM", "TN"])])
    assert [spelled(each) for each in found] == [
        "TM=32 TN=32",
        "TM=64 TN=32",
        "TM=64 TN=64",
        "TM=128 TN=32",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TM <", "not a Python expression"),
        ("TK > 1", "unknown name TK"),
        ("__import__('os')", "unknown name __import__"),
        ("TM // 0", "ZeroDivisionError"),
        ("TM > 1000", "no configuration"),
        ("x = 3", "not a Python expression"),
    ],
)
def test_bad_conditions(text: str, message: str) -> None:
    with pytest.raises(TileIRError, match=rf"\[tune-bad-space\]: .*{message}"):
        configurations([axis_of("TM=32,64")], [condition_of(text, ["TM"])])


def test_bad_spaces() -> None:
    with pytest.raises(TileIRError, match="given twice"):
        configurations([axis_of("TM=1"), axis_of("TM=2")])
    many = Axis("a", tuple(range(1000)))
    with pytest.raises(TileIRError, match="1,000,000 configurations"):
        configurations([many, Axis("b", many.values)])


@given(
    st.dictionaries(
        st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=5),
        st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4, unique=True),
        min_size=1,
        max_size=4,
    )
)
def test_every_combination_once(space: dict[str, list[int]]) -> None:
    axes = [axis_of(f"{name}={','.join(map(str, values))}") for name, values in space.items()]
    found = [tuple(each.items()) for each in configurations(axes)]
    count = 1
    for values in space.values():
        count *= len(values)
    assert len(found) == len(set(found)) == count
    assert all(each[name] in space[name] for each in map(dict, found) for name in space)
