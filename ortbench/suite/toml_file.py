"""A suite's TOML file: its content, and the line and key of every mistake that is found in it. Pure but for reading it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput

Where = tuple[str | int, ...]  # keys and indices from the top of the file


class SuiteFile:
    """A TOML file that can say on which line something is; every other path in it is relative to its folder.

    `environ` is what ``${NAME}`` stands for, in any text. `data` is its content with that put in, `sha256` of its text, whatever
    its line ends. Raises `BadInput` where it cannot be read, is not TOML, or names a variable that is not set.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        try:
            self._text = path.read_text(encoding="utf-8-sig")
            data = tomllib.loads(self._text)
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
        except tomllib.TOMLDecodeError as error:
            raise BadInput(self._syntax(str(error))) from None
        except (UnicodeDecodeError, RecursionError):
            raise BadInput(f"{path} is not a TOML file") from None
        self.sha256 = hashlib.sha256(self._text.encode()).hexdigest()
        self.data: dict[str, Any] = self._with_variables(data, (), environ)

    def mistake(self, where: Where, message: str) -> BadInput:
        """The error for something in the file: its line, its key, and what is wrong with it."""
        return BadInput(f"{self.place(where)}: {message}")

    def place(self, where: Where) -> str:
        """The line and the key of something in the file, as a message begins with it."""
        return f"{self.path}:{self._line(where)}: {dotted(where)}"

    @contextmanager
    def at(self, where: Where) -> Iterator[None]:
        """Bad input inside the block is a mistake at this place; an option's name is not said twice."""
        try:
            yield
        except BadInput as error:
            raise self.mistake(where, error.bare) from None

    @contextmanager
    def blaming(self, places: Mapping[str, Where], otherwise: Where) -> Iterator[None]:
        """Bad input inside the block is a mistake where the option that it names was given, or `otherwise`."""
        try:
            yield
        except BadInput as error:
            raise self.mistake(places.get(error.option or "", otherwise), error.bare) from None

    def _syntax(self, message: str) -> str:
        found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message, re.DOTALL)
        if found:
            return f"{self.path}:{found[2]}: {found[1]}"
        return f"{self.path}:{len(self._text.splitlines())}: {message}"

    def _line(self, where: Where) -> int:
        """The line on which a key, or what holds it, begins.

        The parser keeps no lines. But the beginning of a file up to the end of any statement is a file in itself, and the
        first of them that has the key ends with the statement that gives it.
        """
        lines = self._text.split("\n")
        for depth in range(len(where), 0, -1):
            start = 0
            for end in range(1, len(lines) + 1):
                try:
                    data = tomllib.loads("\n".join(lines[:end]))
                except tomllib.TOMLDecodeError:
                    continue  # ends inside a value that goes on
                if _has(data, where[:depth]):
                    statement = (at for at in range(start, end) if not re.match(r"\s*(#|$)", lines[at]))
                    return next(statement) + 1
                start = end
        return 1

    def _with_variables(self, value: Any, where: Where, environ: Mapping[str, str]) -> Any:
        if isinstance(value, dict):
            return {key: self._with_variables(item, (*where, key), environ) for key, item in value.items()}
        if isinstance(value, list):
            return [self._with_variables(item, (*where, number), environ) for number, item in enumerate(value)]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            if match[1] not in environ:
                raise self.mistake(where, f"the environment variable {match[1]} is not set")
            return environ[match[1]]

        return re.sub(r"\$\{(\w+)\}", variable, value)


def _has(data: Any, where: Where) -> bool:
    for key in where:
        if isinstance(key, int):
            if not isinstance(data, list) or key >= len(data):
                return False
        elif not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def dotted(where: Where) -> str:
    """A key as people write it: ``bench[0].gate.max-regression``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in where).removeprefix(".")
