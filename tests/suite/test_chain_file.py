"""Chain files: the plan that they make, and what is said of their mistakes. Nothing is measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.features.chain.plan import Chain
from ortbench.features.chain.toml import plan_of
from ortbench.plan.plan import Plan
from tests.expect import refusal

STAGES = '[[stage]]\nname = "one"\nmodel = "a.onnx"\n\n[[stage]]\nname = "two"\nmodel = "b.onnx"\n'
LINK = '\n[[link]]\nfrom = "one.y"\nto = "two.x"\n'


def plan(folder: Path, text: str, environ: dict[str, str] | None = None, **given: Any) -> Plan:
    """The plan of a chain file beside two models, or what passes for them as long as nobody loads them."""
    for name in ("a.onnx", "b.onnx"):
        (folder / name).write_text(name)
    path = folder / "chain.toml"
    path.write_text(text)
    return plan_of(path, environ or {}, given, ("ortbench", "chain"))


def chain(folder: Path, text: str) -> Chain:
    part = plan(folder, text).part
    assert isinstance(part, Chain)
    return part


def mistake(folder: Path, text: str) -> str:
    message = refusal(BadInput, plan, folder, text)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


def test_stages_and_links(tmp_path: Path) -> None:
    found = plan(tmp_path, STAGES + LINK, seed=7, mode=["cpu-tensors"], iterations=3)
    assert isinstance(found.part, Chain)
    one, two = found.stages
    assert (one.name, one.model, two.model) == ("one", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"))
    assert (one.steps.count, one.steps.feedback, one.target.ep) == (1, (), "auto")
    assert (one.inputs.seed, two.inputs.seed) == (7, 8)  # so that inputs of one shape are not the same
    assert [str(link) for link in found.part.links] == ["one.y → two.x"]
    assert (found.model, found.modes, found.loop.iterations, found.work.count) == (
        str(tmp_path / "chain.toml"), ("cpu-tensors",), 3, 2,
    )  # fmt: skip
    assert plan(tmp_path, STAGES).modes == ("cpu-tensors", "device-resident")
    (tmp_path / "ep.so").write_text("")
    (tmp_path / "x.npz").write_text("")
    text = '[[stage]]\nmodel = "a.onnx"\nep = "./ep.so"\ninput = "x.npz"\n'
    (stage,) = chain(tmp_path, text).stages
    assert (Path(stage.target.library or ""), stage.target.ep) == (tmp_path / "ep.so", "auto")
    assert stage.inputs.path == str(tmp_path / "x.npz")


def test_the_options_of_a_stage_are_those_of_a_suite(tmp_path: Path) -> None:
    text = """
        [defaults]
        ep = "webgpu"
        intra-op-threads = 2
        [[stage]]
        name = "loop"
        model = "a.onnx"
        ep = "cpu"
        repeat = 4
        feedback = ["y=x"]
        fill = {t = "step"}
        shape = {x = [2, 3]}
        keep = "aside"
        [[stage]]
        model = "b.onnx"
        intra-op-threads = false
        session-config = {entry = 1}
        """
    loop, b = chain(tmp_path, text).stages
    assert (loop.target.ep, loop.target.intra_op_threads) == ("cpu", 2)
    assert (b.name, b.target.ep, b.target.intra_op_threads) == ("b", "webgpu", None)
    assert (loop.steps.count, loop.steps.feedback, loop.steps.fill) == (4, (("y", "x"),), {"t": "step"})
    assert (loop.inputs.shapes, loop.steps.keep, b.target.session_config) == ({"x": (2, 3)}, ("aside",), {"entry": "1"})


def test_stages_run_behind_those_that_they_take_something_of(tmp_path: Path) -> None:
    text = STAGES.replace("one", "late").replace("two", "early") + '[[link]]\nfrom = "early.y"\nto = "late.x"\n'
    assert [stage.name for stage in chain(tmp_path, text).stages] == ["early", "late"]
    third = '[[stage]]\nname = "first"\nmodel = "a.onnx"\n'
    assert [stage.name for stage in chain(tmp_path, third + text).stages] == ["first", "early", "late"]


def test_mistakes_are_said_with_their_line_and_key(tmp_path: Path) -> None:
    stage = '[[stage]]\nmodel = "a.onnx"\n'
    for text, message in [
        ("", "chain.toml:1: stage: there is nothing to run"),
        (f"{stage}repeats = 2\n", "chain.toml:3: stage[0].repeats: no such key; did you mean repeat?"),
        (stage + stage, "chain.toml:3: stage[1].name: there is a stage 'a' already"),
        (f'{stage}name = "a.b"\n', "chain.toml:3: stage[0].name: 'a.b': a name without a dot"),
        (f'{stage}feedback = "y=x"\n', "chain.toml:3: stage[0].feedback: needs repeat"),
        (STAGES + LINK.replace("two.x", "three.x"), "chain.toml:11: link[0].to: there is no stage 'three'; there are one, two"),
        (STAGES + LINK + LINK, "chain.toml:15: link[1].to: two.x is linked already, by link[0]"),
        (STAGES + LINK.replace("one.y", "one.y*"), "chain.toml:11: link[0].to: two.x: there are as many * in to as in from"),
        (STAGES + LINK + '[[link]]\nfrom = "two.y"\nto = "one.x"\n', "chain.toml:12: link[1]: one → two → one is a circle"),
        (STAGES + LINK.replace("two.x", "one.x"), "chain.toml:9: link[0]: one would wait for itself"),
    ]:  # fmt: skip
        assert mistake(tmp_path, text).startswith(message)
