"""Whatever is given to a method of the builder, the error is ours: with its name, at the caller's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from tilewright.builder import Builder, BuilderError, ModuleBuilder, Value, ptr, tile
from tilewright.builder.checks import rule_of
from tilewright.builder.operations import Operations

NONSENSE: tuple[Any, ...] = (
    None, 7, -3, 2.5, "x", "", b"x", object(), [None], ["x"], [1.5], [[1]], {}, {"x": 1}, 1j, True, dict,
    np.zeros(3), [2**70], 2**70,
)  # fmt: skip


#: What Python says of its objects tells nothing of an operation.
PYTHONS_WORDS = (
    "' object ", "object has no", "not iterable", "not supported", "unhashable", "truth value",
    "invalid literal", "argument must be",
)  # fmt: skip


def vector(k: Builder) -> Value:
    return k.zeros((4,), "f32")


def view(k: Builder) -> Value:
    return k.make_tensor_view(k.args.p, [8, 8], [8, 1])


#: By method: arguments that are right, of which one at a time is replaced.
RIGHT: dict[str, Callable[[Builder], tuple[Any, ...]]] = {
    "partition": lambda k: (view(k), (4, 4)),
    "strided": lambda k: (view(k), (4, 4), (2, 2)),
    "gather_scatter": lambda k: (view(k), (4, 4), 0),
    "make_tensor_view": lambda k: (k.args.p, [4], [1]),
    "constant": lambda k: (1, "i32"),
    "constant_for": lambda k: ("constant", 1, "i32"),
    "for_": lambda k: (3,),
    "loop_": lambda k: (),
    "if_": lambda k: (k.args.i > 1,),
    "else_": lambda k: (),
    "break_": lambda k: (),
    "continue_": lambda k: (),
    "reduce": lambda k: (vector(k), 0, 0.0, Builder.addf),
    "scan": lambda k: (vector(k), 0, 0.0, Builder.addf),
    "where": lambda k: (k.args.i > 1, vector(k), vector(k)),
    "broadcast_to": lambda k: (vector(k), (4, 4)),
    "full": lambda k: ((4,), 1, "f32"),
    "zeros": lambda k: ((4,), "f32"),
    "arange": lambda k: (4,),
    "convert": lambda k: (vector(k), "f16"),
    "mma": lambda k: (k.zeros((4, 4), "f32"), k.zeros((4, 4), "f32")),
    "maximum": lambda k: (vector(k), vector(k)),
    "minimum": lambda k: (vector(k), vector(k)),
    "fold": lambda k: ("sum", vector(k), 0, False),
    "compare": lambda k: ("<", vector(k), vector(k)),
    "binary": lambda k: ("+", vector(k), vector(k)),
    "unary": lambda k: ("-", vector(k)),
    "value_of": lambda k: ("constant", 1, vector(k).type),
    "op": lambda k: ("addf", vector(k), vector(k)),
}
#: What structure calls itself with what it has made.
INNER = frozenset({"append", "inside", "ended", "fill"})
#: Methods that judge their arguments themselves.
UNCHECKED = frozenset({"binary", "unary", "op", "constant_for", "value_of", "build"})
OF_VALUES = {
    "sum": (0,), "max": (0,), "min": (0,), "reshape": ((2, 2),), "broadcast_to": ((4, 4),),
    "transpose": (0,), "to": ("f16",), "named": ("x",),
}  # fmt: skip


def own_methods(cls: type) -> list[str]:
    made = {name for name in vars(Operations) if name != "op"}
    return sorted(
        name
        for name in dir(cls)
        if not name.startswith("_")
        and inspect.isfunction(getattr(cls, name))
        and name not in INNER
        and (name not in made or getattr(cls, name) is not getattr(Operations, name))
    )


def wrong(call: Callable[[Builder], Any]) -> str:
    """How a call fails that does not raise our error here; nothing where it does, or works."""
    with ModuleBuilder().entry("k", {"p": ptr("f32"), "i": "i32"}) as k:
        try:
            made = call(k)
            if isinstance(made, AbstractContextManager):
                with made:
                    pass
        except BuilderError as error:
            first = error.diagnostics[0]
            if first.file != __file__ or not first.message:
                return "no line, or no words"
            return first.message if any(map(first.message.__contains__, PYTHONS_WORDS)) else ""
        except Exception as error:  # noqa: BLE001 (any but ours is what is looked for)
            return f"{type(error).__name__}: {error}"
    return ""


def parameters_of(method: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())[1:]


def test_all_methods_are_tried() -> None:
    assert set(own_methods(Builder)) == set(RIGHT)
    assert set(own_methods(Value)) == set(OF_VALUES)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_nonsense_for_methods_written_by_hand(name: str) -> None:
    found: dict[str, str] = {}
    for position, parameter in enumerate(parameters_of(getattr(Builder, name))):
        for value in NONSENSE:
            if parameter.annotation in ("Body", "Body | None") and callable(value):
                continue  # which raises what it likes

            def call(
                k: Builder,
                position: int = position,
                value: Any = value,
                parameter: inspect.Parameter = parameter,
            ) -> Any:
                arguments, keywords = list(RIGHT[name](k)), {}
                if position < len(arguments):
                    arguments[position] = value
                elif parameter.kind is parameter.VAR_POSITIONAL:
                    arguments.append(value)
                else:
                    keyword = parameter.kind is not parameter.VAR_KEYWORD
                    keywords[parameter.name if keyword else "unheard_of"] = value
                return getattr(k, name)(*arguments, **keywords)

            if problem := wrong(call):
                found[f"{parameter.name}={value!r:.20}"] = problem
    assert not found


@pytest.mark.parametrize("name", sorted(OF_VALUES))
def test_nonsense_for_methods_of_values(name: str) -> None:
    found: dict[str, str] = {}
    for value in NONSENSE:
        keywords = {p.name for p in parameters_of(getattr(Value, name)) if p.kind is p.KEYWORD_ONLY}
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((value,), {})]
        calls += [(OF_VALUES[name], {key: value}) for key in sorted(keywords)]
        if name == "to":
            calls += [(OF_VALUES[name], {key: value}) for key in ("signed", "unheard_of")]
        for arguments, given in calls:
            if problem := wrong(lambda k, a=arguments, g=given: getattr(vector(k), name)(*a, **g)):
                found[f"{arguments} {given}"] = problem
    assert not found


def test_nonsense_for_each_operation() -> None:
    """Each keyword of each operation has another part of the nonsense; over all have had all."""
    made = [name for name in dir(Operations) if name not in RIGHT and not name.startswith("_")]
    found: dict[str, str] = {}
    turn = 0
    for name in made:
        parameters = parameters_of(getattr(Builder, name))
        for parameter in parameters:
            turn += 5
            for value in (*NONSENSE, *NONSENSE)[turn % len(NONSENSE) :][:5]:

                def call(
                    k: Builder,
                    value: Any = value,
                    name: str = name,
                    parameter: inspect.Parameter = parameter,
                    parameters: list[inspect.Parameter] = parameters,
                ) -> Any:
                    needed = [p for p in parameters if p.default is p.empty]
                    operands = [p for p in needed if p.kind is p.POSITIONAL_OR_KEYWORD]
                    given: dict[str, Any] = {p.name: vector(k) for p in operands}
                    return getattr(k, name)(**given | {parameter.name: value})

                if problem := wrong(call):
                    found[f"{name}({parameter.name}={value!r:.20})"] = problem
    assert not found


OF_MODULES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "module": ({}, ("name", "producer", "debug_info")),
    "entry": ({"name": "k"}, ("name", "parameters", "hints")),
    "global": (
        {"name": "g", "values": [1], "elem": "i32"},
        ("name", "values", "elem", "alignment", "constant", "private"),
    ),
}


@pytest.mark.parametrize("what", sorted(OF_MODULES))
def test_nonsense_for_modules(what: str) -> None:
    right, names = OF_MODULES[what]
    found: dict[str, str] = {}
    for name in names:
        for value in NONSENSE:
            given = right | {name: value}
            try:
                if what == "module":
                    ModuleBuilder(**given)
                elif what == "global":
                    ModuleBuilder().global_(**given)
                else:
                    with ModuleBuilder().entry(**given):
                        pass
            except BuilderError as error:
                first = error.diagnostics[0]
                assert first.file == __file__ and first.message.startswith(what), name
            except Exception as error:  # noqa: BLE001 (any but ours is what is looked for)
                found[f"{name}={value!r:.20}"] = f"{type(error).__name__}: {error}"
    assert not found


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda m: m.entry("k", {"x": tile((4,), "f32")}), "must have scalar types"),
        (lambda m: m.entry("first"), "a symbol 'first' already"),
        (lambda m: m.entry("k", {"a b": "f32"}), "'a b' is not a valid name"),
        (lambda m: m.global_("first", [1], "i32"), "a symbol 'first' already"),
        (lambda m: m.entry("k", hints=3), "hints are given by target, such as sm_100, not as 3"),
        (
            lambda m: m.entry("k", hints={"sm_100": 3}),
            "hints of sm_100 are given by name, not as 3",
        ),
        (
            lambda m: m.entry("k", hints={"sm_100": {"occupancy": 1.5}}),
            "occupancy of sm_100 is a whole number or a bool, not 1.5",
        ),
    ],
)
def test_kernels_and_globals_are_checked_at_once(
    attempt: Callable[[ModuleBuilder], Any], words: str
) -> None:
    module = ModuleBuilder()
    with module.entry("first"):
        pass
    with pytest.raises(BuilderError, match=words) as caught, attempt(module):
        pass
    assert caught.value.diagnostics[0].file == __file__
    assert len(module.build().entries) == 1


@pytest.mark.parametrize(
    ("what", "attempt", "words"),
    [
        ("loop", lambda k: k.loop_(result_types=7), "result_types is a list of types, not 7"),
        ("loop", lambda k: k.loop_(result_types="i32"), "result_types is a list of types"),
        ("loop", lambda k: k.loop_(result_types=["i33"]), "unknown element type 'i33'"),
        ("loop", lambda k: k.loop_(body=3), "body is a function that builds, not 3"),
        ("for", lambda k: k.for_(3, unsigned="no"), "unsigned is True or False, not 'no'"),
        ("scan", lambda k: k.scan(vector(k), 0.5, 0, Builder.addf), "dim is a whole number"),
        ("cat", lambda k: k.cat(vector(k), vector(k), dim=0.7), "dim is"),
        ("print_tko", lambda k: k.print_tko(str=3), "str is"),
        ("reshape", lambda k: vector(k).reshape(2, 2.5), "whole numbers, not (2, 2.5)"),
        ("convert", lambda k: vector(k).to("f16", signed=2), "signed is True or False, not 2"),
        ("make_partition_view", lambda k: k.partition(3, (4,)), "is a view that make_tensor_view"),
        ("make_partition_view", lambda k: k.partition(view(k), 4), "tile is a list of whole numbers"),
        ("zeros", lambda k: k.zeros((4,)), "missing a required argument: 'elem'"),
        ("break", lambda k: k.break_(), "is not in a loop"),
        ("continue", lambda k: k.continue_([]), "is not in a loop"),
    ],
)  # fmt: skip
def test_what_is_told(what: str, attempt: Callable[[Builder], object], words: str) -> None:
    kernel = ModuleBuilder().entry("k", {"p": ptr("f32"), "i": "i32"})
    with kernel as k, pytest.raises(BuilderError) as caught:
        attempt(k)
    first = caught.value.diagnostics[0]
    assert first.message.startswith(what) and words in first.message
    assert (first.file, first.line) == (__file__, attempt.__code__.co_firstlineno)


def test_no_annotation_is_misspelled() -> None:
    """Those that are checked are spelled as the table of rules has them."""
    for cls in (Builder, Value, ModuleBuilder):
        for name in own_methods(cls):
            for parameter in parameters_of(getattr(cls, name)):
                text = str(parameter.annotation).removesuffix(" | None")
                plain = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
                if plain and text in ("bool", "int", "str", "Body", "Sequence[int]"):
                    assert rule_of(parameter.annotation), (name, parameter)
                    assert hasattr(getattr(cls, name), "__wrapped__") or name in UNCHECKED, name
