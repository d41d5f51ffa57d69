"""`ortbench start`: the start-up of fresh processes, from their beginning to the first inference."""
