"""Arguments of the builder's own methods, checked by what their signatures say."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

import numpy as np
from xdsl.ir import Attribute

from tilewright.builder.errors import fail

_P = ParamSpec("_P")
_R = TypeVar("_R")


def is_integer(value: object) -> bool:
    """Whether a value is a whole number, of Python or NumPy; a truth is none."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_bool(value: object) -> bool:
    """Whether a value is True or False, of Python or NumPy."""
    return isinstance(value, bool | np.bool_)


def listed(value: object, holds: Callable[[object], bool]) -> bool:
    """Whether a value is a list, tuple or array of which this holds for each element."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        return False
    return all(map(holds, value))


def _is_type(value: object) -> bool:
    return isinstance(value, str | Attribute)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


#: By annotation: what an argument has to be, and how that is said. Element types and operands are
#: judged where they are used.
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (is_bool, "True or False"),
    "int": (is_integer, "a whole number"),
    "str": (_is_text, "a string"),
    "Body": (callable, "a function that builds"),
    "Sequence[int]": (lambda value: listed(value, is_integer), "a list of whole numbers"),
    "Sequence[TypeLike]": (lambda value: listed(value, _is_type), "a list of types"),
}


def rule_of(annotation: Any) -> tuple[Callable[[Any], bool], str, bool] | None:
    """(test, words, whether None will do) of an annotation; None where anything will do."""
    if not isinstance(annotation, str):
        return None
    text = annotation.removesuffix(" | None")
    if (rule := RULES.get(text)) is None:
        return None
    return *rule, text != annotation


def checked(what: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A method of the builder whose errors are those of the operation ``what``.

    Arguments that are not what the annotations of ``RULES`` ask for raise ``BuilderError`` at the
    line of the caller, as do those that the method does not have.
    """

    def decorate(method: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(method)
        rules = {
            name: rule
            for name, parameter in signature.parameters.items()
            if (rule := rule_of(parameter.annotation)) is not None
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

        @functools.wraps(method)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                fail(what, str(error))
            for name, (holds, words, optional) in rules.items():
                if name not in given or (given[name] is None and optional):
                    continue
                if not holds(given[name]):
                    fail(what, f"{name} is {words}, not {given[name]!r:.60}")
            return method(*args, **kwargs)

        return call

    return decorate
