"""What ran inside the graph: nodes, placement, copies, as profilers record them."""
