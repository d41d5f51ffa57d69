"""`ortbench bandwidth`: how fast tensors are copied between host and device, over sizes."""
