"""The program: it reads the words that were typed, has the command carried out and says what was wrong.

Nothing here imports onnxruntime, rich, scipy or pandas at start-up: `ortbench --help` stays quick.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import completion

from ortbench.cli import ABOUT, BEGIN, COMPLETING, HELP, OWN, WIDEST, commands, with_default_command
from ortbench.cli.options import Command, Model, ModelOrFolder, Program, command_line, function_of, refuse_json
from ortbench.core import __version__, features, output, signals
from ortbench.core.errors import (
    BAD_INPUT,
    BENCHMARK_FAILED,
    DONE,
    INTERRUPTED,
    BadInput,
    OrtbenchError,
    one_line,
    system_text,
)
from ortbench.core.features import plan_function, record_of
from ortbench.core.safe_text import complain
from ortbench.plan.options import RawOptions, build
from ortbench.plan.plan import OutputOptions, Plan, check
from ortbench.plan.plan_builder import compared_of, plan_configurations, run_of

app = typer.Typer(
    cls=Program,
    help=ABOUT,
    epilog=BEGIN,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": [*HELP], "max_content_width": WIDEST},
)


def _carry_out_option(param: typer.CallbackParam, asked: bool) -> None:
    """Do what one of the program's own options says, and exit."""
    if not asked:
        return
    if param.name == "version":
        print(f"ortbench {__version__}")
    else:
        install_script() if param.name == "install_completion" else print_script()
    raise typer.Exit


def _own_option(name: str) -> Any:
    return typer.Option(name, callback=_carry_out_option, is_eager=True, help=OWN[name])


@app.callback()
def _options(
    version: Annotated[bool, _own_option("--version")] = False,
    install_completion: Annotated[bool, _own_option("--install-completion")] = False,
    show_completion: Annotated[bool, _own_option("--show-completion")] = False,
) -> None:
    """Options of every command."""


def _add_commands(typed: Sequence[str]) -> None:
    """Give the program the command that was typed; where none was, all of them.

    Typer makes every option of every command it has, which takes longer than all else before a run begins.
    """
    for name in typed[:1] if typed[0] in commands() else commands():
        app.command(name, cls=Command)(function_of(name))


def _complete() -> int:
    """Answer a shell that asks what could be typed; without an answer it goes on with files."""

    begun = typed_words()
    if not begun:  # a list of names and sentences
        for name, command in commands().items():
            if " " not in name:  # else it is one of another one's
                app.command(name, help=command.sentence)(lambda: None)
    else:
        typed = with_default_command(begun)
        if typed != begun:
            replace_words(typed)
        if typed[0] in commands():
            _add_commands(typed)
    with suppress(SystemExit):
        app(prog_name=PROGRAM, complete_var=COMPLETING)
    return DONE


def main(typed: Sequence[str]) -> NoReturn:
    """The program, of what is typed behind its name: a user's error is one line on stderr and its exit code, never a traceback."""
    if COMPLETING in os.environ:
        output.to_the_end(_complete)
    _add_commands(typed)
    output.to_the_end(partial(_carry_out_and_warn, list(typed)))


def _end_with(code: int, command: str, message: str) -> int:
    """Say what was wrong; where CI looks for what a command came to, it finds why it came to nothing."""
    from ortbench.jobs import write_error

    complain(message)
    write_error(command, message)
    return code


def _advice_for(command: str, name: str) -> str | None:
    """What to do in place of an option that a command does not take although one might think so; None where that is not said."""
    from ortbench.plan.options import options_of
    from ortbench.plan.plan import PLAN

    if command in features.candidates():
        advice: str | None = features.function_of(features.candidates()[command], "refusal")(name)
        return advice
    found = next((it for it in options_of(*PLAN) if it.name == name and command in it.takers.instead), None)
    return None if found is None else f"{name}: {found.takers.instead[command]}"


_NO_NUMBER = r"Invalid value for '(.+)': Input should be a valid \w+, unable to parse .*"
_ALIKE = 0.75  # of two names: less is no slip of the fingers


def _carry_out_and_warn(typed: list[str]) -> int:
    """Have a command carried out, and give the first warning that processes printed where the command did not."""
    output.begin()
    code = features.exit_code(typed, _carry_out(typed))
    if warning := output.warning(where_shown=False, after_error=code != DONE):
        complain(warning)
    return code


def _carry_out(typed: list[str]) -> int:
    """Have a command carried out, and say what was wrong with it; its exit code."""
    try:
        # Typer takes exceptions that mean an exit for its own, and gives their codes back: of Ctrl-C too, without a word.
        code = app(typed, standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except typer.Exit as ended:
        return ended.exit_code
    except OrtbenchError as error:
        return _end_with(error.exit_code, typed[0], str(error))
    except OSError as error:
        return _end_with(BENCHMARK_FAILED, typed[0], system_text(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except MemoryError:
        complain("there is not enough memory")
        return BENCHMARK_FAILED
    except Exception as error:
        # Typer keeps the class of its usage errors to itself; what they share is this method.
        if not hasattr(error, "format_message"):
            raise
        name = getattr(error, "option_name", None) or ""
        instead = _advice_for(typed[0], name)
        usage: Any = error
        if found := getattr(error, "possibilities", None):  # the dashes alone make names alike
            usage.possibilities = [it for it in found if SequenceMatcher(None, name[2:], it[2:]).ratio() >= _ALIKE]
        said = re.sub(_NO_NUMBER, r"\1: write a number", one_line(usage.format_message()))
        if "extra argument" in said and sum(it.endswith((".onnx", ".ort")) for it in typed) > 1:
            instead = (
                f"{typed[0]} takes one model; ortbench suite FILE takes several (ortbench explain --more suites.md)"
            )
        for option, value in pairwise(typed) if "extra argument" in said else ():
            if option in ("--json", "--markdown", *(f"--{it}" for it in features.writers())) and value.startswith("--"):
                instead = f"{option} takes a path, and {value} stands in its place: {option} PATH"
        return _end_with(BAD_INPUT, typed[0], f"{said} (see --help)" if instead is None else instead)
    if code == INTERRUPTED:
        print(signals.NOTHING_MEASURED, file=sys.stderr)
    return code or DONE


# Completion in bash, zsh and fish: of commands, options, execution providers, modes; where nothing is known, of files.

# The shell's script asks the program at each Tab, by an environment variable, and Typer answers. What is loaded for that is the
# one command that is being typed; which EPs there are is told by the names of files, so that nothing is waited for.

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


# The commands of the core, and what carries out the plans of a command


def run(given: RawOptions, model: Model) -> None:
    """An I/O mode is a way to pass inputs and get outputs: see 'ortbench explain mode'.
    Results are folders in reports/.
    """
    measure_plans(given, partial(run_of, model, command=command_line()), "run")


def __getattr__(name: str) -> Callable[..., None]:
    """The command of a feature whose record names what makes the plan of a model, and nothing else."""
    record = record_of(name)
    if not record.plan:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def command(given: RawOptions, model: str) -> None:
        planned = partial(plan_function(name, record.plan), model, command=command_line())
        if record.plans_of:
            measure_plans(given, planned, plans_of=plan_function(name, record.plans_of))
        measure_plans(given, planned, name)

    command.__doc__ = record.note
    command.__annotations__["model"] = ModelOrFolder if record.takes_folder else Model
    return command


def measure_plans(
    given: RawOptions,
    planned: Callable[[RawOptions], Plan],
    command: str = "",
    plans_of: Callable[[Plan], list[Plan]] = lambda plan: [plan],
) -> None:
    """Carry a command out; one that is named measures lists of settings side by side, another what its plan comes to."""
    from ortbench.jobs import check_wanted
    from ortbench.jobs import run as job

    wanted = build(OutputOptions, given)
    check_wanted(wanted)
    plans = plan_configurations(given, command, planned) if command else plans_of(planned(given))
    refuse_json(plans, wanted)
    plans = [job.resolve_model(plan) for plan in plans]
    for plan in plans:
        check(plan)
    raise SystemExit(job.run(plans, wanted, given))


def compare(
    given: RawOptions,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json...", help="Result files, or folders of results: two or more in all."),
    ],
) -> None:
    """Results of one model, measured on the same machine, or with --force on any."""
    only = compared_of(given)
    from ortbench.jobs import compare as job

    job.compare(results, only, given, build(OutputOptions, given))


def report(
    given: RawOptions,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json …", help="Result files, or folders of results, such as a suite's."),
    ],
) -> None:
    """An HTML file with verdict, plots, tables and how they were measured."""
    from ortbench.jobs import compare as job

    job.report(results, build(OutputOptions, given))
