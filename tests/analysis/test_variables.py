"""Environment variables in results: which are recorded, and what differs."""

from __future__ import annotations

from ortbench.analysis.comparable import are_alike, changes, recorded_variables, variables_line
from ortbench.model.result import Result
from tests.results import result_of

ENVIRON = {
    "SIMDEV_DELAY": "5", "SIMDEV_MODE": "fast", "SIMDEV_API_KEY": "k", "SIMDEV_Token": "t", "simdev_low": "1", "HOME": "/h",
}  # fmt: skip


def test_which_are_recorded() -> None:
    for patterns, names in [
        (["SIMDEV_*"], ["SIMDEV_DELAY", "SIMDEV_MODE"]),
        (["SIMDEV_[D]*", "HOME"], ["HOME", "SIMDEV_DELAY"]),
        (["SIMDEV_?ODE"], ["SIMDEV_MODE"]),
        (["SIMDEV_API_KEY", "SIMDEV_*"], ["SIMDEV_API_KEY", "SIMDEV_DELAY", "SIMDEV_MODE"]),
        (["*"], ["HOME", "SIMDEV_DELAY", "SIMDEV_MODE", "simdev_low"]),
    ]:
        found, _ = recorded_variables(patterns, ENVIRON)
        assert found == {name: ENVIRON[name] for name in names}
    _, remarks = recorded_variables(["SIMDEV_*", "NOWHERE", "NO_*"], ENVIRON)
    assert remarks == [
        "--record-env: not recorded, because the name or the value looks like a secret: SIMDEV_API_KEY, SIMDEV_Token; "
        "one that is named without a wildcard is",
        "--record-env: no variable is set that is called NOWHERE or NO_*",
    ]
    assert recorded_variables(["SIMDEV_API_KEY"], ENVIRON) == ({"SIMDEV_API_KEY": "k"}, [])


def result(**variables: str) -> Result:
    made = result_of()
    made.environment["record_env"] = ["SIMDEV_*"]
    made.environment["variables"] = variables
    return made


def test_what_differs() -> None:
    for one, other, said in [
        (result(SIMDEV_A="1"), result(SIMDEV_A="2"), ["environment variable SIMDEV_A: 1 → 2"]),
        (result(SIMDEV_A="1"), result(), ["environment variable SIMDEV_A: 1 → not set"]),
        (result(), result(SIMDEV_A=""), ["environment variable SIMDEV_A: not set → empty"]),
        (result_of(), result(SIMDEV_A="1"), ["environment variable SIMDEV_A: not recorded → 1"]),
        (result(SIMDEV_KEY="1"), result(), ["environment variable SIMDEV_KEY: 1 → not recorded"]),
        (result(SIMDEV_A="1", SIMDEV_B="2"), result(SIMDEV_A="1", SIMDEV_B="2"), []),
    ]:
        assert changes(one, other) == said
        assert are_alike(one, other) != bool(said)
    assert variables_line(result().environment) is None
    assert variables_line(result(A="1", B="").environment) == "A=1, B="
