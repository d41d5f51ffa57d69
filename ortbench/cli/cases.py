"""What the cases of a suite ask for: their plans and limits, made and checked as on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.cli.options import (
    LIVE_DURATION_S,
    Baseline,
    added_modes,
    depth_of,
    inputs_of,
    is_library,
    limits_of,
    live_loop,
    modes_needed,
    modes_of,
    target_of,
)
from ortbench.errors import BadInput
from ortbench.gate.contests import regression_contests
from ortbench.gate.limits import Limits
from ortbench.plan import Inputs, Loop, Plan, Target, check, parse_share
from ortbench.suite.cases import Suite, SuiteCase
from ortbench.suite.job import Job
from ortbench.suite.toml_file import Where

_DEFAULTS = ("defaults",)


def jobs_of(suite: Suite, command: tuple[str, ...]) -> list[Job]:
    """A job for every case.

    Args:
        suite: that was read.
        command: what was typed, for the results.

    Raises:
        BadInput: an option that a case cannot be carried out with, with its line and key.
    """
    return [Job(case) if case.skip is not None else _Maker(suite, case, command).job() for case in suite.cases]


class _Maker:
    """Makes the job of one case."""

    def __init__(self, suite: Suite, case: SuiteCase, command: tuple[str, ...]) -> None:
        self._file = suite.file
        self._case = case
        self._command = command

    def job(self) -> Job:
        other = self._other()
        limits = self._limits(other)
        plan = self._plan(limits, live=other.given)
        with self._blaming((*self._case.where, "model")):
            check(plan)
        plans = [plan]
        if other.given:
            with self._blaming(self._where("baseline-model"), "baseline-"):
                plans.append(other.of(plan))
                check(plans[1])
            with self._blaming(self._where("metric")):
                regression_contests(limits, plan.modes)
        return Job(self._case, tuple(plans), limits, self._get("force", False), self._earlier())

    def _get(self, option: str, default: Any = None) -> Any:
        given = self._case.given.get(option)
        return default if given is None else given.value

    def _where(self, option: str) -> Where:
        given = self._case.given.get(option)
        return self._case.where if given is None else given.where

    def _ep(self, option: str, default: str | None = None) -> str | None:
        """An EP; a library's path is relative to the file, as all are."""
        ep: str | None = self._get(option, default)
        return str(self._file.path.parent / ep) if ep is not None and is_library(ep) else ep

    @contextmanager
    def _blaming(self, otherwise: Where, prefix: str = "") -> Iterator[None]:
        """Bad input inside the block is a mistake where the option that its message begins with was given."""
        try:
            yield
        except BadInput as error:
            found = re.match(r"--([a-z-]+)", str(error))
            name = found[1] if found else ""
            names = [prefix + name.removeprefix(prefix), prefix + name.removesuffix("-library")]  # an EP can be a path
            where = next((self._where(it) for it in names if it in self._case.given), otherwise)
            with self._file.at(where, f"--{name}"):
                raise

    def _other(self) -> Baseline:
        """The baseline of a live gate."""
        other = Baseline(
            model=self._get("baseline-model"),
            ep=self._ep("baseline-ep"),
            ep_library=self._get("baseline-ep-library"),
            ep_option=tuple(self._get("baseline-ep-option", ())),
            session_config=tuple(self._get("baseline-session-config", ())),
            python=self._get("baseline-python"),
        )
        for option, why in (
            ("baseline", "a live gate measures its baseline itself"),
            ("iterations", "a live gate measures until its verdict is clear"),
            ("precision", "a live gate measures until its verdict is clear"),
        ):
            if other.given and option in self._case.given:
                message = f"{why}: leave it out, or write {option} = false where it should not hold"
                raise self._file.mistake(self._where(option), message)
        return other

    def _limits(self, other: Baseline) -> Limits:
        has_baseline = other.given or "baseline" in self._case.given
        for option in ("max-regression", "metric"):
            # As a default it is for those that have a baseline.
            if option in self._case.given and not has_baseline and self._where(option)[:1] != _DEFAULTS:
                message = "needs something to hold it against: baseline, or live one of baseline-model, baseline-ep …"
                raise self._file.mistake(self._where(option), message)
        mode = self._get("mode", ())
        with self._blaming(self._case.where):
            return limits_of(
                has_baseline,
                modes_of(mode, self._added()) if mode else (),
                self._get("max-regression"),
                self._get("metric", ()),
                self._get("min-speedup", ()),
                self._get("max-copy-share"),
                self._get("max-cpu-nodes"),
                self._get("require-mode", ()),
            )

    def _added(self) -> tuple[str, ...]:
        """The modes that options of their own ask for."""
        return added_modes(self._get("depth"), self._get("pinned", False), self._get("async-runs", False))

    def _plan(self, limits: Limits, live: bool) -> Plan:
        with self._blaming(self._case.where):
            target = target_of(
                ep=self._ep("ep") or Target.ep,
                ep_library=self._get("ep-library"),
                device=self._get("device"),
                ep_option=self._get("ep-option", ()),
                session_config=self._get("session-config", ()),
                threads=self._get("threads"),
                opt_level=self._get("opt-level", Target.opt_level),
                require_placement=self._get("require-placement", False),
                dynamic_outputs=self._get("dynamic-outputs", False),
                external=self._get("external"),
                cuda_graph=self._get("cuda-graph", False),
                stream=self._get("stream"),
                engine_cache=self._get("engine-cache"),
            )
            inputs = inputs_of(
                self._get("input"),
                self._get("expect"),
                self._get("shape", ()),
                self._get("dim", ()),
                self._get("range", ()),
                self._get("seed", Inputs.seed),
                self._get("rtol"),
                self._get("atol"),
            )
        warmup, depth, duration = self._get("warmup"), self._get("depth"), self._get("duration")
        if live:
            loop = live_loop(warmup, depth, LIVE_DURATION_S if duration is None else duration, limits)
        else:
            seconds = Loop.duration_s if duration is None else duration
            loop = Loop(warmup, seconds, self._get("iterations"), depth=depth_of(depth))
            if "precision" in self._case.given:
                loop = replace(loop, precision=parse_share(self._get("precision"), "--precision"))
        modes = modes_needed(self._get("mode", ()), self._added(), limits)
        timeout = self._get("timeout", Plan.timeout_s)
        return Plan(self._case.model, target, inputs, modes, loop, timeout, command=self._command)

    def _earlier(self) -> Path | None:
        """The case's folder in the earlier suite that it is held against."""
        if "baseline" not in self._case.given:
            return None
        folder = Path(self._get("baseline"))
        if not folder.is_dir():
            raise self._file.mistake(self._where("baseline"), f"no such folder: {folder}")
        return folder / self._case.id
