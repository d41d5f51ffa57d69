"""ONNX Runtime's model packages in place of a model: folders with a manifest and variants of a model, of which ONNX Runtime chooses one by EP."""

from ortbench.core.features import Feature

FEATURE = Feature(resolve_model="job", requests={"select_variant": "worker"}, stateless_requests=("select_variant",))
