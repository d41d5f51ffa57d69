"""What measures loads: their configuration, the order of its blocks, and the clients."""
