"""Saves, shows and compares the arrays of a run."""

from __future__ import annotations

import argparse
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tilewright.cli.outputs import write_files
from tilewright.cli.run_compare import Comparison, Tolerance, compare, numbers_of, report
from tilewright.cli.run_specs import Parameter, Value, array_of
from tilewright.cli.session import UNWRITABLE_OUTPUT, Session, UsageError, reason
from tilewright.diagnostics import Diagnostic, Note, Severity, define_code
from tilewright.numerics.arrays import Array

UNEXPECTED_RESULT = define_code(
    "unexpected-result",
    "An array differs from the expected one.",
    "`tilewright run --expect` compares bits, where all NaNs are equal, unless --atol, --rtol or "
    "--ulp sets a tolerance.",
)

_SHOWN_ELEMENTS = 64


class Results:
    """The arrays of a launch by parameter name, and what the options request for them.

    ``arguments`` are the launch's own arrays, which the machine updates in place. The constructor raises
    ``UsageError`` for everything that cannot be done, before anything has run.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        arguments: Sequence[Value],
        options: argparse.Namespace,
    ) -> None:
        self._parameters = parameters
        self._arrays = {p.index: v for p, v in zip(parameters, arguments) if p.is_pointer}
        self._tolerance = _tolerance(options)
        self._saved = self._paths(options.out, options.out_dir)
        self._shown = [self._pick(name, "--print") for name in options.print]
        self._expected = [self._expectation(text, options.seed) for text in options.expect]
        self._comparisons: list[Comparison] = []

    def _pick(self, name: str, option: str) -> Parameter:
        for parameter in self._parameters:
            if parameter.is_pointer and name in (parameter.name, f"arg{parameter.index}"):
                return parameter
        known = ", ".join(p.name for p in self._parameters if p.is_pointer) or "none"
        raise UsageError.because(f"{option}: there is no array '{name}'; arrays: {known}")

    def _split(self, text: str, option: str) -> tuple[Parameter, str]:
        name, equals, rest = text.partition("=")
        if not (name and equals and rest):
            raise UsageError.because(f"{option}: expected NAME=VALUE, found '{text}'")
        return self._pick(name, option), rest

    def _paths(self, out: Iterable[str], out_dir: str | None) -> dict[str, Parameter]:
        paths: dict[str, Parameter] = {}
        if out_dir is not None:
            for parameter in self._parameters:
                if parameter.is_pointer:
                    paths[os.path.join(out_dir, f"{parameter.name}.npy")] = parameter
        for text in out:
            parameter, path = self._split(text, "--out")
            if path in paths:
                raise UsageError.because(f"two outputs have the same path '{path}'")
            paths[path] = parameter
        return paths

    def _expectation(self, text: str, seed: int) -> tuple[Parameter, Array, str]:
        parameter, spec = self._split(text, "--expect")
        reference, element = None, parameter.element
        if self._tolerance.is_numeric and parameter.element != "f64":
            # Most programs have a float64 reference, which can be compared as numbers.
            as_f64 = Parameter(parameter.index, parameter.name, "f64", True)
            try:
                reference, element = array_of(spec, as_f64, _generator(seed, parameter)), "f64"
            except UsageError:
                reference = None
        if reference is None:
            reference, element = array_of(spec, parameter, _generator(seed, parameter)), element
        shape = self._arrays[parameter.index].shape
        if reference.shape != shape:
            raise UsageError.because(
                f"--expect: '{spec}' has the shape {_dims(reference.shape)}, but the array of "
                f"{parameter} has {_dims(shape)}"
            )
        return parameter, reference, element

    def save(self, session: Session) -> None:
        """Write all ``.npy`` files, or none. Raises UsageError if one cannot be written, or if a directory cannot be
        made.
        """
        directories = {os.path.dirname(path) for path in self._saved} - {""}
        for directory in directories:
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError as error:
                raise UsageError.because(
                    f"cannot create '{directory}': {reason(error)}", code=UNWRITABLE_OUTPUT
                ) from error
        write_files(session, {path: _npy(self._arrays[p.index]) for path, p in self._saved.items()})

    def compare(self) -> list[Diagnostic]:
        """Return an error for every array that differs from what is expected."""
        self._comparisons = [
            compare(
                parameter.name,
                self._arrays[parameter.index],
                reference,
                parameter.element,
                self._tolerance,
                expected_element=element,
            )
            for parameter, reference, element in self._expected
        ]
        return [_mismatch(found) for found in self._comparisons if not found.ok]

    def shown(self) -> str:
        """Return the arrays to be printed, as text."""
        return "".join(_array_text(p, self._arrays[p.index]) for p in self._shown)

    def to_json(self, launch: Mapping[str, object]) -> str:
        """Return everything about the run, with the values of the arrays to be printed."""
        shown = {p.index for p in self._shown}
        arrays: list[dict[str, object]] = []
        for parameter in self._parameters:
            if not parameter.is_pointer:
                continue
            array = self._arrays[parameter.index]
            facts: dict[str, object] = {
                "name": parameter.name,
                "element": parameter.element,
                "shape": list(array.shape),
            }
            if parameter.index in shown:
                facts["values"] = _json_values(array, parameter.element)
            arrays.append(facts)
        document = {
            "format": 1,
            **launch,
            "arrays": arrays,
            "saved": {path: p.name for path, p in self._saved.items()},
            "expectations": [found.to_json() for found in self._comparisons],
        }
        return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _tolerance(options: argparse.Namespace) -> Tolerance:
    near = options.atol is not None or options.rtol is not None
    if near + (options.ulp is not None) + options.exact > 1:
        raise UsageError.because("--atol and --rtol, --ulp, and --exact are mutually exclusive")
    return Tolerance(options.atol, options.rtol, options.ulp)


def _generator(seed: int, parameter: Parameter) -> np.random.Generator:
    return np.random.default_rng([seed, parameter.index])


def _dims(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "of a scalar"


def _npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _mismatch(found: Comparison) -> Diagnostic:
    return Diagnostic(
        Severity.ERROR,
        UNEXPECTED_RESULT,
        f"'{found.name}' differs from the expected array in {found.differing} of {found.elements} "
        f"elements ({found.tolerance})",
        notes=tuple(Note(line) for line in report(found)),
    )


def _array_text(parameter: Parameter, array: Array) -> str:
    """Return one line about the array and its values, with the middle of a large one left out."""
    numbers = numbers_of(array, parameter.element)
    about = f"{parameter.name}: {parameter.element} {_dims(array.shape)}"
    if numbers.size and numbers.dtype.kind != "b":
        about += f", min {numbers.min():.6g}, max {numbers.max():.6g}, mean {numbers.mean():.6g}"
    values = np.array2string(
        numbers,
        threshold=_SHOWN_ELEMENTS,
        max_line_width=100,
        formatter={"float_kind": lambda value: f"{value:.6g}"},
    )
    return f"{about}\n{values}\n"


def _json_values(array: Array, element: str) -> object:
    """Return nested lists; nan, inf and -inf are strings, since JSON has no such numbers."""
    numbers = numbers_of(array, element)
    if numbers.dtype.kind != "f" or bool(np.isfinite(numbers).all()):
        return numbers.tolist()
    exact = numbers.astype(object)
    wrong = ~np.isfinite(numbers)
    exact[wrong] = [str(value) for value in numbers[wrong].tolist()]
    return exact.tolist()
