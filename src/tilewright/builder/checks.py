"""Checks arguments of the builder's own methods against their annotations."""

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
    """Whether a value is an integer of Python or NumPy; bools are not."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_bool(value: object) -> bool:
    """Whether a value is True or False, of Python or NumPy."""
    return isinstance(value, bool | np.bool_)


def listed(value: object, holds: Callable[[object], bool]) -> bool:
    """Whether a value is a list, tuple or array whose elements all satisfy the predicate."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        return False
    return all(map(holds, value))


def _is_type(value: object) -> bool:
    return isinstance(value, str | Attribute)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


#: For each annotation, a test of arguments and its description. Element types and operands are
#: checked where they are used.
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (is_bool, "True or False"),
    "int": (is_integer, "a whole number"),
    "str": (_is_text, "a string"),
    "Body": (callable, "a function that builds"),
    "Sequence[int]": (lambda value: listed(value, is_integer), "a list of whole numbers"),
    "Sequence[TypeLike]": (lambda value: listed(value, _is_type), "a list of types"),
}


def rule_of(annotation: Any) -> tuple[Callable[[Any], bool], str, bool] | None:
    """Return (test, description, whether None is allowed) of an annotation; None if anything is."""
    if not isinstance(annotation, str):
        return None
    text = annotation.removesuffix(" | None")
    if (rule := RULES.get(text)) is None:
        return None
    return *rule, text != annotation


def checked(what: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorates a method of the builder whose errors are reported as those of ``what``.

    Arguments that violate their annotations in ``RULES``, and arguments that the method does not
    have, raise ``BuilderError`` at the caller's line.
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
