"""``tilewright completion``: a completion script for a shell, generated from the command's parser.

The script lists what this version knows, including operation names and passes, so regenerate it after an
update.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.cli.exits import Exit
from tilewright.cli.session import Session

_FILE_METAVARS = frozenset({"FILE", "OUT", "DIR", "FILE|OP|TYPE|CODE"})


@dataclass(frozen=True, slots=True)
class Option:
    """An option as a shell sees it; ``words`` are its possible values, if they can be listed."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    takes_file: bool
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command; ``words`` are its possible arguments, if they can be listed."""

    name: str
    help: str
    options: tuple[Option, ...]
    takes_files: bool
    words: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell")
    parser.epilog = (
        "bash: tilewright completion bash > ~/.local/share/bash-completion/completions/tilewright\n"
        "zsh:  tilewright completion zsh > DIRECTORY_OF_FPATH/_tilewright\n"
        "fish: tilewright completion fish > ~/.config/fish/completions/tilewright.fish"
    )


def execute(options: argparse.Namespace, session: Session) -> int:
    session.write_stdout(_SCRIPTS[options.shell](commands()))
    return Exit.OK


def commands() -> list[Command]:
    """Return every sub-command with its options, in the order of ``--help``."""
    from tilewright.cli.main import COMMANDS, build_parser

    # argparse has no public way to list the sub-parsers.
    (subparsers,) = (
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return [
        _command(name, COMMANDS[name][1], subparser)
        for name, subparser in subparsers.choices.items()
    ]


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    takes_files = False
    words: tuple[str, ...] = ()
    for action in parser._actions:
        listed = _words_of(name, action)
        takes_file = action.metavar in _FILE_METAVARS
        if action.option_strings:
            options.append(
                Option(
                    tuple(action.option_strings),
                    (action.help or "").partition(";")[0].replace("%%", "%"),
                    action.nargs != 0,
                    takes_file,
                    listed,
                )
            )
        else:
            takes_files = takes_files or takes_file
            words += listed
    return Command(name, summary, tuple(options), takes_files, words)


def _words_of(command: str, action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    source = _LISTS.get((command, action.dest))
    return tuple(source()) if source else ()


def _explainable() -> Sequence[str]:
    from tilewright.cli.explain import all_names

    return all_names()


def _pass_names() -> Sequence[str]:
    from tilewright.passes import PASSES

    return list(PASSES)


#: Where an argument's possible words come from, by sub-command and destination.
_LISTS: dict[tuple[str, str], Callable[[], Sequence[str]]] = {
    ("explain", "name"): _explainable,
    ("opt", "passes"): _pass_names,
    ("opt", "print_after"): _pass_names,
    ("opt", "print_before"): _pass_names,
    ("opt", "stop_after"): _pass_names,
}


def _bash(found: list[Command]) -> str:
    values: list[str] = []
    arguments: list[str] = []
    for command in found:
        for option in command.options:
            if not option.takes_value:
                continue
            pattern = "|".join(f"{command.name}:{name}" for name in option.names)
            values.append(f"    {pattern}) words={_quoted(' '.join(option.words))} ;;")
        names = [name for option in command.options for name in option.names]
        arguments.append(
            f"    {command.name}) options={_quoted(' '.join(names))} "
            f"words={_quoted(' '.join(command.words))} ;;"
        )
    lines = [
        "# Completion of tilewright for bash.",
        "# A value or argument without listed words falls back to file names.",
        "_tilewright() {",
        '  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" word',
        '  local options="" words="" value=1',
        "  COMPREPLY=()",
        '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        "    case $word in -*) ;; *) command=$word; break ;; esac",
        "  done",
        '  case "$command:$prev" in',
        *values,
        "    *) value= ;;",
        "  esac",
        "  if [[ -z $value ]]; then",
        '    case "$command" in',
        f"    '') options='-h --help --version' words={_quoted(' '.join(c.name for c in found))} ;;",
        *arguments,
        "    esac",
        "    if [[ $cur == -* ]]; then words=$options; fi",
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        "complete -o default -F _tilewright tilewright",
    ]
    return "\n".join(lines) + "\n"


def _zsh(found: list[Command]) -> str:
    lines = ["#compdef tilewright", "", "_tilewright() {", "  local -a commands", "  commands=("]
    lines += [f"    {_quoted(f'{c.name}:{c.help}')}" for c in found]
    lines += [
        "  )",
        "  if (( CURRENT == 2 )); then",
        "    _describe command commands",
        "    return",
        "  fi",
        '  case "$words[2]" in',
    ]
    for command in found:
        specs = [_zsh_option(option) for option in command.options]
        if command.words:
            specs.append(_quoted(f"*:argument:({' '.join(command.words)})"))
        elif command.takes_files:
            specs.append(_quoted("*:file:_files"))
        joined = " \\\n        ".join(specs)
        # Drop the words before the sub-command's own, as _arguments requires.
        lines += [
            f"    {command.name})",
            "      shift words; (( CURRENT-- ))",
            f"      _arguments -s \\\n        {joined}",
            "      ;;",
        ]
    lines += ["  esac", "}", "", '_tilewright "$@"']
    return "\n".join(lines) + "\n"


def _zsh_option(option: Option) -> str:
    """Return one ``_arguments`` specification; the spellings of an option are mutually exclusive."""
    about = option.help.translate({ord(c): f"\\{c}" for c in "[]:\\"})
    value = ""
    if option.takes_value:
        value = ":value:"
        if option.words:
            value += f"({' '.join(option.words)})"
        elif option.takes_file:
            value += "_files"
    rest = f"[{about}]{value}"
    if len(option.names) == 1:
        return _quoted(option.names[0] + rest)
    listed = " ".join(option.names)
    return f"{_quoted(f'({listed})')}{{{','.join(option.names)}}}{_quoted(rest)}"


def _fish(found: list[Command]) -> str:
    lines = ["complete -c tilewright -f"]
    for command in found:
        lines.append(
            f"complete -c tilewright -n __fish_use_subcommand -a {command.name} "
            f"-d {_fish_quoted(command.help)}"
        )
    for command in found:
        start = f"complete -c tilewright -n '__fish_seen_subcommand_from {command.name}'"
        if command.takes_files:
            lines.append(f"{start} -F")
        if command.words:
            lines.append(f"{start} -a {_fish_quoted(' '.join(command.words))}")
        lines += [f"{start} {_fish_option(option)}" for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    parts = [
        f"-l {name[2:]}"
        if name.startswith("--")
        else f"-{'s' if len(name) == 2 else 'o'} {name[1:]}"
        for name in option.names
    ]
    if option.takes_value:
        parts.append("-r -F" if option.takes_file else "-x")
    if option.words:
        parts.append(f"-a {_fish_quoted(' '.join(option.words))}")
    if option.help:
        parts.append(f"-d {_fish_quoted(option.help)}")
    return " ".join(parts)


def _quoted(text: str) -> str:
    """Quote with single quotes for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
