"""Where modes have inputs and outputs, and what it would cost to have them elsewhere: scripted results, word for word."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.tensor_memory import Held, elsewhere_findings, held
from ortbench.model.result import Case, Result
from ortbench.model.schema import TensorPlace
from tests.results import MB, MS, case, once, published, result_of, said, sentences, tensor, with_bytes

DEVICE, HOST = "Mem (DEFAULT)", "host memory"
WANTED = "the session's memory info"
MADE = "made by Clip on the CPU"


def at(name: str, memory: str = DEVICE, why: str = WANTED, usual: bool = True) -> TensorPlace:
    """A tensor on the device."""
    return {"name": name, "memory": memory, "why": why, "usual": usual}


def off(name: str, why: str = MADE, memory: str = HOST) -> TensorPlace:
    """One that is not."""
    return at(name, memory, why, usual=False)


def placed(made: Case, ins: Sequence[TensorPlace], outs: Sequence[TensorPlace]) -> Case:
    """A case with its tensors in these places, and nothing copied to or from those that are not on the device."""
    made.places = {"inputs": list(ins), "outputs": list(outs)}
    return made


def arrays() -> Case:
    """Mode cpu-tensors."""
    given, made = (
        at("image", HOST, "NumPy array passed to session.run"),
        at("adjusted", HOST, "NumPy array returned by session.run"),
    )
    return placed(case("cpu-tensors", latency=30 * MS), [given], [made])


def made_on_the_cpu(image: int | None = 25 * MB, adjusted: int | None = 25 * MB) -> Result:
    """A model whose output a node on the CPU makes: 25 MB go up in 6.25 ms."""
    device = placed(
        case("device-tensors", h2d=6_250_000, inference=10 * MS, latency=16 * MS), [at("image")], [off("adjusted")]
    )
    with_bytes(device, image or 0, 0)
    resident = placed(case("device-resident", inference=10 * MS, latency=10 * MS), [at("image")], [off("adjusted")])
    once(resident, 6_000_000, 0)
    return result_of(
        arrays(), device, resident,
        model__inputs=[tensor("image", [1], image)], model__outputs=[tensor("adjusted", [1], adjusted)],
    )  # fmt: skip


def told(result: Result) -> list[str]:
    return said(elsewhere_findings(result))


def test_where_every_tensor_was_in_each_mode() -> None:
    assert held(made_on_the_cpu()) == [
        Held("inputs", ("image",), ("cpu-tensors",), HOST, "NumPy array passed to session.run", usual=True),
        Held("inputs", ("image",), ("device-tensors", "device-resident"), DEVICE, WANTED, usual=True),
        Held("outputs", ("adjusted",), ("cpu-tensors",), HOST, "NumPy array returned by session.run", usual=True),
        Held("outputs", ("adjusted",), ("device-tensors", "device-resident"), HOST, MADE, usual=False),
    ]


def test_an_output_in_host_memory_with_what_the_device_would_cost() -> None:
    expected = (
        "Output adjusted is bound in pageable host memory, not on the device: made by Clip on the CPU; on the device it would cost "
        "another copy per inference, ≈6.25 ms (25.0 MB at the rate of H2D in device-tensors)."
    )
    assert told(made_on_the_cpu()) == [expected]
    assert expected in sentences(made_on_the_cpu())
    made = made_on_the_cpu()
    del made.cases[1]
    assert told(made)[0].endswith("≈6.00 ms (25.0 MB at the rate of H2D in device-resident).")
    # A copy of a quarter of the bytes need not take a quarter of the time.
    for image, adjusted in [(25 * MB, 6 * MB), (25 * MB, 101 * MB), (25 * MB, None), (None, MB)]:
        made = made_on_the_cpu(image, adjusted)
        assert told(made)[0].endswith("on the device it would cost another copy per inference.")


def test_an_input_is_copied_the_other_way() -> None:
    device = case("device-tensors", h2d=9 * MS, inference=10 * MS, d2h=4 * MS, latency=20 * MS)
    placed(device, [at("x"), off("shape", "taken there by Reshape")], [at("y")])
    with_bytes(device, 4 * MB, 4 * MB)
    inputs = [tensor("x", [1], 4 * MB), tensor("shape", [1], 2 * MB)]
    made = result_of(device, model__inputs=inputs, model__outputs=[tensor("y", [1], 4 * MB)])
    assert told(made) == [
        "Input shape is bound in pageable host memory, not on the device: taken there by Reshape; on the device it would cost another "
        "copy per inference, ≈2.00 ms (2.00 MB at the rate of D2H in device-tensors)."
    ]


def test_tensors_that_are_alike_and_many_kinds() -> None:
    names = [f"present.{number}" for number in range(64)]
    device = placed(case("device-tensors", inference=1 * MS, latency=1 * MS), [], [off(name) for name in names])
    made = result_of(device, model__inputs=[], model__outputs=[tensor(name, [1], 4) for name in names])
    assert told(made) == [
        "Outputs present.0, present.1, present.2 and 61 more are bound in pageable host memory, not on the device: made by Clip on "
        "the CPU; on the device each would cost another copy per inference."
    ]
    names = [f"y{number}" for number in range(8)]
    device = placed(
        case("device-tensors", latency=1 * MS), [], [off(name, f"made by Op{name} on the CPU") for name in names]
    )
    made = result_of(device, model__inputs=[], model__outputs=[tensor(name, [1], 4) for name in names])
    (one,) = told(made)
    assert one.startswith("Outputs y0 (made by Opy0 on the CPU), y1 (made by Opy1 on the CPU), ")
    assert one.endswith(
        "y4 (made by Opy4 on the CPU) and 3 more are bound in pageable host memory, not on the device: on the device each would cost "
        "another copy per inference."
    )
    device = placed(
        case("device-tensors", latency=1 * MS), [], [off(name, f"Op{name}", "SomeShared") for name in names]
    )
    made = result_of(device, model__inputs=[], model__outputs=[tensor(name, [1], 4) for name in names])
    assert len(told(made)) == 6
    assert told(made)[-1] == "3 more tensors are elsewhere too: places in result.json has them."


def test_only_some_modes_and_other_memory() -> None:
    made = made_on_the_cpu()
    placed(made.cases[2], [at("image")], [at("adjusted")])
    assert told(made)[0].startswith(
        "Output adjusted is bound in pageable host memory, not on the device (in device-tensors): made by Clip on the CPU; "
    )
    made = made_on_the_cpu()
    for number in (1, 2):
        placed(made.cases[number], [at("image")], [off("adjusted", WANTED, "Other (DEFAULT)")])
    assert told(made) == ["Output adjusted is bound in Other (DEFAULT): the session's memory info."]
    assert held(published()) == []
    assert told(published()) == []
    made = made_on_the_cpu()
    made.cases[1].status = "failed"
    assert {mode for it in held(made) for mode in it.modes} == {"cpu-tensors", "device-resident"}
