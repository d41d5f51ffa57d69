"""Completion in bash, zsh and fish: of commands, options, execution providers, modes; where nothing is known, of files.

The shell's script asks the program at each Tab, by an environment variable, and Typer answers. What is loaded for that is the
one command that is being typed; which EPs there are is told by the names of files, so that nothing is waited for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from typer import completion

from ortbench.cli import COMPLETING
from ortbench.core.errors import BadInput

PROGRAM = "ortbench"
SHELLS = ("bash", "zsh", "fish")
# What Typer does when it makes these options itself; its stubs do not name it.
_TYPERS: Any = completion
_LINE = "_TYPER_COMPLETE_ARGS"  # what was typed, of zsh and fish; of bash its words and the number of the last one
_WORDS, _NUMBER = "COMP_WORDS", "COMP_CWORD"


def install_script() -> None:
    """Write the script of the shell that the program was started from where that shell finds it, and say where; `BadInput`: it is
    none that is known, or its files cannot be written."""
    shell = _detect_shell("--install-completion")
    try:
        _, path = _TYPERS.install(shell=shell, prog_name=PROGRAM, complete_var=COMPLETING)
    except OSError as error:
        raise BadInput(f"--install-completion: {error.filename}: {error.strerror}", "--install-completion") from None
    print(f"Completion for {shell} is in {path}; it begins with the next {shell} that is started.")


def print_script() -> None:
    """Print that script; `BadInput`: the shell is none that is known."""
    print(
        _TYPERS.get_completion_script(
            prog_name=PROGRAM, complete_var=COMPLETING, shell=_detect_shell("--show-completion")
        )
    )


def _detect_shell(option: str) -> str:
    """The shell that the program was started from; where that cannot be told, the user's own."""
    import shellingham

    try:
        name = str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        name = os.path.basename(os.environ.get("SHELL", ""))
    if name not in SHELLS:
        found = f"this is {name}" if name else "it cannot be told which one this is"
        raise BadInput(f"{option}: is for {', '.join(SHELLS)}, and {found}; run it in one of them", option)
    return name


def typed_words() -> list[str]:
    """What has been typed behind the program's name, the word that is being typed left out."""
    _TYPERS.completion_init()
    if _LINE in os.environ:
        words = os.environ[_LINE].split()[1:]
        return words if os.environ[_LINE].endswith((" ", "\t")) else words[:-1]
    words, number = os.environ.get(_WORDS, "").split("\n"), int(os.environ.get(_NUMBER, "1"))
    # bash takes `--ep=cuda` for three words; for Typer it is the two of `--ep cuda`.
    before, rest = [word for word in words[:number] if word != "="], words[number:]
    current = [word if word != "=" else "" for word in rest[:1]]
    os.environ[_WORDS], os.environ[_NUMBER] = "\n".join([*before, *current]), str(len(before))
    return before[1:]


def replace_words(typed: Sequence[str]) -> None:
    """Have it that these words stand before the one that is being typed; one of them can be two, as ``suite merge``."""
    before = [PROGRAM, *(f"'{word}'" if " " in word else word for word in typed)]
    if _LINE in os.environ:
        line = os.environ[_LINE]
        os.environ[_LINE] = " ".join([*before, "" if line.endswith((" ", "\t")) else line.split()[-1]])
        return
    current = os.environ[_WORDS].split("\n")[int(os.environ[_NUMBER]) :]
    os.environ[_WORDS], os.environ[_NUMBER] = "\n".join([*before, *current]), str(len(before))
