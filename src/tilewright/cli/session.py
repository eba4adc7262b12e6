"""The state of one run of the command: inputs, messages and output streams."""

from __future__ import annotations

import errno
import os
import re
import select
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from tilewright.diagnostics import Diagnostic, TileIRError, define_code
from tilewright.diagnostics.display import encoded

UNREADABLE_INPUT = define_code(
    "unreadable-input",
    "An input file cannot be read.",
    "The operating system could not open or read the file, for the reason in the message, or the "
    "file is larger than 256 MiB, the limit for a module.",
)
UNWRITABLE_OUTPUT = define_code(
    "unwritable-output",
    "An output cannot be written.",
    "The operating system could not create, write or replace the file. An existing file of that "
    "name is unchanged.",
)
BAD_USAGE = define_code(
    "bad-usage",
    "The command line is invalid.",
    "The options or arguments contradict each other or the input. `tilewright COMMAND --help` "
    "lists what a sub-command takes.",
)

OUT_OF_MEMORY = define_code(
    "out-of-memory",
    "Out of memory.",
    "Arrays, tiles, or the tile blocks that are live at once need more memory than the system "
    "has. `--resident` bounds the blocks of the reference machine.",
)

STDIN_NAME = "<stdin>"
#: Inputs that never end (a device, a pipe) must not exhaust memory.
MAX_INPUT_BYTES = 1 << 28
_MIN_WIDTH, _MAX_WIDTH, _DEFAULT_WIDTH = 60, 160, 100
# Windows reports a closed pipe as an invalid argument.
_CLOSED_PIPE = frozenset({errno.EPIPE, errno.EINVAL})


class UsageError(TileIRError):
    """The command cannot do what it is asked, whatever the input; exit status 2."""

    @classmethod
    def because(cls, message: str, *, code: str = BAD_USAGE, help: str = "") -> UsageError:
        """Return the error with one diagnostic of this message."""
        return cls(TileIRError.single(code, message, help=help).diagnostics)


#: The maximum number of digits of a number on the command line, also in file names.
_MOST_DIGITS = 1000
_ENDLESS = re.compile(rf"\d{{{_MOST_DIGITS + 1},}}")


def refuse_endless_numbers(arguments: Iterable[str]) -> None:
    """Raise ``UsageError`` for numbers that Python would not parse, or that nothing can hold."""
    for argument in arguments:
        if found := _ENDLESS.search(argument):
            raise UsageError.because(
                f"a number has {len(found[0])} digits; the limit is {_MOST_DIGITS}"
            )


class OutputClosedError(Exception):
    """Standard output has no reader any more."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """The bytes of an input, and its name in diagnostics."""

    name: str
    data: bytes


class Session:
    """The inputs and streams of one run.

    ``color`` is ``"auto"`` (on a terminal, unless ``NO_COLOR`` is set and not empty), ``"always"`` or
    ``"never"``. ``inputs`` stores what was read, for diagnostics and the report of an internal error.
    ``program_arguments`` are passed to a cuTile program.
    """

    def __init__(self, arguments: Sequence[str], program_arguments: Sequence[str] = ()) -> None:
        self.arguments = tuple(arguments)
        self.program_arguments = tuple(program_arguments)
        self.color = "auto"
        self.inputs: dict[str, bytes] = {}

    def read(self, path: str) -> InputFile:
        """Return the contents of a file, of standard input for ``-``. Raises ``UsageError`` on failure."""
        if path == "-":
            return self._keep(STDIN_NAME, self._read_stdin())
        try:
            with open(path, "rb") as stream:
                return self._keep(path, _read_all(stream, f"'{path}'"))
        except (OSError, ValueError) as error:  # ValueError: an invalid file name
            raise _unreadable(f"'{path}'", error) from error

    def check_readable(self, path: str) -> None:
        """Raise the ``UsageError`` that ``read`` would, for a program that Python reads itself."""
        try:
            with open(path, "rb"):
                pass
        except (OSError, ValueError) as error:
            raise _unreadable(f"'{path}'", error) from error

    def _keep(self, name: str, data: bytes) -> InputFile:
        self.inputs[name] = data
        return InputFile(name, data)

    def _read_stdin(self) -> bytes:
        if STDIN_NAME in self.inputs:
            raise UsageError.because("standard input (-) is named twice; it can be read only once")
        if sys.stdin is None:
            raise UsageError.because(
                "cannot read standard input: it is closed", code=UNREADABLE_INPUT
            )
        try:
            return _read_all(sys.stdin.buffer, "standard input")
        except OSError as error:
            raise _unreadable("standard input", error) from error

    def report(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Show diagnostics on standard error."""
        found = list(diagnostics)
        if not found:
            return
        from tilewright.diagnostics import render

        on_terminal = is_terminal(sys.stderr)
        width = _terminal_width() if on_terminal else _DEFAULT_WIDTH
        text = render(
            found, color=self._wants_color(on_terminal), width=width, binaries=self.inputs
        )
        self.say(text)

    def _wants_color(self, on_terminal: bool) -> bool:
        if self.color == "auto":
            return on_terminal and not os.environ.get("NO_COLOR")
        return self.color == "always"

    def say(self, text: str) -> None:
        """Write one or more lines to standard error; ignores a closed one."""
        if sys.stderr is None:
            return
        try:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        except OSError:
            _silence(sys.stderr)

    def is_of_closed_stdout(self, error: BaseException) -> bool:
        """Whether a program ended because its output has no reader any more. Discards the rest of the output."""
        if isinstance(error, BrokenPipeError) and not _has_no_reader(sys.stdout):
            return False  # a pipe of the program's own
        if not isinstance(error, OutputClosedError | BrokenPipeError):
            return False
        _silence(sys.stdout)
        return True

    def write_stdout(self, content: str | bytes) -> None:
        """Write all of ``content`` to standard output; text as UTF-8 with plain line ends.

        Raises OutputClosedError if nobody reads it any more, UsageError if it is closed or cannot be written.
        """
        data = encoded(content) if isinstance(content, str) else content
        if sys.stdout is None:
            raise UsageError.because("standard output is closed", code=UNWRITABLE_OUTPUT)
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            _silence(sys.stdout)
            if error.errno in _CLOSED_PIPE:
                raise OutputClosedError from error
            raise UsageError.because(
                f"cannot write standard output: {reason(error)}", code=UNWRITABLE_OUTPUT
            ) from error


def is_terminal(stream: object) -> bool:
    """Whether a standard stream, which may be closed, is a terminal."""
    isatty = getattr(stream, "isatty", None)
    try:
        return isatty is not None and isatty()
    except ValueError:  # the stream object has been closed
        return False


def reason(error: OSError | ValueError) -> str:
    """Return the operating system's message for a failure, without numbers and file names."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _read_all(stream: BinaryIO, what: str) -> bytes:
    data = stream.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        size = f"{MAX_INPUT_BYTES >> 20} MiB"
        raise UsageError.because(
            f"cannot read {what}: it is larger than {size}", code=UNREADABLE_INPUT
        )
    return data


def _unreadable(what: str, error: OSError | ValueError) -> UsageError:
    return UsageError.because(f"cannot read {what}: {reason(error)}", code=UNREADABLE_INPUT)


def _terminal_width() -> int:
    import shutil

    columns = shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns
    return max(_MIN_WIDTH, min(columns, _MAX_WIDTH))


def _has_no_reader(stream: object) -> bool:
    """Whether a stream is a pipe without a reader, as far as the system tells."""
    try:
        found = select.poll()
        found.register(stream.fileno(), 0)  # pyright: ignore[reportAttributeAccessIssue]
        return any(event & select.POLLERR for _, event in found.poll(0))
    except (OSError, ValueError, AttributeError):  # closed, not a system file, or Windows
        return False


def _silence(stream: object) -> None:
    """Redirect a broken stream to the null device, so that the interpreter's last flush succeeds."""
    try:
        descriptor = stream.fileno()  # pyright: ignore[reportAttributeAccessIssue]
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    except (OSError, ValueError, AttributeError):  # not a system file
        return
