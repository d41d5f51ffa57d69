"""The command line. Each command makes plans, has them carried out, and writes what came of it.

Nothing here imports onnxruntime, rich, scipy or pandas at start-up: `ortbench --help` stays quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from ortbench import __version__
from ortbench.cli.compare import compare
from ortbench.cli.gate import gate
from ortbench.cli.look import devices, inspect
from ortbench.cli.run import run
from ortbench.cli.suite import merge, suite
from ortbench.errors import BAD_INPUT, DONE, INTERRUPTED, OrtbenchError, one_line

app = typer.Typer(
    help="What ONNX Runtime's copies cost: a model in several I/O modes, side by side, on any execution provider.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.command()(run)
app.command()(compare)
app.command()(gate)
app.command()(suite)
app.command()(merge)
app.command()(devices)
app.command()(inspect)


def main() -> NoReturn:
    """The program: a user's error is one line on stderr and its exit code, never a traceback."""
    try:
        app(sys.argv[1:] or ["--help"], standalone_mode=False)
        raise SystemExit(DONE)
    except typer.Exit as error:
        raise SystemExit(error.exit_code) from None
    except OrtbenchError as error:
        print(f"ortbench: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("ortbench: interrupted before anything was measured", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of a pipe (head, less) has gone; closing stdout here keeps Python from saying so at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(DONE) from None
    except Exception as error:
        # Typer keeps the class of its usage errors to itself; what they share is this method.
        if not hasattr(error, "format_message"):
            raise
        print(f"ortbench: {one_line(error.format_message())} (see --help)", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from None
