from ortbench.core.features import Feature

FEATURE = Feature(uses=("page",))
