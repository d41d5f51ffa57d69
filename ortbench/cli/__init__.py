"""The command line. Each command makes plans, has them carried out, and writes what came of it.

Nothing here imports onnxruntime, rich, scipy or pandas at start-up: `ortbench --help` stays quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from ortbench import __version__
from ortbench.characters import accept_all_characters, flush, without_controls
from ortbench.cli.options import WIDEST, Command
from ortbench.errors import BAD_INPUT, DONE, INTERRUPTED, OrtbenchError, one_line

app = typer.Typer(
    help="What ONNX Runtime's copies cost: a model in several I/O modes, side by side, on any execution provider.",
    epilog="Begin with: ortbench run MODEL.onnx",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"ortbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


# Each command's function has the command's name.
COMMANDS = {
    "run": "ortbench.cli.run",
    "report": "ortbench.cli.report",
    "profile": "ortbench.cli.profile",
    "compare": "ortbench.cli.compare",
    "gate": "ortbench.cli.gate",
    "suite": "ortbench.cli.suite",
    "merge": "ortbench.cli.suite",
    "bandwidth": "ortbench.cli.bandwidth",
    "devices": "ortbench.cli.look",
    "inspect": "ortbench.cli.look",
}


def _offer(typed: list[str]) -> None:
    """Give the program its commands: the one that was typed, or all where none was.

    Typer makes every option of every command it has, which takes longer than all else before a run begins.
    """
    for name in typed[:1] if typed and typed[0] in COMMANDS else COMMANDS:
        app.command(cls=Command)(getattr(import_module(COMMANDS[name]), name))


def main() -> NoReturn:
    """The program: a user's error is one line on stderr and its exit code, never a traceback."""
    accept_all_characters()
    typed = sys.argv[1:] or ["--help"]
    _offer(typed)
    try:
        app(typed, standalone_mode=False)
        raise SystemExit(DONE)
    except typer.Exit as error:
        raise SystemExit(error.exit_code) from None
    except OrtbenchError as error:
        print(f"ortbench: {without_controls(str(error))}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("ortbench: interrupted before anything was measured", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        # Typer keeps the class of its usage errors to itself; what they share is this method.
        if not hasattr(error, "format_message"):
            raise
        print(f"ortbench: {one_line(error.format_message())} (see --help)", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from None
    finally:
        flush()
