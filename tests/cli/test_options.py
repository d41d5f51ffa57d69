"""Options are declared once: what follows from that, for every one of them. Nothing is measured here."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparable import changes
from ortbench.errors import BadInput
from ortbench.gate.baseline import LIVE_BASELINE
from ortbench.gate.limits import METRICS, Limits
from ortbench.jobs import gate as gate_job
from ortbench.jobs import profile as profile_job
from ortbench.jobs import run as run_job
from ortbench.kinds import (
    DIMS,
    FLAG,
    LENGTHS,
    MODE_NAMES,
    NUMBER,
    PAIRS,
    PATH,
    PLACE,
    PRECISION,
    RANGES,
    SHAPES,
    SHARE,
    SPEEDUPS,
    TEXT,
    TEXTS,
    WHOLE,
    Kind,
)  # fmt: skip
from ortbench.options import PANELS, SESSIONS, Option, check_values, declared, make, options_of, settings
from ortbench.plan import PLAN, WHICH_MODES, Inputs, Loop, Plan, Target
from ortbench.suite.cases import read
from ortbench.suite.job import jobs_of
from ortbench.suite.layers import OPTIONS
from ortbench.wanted import Wanted
from tests.conftest import MODELS, ROOT, ortbench_here
from tests.reference import document
from tests.results import result_of

# A word of a command line, and the same in TOML, for every kind; for a few options another one.
WORDS: list[tuple[Kind, str, str]] = [
    (TEXT, "text", '"text"'),
    (TEXTS, "cpu", '"cpu"'),
    (PATH, "m.onnx", '"m.onnx"'),
    (PLACE, ".", ""),
    (WHOLE, "7", "7"),
    (NUMBER, "0.25", "0.25"),
    (FLAG, "", "true"),
    (SHARE, "3%", '"3%"'),
    (PRECISION, "0", "0"),
    (MODE_NAMES, "cpu", '"cpu"'),
    (PAIRS, "k=v", '{k = "v"}'),
    (DIMS, "n=4", "{n = 4}"),
    (LENGTHS, "n=4", "{n = 4}"),
    (SHAPES, "x:2x3", "{x = [2, 3]}"),
    (RANGES, "x:1,2", "{x = [1, 2]}"),
    (METRICS, "cpu.total.min", '"cpu.total.min"'),
    (SPEEDUPS, "device=2", "{device = 2}"),
]
OTHERS = {"ep": "webgpu", "opt-level": "basic", "external": "numpy", "stream": "ort", "baseline-ep": "webgpu"}
OTHERS |= {"baseline-python": "python"}


def words(option: Option) -> list[str]:
    """The option as it is typed."""
    word = OTHERS.get(option.flag, next(word for kind, word, _ in WORDS if kind is option.kind))
    return [option.name, word] if word else [option.name]


def toml(option: Option) -> str:
    """The option as a suite has it."""
    text = next(text for kind, _, text in WORDS if kind is option.kind)
    return f'"{OTHERS[option.flag]}"' if option.flag in OTHERS else text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model and an interpreter in it."""
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "m.onnx")
    (tmp_path / "python").write_text("")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Asked = tuple[list[Plan], Limits, Wanted]


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, typed: list[str]) -> Asked:
    """What a command would have done: plans, limits, and what is to be written."""
    found: list[Asked] = []

    def run(plans: list[Plan], wanted: Wanted) -> int:
        found.append((plans, Limits(), wanted))
        return 0

    def gate(plans: list[Plan], limits: Limits, force: bool, wanted: Wanted) -> int:
        found.append((plans, limits, wanted))
        return 0

    def profile(plan: Plan, attach_only: bool, wanted: Wanted) -> int:
        found.append(([plan], Limits(), wanted))
        return 0

    monkeypatch.setattr(run_job, "run", run)
    monkeypatch.setattr(gate_job, "measure_until_decided", gate)
    monkeypatch.setattr(profile_job, "profile", profile)
    own = ["--model", "m.onnx", "--max-cpu-nodes", "0"] if command == "gate" else ["m.onnx"]
    ran = ortbench_here(command, *own, *typed, cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    (one,) = found
    plans = [replace(plan, command=()) for plan in one[0]]
    return plans, one[1], one[2]


def holds(values: Any, name: str, option: Option) -> bool:
    """Whether a field has what was typed, and that is not its default."""
    given: Any = True if option.kind is FLAG else option.kind.word(words(option)[-1])
    value = option.kind.parse([given] if option.kind.repeatable else given, option.name)
    default = declared(type(values))[name].default
    return bool(getattr(values, name) == value != default)


COMMANDS = [(command, it.of(command)) for it in options_of(*PLAN) for command in SESSIONS if command in it.commands]


@pytest.mark.parametrize(("command", "option"), COMMANDS, ids=lambda it: it if isinstance(it, str) else it.flag)
def test_every_option_reaches_the_plan(
    command: str, option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan,), _, _ = asked(folder, monkeypatch, command, words(option))
    (plain,), _, _ = asked(folder, monkeypatch, command, [])
    parts = (plan.target, plan.inputs, plan.loop, plan)
    places = [(it, name) for it in parts for name, own in declared(type(it)).items() if own.flag == option.flag]
    assert plan != plain
    if option.flag == "ep":
        assert plan.target == replace(plain.target, ep="webgpu")
    elif (command, option.flag) == ("gate", "duration"):
        assert plan == replace(plain, loop=replace(plain.loop, duration_s=0.125))  # of each of two sides
    elif places:
        ((values, name),) = places
        assert holds(values, name, option)
    else:
        assert option in WHICH_MODES
        assert {*plan.modes} > {*plain.modes}


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda it: it.flag)
def test_a_suite_makes_the_plan_that_the_command_line_makes(
    option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "s.toml").write_text(f'[[bench]]\nmodel = "m.onnx"\n{option.flag} = {toml(option)}\n')
    (job,) = jobs_of(read(Path("s.toml"), {}), ())
    plans, _, _ = asked(folder, monkeypatch, "run", words(option))
    assert [replace(plan, name=None) for plan in job.plans] == plans  # a case has its id for a name


@pytest.mark.parametrize("option", options_of(Limits, LIVE_BASELINE), ids=lambda it: it.flag)
def test_every_option_of_a_gate_is_the_same_on_the_command_line_and_in_a_suite(
    option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = {} if option in LIVE_BASELINE else {"baseline-session-config": '{a = "b"}'}
    keys = {"max-cpu-nodes": "0", **contest, option.flag: toml(option)}
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    (folder / "s.toml").write_text(f'[[bench]]\nmodel = "m.onnx"\n[bench.gate]\n{lines}\n')
    (job,) = jobs_of(read(Path("s.toml"), {}), ())
    needed = ["--baseline-session-config", "a=b"] if contest else []
    plans, limits, _ = asked(folder, monkeypatch, "gate", [*needed, *words(option)])
    assert ([replace(plan, name=None) for plan in job.plans], job.limits) == (plans, limits)
    (plain, *_), without, _ = asked(folder, monkeypatch, "gate", needed)
    if option in options_of(Limits):
        ((name, _),) = [it for it in declared(Limits).items() if it[1] == option]
        assert holds(limits, name, option)
    else:
        assert plans[0] == replace(plain, loop=plans[0].loop)
        assert plans[1] != plans[0] or option.flag == "baseline-model"  # which has the candidate's name here
        assert limits.max_regression == 0.05
        assert without.max_regression is None


@pytest.mark.parametrize("option", options_of(Wanted), ids=lambda it: it.flag)
def test_what_is_written_is_what_was_asked_for(option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in {*SESSIONS} & {*option.commands}:
        typed = [option.name] if option.kind is FLAG else [option.name, "it"]
        (folder / "it").touch()
        _, _, wanted = asked(folder, monkeypatch, command, typed)
        assert str(getattr(wanted, option.parameter)) == ("True" if option.kind is FLAG else "it")


def test_what_says_how_to_measure_is_for_live_gates_alone(folder: Path) -> None:
    refused = [it for it in options_of(*PLAN, Wanted) if "gate" in it.commands and it.only_live]
    assert {it.flag for it in options_of(*PLAN) if "gate" in it.commands} - {it.flag for it in refused} == {"mode"}
    for option in refused:
        ran = ortbench_here("gate", "result.json", "--max-cpu-nodes", 0, *words(option), cwd=folder)
        reason = "says how to measure: it is for a live gate (--model), not for a result file"
        assert (ran.code, ran.error_line) == (2, f"{option.name} {reason}")


def test_settings_are_recorded_and_a_difference_in_one_is_told() -> None:
    keys = [
        "ep_options",
        "session_config",
        "threads",
        "opt_level",
        "dynamic_outputs",
        "external",
        "cuda_graph",
        "stream",
    ]
    assert [key for key in settings(Target()) if key in keys] == keys
    plain = result_of(**{f"target__{key}": value for key, value in settings(Target()).items()})
    for name, option in declared(Target).items():
        if option.says is None:
            continue
        given: Any = True if option.kind is FLAG else option.kind.word(words(option)[-1])
        target = make(Target, {option.flag: [given] if option.kind.repeatable else given})
        other = result_of(**{f"target__{key}": value for key, value in settings(target).items()})
        (change,) = changes(plain, other)
        assert change.startswith(f"{option.says}: "), name


def test_errors_say_which_option_they_are_about() -> None:
    for values in (Target(threads=0), Target(device=-1), Inputs(seed=-1), Loop(warmup=-1), Target(external="x")):
        with pytest.raises(BadInput) as caught:
            check_values(values)
        assert caught.value.option is not None
        assert str(caught.value) == f"{caught.value.option} {caught.value.bare}"


# Help and documentation


@pytest.mark.parametrize("command", ["run", "gate", "profile", "bandwidth", "inspect"])
def test_help_shows_every_option_in_its_panel(command: str) -> None:
    text = ortbench_here(command, "--help", COLUMNS="100").out
    panels = [line[:-1] for line in text.splitlines() if re.fullmatch(r"\w.*:", line)]
    assert panels == ["Arguments"] * (command != "bandwidth") + [it for it in PANELS if it in panels] + ["Options"]
    _, *parts = re.split(r"^(\w.*):\n", text, flags=re.MULTILINE)
    shown = dict(zip(parts[::2], parts[1::2], strict=True))
    function = getattr(import_module(f"ortbench.cli.{ {'inspect': 'look'}.get(command, command) }"), command)
    for option in function.options.values():
        assert re.search(rf"^ .*{option.name}\b", shown[option.panel], re.MULTILINE), option


@pytest.mark.parametrize(("columns", "widest"), [(60, 60), (80, 80), (120, 120), (200, 130)])
def test_help_uses_the_terminals_width(columns: int, widest: int) -> None:
    lines = ortbench_here("run", "--help", COLUMNS=str(columns)).out.splitlines()
    assert widest - 12 < max(map(len, lines)) <= widest


def test_the_documentation_is_up_to_date() -> None:
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == document()
