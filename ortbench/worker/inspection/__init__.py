"""What a worker finds out besides figures: devices, models, nodes, copies."""
