"""An old name is refused with the new one: of options, of keys of suites, of modes, of commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortbench.cli import COMMANDS
from ortbench.cli.options import declared_for
from ortbench.gate.baseline import SETTABLE
from ortbench.model.modes import ALL_MODES, OLD_NAMES, WERE_ADDED_BY
from ortbench.plan import renames
from ortbench.suite.layers import GATE, OPTIONS
from tests.conftest import ortbench_here

OLD_BASELINE = {new: old for old, new in renames.OPTIONS.items()}


def old_options() -> Iterator[tuple[str, str, str]]:
    """Every old option of every command that has what it is now: the command, what was typed, what is to be typed."""
    for command in COMMANDS:
        known = {it.flag: it for it in declared_for(command).values()}
        for old, new in renames.OPTIONS.items():
            if new in known:
                yield command, f"--{old}", f"--{new}"
        for old, modes in WERE_ADDED_BY.items():
            if "mode" in known:
                usual = ["--mode default"] if known["mode"].kind.repeatable else []
                yield command, f"--{old}", " ".join([*usual, *(f"--mode {mode}" for mode in modes)])
    for key in SETTABLE:
        yield "gate", f"--baseline-{OLD_BASELINE.get(key, key)}", f"--baseline-set {key}=VALUE"


@pytest.mark.parametrize(("command", "typed", "now"), [*old_options()])
def test_an_old_option_is_refused_with_the_new_one(command: str, typed: str, now: str) -> None:
    for words in ([typed, "1"], [f"{typed}=1"], ["m.onnx", typed]):
        ran = ortbench_here(*command.split(), *words)
        assert (ran.code, ran.out, ran.error_line) == (2, "", f"{typed} is now {now}")


def test_no_old_name_is_in_use() -> None:
    used = {it.flag for command in COMMANDS for it in declared_for(command).values()}
    assert used.isdisjoint({*renames.OPTIONS, *WERE_ADDED_BY})
    assert {*renames.OPTIONS.values()} <= used
    assert {*OLD_NAMES}.isdisjoint(ALL_MODES)
    assert {*renames.COMMANDS}.isdisjoint(COMMANDS)
    assert {*renames.COMMANDS.values()} <= {*COMMANDS}


@pytest.mark.parametrize("command", [*renames.COMMANDS])
def test_an_old_command_is_refused_with_the_new_one(command: str) -> None:
    for words in ([], ["a", "--out", "b"], ["--help"]):
        ran = ortbench_here(command, *words)
        assert (ran.code, ran.out, ran.error_line) == (
            2,
            "",
            f"{command} is now 'ortbench {renames.COMMANDS[command]}'",
        )


KEYS = [(old, "", new) for old, new in renames.OPTIONS.items() if new in OPTIONS]
KEYS += [(old, "", f"mode = {json.dumps(['default', *modes])}") for old, modes in WERE_ADDED_BY.items()]
KEYS += [(f"baseline-{OLD_BASELINE.get(key, key)}", "gate", f"baseline-set.{key}") for key in SETTABLE]


@pytest.mark.parametrize(("key", "table", "now"), KEYS)
def test_an_old_key_of_a_suite_is_refused_with_the_new_one(key: str, table: str, now: str, tmp_path: Path) -> None:
    place = ".".join(filter(None, ("bench[0]", table, key)))
    text = f"gate = {{{key} = 1}}" if table else f"{key} = 1"
    (tmp_path / "s.toml").write_text(f'[[bench]]\nmodel = "m.onnx"\n{text}\n')
    ran = ortbench_here("suite", "s.toml", "--list", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (2, f"s.toml:3: {place}: is now {now}")
    assert {*GATE} >= {"baseline-set"}


@pytest.mark.parametrize(("old", "new"), [*OLD_NAMES.items()])
def test_an_old_mode_is_refused_with_the_new_one(old: str, new: str, tmp_path: Path) -> None:
    for command, option, word in (
        *((it, "--mode", old) for it in ("run", "loop", "load", "chain", "sweep", "code", "compare", "gate")),
        ("gate", "--require-mode", old),
        ("gate", "--min-speedup", f"{old}=2"),
    ):
        first = [] if command == "gate" else ["m.onnx"]
        ran = ortbench_here(command, *first, option, word, cwd=tmp_path)
        assert (ran.code, ran.error_line) == (2, f"{option} {old} is now {new}")
    (tmp_path / "s.toml").write_text(f'[[bench]]\nmodel = "m.onnx"\nmode = "{old}"\n')
    ran = ortbench_here("suite", "s.toml", "--list", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (2, f"s.toml:3: bench[0].mode: {old} is now {new}")
    metric = ortbench_here("gate", "r.json", "--baseline", "b.json", "--metric", f"{old}.latency", cwd=tmp_path)
    assert (metric.code, new in metric.error_line) == (2, True)
