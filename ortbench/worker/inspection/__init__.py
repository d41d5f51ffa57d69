"""What a worker finds out besides figures: graphs, nodes, memory, copies."""
