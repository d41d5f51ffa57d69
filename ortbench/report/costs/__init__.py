"""What a run costs besides its time, each kind of cost in a module of its own."""
