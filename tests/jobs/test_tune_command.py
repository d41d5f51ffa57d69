"""`ortbench tune` as a user has it: a small search on a real model, what it leaves, and how it goes on after Ctrl-C."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BadInput
from ortbench.features.load.plan import load_in
from ortbench.features.tune import job
from ortbench.features.tune.analysis import Search
from ortbench.features.tune.job import tuning
from ortbench.features.tune.job.tuning import Tuning, measure_in_turns
from ortbench.features.tune.model import FIRST, failed_try
from ortbench.features.tune.plan import NEWER_ENTRIES, name_of, space_of
from ortbench.jobs import Measured
from ortbench.measure.process import ask_once
from ortbench.measure.progress import duration_for
from ortbench.model.settings import Several
from ortbench.plan.plan import Observer, Plan
from tests.conftest import MODELS, SCREEN, ortbench
from tests.results import case, on_host, result_of
from tests.truth import relu_model
from tests.versions import environment

TINY = MODELS / "tiny.onnx"
FIXED = ("--ep", "cpu", "--no-cpu-mem-arena", "--no-mem-pattern", "--execution-mode", "sequential", "--session-config",
         "session.intra_op.allow_spinning=0", "--intra-op-threads", 1)  # fmt: skip


def saved(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "tune.json").read_text())
    return found


# Which settings there are


@pytest.mark.pure
def test_only_settings_that_make_sense_on_the_machine() -> None:
    one = space_of({}, cores=1)
    assert set(one.values) == {"intra-op-threads", "cpu-mem-arena", "mem-pattern", "opt-level"}
    four = space_of({}, cores=4)
    assert four.names["intra-op-threads"] == [f"intra-op-threads={it}" for it in (1, 2, 4)]
    assert four.names["execution-mode"] == [f"parallel inter-op-threads={it}" for it in (2, 4)]
    assert "intra-op-threads=6" in space_of({}, cores=6).names["intra-op-threads"]
    alone = {"intra-op-threads": "intra-op-threads=1", "spinning": "no spinning"}
    assert four.is_idle(alone, "spinning")
    assert not four.is_idle({**alone, "execution-mode": "parallel inter-op-threads=2"}, "spinning")
    (joined,) = four.joined_settings("execution-mode", "parallel inter-op-threads=2")
    assert joined == {"intra-op-threads": "intra-op-threads=2"}


@pytest.mark.pure
def test_what_is_given_is_fixed_and_of_lists_each_value_is_tried() -> None:
    given = {"opt-level": Several(("all", "basic")), "cpu-mem-arena": False, "intra-op-threads": 2,
             "ep-option": {"k": Several(("a", "b", "c")), "fixed": "1"}}  # fmt: skip
    space = space_of(given, cores=8)
    assert space.names["opt-level"] == ["opt-level=basic"]
    assert space.names["k"] == ["k=b", "k=c"]
    assert not {"cpu-mem-arena", "intra-op-threads"} & {*space.names}
    assert space.plan("m.onnx", FIRST, ()).target.options == {"k": "a", "fixed": "1"}
    of = (("k", "k=c"), ("spinning", "no spinning"))
    target = space.plan("m.onnx", of, ()).target
    assert target.options == {"k": "c", "fixed": "1"}
    assert target.session_config == {"session.intra_op.allow_spinning": "0"}  # nothing runs between operators
    assert (name_of(FIRST), name_of(of)) == ("default", "k=c + no spinning")
    parallel = (("spinning", "no spinning"), ("execution-mode", "parallel inter-op-threads=2"))
    assert len(space.plan("m.onnx", parallel, ()).target.session_config) == 2
    assert space.plan("m.onnx", FIRST, ()).modes == ("cpu-tensors",)
    assert space_of({"mode": ("device-tensors",)}, cores=2).plan("m.onnx", FIRST, ()).modes == ("device-tensors",)
    with pytest.raises(BadInput, match="one mode"):
        space_of({"mode": ("cpu-tensors", "device-tensors")}, cores=2)


@pytest.mark.pure
def test_the_settings_of_a_service_are_threads_how_these_spin_workers_and_sessions() -> None:
    given: dict[str, Any] = {"rate": (60.0,), "slo": {"p99": 20_000_000}}
    plain, newer = space_of(given, cores=2), space_of(given, cores=2, known_entries=[*NEWER_ENTRIES])
    assert plain.names == {
        "intra-op-threads": ["1 thread", "2 threads"], "spinning": ["no spinning", "spin ends with run"], "workers": ["2 workers"],
        "sessions": ["processes", "own sessions"],
    }  # fmt: skip
    assert newer.names["spinning"][2:] == ["spin 100 µs", "spin 1000 µs"]
    assert newer.names["backoff"] == ["backoff 8"]
    assert set(space_of(given, cores=1).names) == {"intra-op-threads"}
    own = {"workers": "2 workers", "sessions": "own sessions", "spinning": "no spinning"}
    assert [name for name in newer.names if newer.is_idle(own, name)] == ["backoff"]
    idle = [name for name in newer.names if newer.is_idle({"intra-op-threads": "1 thread"}, name)]
    assert idle == ["spinning", "backoff", "sessions"]
    four = space_of(given, cores=4)
    assert four.joined_settings("workers", "4 workers") == [
        {"intra-op-threads": "1 thread"}, {"intra-op-threads": "1 thread", "sessions": "processes"}, {"intra-op-threads": "1 thread", "sessions": "own sessions"}
    ]  # fmt: skip
    assert [
        four.has_room({**own, "workers": "4 workers", "intra-op-threads": f"{it}"}) for it in ("2 threads", "4 threads")
    ] == [True, False]
    load = load_in(newer.plan("m.onnx", tuple(own.items()), ()))
    assert (load.rate, load.workers, load.sessions, load.slo) == ((60.0,), 2, "own", given["slo"])
    assert set(space_of({"concurrency": (4,)}, 2).names) == {"intra-op-threads", "spinning", "sessions"}
    assert space_of({**given, "workers": Several((1, 3)), "sessions": "own"}, 2).names["workers"] == ["workers=3"]


@pytest.mark.parametrize("older", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_onnx_runtime_says_which_entries_it_knows(older: bool) -> None:
    python = str(environment("1.24.4") / "bin" / "python") if older else None
    found = ask_once(60, python, "known_entries", entries=[*NEWER_ENTRIES, "session.intra_op.nonsense"])
    assert found == ([] if older else [*NEWER_ENTRIES])


@pytest.mark.pure
def test_threads_beyond_the_cores_are_not_tried_and_the_default_is_said_to_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for usable, limit, cores in ((8, None, 8), (8, 2.5, 2), (8, 0.5, 1), (2, 4.0, 2), (None, None, 1)):
        monkeypatch.setattr(job, "usable_cores", lambda found=usable: found)
        monkeypatch.setattr(job, "core_limit", lambda found=limit: found)
        assert job.available_cores() == cores
    result = on_host(result_of(case("cpu-tensors")))
    result.target["ep"] = CPU_EP
    result.environment["cpu"] |= {"usable_cores": 2, "physical_cores": 8}
    for threads, verdicts in ((None, ["of-the-host"]), (2, [])):
        result.target["intra_op_threads"] = threads
        found = job.thread_findings(Measured([result], [], False))
        assert [(it.code, it.verdict, it.next) for it in found] == [("threads", it, "") for it in verdicts]


def searching(monkeypatch: pytest.MonkeyPatch, max_time_s: float, **given: Any) -> tuple[Tuning, list[Plan]]:
    """A search that has begun just now, of sessions that take 2 s to open; and the plans that it has measured."""
    space, plans = space_of({"ep": "cpu", **given}, cores=2), list[Plan]()
    monkeypatch.setattr(tuning, "measure", lambda found, *_, **__: plans.extend(found))
    began = time.monotonic()
    search = Search(space.names, space.is_idle, space.joined_settings)
    command = ("ortbench", "tune", str(TINY), "--max-time", "9s", "--out", "here")
    return Tuning(str(TINY), space, command, search, began, began + max_time_s, open_s=2.0), plans


SLOW = (("opt-level", "opt-level=basic"),)


@pytest.mark.pure
def test_the_best_are_measured_for_as_long_as_five_processes_take_or_as_three_where_time_is_short(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for max_time_s, processes, memory in ((300, 5, True), (54, 3, True), (35, 3, False)):
        now, plans = searching(monkeypatch, max_time_s)
        measure_in_turns(now, [FIRST, SLOW], tmp_path, Observer())
        for plan in plans:
            assert plan.loop.duration_s >= duration_for(processes, now.open_s, now.block_s) * 1.2
            assert plan.passes == {"measure-memory": 3 * memory}
    now, plans = searching(monkeypatch, 300, duration=3.0)
    measure_in_turns(now, [FIRST, SLOW], tmp_path, Observer())
    assert [it.loop.duration_s for it in plans] == [3.0, 3.0]  # what is asked for is heeded


# In virtual time

VALUES = [word for us in (3000, 5000, 1000, 8000, 1005) for word in ("--ep-option", f"compute_us={us}")]
RATIOS = {f"compute_us={us}": us / 3000 for us in (5000, 1000, 8000, 1005)}


def test_the_fastest_of_an_eps_options_is_found_and_the_code_that_sets_it(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4000)
    line = ("tune", model, "--ep-library", library, *FIXED[2:], "--opt-level", "all", *VALUES, "--duration", 0.3)
    ran = ortbench(*line, "--out", tmp_path / "out", "--json", tmp_path / "it.json", COLUMNS="160")
    assert ran.code == 0, ran.err
    (folder,) = (tmp_path / "out").glob("tune-*")
    assert f"--resume {folder}" in ran.err
    stored = saved(folder)
    assert stored == json.loads((tmp_path / "it.json").read_text())
    ((first, *others),) = stored["races"]
    assert first["settings"] == []
    ratios = {it["settings"][0][1]: it["ratios"]["latency"]["ratio"] for it in others}
    assert ratios == pytest.approx(RATIOS, rel=0.02)  # and the host's calls
    assert all("latency" not in it["left"] for it in others if ratios[it["settings"][0][1]] > 1)
    best = next(it for it in stored["best"] if it["goal"] == "latency")
    assert best["configuration"] == "compute_us=1000"
    assert 'provider_options = {"compute_us": "1000"}' in best["python"]
    assert 'provider_options{{"compute_us", "1000"}};' in " ".join(best["cpp"])
    assert re.search(r"compute_us=1000 has .* latency .*1\.0\d ms: default takes 2\.9\d×", " ".join(ran.out.split()))
    assert "To set compute_us=1000, best for " in ran.out
    assert re.search(r"^compute_us=8000 +2\.6\d ", ran.out, re.MULTILINE)
    # It goes on from what is stored, which is believed, if there is something left and the command is the same.
    ran = ortbench(*line, "--resume", folder)
    assert (ran.code, ran.error_line.partition(": the search is over")[0]) == (2, f"--resume {folder}")
    ran = ortbench(*line[:-1], 0.5, "--resume", folder)
    assert (ran.code, "type the same command" in ran.error_line) == (2, True)
    failed = failed_try((("compute_us", "compute_us=5000"),), "it was not itself that day")
    stored["best"], stored["races"][0][1] = [], failed
    (folder / "tune.json").write_text(json.dumps(stored))
    ran = ortbench(*line, "--resume", folder)
    assert (ran.code, "compute_us=5000: it was not itself that day" in ran.out) == (0, True), ran.err
    assert saved(folder)["races"] == stored["races"]


def test_what_is_best_at_a_rate_is_found_with_what_it_costs(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4000)
    fixed = ("--intra-op-threads", 1, "--session-config", "session.intra_op.allow_spinning=0", "--workers", 1)
    load = ("--rate", 100, "--arrivals", "uniform", "--slo", "p99=4ms", "--duration", 4)
    (tmp_path / "ep.so").symlink_to(library)
    line = ("tune", model.name, "--ep-library", "./ep.so", *fixed, *load, *VALUES)
    ran = ortbench(*line, "--out", "out", "--html", "page.html", cwd=tmp_path, COLUMNS="80", **{SCREEN: "1"})
    assert ran.code == 0, ran.err
    (folder,) = (tmp_path / "out").glob("tune-*")
    stored = saved(folder)
    ((_, *others),) = stored["races"]
    ratios = {it["settings"][0][1]: it["ratios"]["p99"]["ratio"] for it in others}
    assert ratios == pytest.approx(RATIOS, rel=0.02)
    assert [it.get("violates", False) for it in others] == [True, False, True, False]
    assert [it["left"] for it in others] == [[], ["p99"], [], []]
    of_p99, of_cpu = stored["findings"]
    assert (of_p99["verdict"], of_p99["values"]["configuration"]) == ("better", "compute_us=1000")
    assert of_p99["values"]["ratio"]["value"] == pytest.approx(3, rel=0.02)
    assert (of_cpu["values"]["what"], of_cpu["verdict"]) == ("CPU time", "same")
    assert 'provider_options = {"compute_us": "1000"}' in stored["best"][0]["python"]
    assert re.search(r"^compute_us=1000 +10\d\d +lowest +9\.50 +cannot tell +10\d\d$", ran.out, re.MULTILINE)
    assert re.search(r"^default +30\d\d +2\.9\d× ", ran.out, re.MULTILINE)
    assert "compute_us=1000 in Python" in ran.out
    assert (len(ran.out.splitlines()) <= 24, max(map(len, ran.out.splitlines())) <= 80) == (True, True)
    assert "RefDevice" in (tmp_path / "page.html").read_text()
    assert re.match(r"ortbench load .* --rate 100 .* --slo p99=4ms .*compute_us=1000", of_cpu["next"])
