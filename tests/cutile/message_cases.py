"""Launches that cuTile refuses. ``python -m tests.cutile.message_cases`` tells what its own extension
says of them."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

if __name__ == "__main__":
    from tests.cutile.native import install_paper_driver

    # Before the extension looks for a driver.
    install_paper_driver()

import cuda.tile as ct


class Own:
    pass


class OwnDict(dict):  # type: ignore[type-arg]
    pass


Named = collections.namedtuple("Named", "x")


def things() -> list[Any]:
    """Objects of many types, of Python and of C, that are no arrays."""
    return [
        None, "s", b"b", Own(), Own, OwnDict(), {}, {1}, frozenset(), decimal.Decimal(1),
        fractions.Fraction(1, 2), 1j, datetime.date(2020, 1, 1), pathlib.PurePath("."), ..., slice(1),
        range(3), things, len, ct, ct.float32, np.float32, np.float32(1), np.int64(1), np.bool_(True),
        np.datetime64("2020"), [], [1], ["x"], [Own()], [None], [collections.deque()], (Own(),),
        ("x",), Named(1), collections.deque(), collections.OrderedDict(), enum.Enum("E", "A").A,
        2**63, 2**64, -(2**63) - 1, object(), type, ValueError("x"), re.compile("x"), iter([]),
    ]  # fmt: skip


def launches() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """A name, and the arguments of ``cuda.tile.launch``."""

    @ct.kernel
    def none() -> None:
        pass

    @ct.kernel
    def one(a: Any) -> None:
        pass

    @ct.kernel
    def two(a: Any, b: Any) -> None:
        pass

    @ct.kernel
    def constant(a: Any, n: ct.Constant[int]) -> None:
        pass

    for count, kernel in enumerate((none, one, two)):
        for given in range(4):
            if given != count:
                yield f"{given} for {count}", (0, (1,), kernel, (1,) * given), {}
    for number, thing in enumerate(things()):
        name = f"{number} {type(thing).__name__}"
        # What cuTile takes would begin to run.
        refused = ("s",)
        yield f"argument {name}", (0, (1,), two, (thing, "s")), {}
        yield f"constant {name}", (0, (1,), constant, ("s", thing)), {}
        yield f"item {name}", (0, (1,), two, ([thing], "s")), {}
        yield (
            f"arguments {name}",
            (0, (1,), one, refused if isinstance(thing, tuple) else thing),
            {},
        )
        yield f"kernel {name}", (0, (1,), thing, (1,)), {}
        yield f"grid {name}", (0, thing, one, refused), {}
        yield f"extent {name}", (0, (1, thing), one, refused), {}
        yield f"stream {name}", (thing, (1,), one, refused), {}

    @ct.kernel
    def wide(a: ct.ScalarInt64) -> None:
        pass

    for number in (2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 2**64):
        yield f"argument {number}", (0, (1,), one, (number,)), {}
        yield f"in a tuple {number}", (0, (1,), one, ((1, number),)), {}
        if not -(2**63) <= number < 2**63:
            yield f"wide {number}", (0, (1,), wide, (number,)), {}
    for grid in ((1,) * 4, (1,) * 7, (-1,), (2**24,), (1, 2**24), (2**32,), (2**64,)):
        yield f"grid {grid}", (0, grid, one, ("s",)), {}
    arguments = (0, (1,), one, ("s",))
    for length in (0, 1, 2, 3):
        yield f"{length} positional", arguments[:length], {}
    yield "5 positional", (*arguments, 1), {}
    for keywords in ({"x": 1}, {"stream": 0}, {"programmatic_dependent_launch": 1}):
        yield str(keywords), arguments, keywords


def messages(launch: Any) -> dict[str, str]:
    """What is said of each."""
    found: dict[str, str] = {}
    for name, arguments, keywords in launches():
        try:
            launch(*arguments, **keywords)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is compared)
            # An address is in the repr of some objects.
            found[name] = re.sub("0x[0-9a-f]+", "0x", f"{type(error).__name__}: {error}")
        else:
            found[name] = "accepted"
    return found


if __name__ == "__main__":
    from cuda.tile._cext import launch

    print(json.dumps(messages(launch)))
