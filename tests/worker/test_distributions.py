"""The packages that bring the module ``onnxruntime``, told from those that only use it."""

from __future__ import annotations

from pathlib import Path

from ortbench.worker.environment import find_distributions


def install(folder: Path, name: str, *files: str) -> None:
    """What pip leaves of a package besides its files."""
    place = folder / f"{name}.dist-info"
    place.mkdir()
    (place / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


MODULE = "onnxruntime/__init__.py"


def test_who_brings_the_module(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-1.31.1", "onnxruntime/LICENSE", MODULE)
    install(tmp_path, "onnxruntime_windowsml-1.30.0", MODULE)
    install(tmp_path, "onnxruntime_ep_webgpu-0.4.0", "onnxruntime_ep_webgpu/__init__.py")
    install(tmp_path, "onnxruntime_qnn-2.7.0", "onnxruntime_qnn/__init__.py")
    install(tmp_path, "onnxruntime_genai-0.9.0", "onnxruntime_genai/onnxruntime/__init__.py")
    install(tmp_path, "onnx-1.19.0", "onnx/__init__.py")
    (tmp_path / "onnxruntime_gpu-1.0.0.dist-info").mkdir()  # what an interrupted installation leaves
    assert [(it["name"], it["version"], it["folder"]) for it in find_distributions(str(tmp_path))] == [
        ("onnxruntime", "1.31.1", str(tmp_path)),
        ("onnxruntime-windowsml", "1.30.0", str(tmp_path)),
    ]
    assert find_distributions(str(tmp_path / "nowhere")) == []
