"""The options of a launch: meaning, values, default, and supporting machines.

All of it is metadata of the fields. The documentation's table, the error for unsupported options, and the command-line
options are generated from it, so a new option is a single new field.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from math import inf
from numbers import Integral, Real
from typing import Any

from tilewright.diagnostics import Collector, define_code
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic

__tracebackhide__ = hides_frames

BAD_RUN_OPTION = define_code(
    "bad-run-option",
    "An option of a run has an invalid value.",
    "A seed is an integer of at least 0, `seeds` a number of at least 1 or a list of seeds, and "
    "`max_iterations` an integer of at least 1. `tilewright.LaunchOptions` documents the others.",
)
UNSUPPORTED_OPTION = define_code(
    "unsupported-option",
    "A launch uses an option that the machine does not have.",
    "Machines differ in what they can do. The message names those that know the option; "
    "docs/machines.md has the table of all options and machines.",
)

#: The default number of schedules of the sanitizer: the least that finds lock-order inversions, and tickets drawn in
#: opposite orders (``machine.schedules``).
SANITIZER_SEEDS = 4
#: The most schedules of a launch. Their seeds are listed before the first runs.
MOST_SCHEDULES = 1_000_000

#: The IR levels of launches.
TILE_IR, NVGPU = "Tile IR", "nvgpu"
_EVERY_LEVEL = (TILE_IR, NVGPU)

Check = Callable[[object], str]
"""Returns how an error message continues after the option's name; "" for a valid value."""


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """The metadata of a field of :class:`LaunchOptions`.

    ``machines``: the kinds of machines that support it (``sim`` for all ``sim:ARCH``). ``levels``: the IR levels to
    whose kernels it applies.
    """

    name: str
    meaning: str
    values: str
    default: object
    machines: tuple[str, ...]
    levels: tuple[str, ...]

    @property
    def shown_default(self) -> str:
        """The default in Python syntax."""
        return str(self.default) if isinstance(self.default, Arithmetic) else repr(self.default)


def _option(
    default: Any,
    meaning: str,
    *,
    values: str,
    machines: str,
    check: Check | None = None,
    levels: tuple[str, ...] = _EVERY_LEVEL,
) -> Any:
    """A dataclass field with metadata; ``machines`` are kinds, separated by blanks."""
    known = {"meaning": meaning, "values": values, "machines": tuple(machines.split())}
    return field(default=default, metadata={**known, "levels": levels, "check": check})


def _is_integer(value: object, least: int) -> bool:
    # Includes NumPy integers, without importing NumPy.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _integer(least: int, *, optional: bool = False) -> Check:
    def check(value: object) -> str:
        if optional and value is None:
            return ""
        if _is_integer(value, least):
            return ""
        return f"must be an integer of at least {least}, not {value!r}"

    return check


def _positive(value: object) -> str:
    if isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf:
        return ""
    return f"must be a finite number above 0, not {value!r}"


def _time_limit(value: object) -> str:
    return "" if value is None else _positive(value)


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else f"must be True or False, not {value!r}"


def _optional_flag(value: object) -> str:
    return "" if value is None else _flag(value)


def _one_of(*allowed: object) -> Check:
    listed = ", ".join(map(repr, allowed))

    def check(value: object) -> str:
        return "" if value in allowed else f"must be one of {listed}, not {value!r}"

    return check


def _callback(value: object) -> str:
    return "" if value is None or callable(value) else f"must be a function, not {value!r}"


def _of_arithmetic(value: object) -> str:
    if isinstance(value, Arithmetic):
        return ""
    return f"must be an Arithmetic, not {value!r}; Arithmetic.parse makes one from text"


def _functions(value: object) -> str:
    if value is None or (isinstance(value, Mapping) and all(map(callable, value.values()))):
        return ""
    return f"must be a mapping from names to functions, not {value!r:.60}"


def _schedules(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        try:
            count = len(value)
        except OverflowError:  # a range
            count = MOST_SCHEDULES + 1
        if not count:
            return "must name at least one seed"
        if count > MOST_SCHEDULES:
            return f"must name at most {MOST_SCHEDULES:,} seeds"
        wrong = next((found for each in value if (found := _seed(each))), "")
        return wrong and f"are wrong: a seed {wrong}"
    wrong = _integer(1)(value)
    if not wrong and isinstance(value, Integral) and int(value) > MOST_SCHEDULES:
        return f"must be at most {MOST_SCHEDULES:,}, not {value!r}"
    return wrong


_seed = _integer(0)


def _has(value: object, *names: str) -> bool:
    return all(hasattr(value, name) for name in names)


def _breakpoints(value: object) -> str:
    # Checked by attributes: the package that defines Breakpoint is above this one.
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return f"must be a list of Breakpoints, not {value!r:.60}"
    wrong = [each for each in value if not (_has(each, "action") or _is_line(each))]
    if not wrong:
        return ""
    return f"must be Breakpoints, or (FILE, LINE) of a cuTile program, not {wrong[0]!r:.60}"


def _is_line(value: object) -> bool:
    # In place of a file, a kernel or function stands for the file that defines it.
    return (
        isinstance(value, tuple)
        and 2 <= len(value) <= 3
        and (
            isinstance(value[0], str) or callable(value[0]) or _has(value[0], "_annotated_function")
        )
    )


def _trace(value: object) -> str:
    # cuTile programs launch many times, and pass a function that receives each trace.
    if value is None or callable(value) or _has(value, "blocks", "values", "limit"):
        return ""
    return f"must be a Trace of tilewright.machine.inspect, not {value!r:.60}"


def _text(value: object) -> str:
    return "" if isinstance(value, str) else f"must be a name, not {value!r:.60}"


def _arrays(value: object) -> str:
    # The machine checks that these are NumPy arrays that a kernel can access.
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ""
    return f"must be a list of NumPy arrays, not {value!r:.60}"


def _extents(value: object) -> str:
    given = (value,) if isinstance(value, Integral) else value
    if value is None or (
        isinstance(given, Sequence)
        and 1 <= len(given) <= 3
        and all(_is_integer(each, 1) for each in given)
    ):
        return ""
    return f"must be one to three integers of at least 1, not {value!r}"


@dataclass(frozen=True, slots=True, repr=False)
class LaunchOptions:
    """How a kernel is launched, on any machine.

    Machines reject options that they do not support and that differ from the default (``unsupported-option``); invalid
    values are rejected here (``bad-run-option``).
    """

    seed: int = _option(
        0,
        "The schedule. 0 runs tile blocks (simulator: warps) in ascending order; other seeds shuffle "
        "them and switch between them at random, in the same way in every run.",
        values="an integer of at least 0",
        machines="reference sim",
        check=_seed,
    )
    resident: int | None = _option(
        None,
        "The maximum number of live tile blocks, started in ascending order, to find blocks that "
        "wait for one that cannot start. By default all; on the simulator, the occupancy of the "
        "GPU.",
        values="an integer of at least 1",
        machines="reference sim",
        check=_integer(1, optional=True),
    )
    check_asserts: bool = _option(
        True,
        "Failed assertions raise an error once all tile blocks have run; otherwise they are listed "
        "in the result.",
        values="True or False",
        machines="reference cpu cuda",
        check=_flag,
    )
    max_iterations: int = _option(
        10_000_000,
        "A loop that makes more iterations than this is an error.",
        values="an integer of at least 1",
        machines="reference sim",
        check=_integer(1),
    )
    time_limit: float | None = _option(
        None,
        "Seconds after which the launch ends, compilation not counted, with an error that names the "
        "loop that a tile block is in. A GPU cannot be stopped: the launch returns, and the kernel continues.",
        values="a number above 0",
        machines="reference cpu sim cuda",
        check=_time_limit,
    )
    allow_overlap: bool = _option(
        False,
        "Arrays that the kernel may write can share memory with others.",
        values="True or False",
        machines="reference cpu sim cuda",
        check=_flag,
    )
    print_to: Callable[[str], object] | None = _option(
        None,
        "Called with each text that the kernel prints, at once, perhaps in another thread. It must not "
        "change the arrays. The result has all texts in any case.",
        values="a function of one text",
        machines="reference cpu sim cuda",
        check=_callback,
    )
    progress: Callable[[int, int], object] | None = _option(
        None,
        "Called from time to time with the numbers of finished and of all tile blocks.",
        values="a function of two integers",
        machines="reference cpu",
        check=_callback,
    )
    arithmetic: Arithmetic = _option(
        REFERENCE,
        "Arithmetic that Tile IR leaves unspecified: as in the reference, or closer to hardware.",
        values="a `tilewright.Arithmetic`",
        machines="reference",
        check=_of_arithmetic,
    )
    plugins: Mapping[str, Callable[..., object]] | None = _option(
        None,
        "Functions on NumPy arrays that implement external functions of an `nv_tileaa` module, by "
        "their names in the module.",
        values="a mapping from names to functions",
        machines="reference cpu",
        check=_functions,
    )
    sanitize: bool = _option(
        False,
        "Enables every check; all diagnostics are raised as one error at the end of the run.",
        values="True or False",
        machines="reference",
        check=_flag,
    )
    seeds: int | Sequence[int] | None = _option(
        None,
        "The schedules that the sanitizer explores: a number of seeds from `seed` on, or a list; "
        f"{SANITIZER_SEEDS} by default. The simulator launches under each of them, from the same "
        "memory, up to the first that has an error; 1 by default.",
        values="an integer of at least 1, or a list of seeds",
        machines="reference sim",
        check=_schedules,
    )
    races: bool = _option(
        True,
        "Whether the sanitizer checks for races, which takes most of its time.",
        values="True or False",
        machines="reference",
        check=_flag,
    )
    find_nan: bool = _option(
        False,
        "Finds the operations that produce NaN, infinities, and values out of range of the type "
        "that they are converted to; raised as one error at the end of the run.",
        values="True or False",
        machines="reference",
        check=_flag,
    )
    breakpoints: Sequence[Any] = _option(
        (),
        "Where the run stops, and what happens there.",
        values="a list of `tilewright.machine.inspect.Breakpoint`; for cuTile programs also `(FILE, LINE)`, or `(KERNEL, LINE)` for its file or cell",
        machines="reference",
        check=_breakpoints,
    )
    trace: Any = _option(
        None,
        "Records what tile blocks do.",
        values="a `tilewright.machine.inspect.Trace`",
        machines="reference",
        check=_trace,
    )
    threads: int | None = _option(
        None,
        "Threads that tile blocks run on. The default is the environment variable "
        "TILEWRIGHT_THREADS, or one per core.",
        values="an integer of at least 1",
        machines="cpu",
    )
    cpu: str = _option(
        "host",
        "The processor that code is compiled for.",
        values="'host', 'generic', or 'x86-64-v2' to 'x86-64-v4'",
        machines="cpu",
        check=_text,
    )
    checked: bool = _option(
        False,
        "Compiled code checks every memory access; one out of bounds stops the run.",
        values="True or False",
        machines="cpu",
        check=_flag,
    )
    optimization: int = _option(
        1,
        "The optimization level. Native code: 0 inlines only, 1 also simplifies, 2 and 3 are LLVM's "
        "own levels. GPU code: 0 lowers nv_tileaa directly, all others through nv_tileas.",
        values="0 to 3",
        machines="cpu sim cuda",
        check=_one_of(0, 1, 2, 3),
    )
    deadlock_timeout: float = _option(
        10.0,
        "Seconds of processor time for which all tile blocks in flight poll memory in vain, after which "
        "a grid counts as deadlocked. If their loops do more than poll, that many seconds for each block in "
        "flight.",
        values="a number above 0",
        machines="cpu",
        check=_positive,
    )
    numerics: str = _option(
        "tensor-core",
        "How tensor-core products accumulate: as measured on hardware, exactly, or in plain f32.",
        values="'tensor-core', 'exact' or 'portable'",
        machines="sim",
        check=_one_of("tensor-core", "exact", "portable"),
    )
    memory: Sequence[Any] = _option(
        (),
        "Arrays that are not arguments and that the kernel reaches by address.",
        values="a list of NumPy arrays",
        machines="sim",
        check=_arrays,
    )
    strict: bool = _option(
        True,
        "Raise the simulator's diagnostics; otherwise they are in `diagnostics` of the result.",
        values="True or False",
        machines="sim",
        check=_flag,
    )
    in_groups: bool | None = _option(
        None,
        "Runs warps that execute the same code together, which is faster; by default only with seed "
        "0, so that other seeds try other orders.",
        values="True, False or None",
        machines="sim",
        check=_optional_flag,
    )
    timeline_blocks: int = _option(
        1,
        "How many thread blocks the timeline covers.",
        values="an integer of at least 0",
        machines="sim",
        check=_integer(0),
    )
    registers: int | None = _option(
        None,
        "Registers per thread, as printed by `ptxas -v`, for the occupancy.",
        values="an integer of at least 1",
        machines="sim",
        check=_integer(1, optional=True),
    )
    block: int | Sequence[int] | None = _option(
        None,
        "Threads per block, x first. Tile IR kernels determine it themselves.",
        values="one to three integers",
        machines="sim cuda",
        check=_extents,
        levels=(NVGPU,),
    )
    cluster: int | Sequence[int] | None = _option(
        None,
        "Blocks per cluster, x first; by default as the kernel states, or one.",
        values="one to three integers",
        machines="sim cuda",
        check=_extents,
        levels=(NVGPU,),
    )
    dynamic_shared_bytes: int = _option(
        0,
        "Dynamic shared memory per block.",
        values="an integer of at least 0",
        machines="sim cuda",
        check=_integer(0),
        levels=(NVGPU,),
    )

    patience: InitVar[float | None] = None
    """The former name of ``deadlock_timeout``; to be removed in the next version."""

    def __post_init__(self, patience: float | None) -> None:
        if patience is not None:
            warnings.warn(
                "the option patience is called deadlock_timeout", DeprecationWarning, stacklevel=3
            )
            object.__setattr__(self, "deadlock_timeout", patience)
        found = Collector()
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not _DEFAULTS[name] and (wrong := check(value)):
                found.error(BAD_RUN_OPTION, f"{name} {wrong}")
        if self.sanitize and self.find_nan:
            found.error(BAD_RUN_OPTION, "sanitize and find_nan cannot be combined")
        found.raise_if_errors()

    def __repr__(self) -> str:
        """The options that differ from their defaults."""
        given = (f"{name}={getattr(self, name)!r}" for name in self.changed)
        return f"LaunchOptions({', '.join(given)})"

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the options that differ from their defaults."""
        return tuple(name for name, default in _DEFAULTS.items() if getattr(self, name) != default)

    def over(self, others: LaunchOptions) -> LaunchOptions:
        """These options, with those that have their defaults taken from ``others``."""
        if others is DEFAULT_OPTIONS or others is self:
            return self
        return replace(others, **{name: getattr(self, name) for name in self.changed})

    @property
    def schedules(self) -> tuple[int, ...]:
        """The seeds of the runs of the sanitizer (with ``sanitize``) and of the simulator."""
        seeds = self.seeds
        if seeds is None:
            seeds = SANITIZER_SEEDS if self.sanitize else 1
        if isinstance(seeds, Sequence):
            return tuple(map(int, seeds))
        return tuple(range(self.seed, self.seed + int(seeds)))


_FIELDS = {each.name: each for each in fields(LaunchOptions)}
_CHECKS: dict[str, Check] = {
    name: check for name, each in _FIELDS.items() if (check := each.metadata["check"]) is not None
}
_DEFAULTS: dict[str, object] = {name: each.default for name, each in _FIELDS.items()}

#: The metadata of each option, by name, in the order of the fields.
OPTIONS: Mapping[str, OptionInfo] = {
    name: OptionInfo(
        name,
        each.metadata["meaning"],
        each.metadata["values"],
        _DEFAULTS[name],
        each.metadata["machines"],
        each.metadata["levels"],
    )
    for name, each in _FIELDS.items()
}


def _documented() -> str:
    entries = (
        f"    ``{info.name}``\n        {info.meaning} Values: {info.values}; default "
        f"``{info.shown_default}``; machines: {', '.join(info.machines)}."
        for info in OPTIONS.values()
    )
    return "\n".join([(LaunchOptions.__doc__ or "").rstrip(), "", *entries, ""])


LaunchOptions.__doc__ = _documented()

#: The defaults of launches.
DEFAULT_OPTIONS = LaunchOptions()


def options_of_kind(kind: str, level: str | None = None) -> frozenset[str]:
    """The options that a kind of machine supports, for kernels of one IR level or of any."""
    return frozenset(
        name
        for name, info in OPTIONS.items()
        if kind in info.machines and (level is None or level in info.levels)
    )


def missing_options(options: LaunchOptions, kind: str, level: str | None = None) -> tuple[str, ...]:
    """The options that differ from their defaults and that a kind of machine does not support, in order."""
    known = options_of_kind(kind, level)
    return tuple(name for name in options.changed if name not in known)


def check_options(
    options: LaunchOptions, kind: str, level: str | None = None, machine: str = ""
) -> None:
    """Raise ``TileIRError`` (``unsupported-option``) with every option that the machine does not support, and the
    machines that do.
    """
    if options is DEFAULT_OPTIONS:
        return
    found = Collector()
    for name in missing_options(options, kind, level):
        found.error(UNSUPPORTED_OPTION, refusal(name, name, kind, machine or kind))
    found.raise_if_errors()


def refusal(name: str, spelled: str, kind: str, machine: str) -> str:
    """The message for an unsupported option; ``spelled`` is how the user wrote it."""
    info = OPTIONS[name]
    if kind in info.machines:
        return (
            f"`{spelled}` is for kernels of {' and '.join(info.levels)}; those of "
            f"{' and '.join(level for level in _EVERY_LEVEL if level not in info.levels)} have "
            f"their own"
        )
    shown = [_SPELLED.get(each, each) for each in info.machines]
    return f"the machine '{machine}' has no option `{spelled}`; it is known to {_listed(shown)}"


_SPELLED = {"sim": "sim:ARCH"}


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def with_deprecated(
    options: LaunchOptions | None,
    given: Mapping[str, object],
    who: str,
    renamed: Mapping[str, str] | None = None,
) -> LaunchOptions:
    """Merge options that were passed as keywords, which is deprecated, into ``options``; warns of them.

    Raises ``TypeError``, as for any function, for unknown keywords.
    """
    chosen = options or DEFAULT_OPTIONS
    if not given:
        return chosen
    renamed = {"patience": "deadlock_timeout", **(renamed or {})}
    names = {name: renamed.get(name, name) for name in given}
    for name, field_name in names.items():
        if field_name not in OPTIONS:
            raise TypeError(f"{who}() got an unexpected keyword argument '{name}'")
    listed = ", ".join(f"{field_name}=..." for field_name in names.values())
    warnings.warn(
        f"options of {who}() as keywords will go: pass options=LaunchOptions({listed})",
        DeprecationWarning,
        stacklevel=3,
    )
    values: dict[str, Any] = {names[name]: value for name, value in given.items()}
    return replace(chosen, **values)


__all__ = [
    "BAD_RUN_OPTION",
    "DEFAULT_OPTIONS",
    "OPTIONS",
    "UNSUPPORTED_OPTION",
    "LaunchOptions",
    "OptionInfo",
    "check_options",
    "missing_options",
    "options_of_kind",
    "refusal",
    "with_deprecated",
]
