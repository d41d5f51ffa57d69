"""Options are declared once: what follows from that, for every one of them. Nothing is measured here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortbench.cli import commands
from ortbench.cli.options import FEW, declared_for
from ortbench.features.gate.plan import Limits
from ortbench.features.loop.plan import Steps
from ortbench.features.soak.plan import Soak
from ortbench.features.suite.job.cases import read as read_suite
from ortbench.features.suite.job.jobs import Job, jobs_of
from ortbench.features.tune.model import FIRST
from ortbench.features.tune.plan import space_of
from ortbench.plan import option_types as types
from ortbench.plan.baseline import BASELINE_PYTHON, BASELINE_SET, baseline_of, live_options, settable
from ortbench.plan.option_types import SWITCH, OptionType
from ortbench.plan.options import (
    LOOP,
    OFTEN,
    PANELS,
    SESSIONS,
    Option,
    baseline_option,
    collect_values,
    new_option,
    options_of,
)
from ortbench.plan.plan import PLAN, Plan
from ortbench.plan.plan_builder import FIGURES, METRICS, plan_of
from ortbench.plan.target import Stream
from tests.conftest import MODELS, ROOT, ortbench_here
from tests.reference import document

# A word of a command line, and the same in TOML, for every kind; for a few options another one.
WORDS: list[tuple[OptionType, str, str]] = [
    *((it, "m.onnx", '"m.onnx"') for it in (types.PATH, types.ARRAYS, types.MODEL)),
    *((it, "cpu-tensors", '"cpu-tensors"') for it in (types.MODE_NAMES, types.MODES_ALONE)),
    *((it, "n=4", "{n = 4}") for it in (types.DIMS, types.LENGTHS)),
    (types.TEXT, "text", '"text"'),
    (types.TEXTS, "cpu", '"cpu"'),
    (types.PATH_OR_FOLDER, ".", ""),
    (types.WHOLE, "7", "7"),
    (types.NUMBER, "0.25", "0.25"),
    (types.FLAG, "", "true"),
    (types.SWITCH, "", "false"),
    (types.SHARE, "3%", '"3%"'),
    (types.PRECISION, "0", "0"),
    (BASELINE_PYTHON.kind, "python", '"python"'),
    (types.PAIRINGS, "out*=in*", '"out*=in*"'),
    (types.LIBRARIES, "some-package", '"some-package"'),
    (types.PAIRS, "k=v", '{k = "v"}'),
    (types.ITEMS, "16", "16"),
    (types.CLOCK, "1200", "1200"),
    (types.TIME, "90s", '"90s"'),
    (types.SIZE, "2GB", '"2GB"'),
    (types.SHAPES, "x:2x3", "{x = [2, 3]}"),
    (types.RANGES, "x:1,2", "{x = [1, 2]}"),
    (METRICS, "cpu-tensors.latency.min", '"cpu-tensors.latency.min"'),
    (types.SPEEDUPS, "device-tensors=2", "{device-tensors = 2}"),
    (FIGURES, "outputs.sqnr=30", '{"outputs.sqnr" = 30}'),
]
OTHERS = {
    "ep": "webgpu", "opt-level": "basic", "execution-mode": "parallel", "input-memory": "numpy", "stream": "ort", "python": "python",
    "baseline-python": "python", "optimized-model": "o.onnx", "file-cache": "cold", "compile-cache": "cold", "shape-order": "cycle",
}  # fmt: skip
# What a baseline can have its own of, by what stands for it among what was given.
TWINS = {baseline_option(it).flag: it for it in settable().values()}
# What must be typed besides, so that an option says something.
BESIDES = {
    "shape-order": ["--dim", "s=1,2"],
    "depth": ["--mode", "pipelined"],
    "inter-op-threads": ["--execution-mode", "parallel"],
}
GROWTH = ["--max-growth", "1MB"]  # which makes a soak of a gate
BESIDES_IN_TOML = {
    "depth": 'mode = "pipelined"\n',
    "inter-op-threads": 'execution-mode = "parallel"\n',
    **dict.fromkeys(("reopen", "max-growth"), "soak = true\n"),
    **dict.fromkeys(("file-cache", "compile-cache"), "start = true\n"),
}


COMMAND_NAMES = [*commands()]
OF_SESSIONS = [it for it in COMMAND_NAMES if new_option("any", "", "", "", commands=SESSIONS).is_taken_by(it)]

LOOPED = ["--feedback", "y=x"]
OF_LOOPS = {baseline_option(it).flag for it in options_of(Steps) if it.rules.is_in_baselines}


def looped(command: str, option: Option) -> list[str]:
    """What must be typed besides, so that a command takes an option."""
    of_a_loop = option.flag in {it.flag for it in options_of(Steps)}
    fed = LOOPED if (of_a_loop or command == "loop") and option.flag != "feedback" else []
    soaked = GROWTH if command == "gate" and option.flag in {it.flag for it in options_of(Stream, Soak)} else []
    return [*fed, *soaked, *BESIDES.get(option.flag, [])]


def words(option: Option) -> list[str]:
    if option.flag in TWINS:
        own = TWINS[option.flag]
        return ["--baseline-set", f"{own.flag}={'off' if own.kind is SWITCH else (words(own)[1:] or ['on'])[0]}"]
    if option.kind is SWITCH:
        return [f"--no-{option.flag}"]
    word = OTHERS.get(option.flag, next(word for kind, word, _ in WORDS if kind is option.kind))
    return [option.name, word] if word else [option.name]


def toml(option: Option) -> str:
    """The option as a suite has it."""
    if option.flag in TWINS:
        return toml(TWINS[option.flag])
    text = next(text for kind, _, text in WORDS if kind is option.kind)
    return f'"{OTHERS[option.flag]}"' if option.flag in OTHERS else text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "m.onnx")
    (tmp_path / "python").write_text("")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, typed: list[str]
) -> tuple[list[Plan], Limits | None]:
    """What a command would have done: plans, and the limits of a gate."""
    found: list[tuple[list[Plan], Limits | None]] = []

    def note(plans: Sequence[Plan], limits: Limits | None = None) -> None:
        found.append(([replace(plan, command=()) for plan in plans], limits))

    stand_ins: dict[str, Callable[..., None]] = {
        "jobs.run.run": lambda plans, *_: note(plans),
        "features.gate.job.measure_until_decided": lambda held, _: note(held.plans, held.limits),
        "features.profile.job.profile": lambda plan, *_: note([plan]),
        "features.tune.job.tune": lambda model, given, *_: note([space_of(given, 2).plan(model, FIRST, ())]),
        "features.sweep.job.sweep": lambda shapes, *_: note([shapes[0].plan]),
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(f"ortbench.{name}", stand_in)
    own = ["--model", "m.onnx"] if command == "gate" else ["m.onnx"]
    if command == "sweep":
        own += ["--shape", "swept:1x1,1x2"] if "--dim" in typed else ["--dim", "swept=1,2"]
    if command == "gate" and "--max-cpu-nodes" not in typed:
        own += ["--max-cpu-nodes", "0"]
    ran = ortbench_here(command, *own, *typed, cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    return found[0]


def pairs() -> Iterator[tuple[str, Option]]:
    """Each option with one of the commands that take it, with each in turns, as that has it."""
    untold = {"tune": "mode", "soak": "mode"}  # whose default is what is typed of it
    for number, option in enumerate(it for it in options_of(*PLAN) if it.flag != "try"):  # which makes plans beside it
        takers = [it for it in OF_SESSIONS if option.is_taken_by(it) and untold.get(it) != option.flag]
        command = takers[number % len(takers)]
        yield command, option.with_values(**option.takers.by_command.get(command, {}))


@pytest.mark.parametrize(("command", "option"), [*pairs()], ids=lambda it: it if isinstance(it, str) else it.flag)
def test_every_option_reaches_the_plan(
    command: str, option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    besides = looped(command, option)
    fed = LOOPED if command == "loop" and not besides else besides  # a loop is one by what it is fed back
    plans, plain = (asked(folder, monkeypatch, command, typed)[0] for typed in ([*besides, *words(option)], fed))
    assert len(plans) == 1
    assert plans != plain


def unnamed(job: Job) -> list[Plan]:
    """Its plans but for the name, which is that of the case."""
    return [replace(plan, name=None) for plan in job.plans]


@pytest.mark.parametrize("option", [it for it in options_of(*PLAN) if it.rules.is_in_suites], ids=lambda it: it.flag)
def test_a_suite_makes_the_plan_that_the_command_line_makes(
    option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    besides = looped("suite", option)
    fed = 'feedback = "y=x"\n' if LOOPED[0] in besides else ""
    more = BESIDES_IN_TOML.get(option.flag, "")
    (folder / "s.toml").write_text(f'[[bench]]\nmodel = "m.onnx"\n{more}{fed}{option.flag} = {toml(option)}\n')
    (job,) = jobs_of(read_suite(Path("s.toml"), {}), ())
    command = "loop" if option.texts.panel == LOOP else more.split()[0] if "true" in more else "run"
    plans, _ = asked(folder, monkeypatch, command, [*besides, *words(option)])
    # A suite's cases are measured as long as they are given, as results that are compared.
    assert unnamed(job) == [replace(plan, loop=replace(plan.loop, until_agreed=False)) for plan in plans]
    assert [plan.name for plan in job.plans] == [job.case.id]


@pytest.mark.parametrize("option", options_of(Limits, live_options()), ids=lambda it: it.flag)
def test_every_option_of_a_gate_is_the_same_on_the_command_line_and_in_a_suite(
    option: Option, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag, own = option.flag, TWINS[option.flag].flag if option.flag in TWINS else ""
    is_ratio = option not in live_options() and flag != "max-growth"  # of a candidate to a baseline, which differs
    keys = {
        "max-cpu-nodes": "0",
        **({"baseline-set.session-config": '{a = "b"}'} if is_ratio else {}),
        flag: toml(option),
    }
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    more = BESIDES_IN_TOML.get(own or flag, "")
    fed = 'feedback = "y=x"\n' if flag in OF_LOOPS else ""
    (folder / "s.toml").write_text(f'[[bench]]\nmodel = "m.onnx"\n{more}{fed}[bench.gate]\n{lines}\n')
    (job,) = jobs_of(read_suite(Path("s.toml"), {}), ())
    needed = ["--baseline-set", "session-config=a=b"] if is_ratio else BESIDES.get(own, LOOPED if fed else [])
    plans, limits = asked(folder, monkeypatch, "gate", [*needed, *words(option)])
    assert (unnamed(job), job.limits) == (plans, limits)
    assert (plans, limits) != asked(folder, monkeypatch, "gate", needed)


def base(*own: str) -> Plan:
    """The baseline of a live gate that has these options of its own."""
    plan = plan_of("m.onnx", {"intra-op-threads": 4, "dim": {"batch": 8}, "cuda-graph": True, "run-config": {"a": "b"}})
    return baseline_of(plan, collect_values([(BASELINE_SET, BASELINE_SET.read(own))]))


@pytest.mark.parametrize(
    ("word", "part", "changed"),
    [
        ("intra-op-threads=1", "target", {"intra_op_threads": 1}),
        ("intra-op-threads=", "target", {"intra_op_threads": None}),
        ("cuda-graph=off", "target", {"cuda_graph": False}),
        ("cpu-mem-arena=off", "target", {"cpu_mem_arena": False}),
        ("run-config=", "target", {"run_config": {}}),
        ("run-config=c=d=e", "target", {"run_config": {"c": "d=e"}}),
        ("dim=batch=1", "inputs", {"dims": {"batch": 1}}),
        ("shape=x:2x3", "inputs", {"shapes": {"x": (2, 3)}}),
    ],
)
def test_a_baseline_differs_in_what_was_said_of_it(word: str, part: str, changed: dict[str, Any]) -> None:
    plain = base()
    parts: dict[str, Any] = {part: replace(getattr(plain, part), **changed)}
    assert base(word) == replace(plain, **parts)
    several = replace(plain.target, run_config={"a": "1", "b": "2"})
    assert base("items=4", "run-config=a=1", "run-config=b=2") == replace(plain, items=4, target=several)
    written = plan_of("m.onnx", {"optimized-model": "o.onnx"})  # what the candidate writes is not written twice
    assert baseline_of(written, {}).target.optimized_model is None


def panels_of(text: str) -> dict[str, str]:
    _, *parts = re.split(r"^(\w.*):\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_help_shows_what_most_people_need_and_how_to_see_the_rest(command: str) -> None:
    text, whole = (ortbench_here(command, it, COLUMNS="100").out for it in ("--help", "--help-all"))
    few, every = (re.findall(r"^  (?:-\w, )?--([a-z-]+)", it, re.MULTILINE) for it in (text, whole))
    assert len(few) - 1 <= FEW
    assert {*few} <= {*every}
    rest = len(every) - len(few)
    assert (rest > 0) is (len(every) - 1 > FEW)
    assert text.endswith(f"\n--help-all shows {rest} more.\n" if rest else "Show this message and exit.\n")
    common = {it.flag for it in declared_for(command).values() if it.is_shown_by(command)}
    assert not rest or common == {*few} & {it.flag for it in declared_for(command).values()}
    assert len(text.splitlines()) <= (40 if command == "run" else 45)
    shown = panels_of(whole)
    assert [it for it in shown if it in PANELS] == [it for it in PANELS if it in shown]
    for option in declared_for(command).values():
        assert re.search(rf"^ .*{option.name}\b", shown[option.texts.panel], re.MULTILINE), option


def test_the_help_of_an_option_fits_a_line_and_is_shown_by_commands_that_take_it() -> None:
    """But for a list of modes, which is as long as it is; a test cannot know that its first word is a verb."""
    listed = r" Each of a list \(| A list \(| Several "
    for command in COMMAND_NAMES:
        for option in declared_for(command).values():
            assert option.flag == "mode" or len(re.split(listed, option.texts.help)[0]) <= 80, option.texts.help
            verb = r"(?!(A|An|The|What|Which|How|Where|When|Then)\b)[A-Z][a-z]+ .*\.$"
            assert re.match(verb, option.texts.help), option.texts.help
            takers = {it for it in COMMAND_NAMES if option.is_taken_by(it)}
            assert {*option.takers.common} <= {*option.takers.commands, *OFTEN, *takers}, option


def test_the_documentation_is_up_to_date() -> None:
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == document()
